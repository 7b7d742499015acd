"""What `plan` shows of a request to SLURM: scripts, arrays, hours."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

from jobs.schedulers.scheduler import Preview
from jobs.schedulers.slurm.batches import cut
from jobs.schedulers.slurm.commands import call
from jobs.schedulers.slurm.refusals import refusal_of
from jobs.schedulers.slurm.request import SlurmRequest
from jobs.schedulers.slurm.script import Submission
from jobs.schedulers.slurm.submission import script_for
from jobs.terminal.console import Console
from jobs.terminal.table import Table
from jobs.text import pluralize


class SlurmPreview(Preview):
    """Submissions with their scripts; nothing is shown before all of them could be made."""

    def __init__(self, request: SlurmRequest, runs_dir: Path, problem: str | None) -> None:
        """`problem` is the reason why the cluster could not be queried for its limits."""
        sweep = runs_dir / "s-<time>-<random>"
        submissions = cut(request.batches, sweep, request.limits, itertools.count().__next__)
        self._scripts = [(one, script_for(one, batch)) for one, batch in submissions]
        self._batches = request.batches
        self._test = problem is None
        self._notes = [*request.notes, *([problem] if problem else [])]
        self.warnings = request.warnings

    def show(self, out: Console) -> None:
        """Show scripts, arrays and hours, and sbatch's opinion of each script."""
        notes = dict.fromkeys(self._notes)
        for submission, script in self._scripts:
            waits = f", after submission {submission.number - 1}" if submission.waits else ""
            jobs = pluralize(len(submission.tasks), "job")
            out.rule(f"submission {submission.number}: {jobs}{waits}", align="left")
            out.print_line(script)
            if self._test:
                message, error = _test_only(script)
                out.print_line(f"sbatch --test-only: {message}")
                if error is not None:
                    refusal = refusal_of(error, submission.resources)
                    notes[f"submission {submission.number}: {refusal}"] = None
        table = Table(
            *("number", "jobs", "points", "request", "minutes each"), title="Submissions"
        )
        for submission, _ in self._scripts:
            points = sum(len(slot) for slot in submission.tasks)
            counts = (submission.number, len(submission.tasks), points)
            table.add_row(*map(str, counts), _request(submission), str(submission.time_min))
        out.print_table(table)
        for note in notes:
            out.print_line(f"Note: {note}")
        hours = f"{self._batches.hours:.2f} job hours, {self._batches.gpu_hours:.2f} GPU hours"
        out.print_line(f"Expected: {hours}")


def _test_only(script: str) -> tuple[str, str | None]:
    """Return sbatch's message about a script, and why it would refuse it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "submission.sh"
        path.write_text(script, encoding="utf-8")
        answer = call(["sbatch", "--test-only", f"--chdir={folder}", str(path)])
    message = answer.error or answer.warning or answer.out
    return " ".join(message.split()).removeprefix("sbatch: "), answer.error


def _request(submission: Submission) -> str:
    resources = submission.resources
    options = {
        "partition": resources.partition,
        "gres": resources.gres,
        "gpus-per-node": resources.gpus_per_node,
        "constraint": resources.constraint,
        "mem": None if resources.memory_mib is None else f"{resources.memory_mib}M",
        "cpus": resources.cpus_per_task,
    }
    return " ".join(f"{key}={value}" for key, value in options.items() if value is not None)
