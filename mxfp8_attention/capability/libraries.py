"""The cuDNN that PyTorch loads and the one that Transformer Engine loads.

Two cuDNNs on one machine are common: the system's and the one bundled with PyTorch. The library
that loads first decides. PyTorch may then raise "cuDNN version incompatibility", importing
Transformer Engine may raise an undefined symbol, or both may work with different versions. Both
are queried in child processes, which may crash without taking the measurement with them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from mxfp8_attention.capability.limits import dotted

REMEDY = (
    "set CUDNN_HOME to the nvidia/cudnn folder of the Python packages and put its lib folder "
    "first in LD_LIBRARY_PATH, so that both load the cuDNN bundled with PyTorch"
)

_TORCH_PROGRAM = """
import json, torch
def reply(**values): print("REPLY " + json.dumps(values), flush=True)
try: reply(torch=torch.backends.cudnn.version())
except Exception as error: reply(torch_error=f"{type(error).__name__}: {error}")
"""

_TRANSFORMER_ENGINE_PROGRAM = """
import json
def reply(**values): print("REPLY " + json.dumps(values), flush=True)
def text(error): return f"{type(error).__name__}: {error}"
import torch
try:
    import transformer_engine.pytorch as te
    import transformer_engine_torch as tex
except BaseException as error: reply(te_error=text(error))
else:
    try: reply(te=tex.get_cudnn_version())
    except Exception as error: reply(te_error=text(error))
    for name in ("fp8", "mxfp8", "fp8_block_scaling"):
        try: reply(**{name: getattr(te, f"is_{name}_available")(return_reason=True)})
        except Exception as error: reply(**{name: (False, text(error))})
try: reply(torch=torch.backends.cudnn.version())
except Exception as error: reply(torch_error=text(error))
"""


@dataclass(frozen=True)
class CudnnConflict:
    """A cuDNN that a library cannot use.

    Attributes:
        user: PyTorch alone, Transformer Engine, or PyTorch beside Transformer Engine.
        error: What it raised.
    """

    user: str
    error: str

    def __str__(self) -> str:
        return f"{self.user} cannot use the cuDNN it loads: {self.error}"


@dataclass(frozen=True)
class LibraryAnswers:
    """Versions and errors that the child processes reported.

    Attributes:
        cudnn_torch: cuDNN that PyTorch loads by itself, None if that failed.
        cudnn_torch_error: The error, if it failed.
        cudnn_te: cuDNN that Transformer Engine loads beside PyTorch, None if that failed.
        te_error: Error of importing or querying Transformer Engine.
        cudnn_together_error: Error of PyTorch's cuDNN once Transformer Engine is loaded.
        availability: The library's (ok, reason) for fp8, mxfp8 and fp8_block_scaling.
    """

    cudnn_torch: str | None
    cudnn_torch_error: str | None
    cudnn_te: str | None
    te_error: str | None
    cudnn_together_error: str | None
    availability: dict[str, tuple[bool, str]]

    @classmethod
    def from_replies(cls, alone: dict[str, object], together: dict[str, object]) -> LibraryAnswers:
        """Combine the replies of the child with PyTorch alone and of the child with both."""
        return cls(
            cudnn_torch=_version(alone.get("torch")),
            cudnn_torch_error=_text(alone.get("torch_error") or alone.get("died")),
            cudnn_te=_version(together.get("te")),
            te_error=_text(together.get("te_error") or together.get("died")),
            cudnn_together_error=_text(together.get("torch_error")),
            availability={
                name: (bool(answer[0]), str(answer[1]))
                for name in ("fp8", "mxfp8", "fp8_block_scaling")
                if isinstance(answer := together.get(name), list)
            },
        )

    @property
    def conflict(self) -> CudnnConflict | None:
        """The first error that involves cuDNN."""
        for user, error in (
            ("PyTorch alone", self.cudnn_torch_error),
            ("Transformer Engine", self.te_error),
            ("PyTorch beside Transformer Engine", self.cudnn_together_error),
        ):
            if error and "cudnn" in error.lower():
                return CudnnConflict(user, error)
        return None

    @property
    def differ(self) -> bool:
        """True if both work, each with a different cuDNN."""
        both = self.cudnn_torch and self.cudnn_te
        return bool(both) and self.cudnn_torch != self.cudnn_te


def show_version(encoded: int) -> str:
    """Decode cudnnGetVersion(): 91900 is 9.19.0, and before cuDNN 9, 8907 is 8.9.7."""
    major, rest = divmod(encoded, 10000 if encoded >= 90000 else 1000)
    return dotted((major, rest // 100, rest % 100))


def query_libraries(timeout_s: float = 120.0) -> LibraryAnswers:
    """Query both libraries at the same time, each in its own child process."""
    with ThreadPoolExecutor(2) as pool:
        alone = pool.submit(_replies, _TORCH_PROGRAM, timeout_s)
        together = pool.submit(_replies, _TRANSFORMER_ENGINE_PROGRAM, timeout_s)
        return LibraryAnswers.from_replies(alone.result(), together.result())


def _replies(program: str, timeout_s: float) -> dict[str, object]:
    try:
        child = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        return {"died": f"no answer within {timeout_s:g} s"}
    replies: dict[str, object] = {}
    for line in child.stdout.splitlines():
        if line.startswith("REPLY "):
            replies.update(json.loads(line.removeprefix("REPLY ")))
    if child.returncode != 0:
        last_line = (child.stderr.strip().splitlines() or ["no error output"])[-1]
        replies["died"] = f"exit status {child.returncode}: {last_line}"
    return replies


def _version(encoded: object) -> str | None:
    return show_version(encoded) if isinstance(encoded, int) else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)
