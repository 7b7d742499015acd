"""The faults that a soak injects from outside: into jobs, nodes and daemons."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.slurm_cluster.config import NODES
from tests.slurm_cluster.slurm import ClusterError, SlurmCluster

NO_ANSWER = (ClusterError, subprocess.TimeoutExpired)
CONTROLLER = "controller killed and restarted"
_NODE_FAULTS = ("node down", "slurmd killed", CONTROLLER)


class Faults:
    """The faults that were injected: what may explain an ERROR besides the point's own act.

    Args:
        log: Receives a line for each fault, with its time.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.cancelled: set[str] = set()
        self.controller_kills: list[float] = []

    def add(self, kind: str, target: str) -> None:
        """Record a fault, before it strikes."""
        with self._lock:
            self.counts[kind] += 1
            with self._log.open("a") as log:
                log.write(json.dumps({"at": time.time(), "kind": kind, "what": target}) + "\n")

    def cancelled_job(self, job_id: str, sweep_id: str) -> bool:
        """True if a job, its array or its whole sweep was cancelled."""
        return bool({job_id, job_id.partition("_")[0], sweep_id} & self.cancelled)

    @property
    def struck_nodes(self) -> bool:
        """True if a node, or the controller of the nodes, was struck."""
        return any(self.counts[kind] for kind in _NODE_FAULTS)


class Injector:
    """Injects faults into a cluster until it is stopped.

    Args:
        cluster: The cluster.
        rng: Decides what is injected and when.
        faults: Receives each fault.
        stop: Ends `run`.
    """

    def __init__(
        self, cluster: SlurmCluster, rng: Random, faults: Faults, stop: threading.Event
    ) -> None:
        self.cluster = cluster
        self.faults = faults
        self._rng = rng
        self._stop = stop
        self._weights: dict[Callable[[], None], int] = {
            self._cancel_job: 2,
            self._cancel_task: 3,
            self._requeue: 4,
            lambda: self._remove_node("node down", "down"): 1,
            lambda: self._remove_node("drain", "drain"): 1,
            self._kill_slurmd: 1,
        }

    def run(self, seconds: float, restarts: int = 2) -> None:
        """Inject faults for some time, and kill the controller at regular intervals.

        Call it from the thread that lives longest: daemons end with the thread that started them.
        """
        start = time.monotonic()
        kills = [start + seconds * (i + 1) / (restarts + 1) for i in range(restarts)]
        while not self._stop.is_set():
            if kills and time.monotonic() >= kills[0]:
                kills.pop(0)
                self._kill_controller()
            else:
                (strike,) = self._rng.choices(list(self._weights), list(self._weights.values()))
                with contextlib.suppress(*NO_ANSWER):
                    strike()
                    self.release_held()
            self._pause(2, 6)

    def repair(self) -> None:
        """Start every daemon and resume every node; raises ClusterError if that fails."""
        for name in ("slurmctld", *NODES):
            if not self.cluster.runs(name):
                self.cluster.start_daemon(name)
        self.cluster.wait(self._answers, "the controller")
        for node in NODES:
            with contextlib.suppress(ClusterError):  # a node that is up cannot be resumed
                self.cluster.run("scontrol", "update", f"nodename={node}", "state=resume")
        self.cluster.wait(self._all_up, "every node", timeout_s=60)
        self.release_held()

    def release_held(self) -> None:
        """Release jobs that SLURM holds after a failed launch, as an administrator does.

        A killed controller assigns the ids of its last seconds a second time; a node that still
        runs the first job of such an id refuses the second.
        """
        for row in self.cluster.run("squeue", "-h", "-r", "-t", "PD", "-o", "%i %r").splitlines():
            task, _, reason = row.partition(" ")
            if "held" in reason:
                self.cluster.run("scontrol", "release", task)

    def _pause(self, low: float, high: float) -> None:
        self._stop.wait(self._rng.uniform(low, high))

    def _task(self, states: str) -> str | None:
        """Choose a job or array task in one of some states."""
        listed = self.cluster.run("squeue", "-h", "-r", "-t", states, "-o", "%i")
        tasks = sorted(listed.split())
        return self._rng.choice(tasks) if tasks else None

    def _cancel_job(self) -> None:
        if task := self._task("R,PD"):
            self._cancel("scancel of a job", task.partition("_")[0])

    def _cancel_task(self) -> None:
        if task := self._task("R,PD"):
            self._cancel("scancel of a task", task)

    def _cancel(self, kind: str, job_id: str) -> None:
        self.faults.cancelled.add(job_id)
        self.faults.add(kind, job_id)
        self.cluster.run("scancel", job_id)

    def _requeue(self) -> None:
        if task := self._task("R"):
            self.faults.add("requeue", task)
            self.cluster.run("scontrol", "requeue", task)

    def _remove_node(self, kind: str, state: str) -> None:
        node = self._rng.choice(NODES)
        self.faults.add(kind, node)
        name = f"nodename={node}"
        self.cluster.run("scontrol", "update", name, f"state={state}", "reason=soak")
        self._pause(2, 8)
        self.cluster.run("scontrol", "update", name, "state=resume")

    def _kill_slurmd(self) -> None:
        node = self._rng.choice(NODES)
        self.faults.add("slurmd killed", node)
        self.cluster.kill_daemon(node)
        self._pause(1, 20)  # after 10 s the controller declares the node down
        self.cluster.start_daemon(node)

    def _kill_controller(self) -> None:
        self.faults.controller_kills.append(time.time())
        self.faults.add(CONTROLLER, "slurmctld")
        self.cluster.kill_daemon("slurmctld")
        self._pause(3, 20)
        self.cluster.start_daemon("slurmctld")
        self.cluster.wait(self._answers, "the controller")

    def _answers(self) -> bool:
        with contextlib.suppress(*NO_ANSWER):
            return " is DOWN" not in self.cluster.run("scontrol", "ping", timeout_s=20)
        return False

    def _all_up(self) -> bool:
        with contextlib.suppress(*NO_ANSWER):
            states = "idle,mixed,allocated"
            up = self.cluster.run("sinfo", "-h", "-N", "-r", "-t", states, "-o", "%N")
            return set(up.split()) == set(NODES)
        return False
