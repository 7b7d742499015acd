"""A request to SLURM: the batches of a plan, submitted one after another."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from jobs.errors import InvalidConfig, JobError, PartlySubmitted
from jobs.schedulers.planner_records import record_rejected, record_unsupported
from jobs.schedulers.scheduler import (
    Accepted,
    Progress,
    Refused,
    Reply,
    Request,
    SubmissionResult,
)
from jobs.schedulers.slurm.batches import Batches, cut, make_batches
from jobs.schedulers.slurm.commands import unused_variables
from jobs.schedulers.slurm.dependency import dependency_ids, dependency_problems
from jobs.schedulers.slurm.limits import ClusterLimits
from jobs.schedulers.slurm.query import query_states
from jobs.schedulers.slurm.script import Submission, check_folder
from jobs.schedulers.slurm.submission import forget, may_have_been_sent, next_number, send_all
from jobs.sweeps.ledger import Ledger
from jobs.sweeps.planned_point import PlannedPoint
from jobs.terminal.console import Console
from jobs.terminal.interrupts import NOTHING_STARTED


class SlurmRequest(Request):
    """Batches that the cluster would accept, as far as its limits say."""

    def __init__(
        self,
        points: Sequence[PlannedPoint],
        limits: ClusterLimits | None,
        avoid: Sequence[str] = (),
    ) -> None:
        """Group points into batches; `limits` is None if the cluster does not answer.

        Raises:
            InvalidConfig: A request that could never run.
        """
        self.points = points
        self.limits = limits
        made = make_batches([one for one in points if one.unsupported is None], limits)
        if limits is not None:
            refuse_impossible_dependencies(made)
        batches = tuple(batch.avoiding(avoid) for batch in made.batches)
        self.batches = replace(made, batches=batches) if avoid else made
        self.notes = [*made.notes, *unused_variables()]
        self.warnings = made.warnings

    def check_folder(self, root: Path) -> None:
        """Raise InvalidValue if SLURM would change the folder's name, or cannot cut the arrays."""
        for batch in self.batches.batches:
            check_folder(root, container=batch.cluster.container.image is not None)
        cut(self.batches, root, self.limits, itertools.count().__next__)

    def submit(self, ledger: Ledger, lock: int, progress: Progress) -> SubmissionResult:
        """Send every array; after a refusal, record the rest as rejected."""
        assert self.limits is not None
        for point in self.points:
            if point.unsupported is not None:
                record_unsupported(point, ledger)
        submissions = cut(self.batches, ledger.root, self.limits, lambda: next_number(ledger))
        replies: list[Reply] = []
        for reply in send_all(ledger, submissions, lock, self.limits.name):
            replies.append(reply)
            if not isinstance(reply, Accepted):
                break  # the rest would be refused as well
        if replies and isinstance(replies[-1], Refused):
            rest = [submission for submission, _ in submissions[len(replies) - 1 :]]
            self._reject(ledger, replies[-1], rest, anything_accepted=len(replies) > 1)
        return SubmissionResult(tuple(replies))

    def _reject(
        self, ledger: Ledger, refused: Refused, rest: list[Submission], *, anything_accepted: bool
    ) -> None:
        for submission in rest:
            shutil.rmtree(submission.folder, ignore_errors=True)
        if not anything_accepted:
            raise refused.error
        rejected = {name for submission in rest for slot in submission.tasks for name in slot}
        for point in self.points:
            if point.point_id in rejected:
                record_rejected(point, ledger, str(refused.error))


def refuse_impossible_dependencies(batches: Batches) -> None:
    """Raise InvalidConfig for dependencies that can never be met."""
    dependencies = {batch.resources.dependency or "" for batch in batches.batches}
    for dependency in dependencies:
        ids = dependency_ids(dependency)
        problems = list(dependency_problems(dependency, query_states(ids).tasks)) if ids else []
        if problems:
            raise InvalidConfig(problems)


@contextlib.contextmanager
def interruption_notice(ledger: Ledger, ids: str, *, new: bool) -> Iterator[None]:
    """Report what Ctrl-C or an error left of a submission.

    Raises:
        PartlySubmitted: In place of an error after a part was submitted.
    """
    before = len(ledger.jobs())
    out = Console()

    def sent() -> bool:
        return len(ledger.jobs()) > before or may_have_been_sent(ledger)

    try:
        yield
    except KeyboardInterrupt:
        if sent():
            out.print_line("\nInterrupted: submitted jobs keep running, the rest was not sent.")
            out.print_line(f"To submit the rest: python launch.py resume {ids}")
            out.print_line(f"To cancel the jobs: python launch.py cancel {ids}")
        else:
            out.print_line(f"\nInterrupted: {NOTHING_STARTED if new else 'nothing submitted.'}")
            if new:
                forget(ledger)
        raise
    except BaseException as error:
        if isinstance(error, OSError | JobError) and sent():
            raise PartlySubmitted(_sentence(error), f"python launch.py resume {ids}") from error
        if new and not sent():
            forget(ledger)
        raise


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)
