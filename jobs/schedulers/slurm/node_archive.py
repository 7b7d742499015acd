"""Files that travel to the node: a submission's entry with its imports, and a snapshot."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

from jobs.errors import InvalidValue, SchedulerUnavailable
from jobs.files import replace_atomically
from jobs.source import CHECKOUT, untracked_sources
from jobs.sweeps.ledger import SNAPSHOT

ENTRY_ZIP = "entry.zip"

_OWN = (
    *(f"jobs/{name}.py" for name in ("__init__", "causes", "files", "log_pipe", "span", "text")),
    *(
        f"jobs/runner/{name}.py"
        for name in ("__init__", "attempt", "bootstrap", "child_log", "postmortem", "slot")
    ),
)
_LIBRARIES = ("submitit", "cloudpickle", "typing_extensions")


def pack_entry(folder: Path) -> Path:
    """Pack the entry and its imports into one archive that Python imports from directly.

    Each submission gets its own, from the code that submits.
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


def _partial(folder: Path, name: str) -> Path:
    """Return the path of a part that is not whole yet; remove what a killed process left.

    The caller holds the sweep's lock, so no other process is making one.
    """
    for path in folder.glob(f".{name}.*"):
        shutil.rmtree(path)
    return folder / f".{name}.{os.getpid()}"


def _sources(library: str) -> list[tuple[Path, str]]:
    spec = importlib.util.find_spec(library)
    if spec is None or spec.origin is None:
        raise SchedulerUnavailable("submit jobs", f"{library} is not installed", "run make")
    origin = Path(spec.origin)
    if origin.name != "__init__.py":
        return [(origin, origin.name)]
    return [
        (path, str(path.relative_to(origin.parents[1])))
        for path in sorted(origin.parent.rglob("*.py"))
        if not path.name.startswith(("test_", "conftest"))
    ]


def _copy(source: Path, target: Path) -> None:
    """Copy a file with default permissions, and its executable bit."""
    shutil.copyfile(source, target)
    if os.access(source, os.X_OK):
        mode = target.stat().st_mode
        target.chmod(mode | (mode & 0o444) >> 2)


def take_snapshot(folder: Path, checkout: Path = CHECKOUT) -> Path:
    """Copy the tracked and untracked sources, so that later edits do not affect the sweep.

    Raises:
        InvalidValue: git cannot list the tree's files.
    """
    target = folder / SNAPSHOT
    if target.exists():
        return target
    command = ["git", "-C", str(checkout), "ls-files", "-cz"]
    listing = subprocess.run(command, capture_output=True, check=False)
    if listing.returncode != 0:
        constraint = f"be false, because {checkout} is not a git checkout"
        raise InvalidValue("launch.snapshot", constraint, True)
    temporary = _partial(folder, SNAPSHOT)
    tracked = filter(None, os.fsdecode(listing.stdout).split("\0"))
    for name in (*tracked, *untracked_sources(checkout)):
        source = checkout / name
        if source.is_file() and not source.is_symlink():
            copy = temporary / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            _copy(source, copy)
    temporary.replace(target)
    return target
