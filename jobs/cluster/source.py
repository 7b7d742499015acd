"""Which code is submitted: the commit, and a hash of everything that differs from it."""

from __future__ import annotations

import hashlib
import subprocess
from functools import lru_cache
from pathlib import Path

from jobs.cluster.ledger import Source

CHECKOUT = Path(__file__).resolve().parents[2]
_SOURCES = ("*.py", "*.yaml", "*.json", "*.toml")


@lru_cache(maxsize=1)
def source_of(checkout: Path = CHECKOUT) -> Source:
    """Asks git for the commit and hashes the dirty tree, untracked sources included.

    Args:
        checkout: The folder that holds `launch.py`.

    Returns:
        The commit and whether the tree differs from it; all None outside a git checkout.
    """
    commit = _git(checkout, "rev-parse", "HEAD")
    if commit is None:
        return Source()
    difference = _git(checkout, "diff", "--no-ext-diff", "HEAD", "--", *_SOURCES) or ""
    listed = _git(checkout, "ls-files", "-oz", "--exclude-standard", "--", *_SOURCES) or ""
    untracked = sorted(filter(None, listed.split("\0")))
    if not difference and not untracked:
        return Source(commit=commit.strip(), dirty=False, dirty_hash=None)
    digest = hashlib.sha256(difference.encode())
    for name in untracked:
        digest.update(f"\0{name}\0".encode())
        path = checkout / name
        digest.update(path.read_bytes() if path.is_file() else b"")
    return Source(commit=commit.strip(), dirty=True, dirty_hash=digest.hexdigest()[:16])


def _git(checkout: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(checkout), *words], capture_output=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
