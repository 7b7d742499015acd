"""The configuration files of the test cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.slurm_cluster.cgroup import CgroupMode

Accounting = Literal["dbd", "none"]

GPU_NODES = ("n1", "n2")
CPU_NODES = ("n3",)
NODES = GPU_NODES + CPU_NODES
GPUS_PER_NODE = 4
CPUS_PER_NODE = 8
MEMORY_PER_NODE_MB = 4000
CLUSTER_NAME = "lab"
ACCOUNT = "test"


class Layout:
    """The paths of one cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.slurm_conf = folder / "etc" / "slurm.conf"
        self.slurmdbd_conf = folder / "etc" / "slurmdbd.conf"
        self.munge_key = folder / "etc" / "munge.key"
        self.munge_socket = folder / "run" / "munge.sock"
        self.pids = folder / "run" / "pids.json"
        self.database = folder / "database"
        self.database_socket = folder / "run" / "mariadb.sock"
        self.devices = folder / "dev"

    def log(self, daemon: str) -> Path:
        """Return the log of a daemon."""
        return self.folder / "log" / f"{daemon}.log"

    def make_folders(self) -> None:
        """Create every folder that the daemons need."""
        for name in ("etc", "run", "log", "dev", "state", *(f"spool/{node}" for node in NODES)):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
            # munge and the job's user must reach these, whatever the umask is.
            (self.folder / name).chmod(0o755)


@dataclass(frozen=True)
class Ports:
    """The TCP ports of one cluster, all on loopback."""

    slurmctld: int
    slurmdbd: int
    slurmd: tuple[int, ...]
    """Of each node, in the order of NODES."""


@dataclass(frozen=True)
class Settings:
    """The settings that differ between test clusters."""

    hostname: str
    ports: Ports
    accounting: Accounting
    cgroup: CgroupMode
    max_array_size: int
    first_job_id: int
    message_timeout_s: int
    slurmd_timeout_s: int


def slurm_conf(layout: Layout, settings: Settings) -> str:
    """Return the main configuration file, which the daemons and every command read."""
    ports, folder = settings.ports, layout.folder
    plugins = ("linuxproc", "none") if settings.cgroup == "none" else ("cgroup", "cgroup")
    # A requeued job stays pending until its credential expires: after two minutes by default.
    return f"""\
ClusterName={CLUSTER_NAME}
SlurmctldHost={settings.hostname}(127.0.0.1)
SlurmctldPort={ports.slurmctld}
SlurmUser=root
SlurmdUser=root
AuthInfo=socket={layout.munge_socket},cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
FirstJobId={settings.first_job_id}
MaxArraySize={settings.max_array_size}
MaxJobCount=10000
MpiDefault=none
SwitchType=switch/none
ReturnToService=1
SlurmdParameters=config_overrides
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=100
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
KillWait=2
MinJobAge=300
MessageTimeout={settings.message_timeout_s}
SlurmctldTimeout=30
SlurmdTimeout={settings.slurmd_timeout_s}
BatchStartTimeout=10
ProctrackType=proctrack/{plugins[0]}
TaskPlugin=task/{plugins[1]}
{_accounting(layout, settings)}
{_nodes(settings)}
{_PARTITIONS}
"""


def _accounting(layout: Layout, settings: Settings) -> str:
    if settings.accounting == "none":
        return "AccountingStorageType=accounting_storage/none"
    # Without AccountingStoragePass, sacctmgr retries the default munge socket for ever.
    return f"""\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={settings.ports.slurmdbd}
AccountingStoragePass={layout.munge_socket}
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1"""


def _nodes(settings: Settings) -> str:
    with_gpus = f"Gres=gpu:gb300:{GPUS_PER_NODE} Feature=gb300,nvlink"
    return "\n".join(
        f"NodeName={node} NodeHostname={node} NodeAddr=127.0.0.1 Port={port} "
        f"CPUs={CPUS_PER_NODE} RealMemory={MEMORY_PER_NODE_MB} "
        f"{with_gpus if node in GPU_NODES else 'Feature=cpu_only'} State=UNKNOWN"
        for node, port in zip(NODES, settings.ports.slurmd, strict=True)
    )


_ALL, _DAY = ",".join(NODES), "1-00:00:00"
_PARTITIONS = f"""\
PartitionName=batch Nodes={_ALL} Default=YES MaxTime={_DAY} DefaultTime=01:00:00 PriorityTier=10
PartitionName=gpu Nodes={",".join(GPU_NODES)} MaxTime=INFINITE DefaultTime=01:00:00 PriorityTier=10
PartitionName=short Nodes={_ALL} MaxTime=2 DefaultTime=1 PriorityTier=10
PartitionName=low Nodes={_ALL} MaxTime={_DAY} PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Nodes={_ALL} MaxTime={_DAY} PriorityTier=100"""


def gres_conf(layout: Layout) -> str:
    """Return the GPUs, with device files: a count without files makes the node `inval`."""
    files = f"{layout.devices}/gpu[0-{GPUS_PER_NODE - 1}]"
    return f"AutoDetect=off\nNodeName={','.join(GPU_NODES)} Name=gpu Type=gb300 File={files}\n"


def cgroup_conf(cgroup: CgroupMode) -> str:
    """Return what is enforced: memory, if there is a cgroup for it."""
    if cgroup == "none":
        # The file is read even if no plugin needs it; only v1 starts without D-Bus.
        return "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"
    systemd = "IgnoreSystemd=yes\n" if cgroup == "v2" else ""
    return f"""\
CgroupPlugin=cgroup/{cgroup}
CgroupAutomount=no
CgroupMountpoint=/sys/fs/cgroup
ConstrainRAMSpace=yes
ConstrainCores=no
ConstrainDevices=no
{systemd}"""


def slurmdbd_conf(layout: Layout, settings: Settings) -> str:
    """Return the accounting daemon's file, which only its user may read."""
    return f"""\
AuthType=auth/munge
AuthInfo=socket={layout.munge_socket}
DbdHost={settings.hostname}
DbdAddr=127.0.0.1
DbdPort={settings.ports.slurmdbd}
CommunicationParameters=NoInAddrAny
SlurmUser=root
LogFile={layout.log("slurmdbd")}
PidFile={layout.folder}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
CommitDelay=0
"""
