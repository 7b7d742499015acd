"""The daemons of a test cluster: required programs, command lines, free ports."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket

from tests.slurm_cluster.config import NODES, Accounting, Layout

SBIN = "/usr/sbin:/sbin:/usr/local/sbin"
_COMMANDS = ("sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")
_DAEMONS = ("munged", "slurmctld", "slurmd", "setpriv")
_ACCOUNTING = ("slurmdbd", "sacct", "sacctmgr", "mariadbd", "mariadb-install-db", "mariadb-admin")


def missing_requirement(accounting: Accounting = "dbd") -> str | None:
    """Return why no cluster can be started here, or None if one can."""
    names = _COMMANDS + _DAEMONS + (_ACCOUNTING if accounting == "dbd" else ())
    missing = [name for name in names if _which(name) is None]
    if missing:
        return f"SLURM is not installed here: no {', '.join(missing)}"
    if os.geteuid() != 0:
        return "only root can start a SLURM cluster (device files, cgroups)"
    return None


def _which(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{SBIN}")


def daemon_command(name: str, layout: Layout) -> list[str]:
    """Return the command line of munged, mariadbd, slurmdbd, slurmctld or a node's slurmd."""
    run = f"{layout.folder}/run"
    arguments: dict[str, list[str]] = {
        "munged": [
            *("--foreground", "--force", "--num-threads=2", f"--key-file={layout.munge_key}"),
            *(f"--socket={layout.munge_socket}", f"--pid-file={run}/munged.pid"),
            f"--seed-file={run}/munged.seed",
        ],
        "mariadbd": [
            *("--no-defaults", "--user=root", "--skip-networking", f"--datadir={layout.database}"),
            *(f"--socket={layout.database_socket}", f"--pid-file={run}/mariadbd.pid"),
            *("--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M"),
            *("--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=900"),
        ],
        "slurmdbd": ["-D"],
        "slurmctld": ["-D"],
        **{node: ["-D", "-N", node] for node in NODES},
    }
    program = "slurmd" if name in NODES else name
    path = _which(program)
    if path is None:
        raise FileNotFoundError(f"{program} is not installed")
    return [path, *arguments[name]]


def free_ports(count: int) -> list[int]:
    """Return free ports on loopback, below those that the kernel assigns."""
    # Nothing reserves them until the daemons start: random ports make it unlikely that clusters
    # which start at once collide.
    ports: list[int] = []
    with contextlib.ExitStack() as stack:
        while len(ports) < count:
            port = random.randrange(10_000, 32_000)
            listener = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                listener.bind(("127.0.0.1", port))
                ports.append(port)
    return ports
