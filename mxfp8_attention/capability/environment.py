"""Environment variables that change what a run means: recorded, and flagged where they are set."""

from __future__ import annotations

from collections.abc import Mapping

# Variables that change what a run means, and what they do when they are set to that value.
FLAGGED: dict[str, str] = {
    "NVTE_DPA_FP8_RECIPE": "attention runs another recipe than configured (F16: none at all)",
    "NVTE_FP8_DPA_BWD": "0 makes the backward of FP8 attention BF16",
    "NVTE_UnfusedDPA_Emulate_FP8": "1 emulates FP8 attention, slow and unfused",
    "NVTE_FUSED_ATTN": "0 turns cuDNN's fused attention off",
    "NVTE_FLASH_ATTN": "0 turns flash attention off",
    "NVTE_UNFUSED_ATTN": "0 turns unfused attention off",
    "NVTE_ALLOW_NONDETERMINISTIC_ALGO": "0 asks for deterministic kernels, which are slower",
    "NVTE_FUSED_ATTN_BACKEND": "chooses the sub-backend of fused attention",
    "NVTE_DPA_FP8CS_O_in_F16": "changes how FP8 attention's backward reads the output",
    "NVTE_PLUGIN": "replaces Transformer Engine's own kernels",
    "NVTE_BIAS_GELU_NVFUSION": "changes fusions",
    "NVTE_TORCH_COMPILE": "changes what is compiled",
    "CUDA_LAUNCH_BLOCKING": "1 waits after each kernel: times are not those of a training run",
    "CUBLAS_WORKSPACE_CONFIG": "changes which matrix kernels can be chosen",
    "NVIDIA_TF32_OVERRIDE": "changes the precision of FP32 products, the reference included",
}
_USUAL = {
    "NVTE_FP8_DPA_BWD": "1",
    "NVTE_FUSED_ATTN": "1",
    "NVTE_FLASH_ATTN": "1",
    "NVTE_UNFUSED_ATTN": "1",
    "NVTE_UnfusedDPA_Emulate_FP8": "0",
    "NVTE_ALLOW_NONDETERMINISTIC_ALGO": "1",
    "NVTE_DPA_FP8CS_O_in_F16": "1",
    "CUDA_LAUNCH_BLOCKING": "0",
}


def flagged_variables(variables: Mapping[str, str]) -> list[str]:
    """Names the variables whose value changes what the run means.

    Args:
        variables: The environment.

    Returns:
        One sentence for each.
    """
    return [
        f"{name}={variables[name]}: {meaning}"
        for name, meaning in FLAGGED.items()
        if variables.get(name, "") not in ("", _USUAL.get(name, ""))
    ]
