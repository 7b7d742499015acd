"""Variables that change the meaning of a run are flagged, their default values are not."""

from __future__ import annotations

import pytest

from mxfp8_attention.capability.environment import flagged_variables


@pytest.mark.parametrize(
    ("variables", "flagged"),
    [
        ({}, []),
        ({"NVTE_FUSED_ATTN": "1", "NVTE_FP8_DPA_BWD": "1"}, []),
        ({"NVTE_DPA_FP8_RECIPE": ""}, []),
        ({"NVTE_DPA_FP8_RECIPE": "F16"}, ["NVTE_DPA_FP8_RECIPE=F16"]),
        ({"NVTE_FP8_DPA_BWD": "0"}, ["NVTE_FP8_DPA_BWD=0"]),
        ({"NVTE_UnfusedDPA_Emulate_FP8": "1"}, ["NVTE_UnfusedDPA_Emulate_FP8=1"]),
        ({"NVTE_FUSED_ATTN": "0", "PATH": "/x"}, ["NVTE_FUSED_ATTN=0"]),
    ],
)
def test_variables_that_change_the_meaning_of_a_run_are_flagged(
    variables: dict[str, str], flagged: list[str]
) -> None:
    assert [flag.split(":")[0] for flag in flagged_variables(variables)] == flagged
