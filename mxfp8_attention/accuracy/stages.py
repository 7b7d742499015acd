"""Compare each stage of an arm with FP32 computed from the inputs that the arm gave that stage.

An error against the FP32 path adds up over all stages before it, and where softmax is nearly
one-hot it grows tenfold: a fault the size of one quantization is lost in it. A stage's own error
is only that of its own roundings, whatever the initialisation. The FP32 result of

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
from mxfp8_attention.accuracy.errors import TensorErrors, tensor_errors
from mxfp8_attention.layer import AttentionPath
from mxfp8_attention.matmul import matmul_precision
from mxfp8_attention.reference import ReferencePath

_HEADS = ("q", "k", "v")


def projected_names(shape: Shape) -> tuple[str, ...]:
    """Return the names of the projection's outputs."""
    return ("qkv",) if shape.projection is Projection.fused else ("q_proj", "kv_proj")


def staged_step(path: AttentionPath) -> dict[str, Tensor]:
    """Run one step of an arm and keep the tensors between its stages.

    Args:
        path: The arm; its gradients are cleared.

    Returns:
        Detached: the result of `AttentionPath.step`, each projection's output, and the gradients
        of these, of q, k, v and of attention.
    """
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
    tensors = {name: tensor.detach() for name, tensor in inner.items()}
    tensors["out"] = kept.out_SBC.detach()
    for name, tensor in (inner | {"x": path.x_SBC} | path.parameters()).items():
        if tensor.grad is None:
            raise RuntimeError(f"no gradient for d{name} after the backward pass")
        tensors[f"d{name}"] = tensor.grad
    path.zero_grad()
    return tensors


def stage_errors(
    path: AttentionPath, tensors: dict[str, Tensor] | None = None
) -> dict[str, TensorErrors]:
    """Compare every stage of one step of an arm with FP32 on the same inputs.

    Args:
        path: The arm; its gradients are cleared.
        tensors: Result of `staged_step`; None runs a step.

    Returns:
        Errors by tensor, in the order in which a step computes them.
    """
    actual = staged_step(path) if tensors is None else tensors
    reference = ReferencePath(path.case)
    shape = path.case.shape
    projected = projected_names(shape)
    errors: dict[str, TensorErrors] = {}

    def compare(expected: dict[str, Tensor]) -> None:
        for name, tensor in expected.items():
            errors[name] = tensor_errors(name, actual[name], tensor, shape)

    # x, the weights and every tensor of an arm are bf16, so the products of the linear layers are
    # exact in TF32; a norm's FP32 result is not.
    with matmul_precision(exact_in_tf32=shape.projection is Projection.fused):
        compare(_projection(reference, actual, projected))
    with reference.context():
        compare(_rope(reference, actual, projected))
        compare(_attention(reference, actual))
    with matmul_precision(exact_in_tf32=True):
        compare(_output(reference, actual))
    forward = [*projected, *_HEADS, "attention", "out"]
    backward = [name for name in actual if name not in forward]
    return {name: errors[name] for name in forward + backward}


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().to(torch.float32, copy=True).requires_grad_()


def _gradients(
    outputs: list[Tensor], inputs: dict[str, Tensor], upstream: list[Tensor]
) -> dict[str, Tensor]:
    """Return FP32 gradients by "d" + the name of each input."""
    grads = torch.autograd.grad(
        outputs, list(inputs.values()), [g.to(torch.float32) for g in upstream]
    )
    return {f"d{name}": grad for name, grad in zip(inputs, grads, strict=True)}


def _projection(
    reference: ReferencePath, actual: dict[str, Tensor], names: tuple[str, ...]
) -> dict[str, Tensor]:
    outputs = reference.project(reference.x_SBC)
    weights = {
        name: leaf for name, leaf in reference.parameters().items() if not name.startswith("out_")
    }
    upstream = [actual[f"d{name}"] for name in names]
    inputs = {"x": reference.x_SBC} | weights
    return dict(zip(names, outputs, strict=True)) | _gradients(list(outputs), inputs, upstream)


def _rope(
    reference: ReferencePath, actual: dict[str, Tensor], names: tuple[str, ...]
) -> dict[str, Tensor]:
    inputs = {name: _leaf(actual[name]) for name in names}
    outputs = reference.rope(*inputs.values())
    upstream = [actual[f"d{name}"] for name in _HEADS]
    return dict(zip(_HEADS, outputs, strict=True)) | _gradients(list(outputs), inputs, upstream)


def _attention(reference: ReferencePath, actual: dict[str, Tensor]) -> dict[str, Tensor]:
    inputs = {name: _leaf(actual[name]) for name in _HEADS}
    output = reference.attend(*inputs.values())
    return {"attention": output} | _gradients([output], inputs, [actual["dattention"]])


def _output(reference: ReferencePath, actual: dict[str, Tensor]) -> dict[str, Tensor]:
    attention = _leaf(actual["attention"])
    output = reference.output(attention)
    weights = {
        name: leaf for name, leaf in reference.parameters().items() if name.startswith("out_")
    }
    inputs = {"attention": attention} | weights
    return {"out": output} | _gradients([output], inputs, [reference.case.dout_SBC])
