"""Writes ledgers as a sweep would leave them, without running one."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from jobs.record import Identity, Record, Started, to_json
from jobs.sweeps.ledger import JobLine, Ledger, SweepInfo
from jobs.sweeps.planned_point import PlannedPoint
from jobs.sweeps.source import Source
from tests.builders.records import point_config, record


def sweep_info(ledger: Ledger, points: int, verb: str = "sweep") -> SweepInfo:
    """What `sweep.json` holds of a sweep on SLURM."""
    return SweepInfo(
        sweep_id=ledger.sweep_id,
        verb=verb,
        command="python launch.py sweep grid=seq_len gpu=gb300",
        source=Source(commit="8153ff3c0ffee", dirty=False),
        cluster="site",
        scheduler="slurm",
        host="login1",
        user="user",
        created_at="2025-11-03T07:59:00.000+00:00",
        points=points,
    )


@dataclass
class FakeSweep:
    """A sweep's folder, filled by hand."""

    ledger: Ledger
    points: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def plan(cls, runs_dir: Path, configs: list[dict[str, Any]]) -> Self:
        """A new sweep with these points, `p-0000`, `p-0001`, ..."""
        ledger = Ledger.create(runs_dir)
        points = {f"p-{number:04d}": config for number, config in enumerate(configs)}
        ledger.write_plan(
            sweep_info(ledger, len(points)),
            [
                PlannedPoint(point_id=point_id, index=index, config=config)
                for index, (point_id, config) in enumerate(points.items())
            ],
        )
        return cls(ledger, points)

    def submit(self, job_id: str, point_ids: list[str], *, array: bool = True) -> None:
        """One array of one point a task, or one job of all points."""
        tasks = {str(i): [name] for i, name in enumerate(point_ids)} if array else {"0": point_ids}
        self.ledger.add_job(
            JobLine(
                job_id=job_id,
                tasks=tasks,
                scheduler="slurm",
                submitted_at="2025-11-03T07:59:30.000+00:00",
            )
        )
        folder = self.ledger.job_folder(job_id)
        folder.mkdir(exist_ok=True)
        (folder / f"{job_id}_submission.sh").write_text(
            "#!/bin/bash\n#SBATCH --gres=gpu:gb300:1\n"
        )

    def attempt(
        self,
        job_id: str,
        point_id: str,
        left: Record | str | None = None,
        *,
        number: int = 1,
        log: str = "started\n",
        pid: int | None = None,
        host: str = "n1",
    ) -> Path:
        """An attempt's folder: a record, text in place of one, or None while it runs."""
        folder = self.ledger.point_folder(job_id, point_id) / f"attempt-{number}"
        folder.mkdir(parents=True)
        started = Started(
            identity=Identity(
                point_id=point_id, sweep_id=self.ledger.sweep_id, job_id=job_id, attempt=number
            ),
            host=host,
            pid=pid or os.getpid(),
            started_at="2025-11-03T08:00:00.000+00:00",
        )
        (folder / "started.json").write_text(to_json(started))
        (folder / "output.log").write_text(log)
        if left is not None:
            text = left if isinstance(left, str) else to_json(left)
            (folder / "record.json").write_text(text)
        return folder

    def job_log(self, name: str, text: str) -> None:
        """A log of the scheduler's own, like `14_2_0_log.err`."""
        job_id = re.split(r"_", name)[0]
        (self.ledger.job_folder(job_id) / name).write_text(text)


def passed_sweep(runs_dir: Path, job_id: str = "14", **changes: Any) -> FakeSweep:  # noqa: ANN401
    """Three lengths of one shape, all PASSED; `changes` go to `record`."""
    configs = [point_config(shape__seq_len=length) for length in (1024, 2048, 4096)]
    sweep = FakeSweep.plan(runs_dir, configs)
    sweep.submit(job_id, list(sweep.points))
    for index, (point_id, config) in enumerate(sweep.points.items()):
        left = record(point_id, config, job_id=f"{job_id}_{index}", seed=index, **changes)
        sweep.attempt(job_id, point_id, left, log="[PERF] b=1\n")
    return sweep
