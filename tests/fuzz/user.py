"""Somebody at a terminal, who types commands through `launch.main` in this process."""

from __future__ import annotations

import contextlib
import io
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import launch
from tests.builders.ledger import passed_sweep

UNSHOWN = frozenset(map(chr, [*range(9), *range(11, 32), *range(127, 160)]))
_LONGEST = 4000  # of a line that refuses something: what it quotes is cut


class User:
    """Somebody at a terminal without SLURM, with one finished sweep."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.config = self.home / "config"
        self.cwd = folder / "cwd"
        for made in (self.config, self.cwd):
            made.mkdir(parents=True)
        self.runs, self.results = folder / "runs", folder / "results"
        root = passed_sweep(self.runs).ledger.root
        (self.cwd / "here").symlink_to(root)
        self.places = (f"runs_dir={self.runs}", f"results_dir={self.results}")
        assert not self.types("collect", "latest", "report=false")
        (self.cwd / "gathered").symlink_to(self.results / root.name)

    def types(self, verb: str, *words: str, told: str = "") -> bool:
        """One command: ends with a known code, and says each problem in a line of its own.

        Args:
            verb: The verb.
            words: What follows it.
            told: What a refusal has to name.
        """
        with self._seated():
            code, out, err = _run([verb, *words, *self.places])
        _assert_told(code, out, err)
        assert code != 2 or told in err, err
        return code == 2

    def owns(self, group: str, data: bytes, other: bytes, words: list[str]) -> bool:
        """A plan that names a file of the user's own folder, which may name another one."""
        files = {"own.yaml": data, "two.yaml": other}
        folder = self.config / group
        folder.mkdir(exist_ok=True)
        for name, held in files.items():
            (folder / name).write_bytes(held)
        try:
            return self.types("plan", f"{group}=own", *words)
        finally:
            for name in files:
                (folder / name).unlink()

    def lives(self, words: tuple[str, ...], variables: dict[str, str]) -> bool:
        """A command, or the shell's question, where variables say something else."""
        line = {"COMP_LINE": "python launch.py plan shape=ti", "COMP_POINT": "30"}
        number = variables.get("COLUMNS", "30")
        asks = words[0] == "-sc"
        places = () if asks else self.places
        with self._seated((line | {"COMP_POINT": number} if asks else {}) | variables):
            code, out, err = _run([*words, *places])
        _assert_told(code, out, err)
        return code == 2

    def tabs(self, words: list[str]) -> bool:
        """The shell asks what may follow; only suggestions are answered, and never an error."""
        line = " ".join(["python launch.py plan", *words]).replace("\0", "")
        asked = {
            "COMP_LINE": line.encode("utf-8", "replace").decode(),
            "COMP_POINT": str(len(line)),
        }
        with self._seated(asked):
            code, out, err = _run(["-sc", "query=bash"])
        assert (code, err) == (0, ""), (code, err)
        assert not UNSHOWN & set(out), out
        return False

    @contextlib.contextmanager
    def _seated(self, more: dict[str, str] | None = None) -> Iterator[None]:
        """In the user's home and folder, with an environment that names no cluster."""
        before, cwd = dict(os.environ), os.getcwd()
        kept = {key: before[key] for key in ("LANG", "LC_ALL") if key in before}
        own = {"HOME": str(self.home), "MXFP8_CONFIG_DIR": str(self.config), "PATH": "/nowhere"}
        os.environ.clear()
        os.environ.update(kept | own | (more or {}))
        os.chdir(self.cwd)
        try:
            yield
        finally:
            os.chdir(cwd)
            os.environ.clear()
            os.environ.update(before)


def _run(words: list[str]) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    handlers = logging.root.handlers[:]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = launch.main(words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        logging.root.handlers[:] = handlers
    return code, out.getvalue(), err.getvalue()


def _assert_told(code: int, out: str, err: str) -> None:
    assert code in (0, 1, 2, 3), code
    assert "Traceback" not in out + err, err
    assert not UNSHOWN & set(out + err), (out, err)
    (out + err).encode()  # or a terminal could not be given it
    if code == 2:
        assert err, out
        assert all(line.startswith("launch.py: ") for line in err.splitlines()), err
        assert all(len(line) <= _LONGEST for line in err.splitlines()), err
