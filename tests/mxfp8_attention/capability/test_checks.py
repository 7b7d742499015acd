"""A machine is checked for one point: the point runs, is refused, or something is broken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conf.choices import Backend, Job
from conf.schema import (
    Benchmark,
    Bf16Recipe,
    Fp8BlockRecipe,
    Fp8CurrentRecipe,
    Gpu,
    MxFp8Recipe,
    Point,
    Recipe,
)
from mxfp8_attention.capability.checks import (
    Check,
    Machine,
    Refusal,
    first_refusal,
    run_checks,
)
from mxfp8_attention.capability.libraries import LibraryAnswers
from tests.shapes import DSV3

H200 = Gpu(name="h200", matches=["H200"], compute_capability="9.0")
CPU = Gpu(name="cpu", device="cpu")
GB300 = Gpu(name="gb300", matches=["GB300"], compute_capability="10.3")
NO_MXFP8 = "Device compute capability 10.0 or higher required for MXFP8 execution."


def answers(cudnn: str = "9.21.1", *, mxfp8: bool = True, **changed: Any) -> LibraryAnswers:  # noqa: ANN401
    defaults = LibraryAnswers(
        cudnn_torch=cudnn,
        cudnn_torch_error=None,
        cudnn_te=cudnn,
        te_error=None,
        cudnn_together_error=None,
        availability={
            "fp8": (True, ""),
            "mxfp8": (mxfp8, "" if mxfp8 else NO_MXFP8),
            "fp8_block_scaling": (True, ""),
        },
    )
    return replace(defaults, **changed)


def on_h200(**changed: Any) -> Machine:  # noqa: ANN401
    libraries = answers("9.19.0", mxfp8=False, **changed)
    return Machine("NVIDIA H200", (9, 0), "2.20.2", libraries)


def on_gb300(cudnn: str = "9.21.1", **changed: Any) -> Machine:  # noqa: ANN401
    return Machine("NVIDIA GB300", (10, 3), "2.20.2", answers(cudnn, **changed))


def point(recipe: Recipe, gpu: Gpu, **changed: Any) -> Point:  # noqa: ANN401
    plain = Point(gpu=gpu, shape=DSV3, recipe=recipe, benchmark=Benchmark(name="default"))
    return replace(plain, **changed)


def refusal(point: Point, machine: Machine) -> Check | None:
    """The check that refuses the point on the machine."""
    return first_refusal(run_checks(point, machine))


@pytest.mark.parametrize(
    ("config", "machine"),
    [
        (point(Bf16Recipe(), H200), on_h200()),
        (point(Fp8CurrentRecipe(), H200), on_h200()),
        (point(Fp8BlockRecipe(), H200), on_h200()),
        (point(MxFp8Recipe(), GB300), on_gb300()),
        (point(MxFp8Recipe(), GB300), on_gb300("9.23.2")),
        (point(MxFp8Recipe(fp8_dpa=False), GB300), on_gb300("9.19.0")),
        (point(MxFp8Recipe(), H200, backend=Backend.emulated), on_h200()),
        (point(Bf16Recipe(), replace(GB300, any=True)), on_h200()),
    ],
)
def test_a_point_that_the_libraries_support_runs(config: Point, machine: Machine) -> None:
    assert refusal(config, machine) is None


BF16_ON_H200 = point(Bf16Recipe(), H200)
LIBCUBLAS = "ImportError: libcublas.so.13: cannot open"
VERSIONS = "RuntimeError: cuDNN version incompatibility: compiled against 9.19"
BROKEN_TE = {"te_error": LIBCUBLAS, "cudnn_te": None}
INCOMPATIBLE = {"cudnn_together_error": VERSIONS, "cudnn_te": "9.14.0"}
NO_GPU = Machine(None, None, None, None, "PyTorch is built without CUDA")
OTHER_CAPABILITY = replace(on_h200(), compute_capability=(9, 5))
CUDNN_LIMIT = "cuDNN for MXFP8 attention"
UNSUPPORTED, WRONG_GPU, IMPORT_ERROR = Refusal


@pytest.mark.parametrize(
    ("config", "machine", "name", "kind", "reason"),
    [
        (point(MxFp8Recipe(), H200), on_h200(), "recipe mxfp8", UNSUPPORTED, NO_MXFP8),
        (point(MxFp8Recipe(), GB300), on_gb300("9.19.0"), CUDNN_LIMIT, UNSUPPORTED, "9.19.0"),
        (point(MxFp8Recipe(), GB300), on_gb300("9.23.0"), CUDNN_LIMIT, UNSUPPORTED, "9.23.0"),
        (point(MxFp8Recipe(), GB300), on_gb300("9.23.1"), CUDNN_LIMIT, UNSUPPORTED, "9.23.1"),
        (point(MxFp8Recipe(), CPU), on_h200(), "configuration", UNSUPPORTED, "cpu"),
        (point(Bf16Recipe(), GB300), on_h200(), "GPU", WRONG_GPU, "NVIDIA H200"),
        (BF16_ON_H200, OTHER_CAPABILITY, "GPU", WRONG_GPU, "compute capability 9.5"),
        (BF16_ON_H200, NO_GPU, "GPU", UNSUPPORTED, NO_GPU.no_cuda_reason),
        (BF16_ON_H200, on_h200(**BROKEN_TE), "Transformer Engine", IMPORT_ERROR, LIBCUBLAS),
        (BF16_ON_H200, on_h200(**INCOMPATIBLE), "cuDNN", IMPORT_ERROR, VERSIONS),
    ],
)
def test_a_failed_check_refuses_the_point_and_quotes_the_cause(
    config: Point, machine: Machine, name: str, kind: Refusal, reason: str
) -> None:
    check = refusal(config, machine)
    assert check is not None
    assert (check.name, check.refusal) == (name, kind)
    assert reason in check.reason


@pytest.mark.parametrize(
    ("name", "match", "driver", "is_it"),
    [
        ("b200", "B200", "NVIDIA B200", True),
        ("b200", "B200", "NVIDIA GB200", False),
        ("h200", "H200", "NVIDIA H200 NVL", True),
        ("h200", "H200", "NVIDIA GH200 480GB", False),
        ("h100", "H100", "NVIDIA H100 80GB HBM3", True),
        ("gb300", "gb300", "NVIDIA GB300", True),
        ("h20", "H20", "NVIDIA H200", False),
        ("mine", "H200 NVL", "NVIDIA H200 NVL", True),
    ],
)
def test_a_gpu_is_matched_by_a_whole_word(name: str, match: str, driver: str, is_it: bool) -> None:
    """Otherwise shares of peak would silently be of another GPU's peaks."""
    requested = Gpu(name=name, matches=[match])
    check = refusal(point(Bf16Recipe(), requested), replace(on_h200(), gpu_name=driver))
    assert (check is None) is is_it
    assert check is None or check.refusal is Refusal.wrong_gpu


