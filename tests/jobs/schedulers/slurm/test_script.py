"""The batch script holds exactly the request, and a shell expands only setup lines."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conf.site import Cluster, Container
from jobs.errors import InvalidValue
from jobs.schedulers.slurm.resources import Resources
from jobs.schedulers.slurm.script import Submission, quoted, script_of

SWEEP = Path("/runs/s-20260101-000000-abcdef")
PRINTABLE = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=40)


def submission(sweep: Path = SWEEP, tasks: int = 3, **request: object) -> Submission:
    slots = tuple((f"p-{number}",) for number in range(tasks))
    return Submission(sweep, 2, Resources(**request), 10, slots)  # type: ignore[arg-type] # any field


def script(made: Submission, **cluster: object) -> str:
    site = Cluster(name="lab", **cluster)  # type: ignore[arg-type] # any field
    return script_of(made, site, "/opt/python", "/checkout")


def flags(text: str) -> dict[str, str]:
    """The directives, by option."""
    lines = (line.removeprefix("#SBATCH --") for line in text.splitlines() if "#SBATCH" in line)
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def test_every_request_is_a_directive() -> None:
    found = flags(
        script(
            submission(
                partition="a,b", account="t", qos="q", constraint="[x&y]", gres="gpu:gb300:2",
                nodelist="n[1-2]", exclude="n3", reservation="r", dependency="afterok:1", nice=-5,
                wckey="w", memory_mib=512, cpus_per_task=4,
                options=(("hold", ""), ("mail-user", "me")),
            )
        )
    )  # fmt: skip
    wanted = {
        "partition": "a,b", "account": "t", "qos": "q", "constraint": '"[x&y]"',
        "gres": "gpu:gb300:2", "nodelist": '"n[1-2]"', "exclude": "n3", "reservation": "r",
        "dependency": "afterok:1", "nice": "-5", "wckey": "w", "mem": "512M", "cpus-per-task": "4",
        "hold": "", "mail-user": "me", "time": "10", "array": "0-2%3", "signal": "USR2@90",
        "job-name": f"{SWEEP.name}.2", "comment": f"{SWEEP.name}.2", "chdir": str(SWEEP),
    }  # fmt: skip
    assert {name: found.get(name) for name in wanted} == wanted


def test_what_was_not_requested_is_not_sent() -> None:
    found = flags(script(submission()))
    assert not {"wckey", "partition", "account", "mem", "cpus-per-task", "gres"} & set(found)


def test_a_throttle_and_a_job_that_is_no_array() -> None:
    made = submission()
    throttled = Submission(made.sweep, 0, Resources(), 10, made.tasks, max_parallel=2)
    assert flags(script(throttled))["array"] == "0-2%2"
    alone = script(submission(tasks=1))
    assert "array" not in flags(alone)
    assert f"{SWEEP}/%j/%j_%t_log.out" in alone


def test_memory_by_the_cpu_replaces_memory_by_the_job() -> None:
    found = flags(script(submission(memory_mib=512, options=(("mem-per-cpu", "1G"),))))
    assert "mem" not in found
    assert found["mem-per-cpu"] == "1G"


def test_cpus_are_given_to_srun_too() -> None:
    command = script(submission(cpus_per_task=6, srun=("--mpi=none",))).splitlines()[-1]
    words = shlex.split(command)
    assert words[0] == "srun"
    assert {"--cpus-per-task=6", "--export=ALL", "--mpi=none"} <= set(words)
    assert words[-4:] == ["-u", "-m", "jobs.runner.bootstrap", f"{SWEEP}/%A"]


def test_the_warning_leaves_time_on_a_short_job() -> None:
    short = Submission(SWEEP, 0, Resources(), 1, (("p-1",),))
    assert short.warning_s == 10
    assert flags(script(short))["signal"] == "USR2@10"


def test_a_checkout_that_no_mount_brings_is_mounted_where_it_is() -> None:
    box = Container(image="i.sqsh", mounts=["/a:/b"])
    assert f"--container-mounts={SWEEP}:{SWEEP},/a:/b,/checkout:/checkout" in script(
        submission(), container=box
    )
    named = Container(image="i.sqsh", mounts=["/a:/b"], pythonpath="/b")
    assert f"--container-mounts={SWEEP}:{SWEEP},/a:/b " in script(submission(), container=named)


@settings(max_examples=25)
@given(comment=PRINTABLE, value=PRINTABLE, word=PRINTABLE)
def test_only_setup_lines_reach_a_shell(comment: str, value: str, word: str) -> None:
    made = submission(comment=comment, srun=(word,))
    text = script(made, env={"GIVEN": value})
    # What bash makes of the script, with srun and the folders taken away.
    harmless = 'mkdir() { :; }; ln() { :; }; srun() { printf \'%s\\0\' "$GIVEN" "$@"; }\n'
    done = subprocess.run(
        ["/bin/bash", "-c", harmless + text], capture_output=True, env={"PATH": ""}, check=True
    )
    seen = done.stdout.decode("utf-8", "surrogateescape").split("\0")
    assert seen[0] == value
    assert word in seen[1:]


@given(PRINTABLE)
def test_a_quoted_value_is_read_back_by_sbatchs_rules(text: str) -> None:
    read, rest = "", quoted(text)
    if rest.startswith('"') and rest.endswith('"') and len(rest) > 1:
        letters = iter(rest[1:-1])
        for letter in letters:
            read += next(letters) if letter == "\\" else letter
    else:
        read = rest
        assert not set(text) & set(" \t'\"\\#")
    assert read == text


@pytest.mark.parametrize("name", ["100%", "back\\slash", "new\nline", "a:b"])
def test_a_folder_that_slurm_would_change_is_refused(name: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        script(submission(Path("/runs") / name))
    assert caught.value.key == "runs_dir"


def test_a_warning_never_comes_before_a_point_has_had_most_of_its_time() -> None:
    for minutes in (1, 2, 10, 600):
        made = Submission(Path("/s"), 0, Resources(), minutes, (("p-1",),))
        assert 10 <= made.warning_s <= 90
        assert made.warning_s <= minutes * 60 / 6
