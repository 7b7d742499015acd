"""What travels to the node: a submission's entry with its imports, and a sweep's snapshot."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

from jobs.errors import UsageError
from jobs.files import replace_atomically
from jobs.source import untracked_sources
from jobs.sweeps.source import CHECKOUT

ENTRY_ZIP = "entry.zip"
SNAPSHOT = "snapshot"

_OWN = (
    *(f"jobs/{name}.py" for name in ("__init__", "causes", "files", "log_pipe", "span", "text")),
    *(
        f"jobs/runner/{name}.py"
        for name in ("__init__", "attempt", "bootstrap", "child_log", "postmortem", "slot")
    ),
)
_LIBRARIES = ("submitit", "cloudpickle", "typing_extensions")


def pack_entry(folder: Path) -> Path:
    """Packs what the entry needs into one archive that Python imports from as it is.

    Each submission has its own, from the code that submits: one that lies there is never taken.

    Args:
        folder: The submission's folder.

    Returns:
        The archive, for the job's PYTHONPATH: one file, as shared file systems like it.
    """
    path = folder / ENTRY_ZIP
    # Stored, not compressed: a node's Python may come without zlib.
    with (
        replace_atomically(path) as part,
        zipfile.ZipFile(part, "x", zipfile.ZIP_STORED) as archive,
    ):
        for name in _OWN:
            archive.write(CHECKOUT / name, name)
        for library in _LIBRARIES:
            for file, name in _sources(library):
                archive.write(file, name)
    return path


def _unfinished(folder: Path, name: str) -> Path:
    """Where a part is made before it appears whole; what a killed process left there goes.

    Whoever calls holds the sweep's lock: nobody else is making one.
    """
    for left in folder.glob(f".{name}.*"):
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink()
    return folder / f".{name}.{os.getpid()}"


def _sources(library: str) -> list[tuple[Path, str]]:
    spec = importlib.util.find_spec(library)
    if spec is None or spec.origin is None:
        raise UsageError(f"{library} is not installed, so no job can be submitted; run make")
    origin = Path(spec.origin)
    if origin.name != "__init__.py":
        return [(origin, origin.name)]
    return [
        (path, str(path.relative_to(origin.parents[1])))
        for path in sorted(origin.parent.rglob("*.py"))
        if not path.name.startswith(("test_", "conftest"))
    ]


def _copy(source: Path, target: Path) -> None:
    """Copies a file; who may read the copy follows from where it lies, as for every other file."""
    shutil.copyfile(source, target)
    if os.access(source, os.X_OK):
        mode = target.stat().st_mode
        target.chmod(mode | (mode & 0o444) >> 2)


def take_snapshot(folder: Path, checkout: Path = CHECKOUT) -> Path:
    """Copies the tree as it is now, `untracked_sources` included, so that later edits do no harm.

    Args:
        folder: The sweep's folder.
        checkout: The tree.

    Returns:
        The copy.

    Raises:
        UsageError: git cannot list the tree's files.
    """
    target = folder / SNAPSHOT
    if target.exists():
        return target
    command = ["git", "-C", str(checkout), "ls-files", "-cz"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        raise UsageError(
            f"launch.snapshot=true needs a git checkout, and {checkout} is not one; "
            "set launch.snapshot=false"
        )
    temporary = _unfinished(folder, SNAPSHOT)
    tracked = filter(None, os.fsdecode(done.stdout).split("\0"))
    for name in (*tracked, *untracked_sources(checkout)):
        source = checkout / name
        if source.is_file() and not source.is_symlink():
            copy = temporary / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            _copy(source, copy)
    temporary.replace(target)
    return target
