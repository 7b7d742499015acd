"""A user at a terminal without SLURM, who types commands through `launch.main`."""

from __future__ import annotations

import contextlib
import io
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import launch
from tests.builders.ledger import passed_sweep

_CONTROL = frozenset(map(chr, [*range(9), *range(11, 32), *range(127, 160)]))
_MAX_LINE = 4000  # of an error message: what it quotes is truncated


@dataclass(frozen=True)
class _Result:
    code: int
    out: str
    err: str

    @property
    def refused(self) -> bool:
        return self.code == 2

    def check(self) -> None:
        """Assert a known exit code, no traceback, and each problem in one printable line."""
        text = self.out + self.err
        assert self.code in (0, 1, 2, 3), self.code
        assert "Traceback" not in text, self.err
        assert not _CONTROL & set(text), (self.out, self.err)
        text.encode()  # or a terminal could not print it
        if self.refused:
            assert self.err, self.out
            for line in self.err.splitlines():
                assert line.startswith("launch.py: "), self.err
                assert len(line) <= _MAX_LINE, self.err


class User:
    """A user without SLURM, with one finished sweep that is also collected."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.config = self.home / "config"
        self.cwd = folder / "cwd"
        for created in (self.config, self.cwd):
            created.mkdir(parents=True)
        self.runs, self.results = folder / "runs", folder / "results"
        root = passed_sweep(self.runs).ledger.root
        (self.cwd / "here").symlink_to(root)
        self.places = (f"runs_dir={self.runs}", f"results_dir={self.results}")
        assert not self.run("collect", "latest", "report=false")
        (self.cwd / "gathered").symlink_to(self.results / root.name)

    def run(self, verb: str, *words: str, key: str = "") -> bool:
        """Run one command; a refusal has to name `key`."""
        result = self._launch([verb, *words, *self.places])
        assert not result.refused or key in result.err, result.err
        return result.refused

    def plan_with_files(
        self, group: str, content: bytes, other: bytes, overrides: list[str]
    ) -> bool:
        """Plan with a file in the user's own config folder, which may refer to another one."""
        files = {"own.yaml": content, "two.yaml": other}
        folder = self.config / group
        folder.mkdir(exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
        try:
            return self.run("plan", f"{group}=own", *overrides)
        finally:
            for name in files:
                (folder / name).unlink()

    def run_with_variables(self, words: tuple[str, ...], variables: dict[str, str]) -> bool:
        """Run a command, or the shell's completion, in a changed environment."""
        if words[0] != "-sc":
            return self._launch([*words, *self.places], variables).refused
        point = variables.get("COLUMNS", "30")
        line = {"COMP_LINE": "python launch.py plan shape=ti", "COMP_POINT": point}
        return self._launch(list(words), line | variables).refused

    def complete(self, words: list[str]) -> bool:
        """Complete a line as the shell does, which must not print an error."""
        line = " ".join(["python launch.py plan", *words]).replace("\0", "")
        variables = {
            "COMP_LINE": line.encode("utf-8", "replace").decode(),
            "COMP_POINT": str(len(line)),
        }
        result = self._launch(["-sc", "query=bash"], variables)
        assert (result.code, result.err) == (0, ""), result
        return False

    def _launch(self, words: list[str], variables: dict[str, str] | None = None) -> _Result:
        out, err = io.StringIO(), io.StringIO()
        handlers = logging.root.handlers[:]
        with self._environment(variables or {}):
            try:
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                    code = launch.main(words)
            except SystemExit as error:
                code = error.code if isinstance(error.code, int) else 1
            finally:
                logging.root.handlers[:] = handlers
        result = _Result(code, out.getvalue(), err.getvalue())
        result.check()
        return result

    @contextlib.contextmanager
    def _environment(self, variables: dict[str, str]) -> Iterator[None]:
        """Enter the user's home and folder, with variables that name no cluster."""
        before, cwd = dict(os.environ), os.getcwd()
        locale = {key: before[key] for key in ("LANG", "LC_ALL") if key in before}
        own = {"HOME": str(self.home), "MXFP8_CONFIG_DIR": str(self.config), "PATH": "/nowhere"}
        os.environ.clear()
        os.environ.update(locale | own | variables)
        os.chdir(self.cwd)
        try:
            yield
        finally:
            os.chdir(cwd)
            os.environ.clear()
            os.environ.update(before)
