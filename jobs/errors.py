"""The tree of errors: each class carries the fields that a caller needs.

The sentence is made by `str(error)`, where an error is shown. Code branches on the class and its
fields, never on the text.

    JobError
      UsageError                 the command was wrong, nothing was done
        InvalidValue             a value breaks the constraint of its key
        InvalidConfig            several problems of one configuration
        DuplicatePoint           two choices of a sweep that plan the same point
        InvalidWord              a word of the command line that cannot be used as typed
        MissingValue             a key without the value that it needs
        NotComposed              a message of Hydra that no other class explains
        NotSettable              a key or flag that the user cannot set
        UnknownName              a command, flag, key or choice that does not exist
        WrongIds                 too few, too many or the wrong ids for a verb
        UnknownId                an id that no sweep contains
        NoSweep                  the folder of sweeps is missing or empty
        BaselineConflict         a baseline has another record of a point
        NoPassedPoint            a collection without a point for a baseline
        TooFewCollections        nothing to compare in the results folder
        NotInteractive           a question without a terminal to ask it on
        NotCancellable           a job that only its own terminal can end
        NotInstalled             a package or a Python version is missing
        NoWorkingDirectory       the working directory was deleted
      SchedulerError             the scheduler refused or did not answer
        SchedulerUnavailable
        SubmissionRefused
        SweepLocked              another process submits or runs the sweep
        WrongCluster             the sweep belongs to another cluster
        PartlySubmitted          a part was submitted before the error
      FileError                  a file cannot be used
        ConfigFileError          a file of the user's config folder
        LedgerError
        RecordError
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from conf.problem import Problem


class JobError(Exception):
    """Base of every error that the tool explains by itself.

    Attributes:
        exit_code: Exit code of the command; 2 means that nothing was done.
    """

    exit_code = 2


class UsageError(JobError):
    """The command asked for something impossible."""


@dataclass(eq=False)
class InvalidValue(UsageError):
    """A value that breaks the constraint of its key; the fields are those of `Problem`."""

    key: str
    constraint: str
    value: object
    remedy: str = ""

    def __str__(self) -> str:
        return str(Problem(self.key, self.constraint, self.value, self.remedy))


@dataclass(eq=False)
class InvalidConfig(UsageError):
    """One or more problems of a composed configuration, a line each."""

    problems: Sequence[Problem | UsageError]

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


@dataclass(eq=False)
class DuplicatePoint(UsageError):
    """Two choices of a sweep that plan the same point.

    Attributes:
        first: Label of the one.
        second: Label of the other.
        same_site: False if they differ only in where they run.
    """

    first: str
    second: str
    same_site: bool

    def __str__(self) -> str:
        remedy = "remove one of them"
        if not self.same_site:
            remedy = "where a point runs is no part of it, so run two sweeps and compare them"
        return f"{self.first} and {self.second} are the same point; {remedy}"


@dataclass(eq=False)
class InvalidWord(UsageError):
    """A word of the command line that cannot be used as typed.

    Attributes:
        word: The word.
        problem: What is wrong with it, for example "no key before =".
        remedy: What to type instead.
    """

    word: str
    problem: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.word}: {self.problem}" + (f"; {self.remedy}" if self.remedy else "")


@dataclass(eq=False)
class MissingValue(UsageError):
    """A key without the value that it needs."""

    key: str

    def __str__(self) -> str:
        return f"{self.key} has no value; add {self.key}=..."


@dataclass(eq=False)
class NotComposed(UsageError):
    """A configuration that Hydra could not compose, with Hydra's own message."""

    detail: str

    def __str__(self) -> str:
        return f"the configuration cannot be composed: {self.detail}"


