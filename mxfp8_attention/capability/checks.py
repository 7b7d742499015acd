"""Check whether this machine can run a point, with a reason for every answer.

`query_machine` asks the machine and its libraries. `run_checks` evaluates the answers and is pure:
answers of other machines can be tested anywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from conf.choices import Backend, Job, RecipeName
from conf.schema import Gpu, Point
from mxfp8_attention.capability.libraries import (
    REMEDY,
    LibraryAnswers,
    query_libraries,
    show_version,
)
from mxfp8_attention.capability.limits import (
    COMPUTE_CAPABILITIES,
    CUDNN_FOR_CURRENT_SCALING_ATTENTION,
    CUDNN_FOR_MXFP8_ATTENTION,
    CUDNN_FOR_TRANSFORMER_ENGINE,
    dotted,
)
from mxfp8_attention.capability.refusal import attention_is_quantized, refusal_anywhere


class Refusal(Enum):
    """Outcome of a point that a failed check refuses."""

    unsupported = "unsupported"
    wrong_gpu = "wrong_gpu"
    import_error = "import_error"


@dataclass(frozen=True)
class Check:
    """One question about this machine and its answer.

    Attributes:
        name: The subject.
        ok: The answer; None if the question does not apply here.
        reason: Why, in the library's own words if it gives any.
        remedy: How to fix it.
        source: Where the rule is documented.
        refusal: What becomes of the point; None if it can run all the same.
    """

    name: str
    ok: bool | None
    reason: str = ""
    remedy: str = ""
    source: str = ""
    refusal: Refusal | None = None


@dataclass(frozen=True)
class Machine:
    """Answers of a machine and its libraries.

    Attributes:
        gpu_name: Name of the first GPU, None without a CUDA device.
        compute_capability: Its (major, minor).
        te_version: Transformer Engine's version, None if it is not installed.
        libraries: cuDNN and Transformer Engine as loaded, None if they were not queried.
        no_cuda_reason: Why PyTorch sees no GPU.
    """

    gpu_name: str | None
    compute_capability: tuple[int, int] | None
    te_version: str | None
    libraries: LibraryAnswers | None
    no_cuda_reason: str = ""


def query_machine(te_version: str | None, *, query: bool) -> Machine:
    """Describe this machine; with `query` (seconds) also what the libraries load."""
    import torch

    if not torch.cuda.is_available():
        built = torch.version.cuda is not None
        reason = "PyTorch sees no CUDA device" if built else "PyTorch is built without CUDA"
        return Machine(None, None, te_version, None, reason)
    return Machine(
        gpu_name=torch.cuda.get_device_name(0),
        compute_capability=torch.cuda.get_device_capability(0),
        te_version=te_version,
        libraries=query_libraries() if query else None,
    )


def run_checks(point: Point, machine: Machine) -> list[Check]:
    """Check a point against a machine; the first check with a refusal decides."""
    checks = [
        _configuration(point),
        _gpu(point.gpu, machine),
        _transformer_engine(point, machine),
        _cudnn(point, machine),
        _mxfp8(point, machine),
        _recipe(point, machine),
        _attention_version(point, machine),
    ]
    return [check for check in checks if check is not None]


def first_refusal(checks: list[Check]) -> Check | None:
    """Return the check that refuses the point, None if it can run."""
    return next((check for check in checks if check.refusal is not None), None)


def _configuration(point: Point) -> Check:
    refused = refusal_anywhere(point)
    reason = "" if refused is None else str(refused)
    refusal = Refusal.unsupported if refused else None
    return Check("configuration", refused is None, reason, refusal=refusal)


def _gpu(requested: Gpu, machine: Machine) -> Check:
    name = "GPU"
    if requested.device == "cpu":
        return Check(name, None, "not requested (gpu=cpu)")
    if machine.gpu_name is None or machine.compute_capability is None:
        reason = f"no CUDA GPU on this machine: {machine.no_cuda_reason}"
        return Check(name, False, reason, refusal=Refusal.unsupported)
    capability = dotted(machine.compute_capability)
    present = f"{machine.gpu_name}, compute capability {capability}"
    if requested.any or not requested.matches:
        return Check(name, True, present)
    matches = any(_is_named(word, machine.gpu_name) for word in requested.matches)
    if matches and requested.compute_capability in (None, capability):
        return Check(name, True, present)
    reason = f"gpu={requested.name} needs {' or '.join(requested.matches)}, but this is {present}"
    remedy = "request the GPU that the job lands on, or set gpu.any=true"
    return Check(name, False, reason, remedy, refusal=Refusal.wrong_gpu)


def _is_named(word: str, gpu_name: str) -> bool:
    """Return True if the driver's name has this whole word: a GB200 is no B200."""
    whole = rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])"
    return re.search(whole, gpu_name, re.IGNORECASE) is not None


