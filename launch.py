"""Validates and benchmarks MXFP8 attention, here or on a cluster: python launch.py [VERB] ...

The words of the command become a `CommandLine`, Hydra composes the verb's configuration from
conf/, and the verb runs with it. `jobs.verbs.table` lists the verbs.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jobs.errors import JobError, NotInstalled, NoWorkingDirectory
from jobs.sweeps.request import PointRequest
from jobs.terminal.interrupts import nothing_started_notice
from jobs.text import plain_text, shell_quote, shorten
from jobs.verbs.command_line import Call, CommandLine, as_typed
from jobs.verbs.completion import FLAG_NAMES, Completion, spell_choices, without_groups
from jobs.verbs.table import VERBS

CONFIG_PATH = str(Path(__file__).resolve().parent / "conf")
USAGE_ERROR = 2
INTERRUPTED = 130
OLDEST_PYTHON = (3, 11)
OWN_PACKAGES = ("conf", "jobs", "hydra_plugins", "mxfp8_attention")
# fish completes only files that contain the text "@hydra.main".


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and report its error, if any.

    Args:
        words: Words after `launch.py`; those of `sys.argv` if None.

    Returns:
        The exit code: 0, 1, 2, 3 or 130, as DESIGN.md defines them.
    """
    _prepare_streams()
    try:
        return execute(list(sys.argv[1:] if words is None else words))
    except JobError as error:
        _print_error(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        file = f"{error.filename}: " if error.filename else ""
        _print_error(f"{file}{error.strerror or error}")
        return USAGE_ERROR


def execute(words: list[str]) -> int:
    """Run one command; JobError if it is wrong or fails."""
    _check_python()
    try:
        if set(FLAG_NAMES) & set(words):
            return _complete(words)
        line = CommandLine.parse(words)
        if "--version" in line.hydra:
            print(_version())
            return 0
        verb = VERBS[line.verb]
        with nothing_started_notice() if verb.points else contextlib.nullcontext():
            config = _composed(line)
        if config is None:
            return 0  # a flag asked only to print something
        if verb.points and not isinstance(config, list):
            config = [PointRequest(config, {})]
        command = as_typed(Path(__file__).name, words)
        return verb.load()(config, Call(line.verb, line.ids, command, line.hydra))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in OWN_PACKAGES:
            raise
        raise NotInstalled(str(error.name), sys.executable, _interpreter_remedy()) from error


def _prepare_streams() -> None:
    if sys.stdout is None:  # closed by the parent process
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - open until the process ends
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _print_error(text: str) -> None:
    for line in shorten(plain_text(text)).splitlines():
        print(f"launch.py: {line}", file=sys.stderr)


def _check_python() -> None:
    if sys.version_info < OLDEST_PYTHON:
        raise NotInstalled("Python 3.11", sys.executable, _interpreter_remedy())


def _interpreter_remedy() -> str:
    own = Path(__file__).resolve().parent / ".venv" / "bin" / "python"
    return f"use {shell_quote(own)}" if own.exists() else "run `make run` once to set up .venv"


def _version() -> str:
    """Return the version in pyproject.toml, and Hydra's."""
    import tomllib
    from importlib.metadata import version

    text = Path(__file__).resolve().with_name("pyproject.toml").read_text(encoding="utf-8")
    about = tomllib.loads(text)["project"]
    return f"{about['name']} {about['version']} (Hydra {version('hydra-core')})"


def _composed(line: CommandLine) -> Any:  # noqa: ANN401 - whichever verb's configuration
    """Return the verb's configuration or a sweep's points; None if a flag printed something."""
    _check_working_directory()
    from hydra_plugins.mxfp8_launcher._compose import compose

    _check_config_folder(line)
    return compose(line, CONFIG_PATH)


def _check_working_directory() -> None:
    try:
        os.getcwd()
    except OSError as error:
        folder = os.environ.get("PWD", "(unknown)")
        raise NoWorkingDirectory(folder, str(error.strerror)) from error


def _check_config_folder(line: CommandLine) -> None:
    """Refuse a hidden file of the user's folder; a verb without points only prints a note."""
    from hydra_plugins.mxfp8_launcher._config_folder import check_hidden

    try:
        check_hidden(Path(CONFIG_PATH), line.hydra)
    except JobError as error:
        if VERBS[line.verb].points:
            raise
        if not line.shows_only:
            _print_error(f"note: {error}")


def _complete(words: list[str]) -> int:
    """Print suggestions and nothing else, because the shell interprets the output."""
    request = Completion.parse(words, os.environ)
    for suggestion in request.suggestions:
        print(suggestion)
    if not request.words:
        return 0
    os.environ.update(request.variables)
    offered = io.StringIO()
    try:
        with contextlib.redirect_stdout(offered):
            _composed(CommandLine(request.verb, hydra=request.words, shows_only=True))
    except (JobError, ValueError):  # reported when the line is run
        return 0
    print(without_groups(spell_choices(offered.getvalue()), _unused_groups(request.verb)), end="")
    return 0


def _unused_groups(name: str) -> list[str]:
    """Return the groups of choices that a verb's configuration does not have."""
    verb = VERBS[name]
    groups = [entry.name for entry in Path(CONFIG_PATH).iterdir() if entry.is_dir()]
    return [group for group in groups if not verb.points or (group == "grid" and not verb.many)]


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    # A batch system or a closed terminal ends a verb as Ctrl-C does.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _interrupt)
    sys.exit(main())
