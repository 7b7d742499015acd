"""The text of every configuration file of the test cluster, as pure functions."""

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


@dataclass(frozen=True)
class Layout:
    """Where the files of one cluster lie."""

    folder: Path

    @property
    def slurm_conf(self) -> Path:
        return self.folder / "etc" / "slurm.conf"

    @property
    def slurmdbd_conf(self) -> Path:
        return self.folder / "etc" / "slurmdbd.conf"

    @property
    def munge_key(self) -> Path:
        return self.folder / "etc" / "munge.key"

    @property
    def munge_socket(self) -> Path:
        return self.folder / "run" / "munge.sock"

    @property
    def database(self) -> Path:
        return self.folder / "database"

    @property
    def database_socket(self) -> Path:
        return self.folder / "run" / "mariadb.sock"

    @property
    def devices(self) -> Path:
        return self.folder / "dev"

    def log(self, daemon: str) -> Path:
        return self.folder / "log" / f"{daemon}.log"

    def make_folders(self) -> None:
        for name in ("etc", "run", "log", "dev", "state", *(f"spool/{node}" for node in NODES)):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
            # munge and the job's user walk through these, whatever the umask was.
            (self.folder / name).chmod(0o755)


@dataclass(frozen=True)
class Ports:
    """The TCP ports of one cluster, all on loopback."""

    slurmctld: int
    slurmdbd: int
    slurmd: tuple[int, ...]
    """One for each node, in the order of NODES."""


@dataclass(frozen=True)
class Settings:
    """What differs between one test cluster and the next."""

    hostname: str
    ports: Ports
    accounting: Accounting
    cgroup: CgroupMode
    max_array_size: int
    first_job_id: int
    message_timeout_s: int
    slurmd_timeout_s: int


def slurm_conf(layout: Layout, settings: Settings) -> str:
    """The main configuration file, read by the daemons and by every command."""
    ports = settings.ports
    lines = [
        f"ClusterName={CLUSTER_NAME}",
        f"SlurmctldHost={settings.hostname}(127.0.0.1)",
        f"SlurmctldPort={ports.slurmctld}",
        "SlurmUser=root",
        "SlurmdUser=root",
        # A requeued job waits until its credential has expired; the default is two minutes.
        f"AuthInfo=socket={layout.munge_socket},cred_expire=5",
        f"StateSaveLocation={layout.folder}/state",
        f"SlurmdSpoolDir={layout.folder}/spool/%n",
        f"SlurmctldPidFile={layout.folder}/run/slurmctld.pid",
        f"SlurmdPidFile={layout.folder}/run/slurmd.%n.pid",
        "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny",
        f"FirstJobId={settings.first_job_id}",
        f"MaxArraySize={settings.max_array_size}",
        "MaxJobCount=10000",
        "MpiDefault=none",
        "SwitchType=switch/none",
        "ReturnToService=1",
        "SlurmdParameters=config_overrides",
        "GresTypes=gpu",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_CPU_Memory",
        "DefMemPerCPU=100",
        "PreemptType=preempt/partition_prio",
        "PreemptMode=REQUEUE",
        "SchedulerType=sched/backfill",
        "SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0",
        "KillWait=2",
        "MinJobAge=300",
        f"MessageTimeout={settings.message_timeout_s}",
        "SlurmctldTimeout=30",
        f"SlurmdTimeout={settings.slurmd_timeout_s}",
        "BatchStartTimeout=10",
        *_containment_lines(settings.cgroup),
        *_accounting_lines(layout, settings),
        *_node_lines(settings),
        *_partition_lines(),
    ]
    return "\n".join(lines) + "\n"


def _containment_lines(cgroup: CgroupMode) -> list[str]:
    plugins = ("linuxproc", "none") if cgroup == "none" else ("cgroup", "cgroup")
    return [f"ProctrackType=proctrack/{plugins[0]}", f"TaskPlugin=task/{plugins[1]}"]


