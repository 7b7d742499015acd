"""Validates and benchmarks MXFP8 attention, here or on a cluster: python launch.py [VERB] ...

Every verb is an ordinary Hydra app with a primary config of its own in conf/. This file takes the
verb and the ids off the command line, lets Hydra compose what is left, and calls the verb.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.errors import JobError, UsageError
from jobs.sweeps.request import PointRequest
from jobs.terminal.interrupts import nothing_started_told
from jobs.text import plain_text, shell_quote, shorten
from jobs.verbs.command_line import Call, CommandLine, as_typed, parse
from jobs.verbs.completion import FLAG_NAMES, completion, spell_choices, without_groups

CONFIG_PATH = str(Path(__file__).resolve().parent / "conf")
USAGE_ERROR = 2
INTERRUPTED = 130
OLDEST_PYTHON = (3, 11)
OWN_PACKAGES = ("conf", "jobs", "hydra_plugins", "mxfp8_attention")


@dataclass(frozen=True)
class Verb:
    """Where a verb is written, and how its command line reads.

    Attributes:
        function: "module:function"; it takes the configuration and a `Call`.
        takes_ids: Whether job, point or sweep ids may follow it.
        many: Whether it takes the points of a sweep; `run` with `--multirun` is `sweep`.
        points: Whether its configuration makes points.
    """

    function: str
    takes_ids: bool = False
    many: bool = False
    points: bool = False

    def load(self) -> Callable[[Any, Call], int]:
        """Imports the function, and with it only what this verb needs."""
        module, _, name = self.function.partition(":")
        loaded: Callable[[Any, Call], int] = getattr(importlib.import_module(module), name)
        return loaded


VERBS = {
    "run": Verb("jobs.verbs.run:run", points=True),
    "plan": Verb("jobs.verbs.run:plan", many=True, points=True),
    "sweep": Verb("jobs.verbs.run:sweep", many=True, points=True),
    "status": Verb("jobs.verbs.status:status", takes_ids=True),
    "logs": Verb("jobs.verbs.logs:logs", takes_ids=True),
    "cancel": Verb("jobs.verbs.cancel:cancel", takes_ids=True),
    "resume": Verb("jobs.verbs.resume:resume", takes_ids=True),
    "repro": Verb("jobs.verbs.resume:repro", takes_ids=True),
    "collect": Verb("jobs.verbs.collect:collect", takes_ids=True),
    "compare": Verb("jobs.verbs.compare:compare", takes_ids=True),
    "baseline": Verb("jobs.verbs.compare:baseline", takes_ids=True),
    "history": Verb("jobs.verbs.compare:history", takes_ids=True),
    "doctor": Verb("jobs.verbs.doctor:doctor", points=True),
}


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        words: The words after `launch.py`; `sys.argv`'s if not given.

    Returns:
        The exit code: 0, 1, 2, 3 or 130, as DESIGN.md says.
    """
    words = list(sys.argv[1:] if words is None else words)
    if sys.stdout is None:  # closed by whoever started it: what is shown decides nothing
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - lives as long as the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal cannot show is no failure
            stream.reconfigure(errors="backslashreplace")
    try:
        return _main(words)
    except JobError as error:
        _tell(str(error))
        return error.exit_code
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in OWN_PACKAGES:
            raise
        _tell(_not_installed(str(error.name)))
        return USAGE_ERROR
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _tell(f"{where}{error.strerror or error}")
        return USAGE_ERROR


def _tell(why: str) -> None:
    """Says on stderr why nothing was done, a line each; a name in it may hold anything."""
    for line in shorten(plain_text(why)).splitlines():
        print(f"launch.py: {line}", file=sys.stderr)


def _not_installed(package: str) -> str:
    own = Path(__file__).resolve().parent / ".venv" / "bin" / "python"
    remedy = (
        f"use {shell_quote(own)}" if own.exists() else "run `make run` once, which sets up .venv"
    )
    return f"{package} is not installed for {sys.executable}; {remedy}"


def _main(words: list[str]) -> int:
    if sys.version_info < OLDEST_PYTHON:
        got = ".".join(map(str, sys.version_info[:3]))
        raise UsageError(f"Python must be 3.11 or later, got {got} ({sys.executable})")
    takes_ids = {name: verb.takes_ids for name, verb in VERBS.items()}
    if set(FLAG_NAMES) & set(words):
        return _complete(words, takes_ids)
    line = parse(words, takes_ids)
    if "--version" in line.hydra:
        print(_version())
        return 0
    if line.multirun and not VERBS[line.verb].many:
        takers = ", ".join(name for name, verb in VERBS.items() if verb.many)
        raise UsageError(f"{line.verb} must run once, got --multirun; these take many: {takers}")
    return _compose(
        line, Call(line.verb, line.ids, as_typed(Path(__file__).name, words), line.hydra)
    )


