"""Readers of text: ids, the scheduler's answers, logs."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st

from jobs.errors import UsageError
from jobs.schedulers.slurm.commands import Answer
from jobs.schedulers.slurm.limits import parse_limits
from jobs.schedulers.slurm.memory import lost
from jobs.schedulers.slurm.query import JobStates, join, parse_sacct, parse_squeue
from jobs.sweeps.ids import parse_target
from jobs.text import plain_text
from tests.fuzz.inputs import TEXT, changed_lines, words
from tests.fuzz.reader import Reader

_SQUEUE = [
    "14|0|16|RUNNING|0|0:12|n1|None|s-1.0|s-1.0|",
    "14|[2-7]|14|PENDING|1|0:00||JobArrayTaskLimit|s-1.0|(null)|",
    "15|N/A|15|COMPLETED|0|1-02:03:04|n[1-2]|None|s-1.1|a|b|",
]
_SACCT = [
    "14_0|16|COMPLETED|0:0|12|n1|None",
    "14_0.batch|16.batch|OUT_OF_MEMORY|0:125|12|n1|",
    "14_[2-7]|14|PENDING|0:0|0|None assigned|Resources",
    "15|15|CANCELLED by 1000|0:0|1|n1|None",
    "17|17|FAILED|0:53|0|n2|launch failed requeued held",
]
_CONFIG = ["ClusterName = lab", "MaxArraySize = 1001", "SLURM_VERSION = 22.05.8", "MaxJobCount=9"]
_PARTITIONS = [
    "PartitionName=batch AllowAccounts=ALL AllowQos=ALL Default=YES MaxTime=1-00:00:00 MaxNodes=3 "
    "MinNodes=0 MaxCPUsPerNode=UNLIMITED State=UP",
    "PartitionName=gpu AllowAccounts=a,b AllowQos=x Default=NO MaxTime=UNLIMITED State=DOWN",
]
_NODES = [
    "batch*|up|2|8|4000|gpu:gb300:4|gb300,nvlink|idle|",
    "gpu|up|1|8+|4000+|gpu:gb300:4(S:0-1),gpu:h200:2|(null)|drain*|",
]
_ASSOC = ["test||normal,high|4|100|200|1-00:00:00", "other|gpu|||||"]
_QOS = ["normal|4|100|200|1-00:00:00", "high||||"]
_ID_PART = words("14 _2 _[2-7%2] _[0,3-9:3] +0 .batch .0 s- p- local- latest")
_LOG = st.lists(
    st.sampled_from(
        ["\x1b]0;x\x07", "\x1b[31m", "\x9b2J", "\r", "\n", "Error", "\x1bP1;2", "\u202e", "\u2028"]
    )
    | st.text(max_size=20),
    max_size=12,
).map("".join)
# What a terminal would obey, or what reverses the direction of a line.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def text_readers() -> list[Reader]:
    """Return the readers of text."""
    ids = st.lists(_ID_PART | TEXT, min_size=1, max_size=4).map("".join)
    answers = st.tuples(*map(changed_lines, (_CONFIG, _PARTITIONS, _NODES, _ASSOC, _QOS)))
    return [
        Reader("id", ids, read_id, 400, "14_[0-3]"),
        Reader(
            "squeue and sacct",
            st.tuples(changed_lines(_SQUEUE), changed_lines(_SACCT)),
            read_states,
            300,
            ("\n".join(_SQUEUE), "\n".join(_SACCT)),
            "refuses nothing: an invalid row is skipped",
        ),
        Reader(
            "scontrol, sinfo, sacctmgr",
            answers,
            read_limits,
            150,
            tuple(map("\n".join, (_CONFIG, _PARTITIONS, _NODES, _ASSOC, _QOS))),
            "refuses nothing: an unreadable limit is ignored",
        ),
        Reader("log", _LOG, read_log, 300, "a line", "refuses nothing: every log is shown"),
    ]


def read_id(word: str) -> bool:
    """An id is refused in one line, or its printed form reads the same."""
    try:
        target = parse_target(word)
    except UsageError as error:
        refusal = str(error)
    else:
        assert "/" in word or parse_target(str(target)) == target
        return False
    assert _CONTROL.search(refusal) is None, refusal
    return True


def read_states(answers: tuple[str, str]) -> bool:
    """Every row becomes a consistent state, or is skipped."""
    queue, accounting = answers
    listed = {row.task.job_id: row.task for row in parse_squeue(queue)}
    accounted = parse_sacct(accounting)
    for joined in (join(listed, accounted), join(None, accounted), join(listed, None)):
        for task in [*joined.values(), lost("14_0", JobStates(joined))]:
            assert isinstance(task.final, bool)
            assert task.cause is None or task.final
            assert task.elapsed_s is None or task.elapsed_s >= 0
    return False


def read_limits(answers: tuple[str, ...]) -> bool:
    """Every answer of the cluster gives limits."""
    config, partitions, nodes, assoc, qos = answers
    limits = parse_limits(config, partitions, nodes, Answer(assoc), Answer(qos))
    assert limits.max_array_size >= 1
    return False


def read_log(text: Any) -> bool:  # noqa: ANN401 - text
    """No control character of a log is shown."""
    shown = plain_text(text)
    assert _CONTROL.search(shown) is None, shown
    assert plain_text(shown) == shown
    return False
