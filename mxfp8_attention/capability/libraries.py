"""Which cuDNN PyTorch loads and which Transformer Engine loads, asked where asking may fail.

Two cuDNNs on one machine are common: the system's and the one bundled with PyTorch. Whoever
loads first decides; PyTorch may then raise "cuDNN version incompatibility", importing
Transformer Engine may raise an undefined symbol, or both work with different versions. So each
is asked in a child process, which may die without taking the measurement along.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

REMEDY = (
    "set CUDNN_HOME to the nvidia/cudnn folder of the Python packages and put its lib folder "
    "first in LD_LIBRARY_PATH, so that both load the cuDNN bundled with PyTorch"
)

_ASK_TORCH = """
import json, torch
def say(**words): print("ANSWER " + json.dumps(words), flush=True)
try: say(torch=torch.backends.cudnn.version())
except Exception as error: say(torch_error=f"{type(error).__name__}: {error}")
"""

_ASK_TRANSFORMER_ENGINE = """
import json
def say(**words): print("ANSWER " + json.dumps(words), flush=True)
def words(error): return f"{type(error).__name__}: {error}"
import torch
try:
    import transformer_engine.pytorch as te
    import transformer_engine_torch as tex
except BaseException as error: say(te_error=words(error))
else:
    try: say(te=tex.get_cudnn_version())
    except Exception as error: say(te_error=words(error))
    for name in ("fp8", "mxfp8", "fp8_block_scaling"):
        try: say(**{name: getattr(te, f"is_{name}_available")(return_reason=True)})
        except Exception as error: say(**{name: (False, words(error))})
try: say(torch=torch.backends.cudnn.version())
except Exception as error: say(torch_error=words(error))
"""


@dataclass(frozen=True)
class LibraryAnswers:
    """What child processes found out.

    Attributes:
        cudnn_torch: cuDNN that PyTorch loads by itself, None where it failed.
        cudnn_torch_error: Why it failed.
        cudnn_te: cuDNN that Transformer Engine loads beside PyTorch, None where it failed.
        te_error: Why Transformer Engine could not be imported or asked.
        cudnn_together_error: Why PyTorch's cuDNN failed after Transformer Engine was loaded.
        availability: fp8, mxfp8, fp8_block_scaling: the library's own (ok, reason).
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
    def conflict(self) -> str | None:
        """What is wrong between the two, in one sentence; None if nothing is."""
        for who, error in (
            ("PyTorch alone", self.cudnn_torch_error),
            ("Transformer Engine", self.te_error),
            ("PyTorch beside Transformer Engine", self.cudnn_together_error),
        ):
            if error and ("cudnn" in error.lower()):
                return f"{who} cannot use the cuDNN it finds: {error}"
        return None

    @property
    def differ(self) -> bool:
        """Whether both work, each with a cuDNN of its own."""
        both = self.cudnn_torch and self.cudnn_te
        return bool(both) and self.cudnn_torch != self.cudnn_te


def show_version(encoded: int) -> str:
    """cudnnGetVersion()'s number as people write it.

    Args:
        encoded: 91900 for 9.19.0; 8907 for 8.9.7, as cuDNN wrote before 9.

    Returns:
        "major.minor.patch".
    """
    major_unit = 10000 if encoded >= 90000 else 1000
    major, rest = divmod(encoded, major_unit)
    return f"{major}.{rest // 100}.{rest % 100}"


def query_libraries(timeout_s: float = 120.0) -> LibraryAnswers:
    """Asks both libraries, each in its own child process, at the same time.

    Args:
        timeout_s: How long a child may take.

    Returns:
        Versions, errors and Transformer Engine's availability answers.
    """
    with ThreadPoolExecutor(2) as pool:
        alone = pool.submit(_ask, _ASK_TORCH, timeout_s)
        together = pool.submit(_ask, _ASK_TRANSFORMER_ENGINE, timeout_s)
        return LibraryAnswers.from_replies(alone.result(), together.result())


def _ask(program: str, timeout_s: float) -> dict[str, object]:
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        return {"died": f"no answer within {timeout_s:g} s"}
    answers: dict[str, object] = {}
    for line in done.stdout.splitlines():
        if line.startswith("ANSWER "):
            answers.update(json.loads(line.removeprefix("ANSWER ")))
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no words"])[-1]
        answers["died"] = f"exit status {done.returncode}: {last}"
    return answers


def _version(encoded: object) -> str | None:
    return show_version(encoded) if isinstance(encoded, int) else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)
