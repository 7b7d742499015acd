"""The node's environment: host, GPU, driver, libraries, source, variables."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import socket
from collections.abc import Mapping
from pathlib import Path

import torch

from jobs.node.point_file import PointFile
from jobs.record import Environment
from jobs.source import SourceState, source_state
from jobs.text import SECRET_NAME, mask_secrets

_PREFIXES = ("NVTE_", "CUDA_", "CUDNN_", "CUBLAS", "SLURM_", "NCCL_", "NVIDIA_", "TORCH_")
_NAMES = ("LD_LIBRARY_PATH", "OMP_NUM_THREADS", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_PACKAGES = ("transformer-engine", "transformer-engine-torch", "transformer-engine-cu13")


def gather_environment(
    point_file: PointFile, variables: Mapping[str, str] | None = None
) -> Environment:
    """Return this node's environment, without the cuDNN versions, whose query may raise.

    `commit`, `dirty` and `dirty_hash` describe the running source; without git on this node, they
    are those noted at submission.

    Args:
        point_file: The point, with the image named at submission.
        variables: Environment variables, `os.environ` if None.
    """
    variables = os.environ if variables is None else variables
    source = source_state()
    if source.commit is None:  # a copy of the tree, or a container without git
        dirty = point_file.submitted.get("dirty")
        source = SourceState(
            point_file.text("commit"),
            dirty if isinstance(dirty, bool) else None,
            point_file.text("dirty_hash"),
        )
    environment = Environment(
        host=socket.gethostname(),
        platform=platform.platform(),
        python=platform.python_version(),
        cpu=_cpu_name(),
        torch=torch.__version__,
        triton=package_version("triton"),
        transformer_engine=transformer_engine_version(),
        cuda=torch.version.cuda,
        commit=source.commit,
        dirty=source.dirty,
        dirty_hash=source.dirty_hash,
        image=point_file.text("image"),
        variables=recorded_variables(variables),
    )
    return environment.model_copy(update=_gpu_facts())


def source_change(point_file: PointFile, environment: Environment) -> list[str]:
    """Return a sentence if the running code is not the submitted code, else nothing."""
    submitted = point_file.text("commit"), point_file.text("dirty_hash")
    running = environment.commit, environment.dirty_hash
    if submitted[0] is None or submitted == running:
        return []
    then, now = (f"{commit} ({change or 'clean'})" for commit, change in (submitted, running))
    return [f"the code changed after submission: {then} was submitted, {now} is running"]


def recorded_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that can change a run, sorted by name, without secrets."""
    return {
        name: mask_secrets(value)
        for name, value in sorted(variables.items())
        if (name.startswith(_PREFIXES) or name in _NAMES) and not SECRET_NAME.search(name.upper())
    }


def package_version(name: str) -> str | None:
    """Return the version of an installed package, None if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def transformer_engine_version() -> str | None:
    """Return Transformer Engine's version without importing it, because that may raise."""
    return next(filter(None, map(package_version, _PACKAGES)), None)


def _gpu_facts() -> dict[str, str | int | float | None]:
    if not torch.cuda.is_available():
        return {"gpu_count": 0}
    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu_name": properties.name,
        "gpu_uuid": f"GPU-{properties.uuid}",
        "gpu_count": torch.cuda.device_count(),
        "gpu_memory_gib": round(properties.total_memory / 2**30, 2),
        "compute_capability": f"{properties.major}.{properties.minor}",
        "driver": _driver_version(),
    }


def _driver_version() -> str | None:
    try:
        import pynvml

        pynvml.nvmlInit()
        version = pynvml.nvmlSystemGetDriverVersion()
    except Exception as error:  # some containers lack NVML, in several ways
        return f"unknown ({type(error).__name__})"
    return version if isinstance(version, str) else str(version, "utf-8")


def _cpu_name() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
