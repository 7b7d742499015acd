"""Each value that cannot be is told by one sentence: its key, the rule, the value, the remedy."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

from conf.choices import Backend, QkvFormat, RecipeName, RopeTable, Scheduler, ToleranceName
from conf.rules import point_problems, problems
from conf.schema import CalibratedTolerance, SeedTolerance
from conf.site import SCHEDULER_KEYS
from conf.verbs import Run
from tests.conf.compositions import composed


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


NAN, INFINITY, TE = math.nan, math.inf, Backend.te


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"shape.num_heads": 0}, "shape.num_heads must be at least 1, got 0"),
        ({"shape.batch": -1}, "shape.batch must be at least 1, got -1"),
        ({"shape.seq_len": 0}, "shape.seq_len must be at least 1, got 0"),
        ({"shape.hidden": 0}, "shape.hidden must be at least 1, got 0"),
        ({"shape.head_dim_v": 0}, "shape.head_dim_v must be at least 2, got 0"),
        ({"shape.head_dim_rope": 31}, "shape.head_dim_rope must be even, got 31"),
        ({"shape.init_std": 0.0}, "shape.init_std must be greater than 0, got 0.0"),
        ({"shape.init_std": NAN}, "shape.init_std must be a finite number, got nan"),
        ({"shape.rope_base": INFINITY}, "shape.rope_base must be a finite number, got inf"),
        ({"shape.seed": -1}, "shape.seed must be between 0 and 2**63 - 1, got -1"),
        ({"shape.seed": 2**63}, f"shape.seed must fit into 64 bits, got {2**63}"),
        (
            {"shape.rope_table": RopeTable.yarn, "shape.rope_base": 1.0},
            "shape.rope_base must be greater than 1 with shape.rope_table=yarn, got 1.0",
        ),
        (
            {"shape.rope_table": RopeTable.yarn, "shape.yarn_factor": 0.0},
            "shape.yarn_factor must be greater than 0, got 0.0",
        ),
        (
            {"shape.rope_table": RopeTable.yarn, "shape.yarn_beta_fast": 0.5},
            "shape.yarn_beta_fast must be greater than shape.yarn_beta_slow (1.0), got 0.5",
        ),
        ({"shape.qkv_format": QkvFormat.thd}, "shape.qkv_format must be sbhd, got thd: the path"),
        ({"shape.qkv_format": QkvFormat.bshd}, "shape.qkv_format must be sbhd, got bshd: the"),
        ({"shape.seq_len": 10**12}, "shape.seq_len times shape.batch times the widest layer must"),
        (
            {"shape.hidden": 2**40},
            "shape.seq_len times shape.batch times the widest layer must be at most 2**40 values, "
            f"got 128 x 1 x {2**40}, which is shape.hidden",
        ),
        (
            {"shape.num_heads": 2**40},
            "shape.seq_len times shape.batch times the widest layer must be at most 2**40 values, "
            f"got 128 x 1 x {256 * 2**40}, which is shape.num_heads times 2 (shape.head_dim_nope",
        ),
        ({"recipe.name": RecipeName.bf16}, "recipe.name must fit the other keys of recipe, got"),
        ({"tolerance.name": ToleranceName.none}, "tolerance.name must fit the other keys of tol"),
        ({"tolerance.upper_factor": -1.0}, "tolerance.upper_factor must be at least 0, got -1.0"),
        ({"tolerance.upper_factor": NAN}, "tolerance.upper_factor must be a finite number, got"),
        (
            {"tolerance": CalibratedTolerance(upper_factor=0.5)},
            "tolerance.lower_factor must be at most tolerance.upper_factor (0.5), got 0.8",
        ),
        (
            {"tolerance": CalibratedTolerance(stage_lower_factor=2.0)},
            "tolerance.stage_lower_factor must be at most tolerance.stage_upper_factor (1.15), "
            "got 2.0",
        ),
        (
            {"tolerance": SeedTolerance(max_outside_share=1.5)},
            "tolerance.max_outside_share must be at most 1, got 1.5",
        ),
        ({"benchmark.blocks": 0}, "benchmark.blocks must be at least 1, got 0"),
        ({"benchmark.confidence": 1.0}, "benchmark.confidence must lie between 0 and 1, got 1.0"),
        (
            {"benchmark.warmup_max_iterations": 1},
            "benchmark.warmup_max_iterations must be at least benchmark.warmup_min_iterations (",
        ),
        (
            {"backend": Backend.te, "benchmark.min_fprop_speedup": 0.0},
            "benchmark.min_fprop_speedup must be greater than 0, got 0.0",
        ),
        (
            {
                "backend": Backend.te,
                "benchmark.enabled": False,
                "benchmark.min_bprop_speedup": 2.0,
            },
            "benchmark.min_bprop_speedup must be null where nothing is timed, got 2.0; use",
        ),
        (
            {"benchmark.min_fprop_speedup": 1.1},
            "benchmark.min_fprop_speedup must be null with backend=emulated, whose times say "
            "nothing about hardware, got 1.1; use backend=te on a GPU",
        ),
        ({"gpu.device": "tpu"}, "gpu.device must be cpu or cuda, got 'tpu'"),
        (
            {"gpu.compute_capability": "sm100"},
            "gpu.compute_capability must read like \"10.3\", got 'sm100'",
        ),
        ({"gpu.memory_gib": -1.0}, "gpu.memory_gib must be greater than 0, got -1.0"),
        ({"cluster.python": "/a\nb"}, "cluster.python must be one line, got '/a\\nb'"),
        ({"cluster.env": {"1A": "x"}}, "cluster.env must name variables of letters, digits and _"),
        ({"cluster.python": " "}, "cluster.python must name an interpreter, got ' '"),
        ({"cluster.container.mounts": ["/a"]}, "cluster.container.mounts must read"),
        ({"cluster.partition": "p"}, "cluster.partition must be null with a local"),
        ({"cluster.container.image": "i"}, "cluster.container.image must be null with a local"),
        ({"cluster.srun": ["x"]}, "cluster.srun must be empty with a local cluster, got ['x']"),
        ({"cluster.sbatch": {"hint": "x"}}, "cluster.sbatch must be empty with a local cluster"),
        (
            {"cluster.setup": ["x"]},
            "cluster.setup must be empty with a local cluster, got 'x'",
        ),
        (
            {"cluster.setup": ["True"], "cluster.scheduler": Scheduler.slurm},
            "cluster.setup must be shell lines, got the bool true; quote it: ['true']",
        ),
        ({"launch.points_per_job": 0}, "launch.points_per_job must be at least 1, got 0"),
        ({"launch.retries": -1}, "launch.retries must be at least 0, got -1"),
        ({"launch.retries": 2**31}, "launch.retries must be at most 2147483647, got 2147483648"),
        (
            {"launch.retries": 2**63},
            "launch.retries must fit into 64 bits, got 9223372036854775808",
        ),
        ({"launch.memory_gib": NAN}, "launch.memory_gib must be a finite number, got nan"),
        (
            {"launch.max_log_mib": 2**20 + 1},
            "launch.max_log_mib must be at most 1048576, got 104857",
        ),
        (
            {"cluster.scheduler": Scheduler.slurm, "cluster.nice": 2**31},
            "cluster.nice must be at most 2147483645, got 2147483648",
        ),
        ({"launch.point_time_limit_s": 0}, "launch.point_time_limit_s must be at least 1, got 0"),
        ({"launch.max_log_mib": 0}, "launch.max_log_mib must be at least 1, got 0"),
        ({"launch.memory_gib": 0.0}, "launch.memory_gib must be greater than 0, got 0.0"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_one_sentence_tells_what_cannot_be(
    valid: Run, changes: dict[str, Any], sentence: str
) -> None:
    (found,) = problems(changed(valid, changes))
    assert found.startswith(sentence)


@pytest.mark.parametrize("name", SCHEDULER_KEYS)
def test_what_only_a_scheduler_can_do_is_not_lost_silently(valid: Run, name: str) -> None:
    value = 1 if name == "nice" else "x"
    sentence = (
        f"cluster.{name} must be null with a local cluster, got {value!r}; use cluster=slurm"
    )
    assert problems(changed(valid, {f"cluster.{name}": value})) == [sentence]


def test_every_problem_is_told_at_once(valid: Run) -> None:
    found = problems(changed(valid, {"shape.num_heads": 0, "launch.retries": -1}))
    assert [sentence.partition(" ")[0] for sentence in found] == [
        "shape.num_heads",
        "launch.retries",
    ]


def test_the_node_checks_the_point_alone(valid: Run) -> None:
    config = changed(valid, {"shape.num_heads": 0, "launch.retries": -1})
    assert point_problems(config) == ["shape.num_heads must be at least 1, got 0"]


def test_a_scheduler_may_have_what_a_local_cluster_may_not(valid: Run) -> None:
    site = {"cluster.setup": ["module load cuda"], "cluster.container.image": "image.sqsh"}
    assert problems(changed(valid, {**site, "cluster.scheduler": Scheduler.slurm})) == []


def test_a_shape_that_one_recipe_cannot_take_is_no_mistake(valid: Run) -> None:
    assert problems(changed(valid, {"shape.seq_len": 100})) == []
