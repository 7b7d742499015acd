"""launch.py as a user calls it, in this process, with nothing of the user's own in its reach."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

import launch
from jobs.errors import JobError
from jobs.record import Record, read_record
from jobs.sweeps.ledger import Ledger, sweeps
from jobs.text import plain_text, shorten

EXECUTE = launch.execute
# What shows something, or asks for no place: gets no folders added.
_WITHOUT_PLACES = {"-sc", "--shell-completion", "--version", "--hydra-help"}


@dataclass(frozen=True)
class Result:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str
    error: JobError | None = None

    def refused(self) -> JobError:
        """The error of a command that printed nothing but its lines."""
        assert (self.code, self.out) == (2, ""), (self.code, self.out, self.err)
        assert self.error is not None
        assert self.err.splitlines() == [
            f"launch.py: {line}" for line in shorten(plain_text(str(self.error))).splitlines()
        ]
        return self.error

    def refusal(self) -> str:
        """The one line of a refused command; anything else fails the test."""
        assert self.code == 2, (self.code, self.out, self.err)
        assert self.out == ""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("launch.py: ")
        return lines[0].removeprefix("launch.py: ")


class Launcher:
    """Calls launch.py in a home, a working directory, and places of its own."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.home = folder / "home"
        self.cwd = folder / "cwd"
        self.runs_dir = folder / "runs"
        self.results_dir = folder / "results"
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self._error: JobError | None = None
        self.home.mkdir()
        self.cwd.mkdir()
        for name in list(os.environ):
            if name.startswith(("MXFP8_", "SLURM_", "SBATCH_", "XDG_", "COMP_")):
                monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(self.home))
        monkeypatch.setenv("HYDRA_FULL_ERROR", "1")  # launch.py sets it; restored afterwards
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        monkeypatch.chdir(self.cwd)

    def __call__(self, *words: str) -> Result:
        """Runs one command; its sweeps and collections go to this test's own folders."""
        given = list(words)
        if not _WITHOUT_PLACES & set(words):
            places = {"runs_dir": self.runs_dir, "results_dir": self.results_dir}
            for key, folder in places.items():
                if not any(word.startswith(f"{key}=") for word in words):
                    given.append(f"{key}={folder}")
        self._capsys.readouterr()
        self._monkeypatch.setattr(launch, "execute", self._execute)
        self._error = None
        handlers = logging.root.handlers[:]
        try:
            code = launch.main(given)
        except SystemExit as ended:  # Hydra ends so after --hydra-help
            code = int(ended.code or 0)
        finally:
            logging.root.handlers[:] = handlers  # --info adds one, for this test's stdout
        captured = self._capsys.readouterr()
        return Result(code, captured.out, captured.err, self._error)

    def error(self, *words: str) -> JobError:
        """The error of a command that is refused with nothing printed but its lines."""
        return self(*words).refused()

    def _execute(self, words: list[str]) -> int:
        try:
            return EXECUTE(words)
        except JobError as error:
            self._error = error
            raise

    def complete(self, line: str) -> list[str]:
        """What the shell would offer for a line with the cursor at its end."""
        self._monkeypatch.setenv("COMP_LINE", line)
        self._monkeypatch.setenv("COMP_POINT", str(len(line)))
        result = self("-sc", "query=bash")
        assert (result.code, result.err) == (0, "")
        return result.out.split()

    def ledger(self) -> Ledger:
        """The only sweep there is."""
        (found,) = sweeps(self.runs_dir)
        return found

    def records(self) -> list[Record]:
        """Every record of every sweep, in the plan's order."""
        found = []
        for sweep in sweeps(self.runs_dir):
            order = {point.point_id: point.index for point in sweep.plan()}
            records = [read_record(path) for path in sweep.root.glob("*/*/attempt-*/record.json")]
            found += sorted(records, key=lambda record: order[record.identity.point_id])
        return found


@pytest.fixture
def launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Launcher:
    """launch.py in a home of its own."""
    return Launcher(tmp_path, monkeypatch, capsys)
