"""State of the source: the commit, and a hash of everything that differs from it.

Recorded at submission and again on the node, so that a change in between is visible.
"""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
_SOURCES = ("*.py", "*.yaml", "*.json", "*.toml")
_PACKAGES = ("conf", "hydra_plugins", "jobs", "mxfp8_attention")
# Output of commands and a user's own configurations may be in the checkout: they are not code.
_UNTRACKED = (
    ":(glob)*.py",
    *(f":(glob){package}/**/{source}" for package in _PACKAGES for source in _SOURCES),
)


@dataclass(frozen=True)
class SourceState:
    """State of a checkout; all None if the folder is not a git checkout of its own."""

    commit: str | None = None
    dirty: bool | None = None
    dirty_hash: str | None = None


def source_state(checkout: Path = CHECKOUT) -> SourceState:
    """Return the commit and a hash of the dirty tree, `untracked_sources` included.

    A folder inside another repository is not a checkout: the outer commit does not describe it.
    """
    top = _git(checkout, "rev-parse", "--show-toplevel")
    if top is None or Path(top.strip()).resolve() != checkout.resolve():
        return SourceState()
    commit = _git(checkout, "rev-parse", "HEAD")
    if commit is None:
        return SourceState()
    difference = _git(checkout, "diff", "--no-ext-diff", "HEAD", "--", *_SOURCES) or ""
    untracked = untracked_sources(checkout)
    if not difference and not untracked:
        return SourceState(commit.strip(), dirty=False)
    digest = hashlib.sha256(difference.encode())
    for name in untracked:
        digest.update(f"\0{name}\0".encode())
        path = checkout / name
        digest.update(path.read_bytes() if path.is_file() else b"")
    return SourceState(commit.strip(), dirty=True, dirty_hash=digest.hexdigest()[:16])


def untracked_sources(checkout: Path) -> list[str]:
    """Return the untracked files that a run may import or read, relative to the checkout."""
    output = _git(checkout, "ls-files", "-oz", "--exclude-standard", "--", *_UNTRACKED) or ""
    return sorted(filter(None, output.split("\0")))


def _git(checkout: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(checkout), *arguments], capture_output=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
