"""The faults of a soak that strike from outside: jobs, nodes, daemons."""

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

_UNANSWERED = (ClusterError, subprocess.TimeoutExpired)
CONTROLLER = "controller killed and restarted"


class Injected:
    """What was injected so far: what may excuse an ERROR that a point did not earn itself.

    Args:
        log: Takes a line for each fault, with its time.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.cancelled: set[str] = set()
        self.controller_kills: list[float] = []

    def note(self, kind: str, what: str) -> None:
        """Notes a fault, before it strikes."""
        with self._lock:
            self.counts[kind] += 1
            with self._log.open("a") as log:
                log.write(json.dumps({"at": time.time(), "kind": kind, "what": what}) + "\n")

    def was_cancelled(self, job_id: str, sweep_id: str) -> bool:
        """Whether a job, the array that it belongs to, or its whole sweep was told to end."""
        return bool({job_id, job_id.partition("_")[0], sweep_id} & self.cancelled)

    @property
    def struck_nodes(self) -> bool:
        """Whether any node, or what answers for nodes, was struck."""
        return any(self.counts[kind] for kind in ("node down", "slurmd killed", CONTROLLER))


class Injector:
    """Strikes the cluster, again and again, until it is told to stop.

    Args:
        cluster: The cluster.
        rng: Decides what strikes when.
        injected: Where each fault is noted.
        stop: Ends `run`.
    """

    def __init__(
        self, cluster: SlurmCluster, rng: Random, injected: Injected, stop: threading.Event
    ) -> None:
        self.cluster = cluster
        self.injected = injected
        self._rng = rng
        self._stop = stop
        self._kinds: dict[Callable[[], None], int] = {
            self._cancel_job: 2,
            self._cancel_task: 3,
            self._requeue: 4,
            self._node_down: 1,
            self._drain: 1,
            self._kill_slurmd: 1,
        }

    def run(self, seconds: float, restarts: int = 2) -> None:
        """Injects faults for a while, and kills the controller at even distances within it.

        Call it from the thread that lives longest: daemons end with the thread that started them.
        """
        begun = time.monotonic()
        due = [begun + seconds * (i + 1) / (restarts + 1) for i in range(restarts)]
        while not self._stop.is_set():
            if due and time.monotonic() >= due[0]:
                due.pop(0)
                self._kill_controller()
            else:
                (strike,) = self._rng.choices(list(self._kinds), list(self._kinds.values()))
                with contextlib.suppress(*_UNANSWERED):
                    strike()
                    self.release_held()
            self._pause(2, 6)

    def make_whole(self) -> None:
        """Starts what is down and gives every node back; raises ClusterError if that fails."""
        for name in ("slurmctld", *NODES):
            if not self.cluster.runs(name):
                self.cluster.start_daemon(name)
        self.cluster.wait(self._answers, "the controller")
        for node in NODES:
            with contextlib.suppress(ClusterError):  # one that is up already cannot be resumed
                self.cluster.run("scontrol", "update", f"nodename={node}", "state=resume")
        self.cluster.wait(self._all_up, "every node", timeout_s=60)
        self.release_held()

    def release_held(self) -> None:
        """Does as an administrator does with jobs that SLURM holds after a failed launch.

        A controller that was killed gives the ids of the last seconds a second time; a node that
        still runs the first job of that id refuses the second.
        """
        for row in self.cluster.run("squeue", "-h", "-r", "-t", "PD", "-o", "%i %r").splitlines():
            task, _, reason = row.partition(" ")
            if "held" in reason:
                self.cluster.run("scontrol", "release", task)

    def tasks(self, states: str) -> list[str]:
        """Jobs and array tasks in some states, as people type them."""
        listed = self.cluster.run("squeue", "-h", "-r", "-t", states, "-o", "%i")
        return sorted(listed.split())

    def _pause(self, low: float, high: float) -> None:
        self._stop.wait(self._rng.uniform(low, high))

    def _one_of(self, states: str) -> str | None:
        tasks = self.tasks(states)
        return self._rng.choice(tasks) if tasks else None

    def _cancel_job(self) -> None:
        task = self._one_of("R,PD")
        if task is not None:
            self._cancel("scancel of a job", task.partition("_")[0])

    def _cancel_task(self) -> None:
        task = self._one_of("R,PD")
        if task is not None:
            self._cancel("scancel of a task", task)

    def _cancel(self, kind: str, job_id: str) -> None:
        self.injected.cancelled.add(job_id)
        self.injected.note(kind, job_id)
        self.cluster.run("scancel", job_id)

    def _requeue(self) -> None:
        task = self._one_of("R")
        if task is not None:
            self.injected.note("requeue", task)
            self.cluster.run("scontrol", "requeue", task)

    def _node_down(self) -> None:
        self._away("node down", "down")

    def _drain(self) -> None:
        self._away("drain", "drain")

    def _away(self, kind: str, state: str) -> None:
        node = self._rng.choice(NODES)
        self.injected.note(kind, node)
        name = f"nodename={node}"
        self.cluster.run("scontrol", "update", name, f"state={state}", "reason=soak")
        self._pause(2, 8)
        self.cluster.run("scontrol", "update", name, "state=resume")

    def _kill_slurmd(self) -> None:
        node = self._rng.choice(NODES)
        self.injected.note("slurmd killed", node)
        self.cluster.kill_daemon(node)
        self._pause(1, 20)  # after 10 s the controller takes the node for dead
        self.cluster.start_daemon(node)

    def _kill_controller(self) -> None:
        self.injected.controller_kills.append(time.time())
        self.injected.note(CONTROLLER, "slurmctld")
        self.cluster.kill_daemon("slurmctld")
        self._pause(3, 20)
        self.cluster.start_daemon("slurmctld")
        self.cluster.wait(self._answers, "the controller")

    def _answers(self) -> bool:
        with contextlib.suppress(*_UNANSWERED):
            return " is DOWN" not in self.cluster.run("scontrol", "ping", timeout_s=20)
        return False

    def _all_up(self) -> bool:
        with contextlib.suppress(*_UNANSWERED):
            states = "idle,mixed,allocated"
            up = self.cluster.run("sinfo", "-h", "-N", "-r", "-t", states, "-o", "%N")
            return set(up.split()) == set(NODES)
        return False
