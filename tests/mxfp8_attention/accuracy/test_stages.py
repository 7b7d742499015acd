"""A stage's error is that of its own roundings, whatever came before."""

from __future__ import annotations

import pytest
import torch

from conf.choices import AttnMask, Projection
from conf.schema import Bf16Recipe, MxFp8Recipe
from mxfp8_attention.accuracy.stages import projected_names, stage_errors, staged_step
from mxfp8_attention.case import make_case
from mxfp8_attention.emulation.layer import EmulatedPath
from mxfp8_attention.reference import ReferencePath
from tests.shapes import tiny

# Two operands of E4M3; attention's P and dS add to theirs.
PRODUCTS = ("qkv", "q_proj", "kv_proj", "out", "dx", "dqkv_weight", "dattention", "dout_weight")
ATTENTION = ("attention", "dq", "dk", "dv")


@pytest.mark.parametrize("projection", Projection)
@pytest.mark.parametrize("init_std", [0.0625, 0.18])
def test_each_stage_has_the_error_of_its_own_roundings(
    projection: Projection, init_std: float
) -> None:
    shape = tiny(projection=projection, init_std=init_std)
    errors = stage_errors(EmulatedPath(MxFp8Recipe(), make_case(shape, "cpu")))
    for name, error in errors.items():
        if name in PRODUCTS:
            assert 0.032 < error.rel_l2 < 0.042, name
        if name in ATTENTION:
            assert 0.035 < error.rel_l2 < 0.35, name
    for name in ("q", "k", "v", "dqkv", "dq_proj", "dkv_proj", "dout_bias", "dqkv_bias"):
        if name in errors:
            assert errors[name].rel_l2 < 0.003, name


@pytest.mark.parametrize("attn_mask", AttnMask)
@pytest.mark.parametrize("projection", Projection)
def test_a_bf16_arm_has_bf16s_error_in_every_stage(
    attn_mask: AttnMask, projection: Projection
) -> None:
    shape = tiny(attn_mask=attn_mask, projection=projection, batch=2)
    errors = stage_errors(EmulatedPath(Bf16Recipe(), make_case(shape, "cpu")))
    assert all(error.rel_l2 < 0.004 for error in errors.values())


@pytest.mark.parametrize("projection", Projection)
def test_the_fp32_path_has_no_error_in_any_stage(projection: Projection) -> None:
    case = make_case(tiny(projection=projection), "cpu")
    errors = stage_errors(ReferencePath(case))
    assert all(error.rel_l2 < 2e-6 for error in errors.values())


@pytest.mark.parametrize("projection", Projection)
def test_a_staged_step_adds_the_tensors_between_stages(projection: Projection) -> None:
    shape = tiny(projection=projection)
    path = EmulatedPath(MxFp8Recipe(), make_case(shape, "cpu"))
    step, staged = path.step(), staged_step(path)
    assert all(torch.equal(step[name], staged[name]) for name in step)
    between = {*projected_names(shape), "q", "k", "v", "attention"}
    assert set(staged) == set(step) | between | {f"d{name}" for name in between}
    assert all(not tensor.requires_grad for tensor in staged.values())
    assert list(stage_errors(path, staged))[:2] == [*projected_names(shape), "q"][:2]


def test_a_fault_shows_only_in_its_own_stage() -> None:
    case = make_case(tiny(), "cpu")
    path = EmulatedPath(MxFp8Recipe(), case)
    sound = stage_errors(path)
    tensors = staged_step(path)
    tensors["dout_weight"] = tensors["dout_weight"] * 1.1
    faulty = stage_errors(path, tensors)
    changed = [name for name in sound if faulty[name] != sound[name]]
    assert changed == ["dout_weight"]
    assert faulty["dout_weight"].rel_l2 == pytest.approx(0.107, abs=0.005)
