"""Which code this is: the commit, and a hash of everything that differs from it.

Asked where a sweep is submitted and again where it runs, so that a difference is seen.
"""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
_SOURCES = ("*.py", "*.yaml", "*.json", "*.toml")
_PACKAGES = ("conf", "hydra_plugins", "jobs", "mxfp8_attention")
# What a command writes, and a user's own configurations, may lie in the checkout and is no code.
_UNTRACKED = (
    ":(glob)*.py",
    *(f":(glob){package}/**/{source}" for package in _PACKAGES for source in _SOURCES),
)


@dataclass(frozen=True)
class SourceState:
    """A checkout's state; all None where the folder is no git checkout of its own."""

    commit: str | None = None
    dirty: bool | None = None
    dirty_hash: str | None = None


def source_state(checkout: Path = CHECKOUT) -> SourceState:
    """Asks git for the commit and hashes the dirty tree, `untracked_sources` included.

    Args:
        checkout: The folder that holds `launch.py`. Inside another repository it is no checkout:
            the outer commit says nothing of it.

    Returns:
        The commit, whether the tree differs from it, and the hash of the difference.
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
    """The files unknown to git that a run may read as code: in our packages, or beside them.

    Args:
        checkout: The folder that holds `launch.py`.

    Returns:
        Their paths below the checkout, sorted; none where git cannot say.
    """
    listed = _git(checkout, "ls-files", "-oz", "--exclude-standard", "--", *_UNTRACKED) or ""
    return sorted(filter(None, listed.split("\0")))


def _git(checkout: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(checkout), *words], capture_output=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
