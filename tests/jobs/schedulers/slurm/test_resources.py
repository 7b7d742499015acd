"""A site's configuration becomes one request, or is refused in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.schema import Gpu
from conf.site import SCHEDULER_KEYS, Cluster, Container, Launch, Request
from jobs.schedulers.slurm.refusals import explain
from jobs.schedulers.slurm.resources import Resources, parse_gres, resource_problems, resources_of

GB300 = Gpu(name="gb300", request="gpu:gb300:1")


def asked(cluster: Cluster, launch: Launch | None = None) -> Resources:
    return resources_of(GB300, cluster, launch or Launch(name="default"))


def test_what_the_cluster_says_of_a_gpu_is_asked_for() -> None:
    request = Request(partition="gpu", account="team", gres="gpu:gb300:2")
    made = asked(Cluster(name="lab", requests={"gb300": request}))
    assert (made.partition, made.account, made.gres) == ("gpu", "team", "gpu:gb300:2")
    assert made.gpus == 2


@pytest.mark.parametrize("name", SCHEDULER_KEYS)
def test_every_key_for_the_scheduler_is_asked_for(name: str) -> None:
    cluster = Cluster(name="lab", **{name: "x"})  # type: ignore[arg-type] # whichever key's type
    assert getattr(asked(cluster), name) == "x"


def test_a_key_of_the_command_line_wins_over_the_map() -> None:
    request = Request(partition="gpu", gres="gpu:gb300:1")
    made = asked(Cluster(name="lab", requests={"gb300": request}, partition="debug"))
    assert (made.partition, made.gres) == ("debug", "gpu:gb300:1")


def test_one_way_of_asking_for_gpus_replaces_the_other() -> None:
    request = Request(gres="gpu:gb300:1")
    made = asked(Cluster(name="lab", requests={"gb300": request}, gpus_per_node="gb300:4"))
    assert (made.gres, made.gpus_per_node, made.gpus) == (None, "gb300:4", 4)
    back = Cluster(name="lab", requests={"gb300": Request(gpus_per_node="4")}, gres="gpu:1")
    assert (asked(back).gres, asked(back).gpus_per_node) == ("gpu:1", None)


def test_memory_is_asked_for_in_mebibytes() -> None:
    assert asked(Cluster(name="x"), Launch(name="d", memory_gib=0.5)).memory_mib == 512
    assert asked(Cluster(name="x")).memory_mib is None


@pytest.mark.parametrize(
    ("cluster", "told"),
    [
        (Cluster(name="x", partition="a b"), "cluster.partition must be words"),
        (Cluster(name="x", gres="gpu:$(id)"), "cluster.gres must be words"),
        (Cluster(name="x", requests={"h100": Request(qos="'")}), "cluster.requests.h100.qos"),
        (Cluster(name="x", comment="two\nlines"), "cluster.comment must be one line"),
        (Cluster(name="x", srun=["--x", "a\x1b[0m"]), "cluster.srun[1] must be one line"),
        (
            Cluster(name="x", container=Container(image="i", mounts=["/a,b:/c"])),
            "cluster.container.mounts must hold no comma",
        ),
        (Cluster(name="x", sbatch={"--hold": ""}), "by their long names without --"),
        (Cluster(name="x", sbatch={"array": "0-3"}), "must not name array"),
        (Cluster(name="x", sbatch={"mem": "1G"}), "use launch.memory_gib"),
        (Cluster(name="x", sbatch={"clusters": "other"}), "must not name clusters"),
        (Cluster(name="x", sbatch={"gpus-per-node": "1"}), "use cluster.gpus_per_node"),
    ],
)
def test_what_cannot_reach_slurm_unchanged_is_refused(cluster: Cluster, told: str) -> None:
    (problem,) = resource_problems(cluster, Launch(name="d"))
    assert told in problem


def test_what_can_is_not_refused() -> None:
    words = Cluster(
        name="x",
        partition="a,b",
        comment="it's $5 = ü",
        constraint="[a&b]|c*2",
        sbatch={"hold": "", "mail-user": "me@x.org"},
        srun=["--mpi=none"],
    )
    assert resource_problems(words, Launch(name="d")) == []


def test_memory_is_asked_for_in_one_way() -> None:
    cluster = Cluster(name="x", sbatch={"mem-per-cpu": "1G"})
    assert resource_problems(cluster, Launch(name="d")) == []
    (problem,) = resource_problems(cluster, Launch(name="d", memory_gib=0.2))
    assert problem.startswith("launch.memory_gib must be null with cluster.sbatch.mem-per-cpu")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gpu:gb300:4(S:0-1)", {"gpu:gb300": 4}),
        ("gpu:4", {"gpu": 4}),
        ("gpu", {"gpu": 1}),
        ("gpu:a:2,gpu:b:1,nic:1", {"gpu:a": 2, "gpu:b": 1, "nic": 1}),
        ("gres:gpu:2", {"gpu": 2}),
        ("(null)", {}),
        ("", {}),
    ],
)
def test_gres_of_requests_and_of_nodes(text: str, found: dict[str, int]) -> None:
    assert parse_gres(text) == found


@given(st.text(max_size=40))
def test_no_gres_makes_a_traceback(text: str) -> None:
    assert all(count >= 0 for count in parse_gres(text).values())


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("Batch job submission failed: Invalid partition name specified", "cluster.partition=p"),
        (
            "Invalid account or account/partition combination specified",
            "cluster.account=a, cluster.partition=p",
        ),
        (
            "Requested node configuration is not available",
            "cluster.gres=gpu:1, cluster.partition=p, launch.cpus_per_task=9, "
            "launch.memory_gib=0.2, cluster.sbatch.no-such=1, cluster.sbatch.tmp=1T was refused",
        ),
        ("Invalid feature specification", "cluster.constraint was refused"),
        ("unrecognized option '--no-such=1'", "cluster.sbatch.no-such=1 was refused"),
        ("Temporary disk specification can not be satisfied", "cluster.sbatch.tmp=1T was refused"),
        ("Memory specification can not be satisfied", "launch.memory_gib=0.2 was refused"),
        ("invalid number of nodes (-N 2-1)", "cluster.nodelist was refused"),
        ("Invalid --nice value, out of range", "cluster.nice=7 was refused"),
        (
            "something new",
            "cluster.sbatch.no-such=1, cluster.sbatch.tmp=1T was refused: something new",
        ),
    ],
)
def test_a_refusal_names_the_keys_that_may_be_at_fault(reason: str, told: str) -> None:
    given = Resources(
        partition="p",
        account="a",
        gres="gpu:1",
        cpus_per_task=9,
        memory_mib=205,
        nice=7,
        options=(("no-such", "1"), ("tmp", "1T")),
    )
    assert explain(f"sbatch: error: {reason}", given).startswith(told)


def test_a_refusal_for_which_no_key_is_known_is_told_as_it_is() -> None:
    told = explain("sbatch: error: something new", Resources(partition="p"))
    assert told == "the submission was refused: something new"