def _needs_te(point: Point) -> bool:
    return point.backend is Backend.te and point.gpu.device == "cuda"


def _import_refusal(point: Point) -> Refusal | None:
    return Refusal.import_error if _needs_te(point) and point.job is not Job.probe else None


def _transformer_engine(point: Point, machine: Machine) -> Check:
    name = "Transformer Engine"
    if machine.gpu_name is None:
        return Check(name, None, "cannot be imported without a CUDA GPU")
    if machine.libraries is None:
        return Check(name, None, f"not needed with backend={point.backend.name}")
    if machine.libraries.te_error:
        version = f"{machine.te_version} " if machine.te_version else ""
        reason = f"{version}cannot be imported: {machine.libraries.te_error}"
        remedy = REMEDY if "cudnn" in reason.lower() else "install transformer-engine[pytorch]"
        return Check(name, False, reason, remedy, refusal=_import_refusal(point))
    return Check(name, True, machine.te_version or "can be imported")


def _cudnn(point: Point, machine: Machine) -> Check:
    libraries = machine.libraries
    if machine.gpu_name is None:
        return Check("cuDNN", None, f"not loaded: {machine.no_cuda_reason}")
    if libraries is None:
        return _cudnn_of_torch()
    versions = (
        f"PyTorch loads {libraries.cudnn_torch or 'none'}, "
        f"Transformer Engine loads {libraries.cudnn_te or 'none'}"
    )
    if libraries.conflict:
        reason = f"{versions}; {libraries.conflict}"
        return Check("cuDNN", False, reason, REMEDY, refusal=_import_refusal(point))
    if libraries.differ:
        return Check("cuDNN", False, f"{versions}: two different versions", REMEDY)
    return Check("cuDNN", True, versions)


def _cudnn_of_torch() -> Check:
    import torch

    try:
        version = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]  # torch's own
    except RuntimeError as error:
        return Check("cuDNN", False, f"PyTorch cannot use the cuDNN it loads: {error}", REMEDY)
    return Check("cuDNN", True, f"PyTorch loads {show_version(version) if version else 'none'}")


def _mxfp8(point: Point, machine: Machine) -> Check:
    name = "MXFP8 available"
    if machine.compute_capability is None:
        return Check(name, False, f"no CUDA GPU: {machine.no_cuda_reason}")
    if machine.libraries and "mxfp8" in machine.libraries.availability:
        ok, reason = machine.libraries.availability["mxfp8"]
        return Check(name, ok, reason, source="transformer_engine.pytorch.is_mxfp8_available")
    rule = COMPUTE_CAPABILITIES[RecipeName.mxfp8]
    refused = rule.refuses(machine.compute_capability)
    reason = "" if refused is None else str(refused)
    return Check(name, refused is None, reason, source=rule.source)


_AVAILABILITY = {
    RecipeName.mxfp8: "mxfp8",
    RecipeName.fp8_current: "fp8",
    RecipeName.fp8_delayed: "fp8",
    RecipeName.fp8_block: "fp8_block_scaling",
}


def _recipe(point: Point, machine: Machine) -> Check | None:
    key = _AVAILABILITY.get(point.recipe.name)
    if key is None or not _needs_te(point) or point.job is Job.probe:
        return None
    if machine.libraries is None or key not in machine.libraries.availability:
        return None
    ok, reason = machine.libraries.availability[key]
    return Check(
        f"recipe {point.recipe.name.name}",
        ok,
        reason,
        source=f"transformer_engine.pytorch.is_{key}_available",
        refusal=None if ok else Refusal.unsupported,
    )


def _attention_version(point: Point, machine: Machine) -> Check | None:
    libraries = machine.libraries
    if not _needs_te(point) or libraries is None or libraries.cudnn_te is None:
        return None
    major, minor, patch = map(int, libraries.cudnn_te.split("."))
    limit = CUDNN_FOR_TRANSFORMER_ENGINE
    if attention_is_quantized(point.recipe):
        limit = {
            RecipeName.mxfp8: CUDNN_FOR_MXFP8_ATTENTION,
            RecipeName.fp8_current: CUDNN_FOR_CURRENT_SCALING_ATTENTION,
        }.get(point.recipe.name, limit)
    refused = limit.refuses((major, minor, patch))
    refusal = Refusal.unsupported if refused and point.job is not Job.probe else None
    reason = f"{libraries.cudnn_te} is supported" if refused is None else str(refused)
    return Check(limit.name, refused is None, reason, source=limit.source, refusal=refusal)