def _accounting_lines(layout: Layout, settings: Settings) -> list[str]:
    if settings.accounting == "none":
        return ["AccountingStorageType=accounting_storage/none"]
    return [
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=127.0.0.1",
        f"AccountingStoragePort={settings.ports.slurmdbd}",
        # The private munge socket: without this line sacctmgr tries the default one for ever.
        f"AccountingStoragePass={layout.munge_socket}",
        "AccountingStorageTRES=gres/gpu",
        "AccountingStorageEnforce=associations",
        "JobAcctGatherType=jobacct_gather/linux",
        "JobAcctGatherFrequency=task=1",
    ]


def _node_lines(settings: Settings) -> list[str]:
    lines = []
    for node, port in zip(NODES, settings.ports.slurmd, strict=True):
        gpus = (
            f"Gres=gpu:gb300:{GPUS_PER_NODE} Feature=gb300,nvlink"
            if node in GPU_NODES
            else "Feature=cpu_only"
        )
        lines.append(
            f"NodeName={node} NodeHostname={node} NodeAddr=127.0.0.1 Port={port} "
            f"CPUs={CPUS_PER_NODE} RealMemory={MEMORY_PER_NODE_MB} {gpus} State=UNKNOWN"
        )
    return lines


def _partition_lines() -> list[str]:
    every, with_gpu = ",".join(NODES), ",".join(GPU_NODES)
    day = "1-00:00:00"
    return [
        f"PartitionName=batch Nodes={every} Default=YES MaxTime={day} DefaultTime=01:00:00 "
        "PriorityTier=10",
        f"PartitionName=gpu Nodes={with_gpu} MaxTime=INFINITE DefaultTime=01:00:00 "
        "PriorityTier=10",
        f"PartitionName=short Nodes={every} MaxTime=2 DefaultTime=1 PriorityTier=10",
        f"PartitionName=low Nodes={every} MaxTime={day} PriorityTier=1 PreemptMode=REQUEUE",
        f"PartitionName=high Nodes={every} MaxTime={day} PriorityTier=100",
    ]


def gres_conf(layout: Layout) -> str:
    """The GPUs: device files, because a count without files puts the node in state `inval`."""
    files = f"{layout.devices}/gpu[0-{GPUS_PER_NODE - 1}]"
    nodes = ",".join(GPU_NODES)
    return f"AutoDetect=off\nNodeName={nodes} Name=gpu Type=gb300 File={files}\n"


def cgroup_conf(cgroup: CgroupMode) -> str:
    """What is enforced: memory, where there is a cgroup to enforce it with."""
    if cgroup == "none":
        # The file is read even when no plugin needs it; v1 is the one that starts without D-Bus.
        return "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"
    lines = [
        f"CgroupPlugin=cgroup/{cgroup}",
        "CgroupAutomount=no",
        "CgroupMountpoint=/sys/fs/cgroup",
        "ConstrainRAMSpace=yes",
        "ConstrainCores=no",
        "ConstrainDevices=no",
    ]
    if cgroup == "v2":
        lines.append("IgnoreSystemd=yes")
    return "\n".join(lines) + "\n"


def slurmdbd_conf(layout: Layout, settings: Settings) -> str:
    """The accounting daemon's file; it must be readable by its user alone."""
    return "\n".join(
        [
            "AuthType=auth/munge",
            f"AuthInfo=socket={layout.munge_socket}",
            f"DbdHost={settings.hostname}",
            "DbdAddr=127.0.0.1",
            f"DbdPort={settings.ports.slurmdbd}",
            "CommunicationParameters=NoInAddrAny",
            "SlurmUser=root",
            f"LogFile={layout.log('slurmdbd')}",
            f"PidFile={layout.folder}/run/slurmdbd.pid",
            "StorageType=accounting_storage/mysql",
            "StorageHost=localhost",
            "StorageUser=root",
            "StorageLoc=slurm_acct_db",
            "CommitDelay=0",
            "",
        ]
    )
