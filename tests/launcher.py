"""launch.py in this process, isolated from the files and variables of the real user."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import launch
from jobs.errors import JobError
from jobs.record import Record, read_record, to_json
from jobs.sweeps.ledger import Ledger, sweeps
from jobs.text import plain_text, shorten
from tests.fake_node import install

EXECUTE = launch.execute
_SCHEMA = Path(__file__).parents[1] / "docs" / "record.schema.json"
SCHEMA: dict[str, Any] = json.loads(_SCHEMA.read_text())
# Flags whose commands take no folders.
_WITHOUT_FOLDERS = {"-sc", "--shell-completion", "--version", "--hydra-help"}


@dataclass(frozen=True)
class Result:
    """Exit code and output of a command."""

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
        """Return the error of a refused command, which must be one line."""
        assert self.code == 2, (self.code, self.out, self.err)
        assert self.out == ""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("launch.py: ")
        return lines[0].removeprefix("launch.py: ")


class Launcher:
    """Calls launch.py with a home, a working directory and folders of its own."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.folder = folder
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
        """Run one command; its sweeps and collections go to this test's own folders."""
        command = list(words)
        if not _WITHOUT_FOLDERS & set(words):
            folders = {"runs_dir": self.runs_dir, "results_dir": self.results_dir}
            for key, folder in folders.items():
                if not any(word.startswith(f"{key}=") for word in words):
                    command.append(f"{key}={folder}")
        self._capsys.readouterr()
        self._monkeypatch.setattr(launch, "execute", self._execute)
        self._error = None
        handlers = logging.root.handlers[:]
        try:
            code = launch.main(command)
        except SystemExit as error:  # raised by --hydra-help
            code = int(error.code or 0)
        finally:
            logging.root.handlers[:] = handlers  # --info adds one
        captured = self._capsys.readouterr()
        return Result(code, captured.out, captured.err, self._error)

    def output(self, *words: str) -> str:
        """Return what a command prints that ends with 0 and without an error."""
        result = self(*words)
        assert (result.code, result.err) == (0, ""), result
        return result.out

    def error(self, *words: str) -> JobError:
        """The error of a command that is refused with nothing printed but its lines."""
        return self(*words).refused()

    def _execute(self, words: list[str]) -> int:
        try:
            return EXECUTE(words)
        except JobError as error:
            self._error = error
            raise

    def python(self, ends: Mapping[int, str] | None = None) -> str:
        """Return the override of a node's interpreter that ends points as `install` says."""
        return f"cluster.python={install(self.folder, ends)}"

    def complete(self, line: str) -> list[str]:
        """Return the shell's completions of a line with the cursor at its end."""
        self._monkeypatch.setenv("COMP_LINE", line)
        self._monkeypatch.setenv("COMP_POINT", str(len(line)))
        result = self("-sc", "query=bash")
        assert (result.code, result.err) == (0, "")
        return result.out.split()

    def ledger(self) -> Ledger:
        """Return the only sweep."""
        (ledger,) = sweeps(self.runs_dir)
        return ledger

    def records(self) -> list[Record]:
        """Return every record of every sweep, in the order of its plan; each fits the schema."""
        records: list[Record] = []
        for sweep in sweeps(self.runs_dir):
            order = {point.point_id: point.index for point in sweep.plan()}
            paths = sweep.root.glob("*/*/attempt-*/record.json")
            records += sorted(
                map(read_record, paths), key=lambda record: order[record.identity.point_id]
            )
        for record in records:
            jsonschema.validate(json.loads(to_json(record)), SCHEMA)
        return records

    def record(self) -> Record:
        """Return the only record."""
        (record,) = self.records()
        return record


@pytest.fixture
def launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Launcher:
    """launch.py with a home of its own."""
    return Launcher(tmp_path, monkeypatch, capsys)
