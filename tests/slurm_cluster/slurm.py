"""A whole SLURM cluster in one temporary folder, on loopback, started and stopped as root."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from tests.slurm_cluster import config
from tests.slurm_cluster.cgroup import CgroupMode, detect_cgroup, remove_job_groups
from tests.slurm_cluster.config import NODES, Accounting, Layout, Ports, Settings
from tests.slurm_cluster.daemons import SBIN, daemon_command, free_ports
from tests.slurm_cluster.processes import Process, job_processes, load_pids, save_pids, stop_all

_JOBS_PER_CLUSTER = 2_000
# Longest path of a unix socket; the kernel's error would name no file.
_MAX_SOCKET_PATH = 107


class ClusterError(RuntimeError):
    """The test cluster failed; the message contains the end of the log."""


class SlurmCluster:
    """A SLURM of three nodes (n1 and n2 with four fake gb300 GPUs each, n3 without).

    Use as a context manager, or call `start` and `stop`. Several can run at once: each has its
    own folder, ports, munge key, database and range of job ids.

    Args:
        folder: Folder of the cluster; a new one under TMPDIR if None.
        accounting: "dbd" for slurmdbd with its own MariaDB, "none" for no accounting.
        max_array_size: SLURM's MaxArraySize; the highest array index is one less.
        message_timeout_s: Time after which a command gives up on a controller that is down.
        slurmd_timeout_s: Time after which a node that does not answer is down.
        bound: True if the daemons end with this process, however it ends.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        accounting: Accounting = "dbd",
        max_array_size: int = 1001,
        message_timeout_s: int = 10,
        slurmd_timeout_s: int = 10,
        bound: bool = True,
    ) -> None:
        self.layout = Layout(folder or Path(tempfile.mkdtemp(prefix="slurm-")))
        self.accounting = accounting
        self.max_array_size = max_array_size
        self.message_timeout_s = message_timeout_s
        self.slurmd_timeout_s = slurmd_timeout_s
        self.bound = bound
        self.cgroup: CgroupMode = "none"
        self.cgroup_reason = "not started"
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._daemons = load_pids(self.layout.pids)

    @property
    def slurm_conf(self) -> Path:
        return self.layout.slurm_conf

    @property
    def job_ids(self) -> range:
        """Ids that its jobs may have, and those of no other test cluster on this machine."""
        conf = self.slurm_conf.read_text() if self.slurm_conf.is_file() else ""
        first = int(conf.partition("FirstJobId=")[2].partition("\n")[0] or 0)
        return range(first, first + _JOBS_PER_CLUSTER if first else 0)

    def job_processes(self) -> list[Process]:
        """Return the step daemons and the processes of the jobs."""
        return list(job_processes(self.slurm_conf, self.job_ids))

    @property
    def env(self) -> dict[str, str]:
        """This process's environment, pointing at this cluster and no other."""
        leaks = ("SLURM_", "SLURMD_", "SLURMCTLD_", "SBATCH_", "SACCT_", "SQUEUE_", "SRUN_")
        env = {key: value for key, value in os.environ.items() if not key.startswith(leaks)}
        env["PATH"] = f"{env.get('PATH', os.defpath)}:{SBIN}"
        env["SLURM_CONF"] = str(self.slurm_conf)
        return env

    def __enter__(self) -> SlurmCluster:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start every daemon and return when all nodes are idle.

        Raises:
            ClusterError: A daemon died or did not answer in time.
        """
        self.cgroup, self.cgroup_reason = detect_cgroup()
        try:
            self._start_or_stop()
        except ClusterError as error:
            if self.cgroup == "none":
                raise
            # SLURM may be unable to use a mounted cgroup (containers, old plugins).
            self.cgroup, self.cgroup_reason = "none", f"{self.cgroup} was refused: {error}"
            self._start_or_stop()

    def stop(self, *, wipe: bool = True) -> None:
        """Stop every daemon and job of this cluster, by pid; remove the folder if `wipe`."""
        job_ids = self.job_ids
        for process in self.job_processes():
            process.send(signal.SIGKILL)
        stop_all(self._daemons.values())
        for process in self.job_processes():
            process.send(signal.SIGKILL)
        for child in self._children.values():
            child.wait()
        self._children.clear()
        self._daemons.clear()
        remove_job_groups(job_ids)
        if wipe:
            shutil.rmtree(self.layout.folder, ignore_errors=True)

    def run(self, *command: str, timeout_s: float = 30.0) -> str:
        """Run a command in the environment of this cluster and return its stripped output.

        Raises:
            ClusterError: Its exit code is not 0; its stderr is quoted.
        """
        done = subprocess.run(
            command, env=self.env, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        if done.returncode != 0:
            raise ClusterError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
        return done.stdout.strip()

    def wait(self, ready: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
        """Poll until `ready` returns True; raise ClusterError with `what` if it takes too long."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            if time.monotonic() > deadline:
                raise ClusterError(f"waited {timeout_s:.0f} s for {what}")
            time.sleep(0.05)

    def wait_jobs(self, *job_ids: str, timeout_s: float = 60.0) -> None:
        """Wait until squeue lists none of these jobs as unfinished."""
        listing = ("squeue", "-h", "-o", "%i", "-j", ",".join(job_ids))
        self.wait(lambda: not self.run(*listing), f"jobs {job_ids}", timeout_s)

    # ---- single daemons: also used to stop one and start it again ----

    def start_daemon(self, name: str) -> None:
        """Start one daemon: munged, mariadbd, slurmdbd, slurmctld, n1, n2 or n3."""
        layout = self.layout
        command = daemon_command(name, layout)
        # Only this variable sets slurmdbd's socket of the database.
        env = self.env | {"MYSQL_UNIX_PORT": str(layout.database_socket)}
        bound = ["setpriv", "--pdeathsig", "TERM"] if self.bound else []
        with layout.log(name).open("ab") as log:
            child = subprocess.Popen(
                [*bound, *command],
                env=env,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._children[name] = child
        process = Process.of(child.pid)
        if process is None:
            raise ClusterError(f"{name} ended:{self._log_tail(name)}")
        self._daemons[name] = process
        save_pids(self.layout.pids, self._daemons)

    def kill_daemon(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to one daemon and wait for its end."""
        child = self._children.pop(name)
        child.send_signal(number)
        child.wait()
        del self._daemons[name]
        save_pids(self.layout.pids, self._daemons)

    def runs(self, name: str) -> bool:
        """Return True if a daemon is alive."""
        return name in self._daemons and self._daemons[name].is_alive()

    @property
    def daemons(self) -> list[Process]:
        """Every daemon that is alive."""
        return [process for process in self._daemons.values() if process.is_alive()]

    # ---- the steps of `start` ----

    def _start_or_stop(self) -> None:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        if len(str(self.layout.database_socket)) > _MAX_SOCKET_PATH:
            raise ClusterError(
                f"the path of {self.layout.folder} is too long for a socket; set TMPDIR to a "
                "shorter one"
            )
        self.layout.make_folders()
        self._write_files()
        self.start_daemon("munged")
        self._until("munged", self.layout.munge_socket.exists)
        if self.accounting == "dbd":
            self._start_accounting()
        self.start_daemon("slurmctld")
        self._until("slurmctld", lambda: self._answers("scontrol", "ping"))
        for node in NODES:
            self.start_daemon(node)
        self._until(NODES[0], lambda: self._idle_nodes() == set(NODES))

    def _write_files(self) -> None:
        ports = free_ports(2 + len(NODES))
        settings = Settings(
            hostname=socket.gethostname().partition(".")[0],
            ports=Ports(ports[0], ports[1], tuple(ports[2:])),
            accounting=self.accounting,
            cgroup=self.cgroup,
            max_array_size=self.max_array_size,
            # Clusters that run at once share cgroup names, so their ids must differ.
            first_job_id=ports[0] * _JOBS_PER_CLUSTER,
            message_timeout_s=self.message_timeout_s,
            slurmd_timeout_s=self.slurmd_timeout_s,
        )
        etc = self.layout.slurm_conf.parent
        self.layout.slurm_conf.write_text(config.slurm_conf(self.layout, settings))
        (etc / "gres.conf").write_text(config.gres_conf(self.layout))
        (etc / "cgroup.conf").write_text(config.cgroup_conf(self.cgroup))
        self.layout.slurmdbd_conf.write_text(config.slurmdbd_conf(self.layout, settings))
        self.layout.slurmdbd_conf.chmod(0o600)
        self.layout.munge_key.unlink(missing_ok=True)
        self.layout.munge_key.write_bytes(os.urandom(128))
        self.layout.munge_key.chmod(0o400)
        for index in range(config.GPUS_PER_NODE):
            device = self.layout.devices / f"gpu{index}"
            if not device.exists():
                # The device numbers of /dev/null: harmless and always available.
                os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))

    def _start_accounting(self) -> None:
        if not (self.layout.database / "mysql").is_dir():
            self.run(
                "mariadb-install-db",
                "--no-defaults",
                "--user=root",
                f"--datadir={self.layout.database}",
                "--skip-test-db",
                "--auth-root-authentication-method=normal",
                timeout_s=120,
            )
        self.start_daemon("mariadbd")
        ping = ("mariadb-admin", "--no-defaults", "-S", str(self.layout.database_socket), "ping")
        self._until("mariadbd", lambda: self._answers(*ping))
        self.start_daemon("slurmdbd")
        self._until("slurmdbd", lambda: self._answers("sacctmgr", "-n", "list", "cluster"))
        self.run("sacctmgr", "-i", "-Q", "add", "cluster", config.CLUSTER_NAME)
        self.run("sacctmgr", "-i", "-Q", "add", "account", config.ACCOUNT)
        self.run("sacctmgr", "-i", "-Q", "add", "user", "root", f"account={config.ACCOUNT}")

    def _until(self, daemon: str, ready: Callable[[], bool]) -> None:
        def ready_or_dead() -> bool:
            for name, child in self._children.items():
                if child.poll() is not None:
                    raise ClusterError(f"{name} ended:{self._log_tail(name)}")
            return ready()

        try:
            self.wait(ready_or_dead, daemon)
        except ClusterError as error:
            raise ClusterError(f"{error}{self._log_tail(daemon)}") from None

    def _answers(self, *command: str) -> bool:
        with contextlib.suppress(ClusterError, subprocess.TimeoutExpired):
            output = self.run(*command, timeout_s=3)
            return " is DOWN" not in output
        return False

    def _idle_nodes(self) -> set[str]:
        with contextlib.suppress(ClusterError, subprocess.TimeoutExpired):
            return set(self.run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split())
        return set()

    def _log_tail(self, daemon: str) -> str:
        log = self.layout.log(daemon)
        lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
        return "\n  " + "\n  ".join(lines[-5:] or ["(its log is empty)"])
