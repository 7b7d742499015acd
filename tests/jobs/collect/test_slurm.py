"""`collect` and `compare` on what a real SLURM left: as it runs, and after, by any id."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.collect.gather import collect
from jobs.compare.comparison import compare
from jobs.compare.load import load_side
from jobs.schedulers.slurm.scheduler import SlurmScheduler
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import SlurmUser

pytestmark = [pytest.mark.slurm, pytest.mark.usefixtures("slurm_env")]

ENDS = {
    node.PASS: ("PASSED", None),
    node.SLOW_PASS: ("PASSED", None),
    node.FAIL: ("FAILED", None),
    node.UNSUPPORTED: ("UNSUPPORTED", None),
    node.RAISES: ("ERROR", "exception"),
    node.SEGFAULT: ("ERROR", "crashed"),
}


def seeds(*acts: int) -> str:
    return f"shape.seed={','.join(str(100 * place + act) for place, act in enumerate(acts))}"


def table(folder: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads((folder / "points.json").read_text())
    return rows


def test_a_sweep_is_gathered_while_it_runs_and_after(
    slurm_user: SlurmUser, tmp_path: Path
) -> None:
    _, ledger = slurm_user.sweep(seeds(*ENDS))
    results = tmp_path / "results"
    early = collect(["latest"], slurm_user.runs, results, schedulers=[SlurmScheduler()])
    totals = early.totals
    assert totals.pop("planned") == len(ENDS) == sum(totals.values())
    slurm_user.wait(ledger)
    (line,) = ledger.jobs()
    done = slurm_user.run("collect", line.job_id, f"results_dir={results}")
    assert done.returncode == 1, done.stdout + done.stderr
    folder = results / line.job_id
    rows = table(folder)
    seen = {int(str(row["seed"])) % 100: (row["state"], row["cause"]) for row in rows}
    assert seen == ENDS
    assert all(row["job_id"] == f"{line.job_id}_{place}" for place, row in enumerate(rows))
    assert all(row["evidence"] for row in rows if row["state"] == "ERROR")
    assert (folder / "report.html").is_file()
    assert list((folder / "jobs" / line.job_id).glob("*_log.out"))
    assert not list(folder.rglob("*.pkl"))
    raw = str(rows[1]["raw_job_id"])
    for word, count in ((f"{line.job_id}_2", 1), (raw, 1), (f"{line.job_id}_[0-3]", 4)):
        found = collect([word], slurm_user.runs, results)
        assert len(found.points) == count, word


def test_two_sweeps_of_the_same_points_are_compared(slurm_user: SlurmUser, tmp_path: Path) -> None:
    ledgers = [slurm_user.sweep(seeds(node.UNSUPPORTED, node.FAIL))[1] for _ in range(2)]
    for ledger in ledgers:
        slurm_user.wait(ledger)
    sides = [load_side(ledger.sweep_id, slurm_user.runs, tmp_path) for ledger in ledgers]
    (found,) = compare(sides)
    assert len(found.points) == 2
    assert [point.outcome for point in found.points] == [
        "UNSUPPORTED, as before",
        "FAILED before, FAILED now",
    ]
    assert found.exit_code == 3


def test_a_cancelled_point_is_unclear_on_either_side(
    slurm_user: SlurmUser, tmp_path: Path
) -> None:
    _, passed = slurm_user.sweep("grid=none")
    slurm_user.wait(passed)
    _, cancelled = slurm_user.sweep("grid=none", "+cluster.sbatch.begin=now+1hour")
    (line,) = cancelled.jobs()
    slurm_user.cluster.run("scancel", line.job_id)
    slurm_user.wait(cancelled)
    results = tmp_path / "results"
    for sides in ((passed, cancelled), (cancelled, passed)):
        names = [ledger.sweep_id for ledger in sides]
        done = slurm_user.run("compare", *names, f"results_dir={results}")
        assert done.returncode == 3, done.stdout + done.stderr
        written = results / "compare" / "--".join(names) / "compare.md"
        (row,) = [text for text in written.read_text().splitlines() if "| outcome |" in text]
        cells = [cell.strip() for cell in row.split("|")[1:-1]]
        states = ["PASSED", "ERROR (cancelled)"]
        assert (cells[0], cells[3:5]) == (
            "UNCLEAR",
            states if sides[0] is passed else states[::-1],
        )
