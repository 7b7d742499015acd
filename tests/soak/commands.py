"""Types `launch.py` commands for a soak, kills some of them, and reads what each has said."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.slurm_cluster.launching import SlurmUser

LIMIT_S = 240.0
"""A command that has not ended by then hangs; the longest ones wait for jobs."""

_CODES = frozenset({0, 1, 2, 3})
# Kills launch.py around its call of sbatch, and nothing else: its own command line is compared.
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
    """One command that has ended.

    Attributes:
        verb: Its verb.
        words: Its other words.
        code: Its exit code, negative for a signal.
        out: All that it wrote.
    """

    verb: str
    words: tuple[str, ...]
    code: int
    out: str

    @property
    def killed(self) -> bool:
        """Whether SIGKILL ended it."""
        return self.code == -signal.SIGKILL


class Commands:
    """The terminals of one user.

    Args:
        user: Whose runs folder and cluster.
        problems: Takes a line for each thing that no command may ever do.
    """

    def __init__(self, user: SlurmUser, problems: list[str]) -> None:
        self.user = user
        self.problems = problems
        self.kills: dict[str, int] = defaultdict(int)
        self.ended = 0
        self.outputs = user.folder / "outputs"
        self.outputs.mkdir()
        self._strike = user.folder / "strike"
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._usual_s: dict[str, float] = {}
        user.wrap("sbatch", _STRIKE.format(strike=self._strike, runs=user.runs))

    def run(self, verb: str, *words: str, limit_s: float = LIMIT_S) -> Ended:
        """Runs a command to its end."""
        return self._finish(*self._start(verb, words), verb, words, limit_s)

    def kill_sometime(self, rng: Random, verb: str, *words: str) -> Ended:
        """Runs a command and kills it somewhere on its way, if it gets that far."""
        moment = rng.uniform(0.2, 1.1 * self._usual_s.get(verb, 3.0))
        return self._finish(*self._start(verb, words), verb, words, LIMIT_S, kill_at_s=moment)

    def kill_at_sbatch(self, when: str, verb: str, *words: str) -> Ended:
        """Runs a command and kills it `before` or `after` sbatch has done its work."""
        self._strike.write_text(when + "\n")
        ended = self.run(verb, *words)
        self._strike.unlink(missing_ok=True)
        return ended

    def _start(self, verb: str, words: tuple[str, ...]) -> tuple[subprocess.Popen[bytes], Path]:
        path = self.outputs / f"{next(self._numbers):04}-{verb}.txt"
        user = self.user
        command = user.words(verb, *words)
        with path.open("wb") as out:
            out.write(json.dumps(command).encode() + b"\n")
            out.flush()
            process = subprocess.Popen(
                command,
                cwd=user.cwd,
                env=user.environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        return process, path

    def _finish(
        self,
        process: subprocess.Popen[bytes],
        path: Path,
        verb: str,
        words: tuple[str, ...],
        limit_s: float,
        kill_at_s: float | None = None,
    ) -> Ended:
        begun = time.monotonic()
        limit = limit_s if kill_at_s is None else kill_at_s
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            if kill_at_s is None:
                self.problems.append(f"{path.name}: still running after {limit_s:.0f} s")
            process.kill()
            process.wait()
        ended = Ended(verb, words, process.returncode, path.read_text(errors="replace"))
        self._note(ended, path, time.monotonic() - begun)
        return ended

    def _note(self, ended: Ended, path: Path, seconds: float) -> None:
        with self._lock:
            self.ended += 1
            if ended.killed:
                self.kills[ended.verb] += 1
            elif "wait=true" not in ended.words:
                usual = self._usual_s.get(ended.verb, seconds)
                self._usual_s[ended.verb] = 0.7 * usual + 0.3 * seconds
        self.problems += wrong_with(ended, path.name)


def wrong_with(ended: Ended, name: str) -> list[str]:
    """What no command may do, however it is disturbed.

    Args:
        ended: The command.
        name: What it is called in a problem.
    """
    said = ended.out.partition("\n")[2]
    found = []
    if "Traceback" in said:
        found.append(f"{name}: a traceback")
    if not ended.killed and ended.code not in _CODES:
        found.append(f"{name}: exit code {ended.code}")
    if ended.code == 2 and not any(line.startswith("launch.py: ") for line in said.splitlines()):
        found.append(f"{name}: exit code 2 without a line that says why")
    return found
