"""Whole sweeps on a real SLURM: submitted, followed, recorded under the right jobs."""

from __future__ import annotations

import json
import re
import sys

import pytest

from jobs.record import read_record
from jobs.sweeps.ledger import Ledger
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import FAST, ROOT, SlurmUser

pytestmark = pytest.mark.slurm

SITE = """
name: lab
scheduler: slurm
requests:
  cpu: {partition: low}
  gb300: {partition: gpu, gres: "gpu:gb300:1"}
"""


def seeds(*acts: int) -> str:
    """One point for each act; the hundreds keep equal acts apart."""
    return "shape.seed=" + ",".join(str(100 * i + act) for i, act in enumerate(acts))


def assert_every_record_is_under_its_job(ledger: Ledger) -> None:
    planned_under = {
        point_id: f"{line.job_id}_{index}" if len(line.tasks) > 1 else line.job_id
        for line in ledger.jobs()
        for index, ids in line.tasks.items()
        for point_id in ids
    }
    paths = list(ledger.root.glob("*/p-*/attempt-1/record.json"))
    assert len(paths) == len(planned_under)
    for path in paths:
        record = read_record(path)
        job_id = planned_under[record.identity.point_id]
        assert record.identity.job_id == job_id
        assert path.parents[2].name == job_id.partition("_")[0]


def test_twelve_points_over_two_partitions(slurm_user: SlurmUser) -> None:
    site = slurm_user.folder / "my-config" / "cluster" / "lab.yaml"
    site.parent.mkdir(parents=True)
    site.write_text(SITE)
    slurm_user.env["MXFP8_CONFIG_DIR"] = str(site.parents[1])
    words = [word for word in node_words(slurm_user) if word != "cluster=slurm"]
    done = slurm_user.run(
        *("sweep", "cluster=lab", *words, seeds(*[node.PASS] * 5, node.FAIL), "gpu=cpu,gb300"),
        *("gpu.any=true", "launch.points_per_job=3", "launch.max_parallel=2", "wait=true"),
    )
    assert done.returncode == 1, done.stdout + done.stderr
    ledger = slurm_user.ledger()
    lines = ledger.jobs()
    assert len(lines) == 2
    assert [len(ids) for line in lines for ids in line.tasks.values()] == [3, 3, 3, 3]
    shown = [slurm_user.cluster.run("scontrol", "show", "job", line.job_id) for line in lines]
    assert all("ArrayTaskThrottle=2" in text for text in shown)
    assert "Partition=low" in shown[0]
    assert "Partition=gpu" in shown[1]
    assert "gres/gpu" in shown[1]
    assert "gres/gpu" not in shown[0]
    assert_every_record_is_under_its_job(ledger)
    assert sum(outcomes == ["PASSED"] for outcomes in slurm_user.outcomes(ledger).values()) == 10
    assert "12 points: 2 FAILED, 10 PASSED" in done.stdout
    for point in ledger.plan():
        row = next(line for line in done.stdout.splitlines() if line.startswith(point.point_id))
        assert "PASSED" in row or "FAILED" in row


def test_multirun_is_the_same_planner(slurm_user: SlurmUser) -> None:
    words = (*node_words(slurm_user), seeds(0, 0, 0, 0), "launch.points_per_job=2")
    done = slurm_user.run("run", "--multirun", *words)
    assert done.returncode == 0, done.stderr
    (line,) = slurm_user.ledger().jobs()
    assert [len(ids) for ids in line.tasks.values()] == [2, 2]
    slurm_user.wait(slurm_user.ledger())
    assert_every_record_is_under_its_job(slurm_user.ledger())


def node_words(slurm_user: SlurmUser) -> tuple[str, ...]:
    return ("cluster=slurm", f"cluster.python={slurm_user.node}", *FAST)


