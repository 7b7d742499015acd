"""Half an hour of everything that can go wrong on a cluster; at its end the books have to balance.

    python -m tests.soak [--minutes 30] [--seed 1] [--out FILE]

Starts a SLURM of its own (as root). One user submits, resumes and cancels small sweeps, and is
killed on the way; another asks for status and collects; jobs, nodes and daemons are struck at
random by the seed, and the controller is killed twice. Then nothing is struck any more, the clock
of unfinished files is set back by more than the hour after which they are cleared, every sweep
that is not done is resumed, and everything is checked: every planned point is accounted for and
ended as it must, none was submitted twice at one time, and no process and no file is left over.
Prints a summary as JSON; exit code 1 if a check fails, and the folder stays.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobs.files import PARTIAL_SUFFIX
from jobs.schedulers.slurm.submission import left_behind
from jobs.sweeps.ledger import Ledger, sweeps
from jobs.sweeps.source import source_of
from tests.slurm_cluster.launching import SlurmUser
from tests.slurm_cluster.slurm import ClusterError, SlurmCluster
from tests.soak import checks
from tests.soak.commands import Commands
from tests.soak.faults import CONTROLLER, Injected, Injector
from tests.soak.orphans import orphan_processes
from tests.soak.plan import Planner, act_counts
from tests.soak.runs import ask_runs
from tests.soak.user import Onlooker, Submitter, open_tasks

ROUNDS = 4
"""So often a sweep is resumed after the last fault before it counts as never done."""

_SETTLED_S = 120.0


def main(arguments: Sequence[str]) -> int:
    """Runs the soak.

    Args:
        arguments: The command line.

    Returns:
        0 if every check holds, else 1.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="of faults; the end is extra")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="where the summary is written as JSON")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    print(f"everything lies in {folder}", file=sys.stderr)
    summary, problems = soak(folder, options.minutes * 60, options.seed)
    text = json.dumps(summary, indent=2) + "\n"
    print(text, end="")
    if options.out is not None:
        options.out.write_text(text)
    if problems:
        print("\n".join(problems), file=sys.stderr)
        print(f"everything is kept in {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    return 0


def soak(
    folder: Path, seconds: float, seed: int, *, restarts: int = 2
) -> tuple[dict[str, Any], list[str]]:
    """Runs one soak in an empty folder.

    Args:
        folder: Where everything lies; its path must be short, for sockets lie in it.
        seconds: How long faults are injected.
        seed: Decides them.
        restarts: How often the controller is killed, at even distances.

    Returns:
        The summary, and a line for each check that fails.
    """
    cluster = SlurmCluster(folder / "cluster")
    cluster.start()
    try:
        made = _Soak(cluster, folder, seed)
        made.live(seconds, restarts)
        made.end()
        return made.summary(seconds), made.problems
    finally:
        cluster.stop(wipe=False)


@dataclass
class _Soak:
    cluster: SlurmCluster
    folder: Path
    seed: int
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.begun = time.monotonic()
        self.results = self.folder / "results"
        self.cwd, self.temporary = self.folder / "cwd", self.folder / "tmp"
        self.whole = self.results / "whole"
        for place in (self.results, self.cwd, self.temporary):
            place.mkdir()
        env = {"TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1"}
        user = SlurmUser(self.cluster, self.folder, env, self.cwd)
        self.runs = user.runs
        self.commands = Commands(user, self.problems)
        self.injected = Injected(self.folder / "faults.jsonl")
        self.stop = threading.Event()
        planner = Planner(self._rng("plan"), str(user.node))
        self.submitter = Submitter(self.commands, planner, self.injected, self._rng("user"))
        self.onlooker = Onlooker(self.commands, self.injected, self._rng("onlooker"), self.results)
        self.injector = Injector(self.cluster, self._rng("faults"), self.injected, self.stop)
        self.found: dict[str, int] = {}

    def _rng(self, name: str) -> random.Random:
        """Each has its own, so that the timing of one does not change what another draws."""
        return random.Random(f"{self.seed} {name}")

    def live(self, seconds: float, restarts: int) -> None:
        """Everybody does what they do, for so long."""
        people = [
            threading.Thread(target=self._carefully, args=(person,))
            for person in (self.submitter.run, self.onlooker.run)
        ]
        for thread in people:
            thread.start()
        timer = threading.Timer(seconds, self.stop.set)
        timer.start()
        try:
            self.injector.run(seconds, restarts)
        finally:
            self.stop.set()
            timer.cancel()
            self._let_them_end(people)

    def _let_them_end(self, people: Sequence[threading.Thread]) -> None:
        """Brings back what is down and held, for a command may be waiting for its jobs."""
        while any(thread.is_alive() for thread in people):
            with contextlib.suppress(ClusterError):
                self.injector.make_whole()
            for thread in people:
                thread.join(0.5)

    def _carefully(self, run: Callable[[threading.Event], None]) -> None:
        try:
            run(self.stop)
        except BaseException as error:
            self.problems.append(f"the soak itself: {error!r}")
            self.stop.set()
            raise

    def end(self) -> None:
        """Lets everything come to its end, and checks it."""
        try:
            self.injector.make_whole()
            self._settle()
            self._an_hour_later()
            ledgers = sweeps(self.runs)
            self._resume([one for one in ledgers if left_behind(one) or _parts(one.root)])
            for _ in range(ROUNDS):
                late = checks.not_due(ledgers, self._rows())
                if not late:
                    break
                self._resume([one for one in ledgers if one.sweep_id in late])
            for folder in self.results.glob("s-*"):
                if _parts(folder):
                    self._collect(self.results, folder.name)
            self._check(ledgers)
        except ClusterError as error:
            queue = self.cluster.run("squeue") + "\n" + self.cluster.run("sinfo", "-R")
            self.problems.append(f"the cluster did not come to rest: {error}\n{queue}")

    def _settle(self) -> None:
        def at_rest() -> bool:
            self.injector.release_held()
            time.sleep(0.5)
            return not open_tasks(self.cluster)

        self.cluster.wait(at_rest, "the last job", timeout_s=_SETTLED_S)

    def _an_hour_later(self) -> None:
        """Makes what killed processes left as old as it must be to be cleared, and plans again."""
        for path in [*_parts(self.folder), *self.runs.glob("s-*/")]:
            os.utime(path, (0, 0))
        self.submitter.sweep()

    def _collect(self, results: Path, *words: str) -> None:
        self.commands.run("collect", *words, f"results_dir={results}")

    def _resume(self, chosen: Sequence[Ledger]) -> None:
        for ledger in chosen:
            ended = self.commands.run("resume", ledger.sweep_id)
            if ended.code != 0:
                self.problems.append(f"resume {ledger.sweep_id} at the end: code {ended.code}")
        self._settle()

    def _rows(self) -> list[dict[str, Any]]:
        """Collects every sweep at once, as the user would."""
        self._collect(self.whole, *(ledger.sweep_id for ledger in sweeps(self.runs)))
        (table,) = self.whole.glob("*/points.json")
        rows: list[dict[str, Any]] = json.loads(table.read_text())
        return rows

    def _check(self, ledgers: Sequence[Ledger]) -> None:
        rows = self._rows()
        late = [line for lines in checks.not_due(ledgers, rows).values() for line in lines]
        runs = ask_runs(self.cluster)
        asked = [(one, ended.code) for one, ended in self.submitter.asked]
        twice = checks.duplicates(ledgers, runs, self.injected.controller_kills)
        processes = orphan_processes(self.cluster, self.folder)
        files = [
            *checks.orphan_submissions(ledgers, runs),
            *checks.orphan_files(self.runs, self.results, self.cwd, self.temporary),
        ]
        self.problems += [
            *late,
            *checks.wrong_plans(ledgers, asked),
            *checks.wrong_records(ledgers, self.injected),
            *twice,
            *processes,
            *files,
            *checks.tracebacks(ledgers),
        ]
        points = sum(len(ledger.plan()) for ledger in ledgers)
        self.found = {
            "points": points,
            "sweeps": len(ledgers),
            "jobs": len({run.job_id for run in runs}),
            "accounted": points - len(late),
            "duplicates": len(twice),
            "orphan_processes": len(processes),
            "orphan_files": len(files),
        }

    def summary(self, seconds: float) -> dict[str, Any]:
        """What happened, as it is committed."""
        seeds = [seed for one in sweeps(self.runs) for seed in checks.seeds_of(one)]
        counts = self.injected.counts
        source = source_of()
        minutes = f"{seconds / 60:g}"
        return {
            "command": f"python -m tests.soak --minutes {minutes} --seed {self.seed}",
            **self.found,
            "faults_in_points": act_counts(seeds),
            "faults_from_outside": dict(sorted(counts.items())),
            "controller_restarts": counts[CONTROLLER],
            "launch_killed": dict(sorted(self.commands.kills.items())),
            "commands": self.commands.ended,
            "problems": len(self.problems),
            "seconds_of_faults": round(seconds),
            "seconds": round(time.monotonic() - self.begun),
            "slurm": self.cluster.run("sinfo", "--version").removeprefix("slurm-wlm "),
            "seed": self.seed,
            "cores": os.cpu_count(),
            "commit": source.commit,
            "dirty": source.dirty,
        }


def _parts(folder: Path) -> list[Path]:
    """What was not whole yet when its writer was killed."""
    return sorted(folder.rglob(f".*{PARTIAL_SUFFIX}"))
