"""Half an hour of random faults on a test cluster, after which every point must be accounted for.

    python -m tests.soak [--minutes 30] [--seed 1] [--out FILE]

Starts a SLURM of its own (as root). One user submits, resumes and cancels small sweeps, and some
of these commands are killed; another queries and collects; faults are injected into jobs, nodes
and daemons at random, and the controller is killed twice. Then the faults stop, unfinished files
are made old enough to be removed, every unfinished sweep is resumed, and everything is checked:
each planned point has the outcome that it must have, none was submitted twice at one time, and no
process and no file is left behind.
Prints a summary as JSON. If a check fails, the exit code is 1 and the folder is kept.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jobs.files import PARTIAL_SUFFIX
from jobs.schedulers.slurm.submission import unrecorded_folders
from jobs.sweeps.ledger import Ledger, sweeps
from jobs.sweeps.source import source_of
from tests.slurm_cluster.launching import SlurmUser
from tests.slurm_cluster.slurm import ClusterError, SlurmCluster
from tests.soak.audit import Audit, Row, seeds_of
from tests.soak.commands import Commands
from tests.soak.injector import CONTROLLER, Faults, Injector
from tests.soak.leftovers import leftover_files, leftover_processes
from tests.soak.plan import Planner, act_counts
from tests.soak.runs import query_runs
from tests.soak.user import Observer, Submitter, open_tasks

ROUNDS = 4
"""Number of times that unfinished sweeps are resumed after the last fault."""


def main(arguments: Sequence[str]) -> int:
    """Run the soak and print its summary; return 0 if every check holds, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="duration of the faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="file for the summary")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    print(f"working in {folder}", file=sys.stderr)
    summary, problems = soak(folder, options.minutes * 60, options.seed)
    text = json.dumps(summary, indent=2) + "\n"
    print(text, end="")
    if options.out is not None:
        options.out.write_text(text)
    if problems:
        print("\n".join(problems), file=sys.stderr)
        print(f"{folder} is kept", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    return 0


def soak(
    folder: Path, seconds: float, seed: int, *, restarts: int = 2
) -> tuple[dict[str, Any], list[str]]:
    """Run one soak in an empty folder.

    Args:
        folder: Folder of the soak; its path must be short, because it holds sockets.
        seconds: Duration of the faults.
        seed: Decides the faults.
        restarts: Number of times that the controller is killed, at regular intervals.

    Returns:
        The summary, and a line for each check that fails.
    """
    cluster = SlurmCluster(folder / "cluster")
    cluster.start()
    try:
        run = _Soak(cluster, folder, seed)
        run.disturb(seconds, restarts)
        run.finish()
        return run.summary(seconds), run.problems
    finally:
        cluster.stop(wipe=False)


class _Soak:
    def __init__(self, cluster: SlurmCluster, folder: Path, seed: int) -> None:
        self.start = time.monotonic()
        self.cluster, self.folder, self.seed = cluster, folder, seed
        self.problems: list[str] = []
        self.counts: dict[str, int] = {}
        self.results = folder / "results"
        self.cwd, self.temporary = folder / "cwd", folder / "tmp"
        for place in (self.results, self.cwd, self.temporary):
            place.mkdir()
        env = {"TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1"}
        user = SlurmUser(cluster, folder, env, self.cwd)
        self.runs = user.runs
        self.commands = Commands(user, self.problems)
        self.faults = Faults(folder / "faults.jsonl")
        self.stop = threading.Event()
        planner = Planner(self._rng("plan"), str(user.node))
        self.submitter = Submitter(self.commands, planner, self.faults, self._rng("user"))
        self.observer = Observer(self.commands, self.faults, self._rng("observer"), self.results)
        self.injector = Injector(cluster, self._rng("faults"), self.faults, self.stop)

    def _rng(self, name: str) -> random.Random:
        """Return a generator of its own, so that the timing of one does not change another."""
        return random.Random(f"{self.seed} {name}")

    def disturb(self, seconds: float, restarts: int) -> None:
        """Let both users work while faults are injected."""
        users = [
            threading.Thread(target=self._guard, args=(run,))
            for run in (self.submitter.run, self.observer.run)
        ]
        for thread in users:
            thread.start()
        timer = threading.Timer(seconds, self.stop.set)
        timer.start()
        try:
            self.injector.run(seconds, restarts)
        finally:
            self.stop.set()
            timer.cancel()
            # A command may be waiting for jobs on what is down or held.
            while any(thread.is_alive() for thread in users):
                with contextlib.suppress(ClusterError):
                    self.injector.repair()
                for thread in users:
                    thread.join(0.5)

    def _guard(self, run: Callable[[threading.Event], None]) -> None:
        try:
            run(self.stop)
        except BaseException as error:
            self.problems.append(f"the soak itself: {error!r}")
            self.stop.set()
            raise

    def finish(self) -> None:
        """Let every sweep finish, then check everything."""
        try:
            self.injector.repair()
            self._wait_for_jobs()
            self._age_unfinished_files()
            self.submitter.sweep()
            ledgers = sweeps(self.runs)
            audit = Audit(ledgers, self.faults)
            self._resume([one for one in ledgers if unrecorded_folders(one) or _parts(one.root)])
            for _ in range(ROUNDS):
                unfinished = audit.unfinished(self._table())
                if not unfinished:
                    break
                self._resume([one for one in ledgers if one.sweep_id in unfinished])
            for folder in self.results.glob("s-*"):
                if _parts(folder):
                    self.commands.run("collect", folder.name, f"results_dir={self.results}")
            self._check(Audit(ledgers, self.faults, query_runs(self.cluster)))
        except ClusterError as error:
            queue = self.cluster.run("squeue") + "\n" + self.cluster.run("sinfo", "-R")
            self.problems.append(f"the cluster did not come to rest: {error}\n{queue}")

    def _wait_for_jobs(self) -> None:
        def at_rest() -> bool:
            self.injector.release_held()
            time.sleep(0.5)
            return not open_tasks(self.cluster)

        self.cluster.wait(at_rest, "the last job", timeout_s=120)

    def _age_unfinished_files(self) -> None:
        """Make the files of killed processes older than the hour after which they are removed."""
        for path in [*_parts(self.folder), *self.runs.glob("s-*/")]:
            os.utime(path, (0, 0))

    def _resume(self, ledgers: Sequence[Ledger]) -> None:
        for ledger in ledgers:
            ended = self.commands.run("resume", ledger.sweep_id)
            if ended.code != 0:
                self.problems.append(f"resume {ledger.sweep_id} at the end: code {ended.code}")
        self._wait_for_jobs()

    def _table(self) -> list[Row]:
        """Collect every sweep at once, as the user would."""
        folder = self.results / "whole"
        ids = (ledger.sweep_id for ledger in sweeps(self.runs))
        self.commands.run("collect", *ids, f"results_dir={folder}")
        (table,) = folder.glob("*/points.json")
        rows: list[Row] = json.loads(table.read_text())
        return rows

    def _check(self, audit: Audit) -> None:
        unfinished = [line for lines in audit.unfinished(self._table()).values() for line in lines]
        duplicates = audit.duplicates()
        processes = leftover_processes(self.cluster, self.folder)
        files = [
            *audit.unrecorded_jobs(),
            *leftover_files(self.runs, self.results, self.cwd, self.temporary),
        ]
        self.problems += [
            *unfinished,
            *audit.wrong_plans(self.submitter.sweeps),
            *audit.wrong_records(),
            *duplicates,
            *processes,
            *files,
            *audit.tracebacks(),
        ]
        points = sum(len(ledger.plan()) for ledger in audit.ledgers)
        self.counts = {
            "points": points,
            "sweeps": len(audit.ledgers),
            "jobs": len({run.job_id for run in audit.runs}),
            "accounted": points - len(unfinished),
            "duplicates": len(duplicates),
            "orphan_processes": len(processes),
            "orphan_files": len(files),
        }

    def summary(self, seconds: float) -> dict[str, Any]:
        """Return the summary in the form of `docs/results/soak.json`."""
        seeds = [seed for one in sweeps(self.runs) for seed in seeds_of(one)]
        source = source_of()
        return {
            "command": f"python -m tests.soak --minutes {seconds / 60:g} --seed {self.seed}",
            **self.counts,
            "faults_in_points": act_counts(seeds),
            "faults_from_outside": dict(sorted(self.faults.counts.items())),
            "controller_restarts": self.faults.counts[CONTROLLER],
            "launch_killed": dict(sorted(self.commands.kills.items())),
            "commands": self.commands.count,
            "problems": len(self.problems),
            "seconds_of_faults": round(seconds),
            "seconds": round(time.monotonic() - self.start),
            "slurm": self.cluster.run("sinfo", "--version").removeprefix("slurm-wlm "),
            "seed": self.seed,
            "cores": os.cpu_count(),
            "commit": source.commit,
            "dirty": source.dirty,
        }


def _parts(folder: Path) -> list[Path]:
    """Return the files that were not whole when their writer was killed."""
    return sorted(folder.rglob(f".*{PARTIAL_SUFFIX}"))