def test_a_real_point_runs_on_a_node(slurm_user: SlurmUser) -> None:
    words = ("shape=tiny", "recipe=bf16", "benchmark=off", "tolerance=none", "wait=true")
    done = slurm_user.run("run", "cluster=slurm", "launch.memory_gib=1", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = slurm_user.ledger().jobs()
    (record,) = slurm_user.records(slurm_user.ledger())
    assert record["identity"]["job_id"] == line.job_id
    assert record["environment"]["torch"]
    assert record["validation"]


def test_sweep_shows_what_plan_has_shown(slurm_user: SlurmUser) -> None:
    words = (seeds(0, 1), "cluster.partition=short", "launch.time_min=1")
    planned = slurm_user.run("plan", *node_words(slurm_user), *words)
    assert planned.returncode == 0, planned.stderr
    assert "to start at" in planned.stdout
    assert not list(slurm_user.runs.glob("s-*"))
    _, ledger = slurm_user.sweep(*words)
    sent = (ledger.root / "submissions" / "0" / "submission.sh").read_text()
    unnamed = sent.replace(ledger.sweep_id, "s-<time>-<random>")
    # A name in angle brackets is quoted where a real one need not be.
    bare = re.sub(r"['\"]", "", unnamed)
    assert bare.strip() in re.sub(r"['\"]", "", planned.stdout)
    slurm_user.wait(ledger)
    assert all(outcome == ["PASSED"] for outcome in slurm_user.outcomes(ledger).values())


def test_the_node_needs_neither_hydra_nor_submitit(slurm_user: SlurmUser) -> None:
    bare = slurm_user.folder / "bare-python"
    # -I and -S: no site-packages at all; what the entry needs travels with the sweep.
    bare.write_text(
        f'#!/bin/bash\nif [ "$2" = jobs.node ]; then exec {slurm_user.node} "$@"; fi\n'
        f'exec {sys.executable} -s -S "$@"\n'
    )
    bare.chmod(0o755)
    libraries = "('submitit', 'cloudpickle', 'hydra')"
    find = f"import importlib.util as u; print(*map(u.find_spec, {libraries}))"
    assert slurm_user.cluster.run(str(bare), "-c", find) == "None None None"
    words = [word for word in node_words(slurm_user) if not word.startswith("cluster.python")]
    done = slurm_user.run("run", *words, "shape.seed=0", f"cluster.python={bare}", "wait=true")
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_works_from_anywhere_and_from_inside_a_job(slurm_user: SlurmUser) -> None:
    trap = slurm_user.folder / "elsewhere"
    (trap / "jobs").mkdir(parents=True)
    (trap / "jobs" / "__init__.py").write_text("raise SystemExit('the wrong package')")
    slurm_user.cwd = trap
    command = slurm_user.words(
        "run", *node_words(slurm_user), f"shape.seed={node.WRITES_ENVIRONMENT}", "wait=true"
    )
    script = trap / "outer.sh"
    words = " ".join(f"'{word}'" for word in command)
    script.write_text(
        f"#!/bin/bash\nexport SBATCH_PARTITION=nowhere SLURM_CPUS_PER_TASK=99 PYTHONPATH={trap}\n"
        f"export CUDA_VISIBLE_DEVICES=7\n{words}\n"
    )
    outer = slurm_user.cluster.run(
        "sbatch", "--parsable", "--mem=400", f"--output={trap}/outer.log", f"--chdir={trap}",
        str(script),
    )  # fmt: skip
    slurm_user.cluster.wait_jobs(outer)
    log = (trap / "outer.log").read_text()
    ledger = slurm_user.ledger()
    assert slurm_user.outcomes(ledger) == {ledger.plan()[0].point_id: ["PASSED"]}, log
    (path,) = ledger.root.glob("*/p-*/attempt-1/environment.json")
    seen, cwd = json.loads(path.read_text())
    assert seen["SLURM_JOB_ID"] == ledger.jobs()[0].job_id != outer
    assert "SBATCH_PARTITION" not in seen
    assert "CUDA_VISIBLE_DEVICES" not in seen
    assert seen["PYTHONPATH"].split(":")[0] == str(ROOT)
    assert str(trap) not in seen["PYTHONPATH"].split(":")
    assert cwd == str(path.parent)
