"""Values that break a constraint are reported as problems: key, constraint, value, remedy."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

from conf.choices import Backend, QkvFormat, RecipeName, RopeTable, Scheduler, ToleranceName
from conf.problem import Problem
from conf.rules import MAX_COUNT, MAX_LOG_MIB, MAX_NICE, YEAR_S, point_problems, problems
from conf.schema import CalibratedTolerance, SeedTolerance
from conf.site import SCHEDULER_KEYS
from conf.verbs import Run
from tests.conf.compositions import composed

YARN = {"shape.rope_table": RopeTable.yarn}
TE = {"backend": Backend.te}


@pytest.fixture(scope="module")
def valid() -> Run:
    """The default configuration of `run`."""
    config: Run = composed("run")
    assert problems(config) == []
    return config


def changed(valid: Run, changes: dict[str, Any]) -> Run:
    """A copy with some dotted keys set."""
    config = copy.deepcopy(valid)
    for path, value in changes.items():
        *parents, leaf = path.split(".")
        target: Any = config
        for parent in parents:
            target = getattr(target, parent)
        setattr(target, leaf, value)
    return config


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("shape.num_heads", [0]),
        ("shape.batch", [-1]),
        ("shape.seq_len", [0, 2**63]),
        ("shape.hidden", [0]),
        ("shape.head_dim_v", [0]),
        ("shape.head_dim_rope", [31]),
        ("shape.init_std", [0.0, math.nan]),
        ("shape.rope_base", [math.inf]),
        ("shape.seed", [-1, 2**63]),
        ("shape.qkv_format", [QkvFormat.thd, QkvFormat.bshd]),
        ("recipe.name", [RecipeName.bf16]),
        ("tolerance.name", [ToleranceName.none]),
        ("tolerance.upper_factor", [-1.0, math.nan]),
        ("benchmark.blocks", [0]),
        ("benchmark.bootstrap_resamples", [0, 100_001]),
        ("benchmark.budget_s", [0.0, 1e300]),
        ("benchmark.confidence", [0.0, 1.0]),
        ("benchmark.warmup_max_iterations", [1]),
        ("benchmark.min_fprop_speedup", [1.1]),
        ("gpu.device", ["tpu"]),
        ("gpu.compute_capability", ["sm100"]),
        ("gpu.memory_gib", [-1.0]),
        ("cluster.python", ["/a\nb", " ", "../python", "~/python"]),
        ("cluster.container.python", ["bin/python"]),
        ("cluster.container.mounts", [["/a"]]),
        ("cluster.container.pythonpath", ["src", "/a:b"]),
        ("cluster.container.image", ["i"]),
        ("cluster.env", [{"1A": "x"}]),
        ("cluster.srun", [["x"]]),
        ("cluster.sbatch", [{"hint": "x"}]),
        ("cluster.setup", [["x"]]),
        ("launch.points_per_job", [0]),
        ("launch.retries", [-1, MAX_COUNT + 1, 2**63]),
        ("launch.memory_gib", [0.0, math.nan, 1e308]),
        ("launch.max_log_mib", [0, MAX_LOG_MIB + 1]),
        ("launch.time_min", [YEAR_S // 60 + 1]),
        ("launch.point_time_limit_s", [0]),
    ],
)
def test_a_value_outside_its_range_is_a_problem(valid: Run, key: str, values: list[Any]) -> None:
    for value in values:
        (problem,) = problems(changed(valid, {key: value}))
        assert problem.key == key
        assert isinstance(value, dict | list) or str(problem.value) == str(value)


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("shape.rope_base", {"shape.rope_table": RopeTable.yarn, "shape.rope_base": 1.0}),
        ("shape.yarn_factor", {"shape.rope_table": RopeTable.yarn, "shape.yarn_factor": 0.0}),
        (
            "shape.yarn_beta_fast",
            {"shape.rope_table": RopeTable.yarn, "shape.yarn_beta_fast": 0.5},
        ),
        ("shape.batch x shape.seq_len x the QKV width", {"shape.seq_len": 10**12}),
        ("shape.batch x shape.seq_len x the QKV width", {"shape.num_heads": 2**40}),
        ("shape.batch x shape.seq_len x shape.hidden", {"shape.hidden": 2**40}),
        ("tolerance.lower_factor", {"tolerance": CalibratedTolerance(upper_factor=0.5)}),
        (
            "tolerance.stage_lower_factor",
            {"tolerance": CalibratedTolerance(stage_lower_factor=2.0)},
        ),
        ("tolerance.max_outside_share", {"tolerance": SeedTolerance(max_outside_share=1.5)}),
        ("benchmark.min_fprop_speedup", TE | {"benchmark.min_fprop_speedup": 0.0}),
        (
            "benchmark.min_bprop_speedup",
            TE | {"benchmark.enabled": False, "benchmark.min_bprop_speedup": 2.0},
        ),
        ("cluster.setup", {"cluster.setup": ["True"], "cluster.scheduler": Scheduler.slurm}),
        ("cluster.nice", {"cluster.scheduler": Scheduler.slurm, "cluster.nice": MAX_NICE + 1}),
    ],
    ids=str,
)
def test_a_constraint_between_two_keys(valid: Run, key: str, changes: dict[str, Any]) -> None:
    assert [problem.key for problem in problems(changed(valid, changes))] == [key]


@pytest.mark.parametrize("name", SCHEDULER_KEYS)
def test_a_scheduler_s_key_is_refused_with_a_local_cluster(valid: Run, name: str) -> None:
    key, value = f"cluster.{name}", 1 if name == "nice" else "x"
    (problem,) = problems(changed(valid, {key: value}))
    assert (problem.key, problem.value) == (key, value)
    assert "cluster=slurm" in problem.remedy


def test_every_problem_is_reported_at_once(valid: Run) -> None:
    reported = problems(changed(valid, {"shape.num_heads": 0, "launch.retries": -1}))
    assert [problem.key for problem in reported] == ["shape.num_heads", "launch.retries"]


def test_the_node_checks_the_point_alone(valid: Run) -> None:
    config = changed(valid, {"shape.num_heads": 0, "launch.retries": -1})
    assert point_problems(config) == [Problem("shape.num_heads", "be at least 1", 0)]


def test_a_scheduler_accepts_what_a_local_cluster_refuses(valid: Run) -> None:
    site = {"cluster.setup": ["module load cuda"], "cluster.container.image": "image.sqsh"}
    assert problems(changed(valid, {**site, "cluster.scheduler": Scheduler.slurm})) == []


def test_a_shape_that_one_recipe_cannot_take_is_no_problem(valid: Run) -> None:
    assert problems(changed(valid, {"shape.seq_len": 100})) == []
