"""A given is fitted to what a cluster has, and refused where it would wait for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.schema import Gpu
from jobs.schedulers.slurm.commands import Answer
from jobs.schedulers.slurm.fit import Need, complete, over_limits
from jobs.schedulers.slurm.limits import (
    Association,
    ClusterLimits,
    NodeKind,
    Partition,
    Qos,
    parse_limits,
)
from jobs.schedulers.slurm.resources import Resources

CPU = NodeKind(10, 64, 256_000, {}, (), "idle")
GPU = NodeKind(4, 144, 900_000, {"gpu:gb300": 4}, ("nvlink",), "mix")
LIMITS = ClusterLimits(
    name="lab",
    version="22.05.8",
    max_array_size=1001,
    max_job_count=10_000,
    partitions={
        "cpu": Partition("cpu", default=True, up=True, max_time_min=1440, kinds=(CPU,)),
        "gpu": Partition("gpu", default=False, up=True, kinds=(GPU,)),
        "old": Partition("old", default=False, up=False, max_time_min=10, kinds=(GPU,)),
        "team": Partition("team", False, True, accounts=frozenset({"team"}), kinds=(GPU,)),
        "guests": Partition(
            "guests",
            False,
            True,
            max_memory_mib=1000,
            accounts=frozenset({"guest"}),
            denied_qos=frozenset({"normal"}),
            kinds=(GPU,),
        ),
        "closed": Partition("closed", False, True, denied_accounts=frozenset({"team"})),
    },
    associations=(
        Association("team", True, qos=frozenset({"normal", "long"}), max_submit_jobs=500),
        Association("guest", qos=frozenset({"normal"}), max_time_min=60),
    ),
    qos={"normal": Qos("normal"), "long": Qos("long", max_time_min=4000, max_submit_jobs=50)},
)
GB300 = Gpu(name="gb300", request="gpu:gb300:1")


def test_what_was_not_given_comes_from_the_cluster() -> None:
    made, notes = complete(Resources(), GB300, 8000, LIMITS)
    assert (made.gres, made.partition, made.memory_mib) == ("gpu:gb300:1", "gpu", 8000)
    assert notes == ["cluster.partition=gpu: the default partition has no gpu:gb300:1"]


def test_what_was_given_stays() -> None:
    given = Resources(partition="team", gres="gpu:gb300:4", memory_mib=1)
    assert complete(given, GB300, 8000, LIMITS) == (given, [])


@pytest.mark.parametrize("given", ["4", "gb300:4", "gb300"])
def test_gpus_per_node_choose_a_partition_that_has_them(given: str) -> None:
    made, notes = complete(Resources(gpus_per_node=given), GB300, 8000, LIMITS)
    assert (made.partition, made.gres) == ("gpu", None)
    assert notes == [f"cluster.partition=gpu: the default partition has no gpus_per_node={given}"]
    assert over_limits(made, Need(10, 1), LIMITS) == []


def test_on_a_cluster_without_gpu_types_any_gpu_is_requested() -> None:
    kind = replace(GPU, gres={"gpu": 8})
    plain = replace(LIMITS, partitions={"all": Partition("all", True, True, kinds=(kind,))})
    made, _ = complete(Resources(), GB300, 8000, plain)
    assert (made.gres, made.partition) == ("gpu:1", None)
    assert over_limits(made, Need(10, 1), plain) == []


def test_an_estimate_of_memory_refuses_nobody() -> None:
    made, _ = complete(Resources(), Gpu(name="cpu", device="cpu"), 10**9, LIMITS)
    assert made.memory_mib == 256_000
    assert over_limits(made, Need(10, 1), LIMITS) == []


def test_without_a_cluster_nothing_is_chosen() -> None:
    made, notes = complete(Resources(), GB300, 8000, None)
    assert (made.gres, made.partition, notes) == ("gpu:gb300:1", None, [])


@pytest.mark.parametrize(
    ("given", "need", "key", "value"),
    [
        (Resources(partition="gpux"), Need(1, 1), "cluster.partition", "gpux"),
        (Resources(partition="old"), Need(1, 1), "cluster.partition", "old"),
        (Resources(), Need(2000, 1), "launch.time_min", 2000),
        (Resources(cpus_per_task=65), Need(1, 1), "launch.cpus_per_task", 65),
        (Resources(memory_mib=10**6), Need(1, 1), "launch.memory_gib", 976.56),
        (Resources(gres="gpu:gb300:1"), Need(1, 1), "cluster.gres", "gpu:gb300:1"),
        (
            Resources(partition="gpu", gres="gpu:gb300:8"),
            Need(1, 1),
            "cluster.gres",
            "gpu:gb300:8",
        ),
        (Resources(partition="gpu", gres="gpu:h100:1"), Need(1, 1), "cluster.gres", "gpu:h100:1"),
        (Resources(partition="gpu", gpus_per_node="8"), Need(1, 1), "cluster.gpus_per_node", "8"),
        (
            Resources(partition="gpu", gpus_per_node="gb300:5"),
            Need(1, 1),
            "cluster.gpus_per_node",
            "gb300:5",
        ),
        (
            Resources(partition="gpu", gpus_per_node="h100:1"),
            Need(1, 1),
            "cluster.gpus_per_node",
            "h100:1",
        ),
        (Resources(partition="cpu", gpus_per_node="1"), Need(1, 1), "cluster.gpus_per_node", "1"),
        (Resources(qos="gold"), Need(1, 1), "cluster.qos", "gold"),
        (Resources(qos="long", account="guest"), Need(1, 1), "cluster.qos", "long"),
        (Resources(account="guest"), Need(61, 1), "launch.time_min", 61),
        (Resources(partition="gpu", qos="long"), Need(4001, 1), "launch.time_min", 4001),
        (Resources(account="nobody"), Need(1, 1), "cluster.account", "nobody"),
        (Resources(partition="team", account="guest"), Need(1, 1), "cluster.account", "guest"),
        (Resources(account="team"), Need(1, 501), "launch.points_per_job", 501),
        (Resources(), Need(1, 501), "launch.points_per_job", 501),
        (Resources(partition="guests"), Need(1, 1), "cluster.account", None),
        (Resources(partition="guests", account="guest"), Need(1, 1), "cluster.qos", None),
        (Resources(partition="closed"), Need(1, 1), "cluster.account", None),
        (Resources(partition="guests", memory_mib=2000), Need(1, 1), "launch.memory_gib", 1.95),
        (Resources(), Need(1, 10_001), "launch.points_per_job", 10_001),
    ],
)
def test_what_could_never_run(given: Resources, need: Need, key: str, value: object) -> None:
    problems = over_limits(given, need, LIMITS)
    assert (key, value) in [(one.key, one.value) for one in problems], problems


def test_where_listed_accounts_stand_for_those_below_them_it_is_a_doubt() -> None:
    newer = replace(LIMITS, version="24.11.5")
    given = Resources(partition="guests", qos="long", account="team")
    assert over_limits(given, Need(1, 1), newer) == []
    _, notes = complete(given, GB300, 100, newer)
    assert ["cluster.account" in note for note in notes] == [True]
    assert complete(replace(given, account="guest"), GB300, 100, newer)[1] == []
    assert complete(given, GB300, 100, LIMITS)[1] == []


def test_an_estimate_fits_the_partition_s_own_limit() -> None:
    made, _ = complete(Resources(partition="guests"), GB300, 8000, LIMITS)
    assert made.memory_mib == 1000


def test_one_of_several_partitions_is_enough() -> None:
    given = Resources(partition="cpu,gpu", gres="gpu:gb300:1")
    assert over_limits(given, Need(5000, 1), LIMITS) == []


def test_limits_are_read_from_what_the_commands_print() -> None:
    config = "Configuration data\nClusterName = dl\nMaxArraySize = 501\nSLURM_VERSION = 24.11.5\n"
    partitions = (
        "PartitionName=a AllowAccounts=x,y AllowQos=ALL Default=YES MaxNodes=UNLIMITED "
        "MaxTime=2-01:30:00 MinNodes=0 MaxCPUsPerNode=12 MaxMemPerNode=300 State=UP\n"
        "PartitionName=b Default=NO MaxTime=UNLIMITED State=DOWN MinNodes=2 DenyAccounts=z "
        "MaxMemPerNode=UNLIMITED\n"
        "nonsense\n"
    )
    nodes = (
        "a|up|3|144|900000|gpu:gb300:4(S:0-3)|nvlink,gb300|mix|\n"
        "a|up|1|8+|4000+|(null)|(null)|x|\n?\n"
    )
    assoc = Answer(
        "dl|u|t||normal,high||10|100|50|1-00:00:00\nbroken\n"
        "other|t|t||normal|||1||\n"
        "dl|u|u|a|normal|high||||\n"
    )
    limits = parse_limits(config, partitions, nodes, assoc, Answer("", "sacctmgr: down"))
    assert (limits.name, limits.max_array_size, limits.max_job_count) == ("dl", 501, 10_000)
    assert limits.default_partition is not None
    a, b = limits.partitions["a"], limits.partitions["b"]
    assert (a.max_time_min, a.accounts, a.qos) == (2970, frozenset({"x", "y"}), None)
    assert (a.kinds[0].gres, a.kinds[1].cpus) == ({"gpu:gb300": 4}, 8)
    assert (b.up, b.max_time_min, b.min_nodes) == (False, None, 2)
    assert (a.max_memory_mib, b.max_memory_mib) == (300, None)
    assert (a.denied_accounts, b.denied_accounts) == (frozenset(), frozenset({"z"}))
    own, default = limits.associations
    assert (own.account, own.max_submit_jobs, own.max_time_min) == ("t", 50, 1440)
    assert (own.default, default.default, default.default_qos) == (False, True, "high")
    assert limits.accounting_error == "sacctmgr: down"


@given(*[st.text("abPMN=|0123456789:-\n ,()", max_size=120)] * 3)
def test_no_output_makes_a_traceback(config: str, partitions: str, nodes: str) -> None:
    limits = parse_limits(config, partitions, nodes, Answer(nodes), Answer(nodes))
    assert over_limits(Resources(), Need(1, 1), limits) is not None
