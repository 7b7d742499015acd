"""Each stage of an arm against FP32 from the very inputs that the arm gave that stage.

An error against the FP32 path adds up over all stages before it, and where softmax is nearly
one-hot it grows tenfold: a fault the size of one quantization hides in it. A stage's own error
does not: it is what its own roundings make, whatever the initialisation. The FP32 result of

    projection    of x                       gives qkv (split: q_proj, kv_proj)
    RoPE          of the arm's projection    gives q, k, v
    attention     of the arm's q, k, v       gives attention
    output        of the arm's attention     gives out

and backward likewise, from the arm's own incoming gradients: dattention, dq, dk, dv, dqkv (split:
dq_proj, dkv_proj), dx and every weight's gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

from conf.choices import Projection
from conf.schema import Shape
from mxfp8_attention.errors import TensorErrors, tensor_errors
from mxfp8_attention.model import Activations, Path
from mxfp8_attention.reference import ReferencePath

_HEADS = ("q", "k", "v")


def projected_names(shape: Shape) -> tuple[str, ...]:
    """What a projection's outputs are called."""
    return ("qkv",) if shape.projection is Projection.fused else ("q_proj", "kv_proj")


def stage_errors(path: Path) -> dict[str, TensorErrors]:
    """Run one step of an arm and compare every stage with FP32 on the same inputs.

    Args:
        path: The arm; its gradients are cleared.

    Returns:
        Errors by tensor, in the order in which a step computes them.
    """
    actual, kept = _run(path)
    reference = ReferencePath(path.case)
    shape = path.case.shape
    errors: dict[str, TensorErrors] = {}

    def judge(expected: dict[str, Tensor]) -> None:
        for name, tensor in expected.items():
            errors[name] = tensor_errors(name, actual.pop(name), tensor, shape)

    projected = projected_names(shape)
    with reference.context():
        judge(_projection(reference, [actual[f"d{name}"] for name in projected], projected))
        judge(_rope(reference, kept, actual, projected))
        judge(_attention(reference, kept, actual))
        judge(_output(reference, kept))
    return {name: errors[name] for name in _order(errors, projected)}


def _run(path: Path) -> tuple[dict[str, Tensor], Activations]:
    """One step with every stage's outputs and gradients, detached."""
    path.zero_grad()
    kept = path.forward()
    inner = {
        **dict(zip(projected_names(path.case.shape), kept.projected, strict=True)),
        "q": kept.q_SBHD,
        "k": kept.k_SBHD,
        "v": kept.v_SBHD,
        "attention": kept.attention_SBD,
    }
    for tensor in inner.values():
        tensor.retain_grad()
    path.bprop(kept.out_SBC)
    leaves = {"x": path.x_SBC} | path.parameters()
    tensors = {name: tensor.detach() for name, tensor in inner.items()}
    tensors["out"] = kept.out_SBC.detach()
    for name, tensor in (inner | leaves).items():
        assert tensor.grad is not None
        tensors[f"d{name}"] = tensor.grad
    path.zero_grad()
    return tensors, kept


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().to(torch.float32, copy=True).requires_grad_()


def _gradients(
    outputs: list[Tensor], inputs: dict[str, Tensor], upstream: list[Tensor]
) -> dict[str, Tensor]:
    """FP32 gradients, by "d" + the name of each input."""
    grads = torch.autograd.grad(
        outputs, list(inputs.values()), [g.to(torch.float32) for g in upstream]
    )
    return {f"d{name}": grad for name, grad in zip(inputs, grads, strict=True)}


def _projection(
    reference: ReferencePath, upstream: list[Tensor], names: tuple[str, ...]
) -> dict[str, Tensor]:
    outputs = reference.project(reference.x_SBC)
    weights = {
        name: leaf for name, leaf in reference.parameters().items() if not name.startswith("out_")
    }
    expected = dict(zip(names, outputs, strict=True))
    return expected | _gradients(list(outputs), {"x": reference.x_SBC} | weights, upstream)


def _rope(
    reference: ReferencePath,
    kept: Activations,
    actual: dict[str, Tensor],
    names: tuple[str, ...],
) -> dict[str, Tensor]:
    inputs = {name: _leaf(t) for name, t in zip(names, kept.projected, strict=True)}
    outputs = reference.rope(*inputs.values())
    upstream = [actual[f"d{name}"] for name in _HEADS]
    expected = dict(zip(_HEADS, outputs, strict=True))
    return expected | _gradients(list(outputs), inputs, upstream)


def _attention(
    reference: ReferencePath, kept: Activations, actual: dict[str, Tensor]
) -> dict[str, Tensor]:
    arm = (kept.q_SBHD, kept.k_SBHD, kept.v_SBHD)
    inputs = {name: _leaf(tensor) for name, tensor in zip(_HEADS, arm, strict=True)}
    output = reference.attend(*inputs.values())
    upstream = [actual["dattention"]]
    return {"attention": output} | _gradients([output], inputs, upstream)


def _output(reference: ReferencePath, kept: Activations) -> dict[str, Tensor]:
    attention = _leaf(kept.attention_SBD)
    output = reference.output(attention)
    weights = {
        name: leaf for name, leaf in reference.parameters().items() if name.startswith("out_")
    }
    inputs = {"attention": attention} | weights
    return {"out": output} | _gradients([output], inputs, [reference.case.dout_SBC])


def _order(errors: dict[str, TensorErrors], projected: tuple[str, ...]) -> list[str]:
    forward = [*projected, *_HEADS, "attention", "out"]
    return forward + [name for name in errors if name not in forward]