def _version() -> str:
    """This tool's version, as `pyproject.toml` says it, and Hydra's."""
    import tomllib  # an older Python, which is refused in one line, has none
    from importlib.metadata import version

    text = Path(__file__).resolve().with_name("pyproject.toml").read_text(encoding="utf-8")
    about = tomllib.loads(text)["project"]
    return f"{about['name']} {about['version']} (Hydra {version('hydra-core')})"


def _complete(words: list[str], takes_ids: dict[str, bool]) -> int:
    """Answers the shell; nothing else may be printed, for the shell runs what it reads."""
    asked = completion(words, os.environ, takes_ids)
    for suggestion in asked.suggestions:
        print(suggestion)
    if not asked.words:
        return 0
    os.environ.update(asked.variables)
    line = CommandLine(asked.verb, (), asked.words, shows_only=True, multirun=False)
    offered = io.StringIO()
    try:
        with contextlib.redirect_stdout(offered):
            _compose(line, Call(asked.verb, (), "", asked.words))
    except (UsageError, ValueError):  # what is wrong with the line is told when it is run
        return 0
    print(without_groups(spell_choices(offered.getvalue()), _not_taken(asked.verb)), end="")
    return 0


def _not_taken(verb: str) -> list[str]:
    """The groups of choices that a verb's configuration has no place for."""
    about = VERBS[verb]
    groups = [entry.name for entry in Path(CONFIG_PATH).iterdir() if entry.is_dir()]
    return [name for name in groups if not about.points or (name == "grid" and not about.many)]


def _compose(line: CommandLine, call: Call) -> int:
    """Lets Hydra compose, and calls the verb with what it composed."""
    verb = VERBS[line.verb]
    with nothing_started_told() if verb.points else contextlib.nullcontext():
        asked = _composed(line)
    if asked is None:
        return 0  # something was only shown
    if verb.points and not isinstance(asked, list):
        asked = [PointRequest(asked, {})]
    return verb.load()(asked, call)


def _composed(line: CommandLine) -> Any:  # noqa: ANN401 - a verb's own configuration
    """One typed configuration or our sweeper's list of them; None where Hydra showed something."""
    _check_working_directory()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # exceptions come here, not Hydra's own exit
    import hydra  # fish completes files that say "@hydra.main"

    from hydra_plugins.mxfp8_launcher._composition import named, typed
    from hydra_plugins.mxfp8_launcher._configs import register
    from hydra_plugins.mxfp8_launcher._messages import REFUSALS, one_line

    verb = VERBS[line.verb]
    _check_own_files(line, points=verb.points)
    register()
    composed: list[Any] = []  # one configuration, or our sweeper's list of them

    many = verb.many and not line.shows_only
    argv, sys.argv = sys.argv, [__file__, *line.hydra, *(["--multirun"] if many else [])]
    try:
        if {"--help", "-h"} & set(line.hydra):
            from hydra_plugins.mxfp8_launcher._help import help_text

            print(help_text(line.verb, line.hydra, CONFIG_PATH))
            return None
        hydra.main(config_path=CONFIG_PATH, config_name=line.verb, version_base="1.3")(
            lambda config: composed.append(config if isinstance(config, list) else named(config))
        )()
        if not composed:
            return None
        return composed[0] if isinstance(composed[0], list) else typed(composed[0])
    except REFUSALS as error:
        raise UsageError(one_line(error, line.hydra)) from error
    finally:
        sys.argv = argv


def _check_own_files(line: CommandLine, *, points: bool) -> None:
    """Refuses a hidden file of the user; a verb that plans no point needs none of them."""
    from hydra_plugins.mxfp8_launcher.config_folder import refuse_hidden

    try:
        refuse_hidden(Path(CONFIG_PATH), line.hydra)
    except UsageError as error:
        if points:
            raise
        if not line.shows_only:
            _tell(f"note: {error}")


def _check_working_directory() -> None:
    try:
        os.getcwd()
    except OSError as error:
        was = os.environ.get("PWD", "one that cannot be read")
        raise UsageError(
            f"the working directory must exist, got {was}: {error.strerror}; cd to another"
        ) from error


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    # A batch system or a closing terminal ends a verb as Ctrl-C does: recorded, and told so.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _interrupt)
    sys.exit(main())
