"""The gates catch every fault that moves a result by more than rounding."""

from __future__ import annotations

import pytest

from tests.mxfp8_attention.mutant_table import INIT_STDS, Judgement, judgement
from tests.mxfp8_attention.mutants import MUTANTS, Mutant

each_init = pytest.mark.parametrize("init", INIT_STDS)
each_mutant = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
LISTED = {mutant.name: mutant for mutant in MUTANTS}

# A power-of-two scale moves no mantissa: unless a value is 2^14 times smaller than the largest of
# its block, it is rounded to the same three bits whichever block it lies in, once or twice.
SAME_NUMBERS = (
    "Q, K, V quantized along the wrong axis",
    "double quantization in the linear layers",
    "double quantization in attention",
)


def caught(result: Judgement) -> bool:
    """Return True if `calibrated` fails the path."""
    return bool(result.path or result.stage)


@each_init
def test_the_correct_path_passes(init: str) -> None:
    result = judgement(init)
    assert (result.path, result.stage, result.moved) == ([], [], 0)


@each_init
@each_mutant
def test_calibrated_catches_every_fault_that_moves_a_result_by_more_than_rounding(
    mutant: Mutant, init: str
) -> None:
    result = judgement(init, mutant.plant)
    assert caught(result) or result.moved <= 1


@each_init
@pytest.mark.parametrize("name", SAME_NUMBERS)
def test_faults_that_do_not_change_the_numbers_escape(name: str, init: str) -> None:
    result = judgement(init, LISTED[name].plant)
    assert result.moved < 0.05
    assert not caught(result)


def test_only_e5m2_probabilities_of_a_one_hot_softmax_escape_besides() -> None:
    """There P is 0 or 1, and both formats hold that."""
    escaped = {
        (mutant.name, init)
        for init in INIT_STDS
        for mutant in MUTANTS
        if mutant.name not in SAME_NUMBERS and not caught(judgement(init, mutant.plant))
    }
    assert escaped == {("E5M2 for P", "one-hot")}


@pytest.mark.parametrize(
    "name",
    [
        "BF16 attention instead of MXFP8",
        "E5M2 for gradients",
        "softmax scale of the nope width",
        "rotary key's gradient from head 0 alone",
    ],
)
def test_some_faults_are_caught_only_by_their_stage(name: str) -> None:
    result = judgement("one-hot", LISTED[name].plant)
    assert result.path == []
    assert result.stage


@each_init
def test_the_seed_tolerance_fails_the_correct_path_in_gradients_that_are_sums_over_tokens(
    init: str,
) -> None:
    assert {"dqkv_weight", "dqkv_bias", "dout_weight"} <= set(judgement(init).seed)


@pytest.mark.parametrize(
    "name",
    [
        "RoPE off by one position",
        "K's RoPE alone off by one position",
        "rotary key's gradient from head 0 alone",
        "softmax scale of the nope width",
        "dQ of one head lost",
        "delta left out of dS",
        "E5M2 for x",
        "BF16 attention instead of MXFP8",
    ],
)
def test_the_seed_tolerance_on_the_output_alone_misses_faults(name: str) -> None:
    assert "out" not in judgement("even", LISTED[name].plant).seed
