"""`python -m tests.slurm_cluster up|down`: a test cluster for manual work."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from pathlib import Path

from tests.slurm_cluster.config import Layout
from tests.slurm_cluster.daemons import missing_requirement
from tests.slurm_cluster.processes import load_pids
from tests.slurm_cluster.slurm import ClusterError, SlurmCluster


def main(arguments: list[str]) -> int:
    """Start or stop the cluster and return the exit code."""
    default = Path(tempfile.gettempdir()) / "slurm-by-hand"
    parser = argparse.ArgumentParser(prog="python -m tests.slurm_cluster", description=__doc__)
    parser.add_argument("action", choices=("up", "down"))
    parser.add_argument("--folder", type=Path, default=default, help=f"default: {default}")
    parser.add_argument("--accounting", choices=("dbd", "none"), default="dbd")
    options = parser.parse_args(arguments)
    folder: Path = options.folder.absolute()
    return up(folder, options.accounting) if options.action == "up" else down(folder)


def up(folder: Path, accounting: str) -> int:
    """Start the cluster in `folder` and print how to use it."""
    if reason := missing_requirement("dbd" if accounting == "dbd" else "none"):
        print(f"cannot start a cluster: {reason}", file=sys.stderr)
        return 2
    if any(process.is_alive() for process in load_pids(Layout(folder).pids).values()):
        print(f"a cluster is running in {folder}; stop it: {_down(folder)}", file=sys.stderr)
        return 2
    if folder.exists() and any(folder.iterdir()):
        print(f"{folder} is not empty; pass another --folder", file=sys.stderr)
        return 2
    cluster = SlurmCluster(
        folder, accounting="dbd" if accounting == "dbd" else "none", bound=False
    )
    try:
        cluster.start()
    except ClusterError as error:
        print(f"the cluster did not start: {error}", file=sys.stderr)
        return 1
    print(cluster.run("sinfo"))
    print(f"memory limits: cgroup {cluster.cgroup} ({cluster.cgroup_reason})")
    print(f"stop it: {_down(folder)}")
    print(f"export SLURM_CONF={shlex.quote(str(cluster.slurm_conf))}")
    return 0


def down(folder: Path) -> int:
    """Stop the cluster in `folder` and remove the folder."""
    if not Layout(folder).slurm_conf.is_file():
        print(f"no cluster in {folder}; pass its --folder", file=sys.stderr)
        return 2
    SlurmCluster(folder).stop()
    print(f"stopped; {folder} was removed")
    return 0


def _down(folder: Path) -> str:
    return f"python -m tests.slurm_cluster down --folder {shlex.quote(str(folder))}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