@dataclass(eq=False)
class NotSettable(UsageError):
    """A key or flag that the user cannot set; `reason` completes the sentence after a colon."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name} cannot be set: {self.reason}"


@dataclass(eq=False)
class UnknownName(UsageError):
    """A name that does not exist.

    Attributes:
        kind: "command", "flag", "key", "baseline", the group of a choice, ...
        name: The name as typed.
        suggestion: The nearest existing name.
        choices: Every valid name, if they are few.
    """

    kind: str
    name: str
    suggestion: str | None = None
    choices: Sequence[str] = ()

    def __str__(self) -> str:
        name = self.name if self.name.startswith("-") else repr(self.name)
        text = f"unknown {self.kind} {name}"
        if self.suggestion is not None:
            return f"{text}; did you mean {self.suggestion}?"
        return f"{text}; choose from {', '.join(self.choices)}" if self.choices else text


@dataclass(eq=False)
class WrongIds(UsageError):
    """Too few, too many or the wrong ids for a verb.

    Attributes:
        verb: The verb.
        expected: Completes "verb takes ...", for example "exactly one point id (p-...)".
        given: The ids that were typed.
        example: A command line that works, without the program.
    """

    verb: str
    expected: str
    given: Sequence[str] = ()
    example: str = ""

    def __str__(self) -> str:
        example = f", for example: {self.example}" if self.example else ""
        if not self.given:
            return f"{self.verb} needs {self.expected}{example}"
        return f"{self.verb} takes {self.expected}, not {len(self.given)}{example}"


@dataclass(eq=False)
class UnknownId(UsageError):
    """An id that no sweep contains.

    Attributes:
        kind: "job", "point", "sweep" or "local job".
        word: The id as typed.
        runs_dir: Folder that was searched.
        suggestion: The nearest existing id.
    """

    kind: str
    word: str
    runs_dir: Path
    suggestion: str | None = None

    def __str__(self) -> str:
        if self.kind == "sweep":
            hint = f"; did you mean {self.suggestion}?" if self.suggestion else ""
            return f"no sweep {self.word} in {self.runs_dir}{hint}"
        return (
            f"no sweep in {self.runs_dir} contains {self.kind} {self.word}; "
            "if it is elsewhere, pass its folder"
        )


@dataclass(eq=False)
class BaselineConflict(UsageError):
    """A baseline already has other records of some points.

    Attributes:
        baseline: Name of the baseline.
        points: Labels of the points, with their GPUs.
    """

    baseline: str
    points: Sequence[str]

    def __str__(self) -> str:
        more = f" and {len(self.points) - 1} more" if len(self.points) > 1 else ""
        return (
            f"baseline {self.baseline} already has another record of {self.points[0]}{more}; "
            "to replace: replace=true"
        )


@dataclass(eq=False)
class NoPassedPoint(UsageError):
    """A collection without a point that PASSED, from which no baseline can be made."""

    collection: str

    def __str__(self) -> str:
        return f"no point of {self.collection} PASSED; a baseline holds only points that passed"


@dataclass(eq=False)
class TooFewCollections(UsageError):
    """Fewer than two collections in the results folder."""

    count: int
    results_dir: Path

    def __str__(self) -> str:
        return (
            f"history needs at least two collections, {self.results_dir} has {self.count}; "
            "make one of each sweep: python launch.py collect SWEEP"
        )


@dataclass(eq=False)
class NotInteractive(UsageError):
    """A question that cannot be asked because there is no terminal."""

    remedy: str

    def __str__(self) -> str:
        return f"cannot ask for confirmation without a terminal; {self.remedy}"


@dataclass(eq=False)
class NotCancellable(UsageError):
    """A job that only the terminal in which it runs can end."""

    job_id: str

    def __str__(self) -> str:
        return f"{self.job_id} runs in another terminal; press Ctrl-C there"


@dataclass(eq=False)
class NoSweep(UsageError):
    """There is no sweep in the folder of sweeps, or no such folder."""

    runs_dir: Path

    def __str__(self) -> str:
        if not self.runs_dir.is_dir():
            return f"the folder of sweeps does not exist: {self.runs_dir}"
        return f"no sweep in {self.runs_dir} yet; start one: python launch.py sweep"


@dataclass(eq=False)
class NotInstalled(UsageError):
    """A package, or a version of Python, that is missing from this interpreter."""

    requirement: str
    interpreter: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.requirement} is required, but {self.interpreter} does not have it{remedy}"


@dataclass(eq=False)
class NoWorkingDirectory(UsageError):
    """The working directory was deleted, or cannot be entered any more."""

    folder: str
    detail: str

    def __str__(self) -> str:
        return f"the working directory {self.folder} cannot be used: {self.detail}; cd to another"


class SchedulerError(JobError):
    """The scheduler refused a request, or could not be reached."""


@dataclass(eq=False)
class SchedulerUnavailable(SchedulerError):
    """The scheduler did not answer.

    Attributes:
        purpose: What could not be done, for example "query the cluster's limits".
        detail: The scheduler's own message.
        remedy: What to do.
    """

    purpose: str
    detail: str
    remedy: str = "try again later"

    def __str__(self) -> str:
        return f"cannot {self.purpose}: {self.detail}; {self.remedy}"


@dataclass(eq=False)
class SubmissionRefused(SchedulerError):
    """The scheduler refused a submission.

    Attributes:
        detail: The scheduler's own message.
        settings: Settings that may have caused it, as "key=value", the likeliest first.
    """

    detail: str
    settings: Sequence[str] = ()

    def __str__(self) -> str:
        return f"{', '.join(self.settings) or 'the submission'} was refused: {self.detail}"


@dataclass(eq=False)
class SweepLocked(SchedulerError):
    """Another process is submitting or running the sweep."""

    sweep_id: str

    def __str__(self) -> str:
        return (
            f"another process is submitting or running {self.sweep_id}; try again when it "
            "has ended"
        )


@dataclass(eq=False)
class WrongCluster(SchedulerError):
    """The sweep was submitted to another cluster than the one configured here."""

    submitted_to: str
    here: str

    def __str__(self) -> str:
        return (
            f"this sweep was submitted to cluster {self.submitted_to}, but SLURM here is cluster "
            f"{self.here}; set SLURM_CONF"
        )


@dataclass(eq=False)
class PartlySubmitted(SchedulerError):
    """A part of a sweep was submitted before an error.

    Attributes:
        error: What went wrong, as a sentence without a full stop.
        resume: Command that submits the rest.
    """

    exit_code = 1

    error: str
    resume: str

    def __str__(self) -> str:
        return f"{self.error}; submitted jobs keep running; to submit the rest: {self.resume}"


@dataclass(eq=False)
class FileError(JobError):
    """A file of the tool that cannot be used.

    Attributes:
        path: The file.
        problem: What is wrong with it, for example "is missing".
        remedy: What to do.
    """

    path: Path
    problem: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.path} {self.problem}{remedy}"


@dataclass(eq=False)
class ConfigFileError(FileError):
    """A configuration file of the user's that cannot be used.

    Attributes:
        path: The file, or its name below the config folder.
        problem: The problem, or the error that a value of the file caused.
        remedy: What to do.
        line: Line of the file, counted from 1.
    """

    problem: str | UsageError  # type: ignore[assignment] # FileError has a text
    line: int | None = None

    def __str__(self) -> str:
        line = "" if self.line is None else f":{self.line}"
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.path}{line}: {self.problem}{remedy}"


@dataclass(eq=False)
class LedgerError(FileError):
    """A sweep's folder that cannot be created, written or read; `line` is a line of the file."""

    line: int | None = None

    def __str__(self) -> str:
        line = "" if self.line is None else f":{self.line}"
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.path}{line} {self.problem}{remedy}"


class RecordError(FileError):
    """A file that should hold a record and does not."""
