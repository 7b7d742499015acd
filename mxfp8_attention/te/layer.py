"""The layer through Transformer Engine's own modules, with our RoPE between them.

    fused: te.Linear -> split, MLA RoPE -> te.DotProductAttention -> te.Linear
    split: te.LayerNormLinear for q and for kv, then the same; the layer of the library's own MXFP8
           attention test

One autocast around all of it. Transformer Engine is imported when a path is built: importing it
needs a CUDA GPU. Axes: S tokens, B batch, C hidden, H heads, D width.
"""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from conf.choices import Projection, RecipeName, Weights
from conf.schema import Recipe
from mxfp8_attention.capability.refusal import mask_name
from mxfp8_attention.case import Case, weight_shapes
from mxfp8_attention.layer import NORM_EPS, AttentionPath
from mxfp8_attention.te.recipes import transformer_engine_recipe

# With delayed scaling the first steps use scales from an empty history.
_SETTLING_STEPS = 3


class TransformerEnginePath(AttentionPath):
    """One arm through Transformer Engine, on a CUDA device; bf16 runs without an autocast.

    Attributes:
        layers: The modules with weights, by name: qkv, or q and kv, and out.
        attention_module: The attention module.
        settling_steps: Steps to run before the one that is validated.
    """

    def __init__(self, recipe: Recipe, case: Case) -> None:
        import transformer_engine.pytorch as te

        super().__init__(case)
        self.name = recipe.name.name
        self.precision = recipe.name.name
        self.settling_steps = _SETTLING_STEPS if recipe.name is RecipeName.fp8_delayed else 0
        self._autocast = te.autocast
        self._recipe = transformer_engine_recipe(recipe)
        self._cached = getattr(recipe, "weights", Weights.requantized) is Weights.cached
        self._runs: Counter[str] = Counter()
        self.layers = _layers(te, case)
        shape = case.shape
        self.attention_module = te.DotProductAttention(
            num_attention_heads=shape.num_heads,
            kv_channels=(shape.head_dim_qk, shape.head_dim_v),
            attention_dropout=0.0,
            qkv_format=shape.qkv_format.name,
            attn_mask_type=mask_name(shape.attn_mask),
            softmax_scale=case.softmax_scale,
        )
        self._parameters = _named_parameters(self.layers, case)
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(case.weights[name])

    def parameters(self) -> dict[str, Tensor]:
        """Return the modules' own parameters by the names of `Case.weights`."""
        return dict(self._parameters)

    def context(self) -> AbstractContextManager[object]:
        """Return one autocast around projection, attention and output."""
        context: AbstractContextManager[object] = self._autocast(
            enabled=self._recipe is not None, recipe=self._recipe
        )
        return context

    def project(self, x_SBC: Tensor) -> tuple[Tensor, ...]:
        """Return (qkv,) or (q, kv) in high precision, whatever the module returned."""
        fused = self.case.shape.projection is Projection.fused
        names = ("qkv",) if fused else ("q", "kv")
        return tuple(dequantized(self._run(name, x_SBC)) for name in names)

    def attend(self, q_SBHD: Tensor, k_SBHD: Tensor, v_SBHD: Tensor) -> Tensor:
        """Run attention in the kernel that the library selects."""
        attention: Tensor = self.attention_module(q_SBHD, k_SBHD, v_SBHD)
        return attention

    def output(self, attention_SBD: Tensor) -> Tensor:
        """Apply the last linear layer."""
        return self._run("out", attention_SBD)

    def weight_cache_is_reused(self) -> bool | None:
        """Return True if quantized weights are taken from the cache, None without a cache.

        The high-precision weights are zeroed for one forward pass: only a pass that quantizes them
        again changes its result. Call it after the settling steps.
        """
        if not self._cached or self._recipe is None:
            return None
        # With gradients, as in a timed step: without them the library caches another layout.
        before = self.fprop().detach()
        kept = {name: layer.weight.detach().clone() for name, layer in self.layers.items()}
        try:
            with torch.no_grad():
                for layer in self.layers.values():
                    layer.weight.zero_()
            after = self.fprop().detach()
        finally:
            with torch.no_grad():
                for name, layer in self.layers.items():
                    layer.weight.copy_(kept[name])
        # Not bit for bit: delayed scaling may have changed an activation's scale.
        difference = (after.float() - before.float()).norm() / before.float().norm()
        return bool(difference < 0.05)

    def _run(self, name: str, x: Tensor) -> Tensor:
        first: bool | None = None
        if self._cached:
            # While delayed scaling settles, the weights' scales come from an empty history
            # too: the last of these steps fills the cache.
            first = self._runs[name] <= self.settling_steps
            self._runs[name] += 1
        result: Tensor = self.layers[name](x, is_first_microbatch=first)
        return result


def dequantized(tensor: Tensor) -> Tensor:
    """Return a projection's output in high precision, so that it can be split into heads.

    The blocks and scales of Transformer Engine's quantized tensors cross heads. A plain tensor is
    returned as it is.
    """
    if type(tensor) in (Tensor, Parameter):
        return tensor
    plain: Tensor = tensor.dequantize()
    return plain


def _layers(te: Any, case: Case) -> dict[str, Any]:  # noqa: ANN401 - the library's modules
    shapes = weight_shapes(case.shape)
    options = {
        "bias": case.shape.bias,
        "params_dtype": torch.bfloat16,
        "device": case.x_SBC.device,
    }
    layers: dict[str, Any] = {}
    for name in ("qkv", "q", "kv", "out"):
        if f"{name}_weight" not in shapes:
            continue
        outputs, inputs = shapes[f"{name}_weight"]
        if f"{name}_norm_weight" in shapes:
            layers[name] = te.LayerNormLinear(inputs, outputs, eps=NORM_EPS, **options)
        else:
            layers[name] = te.Linear(inputs, outputs, **options)
    return layers


def _named_parameters(layers: dict[str, Any], case: Case) -> dict[str, Parameter]:
    named: dict[str, Parameter] = {}
    for weight_name in case.weights:
        layer, _, kind = weight_name.rpartition("_")
        if layer.endswith("_norm"):
            parameter = getattr(layers[layer.removesuffix("_norm")], f"layer_norm_{kind}")
        else:
            parameter = getattr(layers[layer], kind)
        named[weight_name] = parameter
    return named