@pytest.mark.parametrize("changed", [INCOMPATIBLE, {"cudnn_te": "9.14.0"}], ids=["error", "two"])
def test_two_cudnns_are_reported_with_the_remedy(changed: dict[str, Any]) -> None:
    checks = {
        check.name: check for check in run_checks(point(Bf16Recipe(), H200), on_h200(**changed))
    }
    assert checks["cuDNN"].ok is False
    assert "CUDNN_HOME" in checks["cuDNN"].remedy
    assert all(version in checks["cuDNN"].reason for version in ("9.14.0", "9.19.0"))


def test_two_working_cudnns_refuse_nothing() -> None:
    assert refusal(point(Bf16Recipe(), H200), on_h200(cudnn_te="9.14.0")) is None


def test_a_probe_reports_everything_and_refuses_nothing_but_the_wrong_gpu() -> None:
    broken = on_h200(te_error="OSError: libcudnn_heuristic.so.9: undefined symbol", cudnn_te=None)
    checks = run_checks(point(MxFp8Recipe(), H200, job=Job.probe), broken)
    assert first_refusal(checks) is None
    by_name = {check.name: check for check in checks}
    assert by_name["Transformer Engine"].ok is by_name["cuDNN"].ok is False
    assert by_name["MXFP8 available"].reason == NO_MXFP8


def test_without_libraries_the_table_of_limits_answers_for_mxfp8() -> None:
    bare = replace(on_h200(), libraries=None)
    (mxfp8,) = [
        check
        for check in run_checks(point(Bf16Recipe(), H200, backend=Backend.emulated), bare)
        if check.name == "MXFP8 available"
    ]
    assert (mxfp8.ok, mxfp8.reason) == (False, NO_MXFP8)
