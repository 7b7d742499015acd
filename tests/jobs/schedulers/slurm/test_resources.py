"""A site's configuration becomes one request, or is refused in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.schema import Gpu
from conf.site import SCHEDULER_KEYS, Cluster, Container, Launch, Request
from jobs.errors import InvalidValue, NotSettable, UsageError
from jobs.schedulers.slurm.refusals import refusal_of
from jobs.schedulers.slurm.resources import Resources, parse_gres, resource_problems, resources_of

GB300 = Gpu(name="gb300", request="gpu:gb300:1")


def requested(cluster: Cluster, launch: Launch | None = None) -> Resources:
    return resources_of(GB300, cluster, launch or Launch(name="default"))


def test_the_request_of_a_gpu_is_the_cluster_s() -> None:
    request = Request(partition="gpu", account="team", gres="gpu:gb300:2")
    made = requested(Cluster(name="lab", requests={"gb300": request}))
    assert (made.partition, made.account, made.gres) == ("gpu", "team", "gpu:gb300:2")
    assert made.gpus == 2


@pytest.mark.parametrize("name", SCHEDULER_KEYS)
def test_every_key_for_the_scheduler_is_requested(name: str) -> None:
    cluster = Cluster(name="lab", **{name: "x"})  # type: ignore[arg-type] # whichever key's type
    assert getattr(requested(cluster), name) == "x"


def test_a_key_of_the_command_line_wins_over_the_map() -> None:
    request = Request(partition="gpu", gres="gpu:gb300:1")
    made = requested(Cluster(name="lab", requests={"gb300": request}, partition="debug"))
    assert (made.partition, made.gres) == ("debug", "gpu:gb300:1")


def test_one_way_of_asking_for_gpus_replaces_the_other() -> None:
    request = Request(gres="gpu:gb300:1")
    made = requested(Cluster(name="lab", requests={"gb300": request}, gpus_per_node="gb300:4"))
    assert (made.gres, made.gpus_per_node, made.gpus) == (None, "gb300:4", 4)
    back = Cluster(name="lab", requests={"gb300": Request(gpus_per_node="4")}, gres="gpu:1")
    assert (requested(back).gres, requested(back).gpus_per_node) == ("gpu:1", None)


def test_memory_is_requested_in_mebibytes() -> None:
    assert requested(Cluster(name="x"), Launch(name="d", memory_gib=0.5)).memory_mib == 512
    assert requested(Cluster(name="x")).memory_mib is None


def named(problem: UsageError) -> str:
    """The key of a problem."""
    assert isinstance(problem, InvalidValue | NotSettable)
    return problem.key if isinstance(problem, InvalidValue) else problem.name


@pytest.mark.parametrize(
    ("cluster", "kind", "key"),
    [
        (Cluster(name="x", partition="a b"), InvalidValue, "cluster.partition"),
        (Cluster(name="x", gres="gpu:$(id)"), InvalidValue, "cluster.gres"),
        (
            Cluster(name="x", requests={"h100": Request(qos="'")}),
            InvalidValue,
            "cluster.requests.h100.qos",
        ),
        (Cluster(name="x", comment="two\nlines"), InvalidValue, "cluster.comment"),
        (Cluster(name="x", srun=["--x", "a\x1b[0m"]), InvalidValue, "cluster.srun[1]"),
        (
            Cluster(name="x", container=Container(image="i", mounts=["/a,b:/c"])),
            InvalidValue,
            "cluster.container.mounts",
        ),
        (Cluster(name="x", sbatch={"--hold": ""}), InvalidValue, "cluster.sbatch"),
        (Cluster(name="x", sbatch={"array": "0-3"}), NotSettable, "cluster.sbatch.array"),
        (Cluster(name="x", sbatch={"mem": "1G"}), NotSettable, "cluster.sbatch.mem"),
        (Cluster(name="x", sbatch={"clusters": "other"}), NotSettable, "cluster.sbatch.clusters"),
        (
            Cluster(name="x", sbatch={"gpus-per-node": "1"}),
            NotSettable,
            "cluster.sbatch.gpus-per-node",
        ),
    ],
)
def test_what_slurm_alters_is_refused(cluster: Cluster, kind: type[UsageError], key: str) -> None:
    (problem,) = resource_problems(cluster, Launch(name="d"))
    assert (type(problem), named(problem)) == (kind, key)


@pytest.mark.parametrize(("option", "key"), [("mem", "launch.memory_gib"), ("qos", "cluster.qos")])
def test_an_option_with_a_key_of_its_own_names_the_key(option: str, key: str) -> None:
    (problem,) = resource_problems(Cluster(name="x", sbatch={option: "1"}), Launch(name="d"))
    assert isinstance(problem, NotSettable)
    assert key in problem.reason


def test_what_can_is_not_refused() -> None:
    words = Cluster(
        name="x",
        partition="a,b",
        comment="it's $5 = ü",
        constraint="[a&b]|c*2",
        sbatch={"hold": "", "mail-user": "me@x.org"},
        srun=["--mpi=none"],
    )
    assert list(resource_problems(words, Launch(name="d"))) == []


def test_memory_is_requested_in_one_way() -> None:
    cluster = Cluster(name="x", sbatch={"mem-per-cpu": "1G"})
    assert list(resource_problems(cluster, Launch(name="d"))) == []
    (problem,) = resource_problems(cluster, Launch(name="d", memory_gib=0.2))
    assert named(problem) == "launch.memory_gib"


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
    ("message", "settings"),
    [
        ("Batch job submission failed: Invalid partition name specified", ["cluster.partition=p"]),
        (
            "Invalid account or account/partition combination specified",
            ["cluster.account=a", "cluster.partition=p"],
        ),
        (
            "Requested node configuration is not available",
            [
                *("cluster.gres=gpu:1", "cluster.partition=p", "launch.cpus_per_task=9"),
                *("launch.memory_gib=0.2", "cluster.sbatch.no-such=1", "cluster.sbatch.tmp=1T"),
            ],
        ),
        ("Invalid feature specification", ["cluster.constraint"]),
        ("unrecognized option '--no-such=1'", ["cluster.sbatch.no-such=1"]),
        ("Temporary disk specification can not be satisfied", ["cluster.sbatch.tmp=1T"]),
        ("Memory specification can not be satisfied", ["launch.memory_gib=0.2"]),
        ("invalid number of nodes (-N 2-1)", ["cluster.nodelist"]),
        ("Invalid --nice value, out of range", ["cluster.nice=7"]),
        ("something new", ["cluster.sbatch.no-such=1", "cluster.sbatch.tmp=1T"]),
    ],
)
def test_a_refusal_names_its_likely_settings(message: str, settings: list[str]) -> None:
    given = Resources(
        partition="p",
        account="a",
        gres="gpu:1",
        cpus_per_task=9,
        memory_mib=205,
        nice=7,
        options=(("no-such", "1"), ("tmp", "1T")),
    )
    refusal = refusal_of(f"sbatch: error: {message}", given)
    assert (refusal.detail, list(refusal.settings)) == (message, settings)


def test_a_refusal_of_unknown_cause_is_quoted() -> None:
    refusal = refusal_of("sbatch: error: something new", Resources(partition="p"))
    assert (refusal.detail, refusal.settings) == ("something new", ())
