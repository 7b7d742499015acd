"""What a machine says is judged for one point: it runs, it is refused, or something is broken."""

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
GB300 = Gpu(name="gb300", matches=["GB300"], compute_capability="10.3")
NO_MXFP8 = "Device compute capability 10.0 or higher required for MXFP8 execution."


def answers(cudnn: str = "9.21.1", *, mxfp8: bool = True, **changed: Any) -> LibraryAnswers:  # noqa: ANN401
    made = LibraryAnswers(
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
    return replace(made, **changed)


def on_h200(**changed: Any) -> Machine:  # noqa: ANN401
    libraries = answers("9.19.0", mxfp8=False, **changed)
    return Machine("NVIDIA H200", (9, 0), "13.0", "2.20.2", libraries)


def on_gb300(cudnn: str = "9.21.1", **changed: Any) -> Machine:  # noqa: ANN401
    return Machine("NVIDIA GB300", (10, 3), "13.0", "2.20.2", answers(cudnn, **changed))


def point(recipe: Recipe, gpu: Gpu, **changed: Any) -> Point:  # noqa: ANN401
    made = Point(gpu=gpu, shape=DSV3, recipe=recipe, benchmark=Benchmark(name="default"))
    return replace(made, **changed)


def named(checks: list[Check], name: str) -> Check:
    return next(check for check in checks if check.name == name)


@pytest.mark.parametrize(
    ("made", "machine"),
    [
        (point(Bf16Recipe(), H200), on_h200()),
        (point(Fp8CurrentRecipe(), H200), on_h200()),
        (point(Fp8BlockRecipe(), H200), on_h200()),
        (point(MxFp8Recipe(), GB300), on_gb300()),
        (point(MxFp8Recipe(), GB300), on_gb300("9.23.2")),
        (point(MxFp8Recipe(fp8_dpa=False), GB300), on_gb300("9.19.0")),
        (point(MxFp8Recipe(), H200, backend=Backend.emulated), on_h200()),
    ],
)
def test_what_the_libraries_say_yes_to_runs(made: Point, machine: Machine) -> None:
    assert first_refusal(run_checks(made, machine)) is None


def test_mxfp8_on_hopper_is_refused_in_transformer_engines_own_sentence() -> None:
    refusal = first_refusal(run_checks(point(MxFp8Recipe(), H200), on_h200()))
    assert refusal is not None
    assert refusal.refusal is Refusal.unsupported
    assert refusal.reason == NO_MXFP8


@pytest.mark.parametrize("cudnn", ["9.19.0", "9.23.0", "9.23.1"])
def test_mxfp8_attention_needs_a_cudnn_that_has_it(cudnn: str) -> None:
    refusal = first_refusal(run_checks(point(MxFp8Recipe(), GB300), on_gb300(cudnn)))
    assert refusal is not None
    assert refusal.refusal is Refusal.unsupported
    assert cudnn in refusal.reason


def test_another_gpu_than_asked_for_is_an_error_unless_any_will_do() -> None:
    refusal = first_refusal(run_checks(point(Bf16Recipe(), GB300), on_h200()))
    assert refusal is not None
    assert refusal.refusal is Refusal.wrong_gpu
    assert "gpu=gb300 must be GB300, got NVIDIA H200" in refusal.reason
    relaxed = point(Bf16Recipe(), replace(GB300, any=True))
    assert first_refusal(run_checks(relaxed, on_h200())) is None


@pytest.mark.parametrize(
    ("name", "asked", "driver", "is_it"),
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
def test_a_gpu_is_named_by_a_whole_word(name: str, asked: str, driver: str, is_it: bool) -> None:
    """Its peaks would be another's: their shares would be wrong without a word."""
    wanted = Gpu(name=name, matches=[asked])
    checks = run_checks(point(Bf16Recipe(), wanted), replace(on_h200(), gpu_name=driver))
    refusal = first_refusal(checks)
    assert (refusal is None) is is_it
    assert refusal is None or refusal.refusal is Refusal.wrong_gpu


def test_a_gpu_of_the_right_name_and_another_capability_is_not_the_one() -> None:
    odd = replace(on_h200(), compute_capability=(9, 5))
    refusal = first_refusal(run_checks(point(Bf16Recipe(), H200), odd))
    assert refusal is not None
    assert refusal.refusal is Refusal.wrong_gpu


def test_no_gpu_is_unsupported() -> None:
    bare = Machine(None, None, None, None, None, "PyTorch is built without CUDA")
    refusal = first_refusal(run_checks(point(Bf16Recipe(), H200), bare))
    assert refusal is not None
    assert refusal.refusal is Refusal.unsupported
    assert "PyTorch is built without CUDA" in refusal.reason


def test_a_broken_transformer_engine_beside_its_gpu_is_an_import_error() -> None:
    broken = on_h200(te_error="ImportError: libcublas.so.13: cannot open", cudnn_te=None)
    refusal = first_refusal(run_checks(point(Bf16Recipe(), H200), broken))
    assert refusal is not None
    assert refusal.refusal is Refusal.import_error
    assert "libcublas.so.13" in refusal.reason


def test_a_cudnn_that_raises_is_an_import_error_with_what_to_set() -> None:
    words = "RuntimeError: cuDNN version incompatibility: PyTorch was compiled against (9, 19, 0)"
    broken = on_h200(cudnn_together_error=words, cudnn_te="9.14.0")
    checks = run_checks(point(Bf16Recipe(), H200), broken)
    refusal = first_refusal(checks)
    assert refusal is not None
    assert refusal.refusal is Refusal.import_error
    assert "PyTorch loads 9.19.0, Transformer Engine loads 9.14.0" in refusal.reason
    assert words in refusal.reason
    assert "CUDNN_HOME" in refusal.remedy


def test_two_working_cudnns_are_shown_and_refuse_nothing() -> None:
    checks = run_checks(point(Bf16Recipe(), H200), on_h200(cudnn_te="9.14.0"))
    cudnn = named(checks, "cuDNN")
    assert cudnn.ok is False
    assert "two different ones" in cudnn.reason
    assert "CUDNN_HOME" in cudnn.remedy
    assert first_refusal(checks) is None


def test_a_probe_reports_everything_and_refuses_nothing_but_the_wrong_gpu() -> None:
    broken = on_h200(te_error="OSError: libcudnn_heuristic.so.9: undefined symbol", cudnn_te=None)
    probe = point(MxFp8Recipe(), H200, job=Job.probe)
    checks = run_checks(probe, broken)
    assert first_refusal(checks) is None
    assert named(checks, "Transformer Engine").ok is False
    assert named(checks, "cuDNN").ok is False
    assert named(checks, "MXFP8 available").reason == NO_MXFP8
