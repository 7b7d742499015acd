"""`launch.py` commands of a soak: run, killed on the way, and checked."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from random import Random

from tests.slurm_cluster.launching import SlurmUser

LIMIT_S = 240.0
"""A command that runs longer hangs; the longest ones wait for jobs."""

# Kills launch.py around its call of sbatch, and nothing else: its command line is compared.
_STRIKE = """
read -r when 2>/dev/null < "{strike}" && rm -f "{strike}"
strike() {{ grep -qF "{runs}" /proc/$PPID/cmdline 2>/dev/null && kill -KILL $PPID; }}
[ "$when" = before ] && strike
"$REAL" "$@"; code=$?
[ "$when" = after ] && strike
exit $code
"""


@dataclass(frozen=True)
class Ended:
    """A command that has ended.

    Attributes:
        name: Name of the file that holds its output.
        verb: Its verb.
        words: Its other words.
        code: Its exit code, negative for a signal.
        output: All that it wrote.
    """

    name: str
    verb: str
    words: tuple[str, ...]
    code: int
    output: str

    @property
    def killed(self) -> bool:
        """True if SIGKILL ended it."""
        return self.code == -signal.SIGKILL

    def problems(self) -> list[str]:
        """Return what no command may do, however it is disturbed."""
        lines = self.output.splitlines()
        problems = []
        if "Traceback" in self.output:
            problems.append(f"{self.name}: a traceback")
        if not self.killed and self.code not in (0, 1, 2, 3):
            problems.append(f"{self.name}: exit code {self.code}")
        if self.code == 2 and not any(line.startswith("launch.py: ") for line in lines):
            problems.append(f"{self.name}: exit code 2 without a reason")
        return problems


class Commands:
    """The commands of one user.

    Args:
        user: Whose runs folder and cluster.
        problems: Receives a line for each thing that no command may do.
    """

    def __init__(self, user: SlurmUser, problems: list[str]) -> None:
        self.user = user
        self.problems = problems
        self.kills: dict[str, int] = defaultdict(int)
        self.count = 0
        self._outputs = user.folder / "outputs"
        self._outputs.mkdir()
        self._strike = user.folder / "strike"
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._usual_s: dict[str, float] = {}
        user.wrap("sbatch", _STRIKE.format(strike=self._strike, runs=user.runs))

    def run(self, verb: str, *words: str, kill_after_s: float | None = None) -> Ended:
        """Run a command to its end, or kill it after some time."""
        name = f"{next(self._numbers):04}-{verb}.txt"
        path = self._outputs / name
        user = self.user
        command = user.words(verb, *words)
        path.with_suffix(".json").write_text(json.dumps(command))
        start = time.monotonic()
        with path.open("wb") as out:
            process = subprocess.Popen(
                command,
                cwd=user.cwd,
                env=user.environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        try:
            process.wait(kill_after_s or LIMIT_S)
        except subprocess.TimeoutExpired:
            if kill_after_s is None:
                self.problems.append(f"{name}: still running after {LIMIT_S:.0f} s")
            process.kill()
            process.wait()
        output = path.read_text(errors="replace")
        ended = Ended(name, verb, words, process.returncode, output)
        self._add(ended, time.monotonic() - start)
        return ended

    def kill_sometime(self, rng: Random, verb: str, *words: str) -> Ended:
        """Run a command and kill it at a random moment, if it runs that long."""
        moment = rng.uniform(0.2, 1.1 * self._usual_s.get(verb, 3.0))
        return self.run(verb, *words, kill_after_s=moment)

    def kill_at_sbatch(self, when: str, verb: str, *words: str) -> Ended:
        """Run a command and kill it `before` or `after` sbatch has done its work."""
        self._strike.write_text(when + "\n")
        ended = self.run(verb, *words)
        self._strike.unlink(missing_ok=True)
        return ended

    def _add(self, ended: Ended, seconds: float) -> None:
        with self._lock:
            self.count += 1
            if ended.killed:
                self.kills[ended.verb] += 1
            elif "wait=true" not in ended.words:
                usual = self._usual_s.get(ended.verb, seconds)
                self._usual_s[ended.verb] = 0.7 * usual + 0.3 * seconds
        self.problems += ended.problems()
