"""Display names of the fields of an environment, for every table and line that shows them."""

from __future__ import annotations

from jobs.record import Environment

LABELS = {
    "host": "host",
    "gpu_name": "GPU",
    "compute_capability": "compute capability",
    "driver": "driver",
    "cuda": "CUDA",
    "cudnn_transformer_engine": "cuDNN loaded by Transformer Engine",
    "cudnn_torch": "cuDNN loaded by torch",
    "transformer_engine": "Transformer Engine",
    "torch": "torch",
    "triton": "triton",
    "python": "Python",
    "platform": "platform",
    "image": "image",
    "commit": "commit",
    "dirty": "uncommitted changes",
    "dirty_hash": "hash of the changes",
}
"""Display name of each field, in the order in which they are shown."""


def facts(environment: Environment, *fields: str) -> dict[str, str]:
    """Return the known values of some fields, by display name."""
    values = {field: getattr(environment, field) for field in fields}
    return {LABELS[field]: str(value) for field, value in values.items() if value is not None}
