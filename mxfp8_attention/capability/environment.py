"""Environment variables that change what a run means; the record flags those that are set."""

from __future__ import annotations

from collections.abc import Mapping

# Each variable with its effect.
EFFECTS: dict[str, str] = {
    "NVTE_DPA_FP8_RECIPE": "attention runs another recipe than configured (F16: none at all)",
    "NVTE_FP8_DPA_BWD": "0 runs the backward pass of FP8 attention in BF16",
    "NVTE_UnfusedDPA_Emulate_FP8": "1 emulates FP8 attention, slow and unfused",
    "NVTE_FUSED_ATTN": "0 disables cuDNN's fused attention",
    "NVTE_FLASH_ATTN": "0 disables flash attention",
    "NVTE_UNFUSED_ATTN": "0 disables unfused attention",
    "NVTE_ALLOW_NONDETERMINISTIC_ALGO": "0 selects deterministic kernels, which are slower",
    "NVTE_FUSED_ATTN_BACKEND": "selects the sub-backend of fused attention",
    "NVTE_DPA_FP8CS_O_in_F16": "changes how the backward pass of FP8 attention reads the output",
    "NVTE_PLUGIN": "replaces Transformer Engine's own kernels",
    "NVTE_BIAS_GELU_NVFUSION": "changes fusions",
    "NVTE_TORCH_COMPILE": "changes what is compiled",
    "CUDA_LAUNCH_BLOCKING": "1 waits after each kernel: times are not those of a training run",
    "CUBLAS_WORKSPACE_CONFIG": "changes which matrix kernels are available",
    "NVIDIA_TF32_OVERRIDE": "changes the precision of FP32 products, including the reference",
}
_DEFAULTS = {
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
    """Return "NAME=value: effect" for each variable that differs from its default."""
    return [
        f"{name}={variables[name]}: {effect}"
        for name, effect in EFFECTS.items()
        if variables.get(name, "") not in ("", _DEFAULTS.get(name, ""))
    ]
