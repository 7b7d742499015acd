"""Problems of single files, which never keep the rest from being read."""

from __future__ import annotations

from dataclasses import dataclass

from jobs.sweeps.ledger import SWEEP_NAME
from jobs.sweeps.planned_point import PLAN_NAME


@dataclass(frozen=True)
class FileProblem:
    """A file that could not be used.

    Attributes:
        file: Path inside the sweep or collection, with ":line" where a line is meant.
        what: What is wrong, for example "is missing".
    """

    file: str
    what: str

    @property
    def of_plan(self) -> bool:
        """True if the plan was not read completely, so that points may be missing."""
        return self.file.rpartition("/")[2].partition(":")[0] in (PLAN_NAME, SWEEP_NAME)
