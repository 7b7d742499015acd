"""Every id that SLURM prints is understood, and nothing else is."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import InvalidWord
from jobs.sweeps.ids import (
    MAX_ARRAY_INDEX,
    MAX_JOB_ID,
    FolderTarget,
    JobTarget,
    LatestTarget,
    LocalTarget,
    PointTarget,
    SweepTarget,
    looks_like_target,
    parse_target,
)

INDICES = st.integers(0, MAX_ARRAY_INDEX)


@st.composite
def ranges(draw: st.DrawFn) -> range:
    first, length, step = draw(INDICES), draw(st.integers(1, 50)), draw(st.integers(1, 9))
    last = min(first + (length - 1) * step, MAX_ARRAY_INDEX)
    tasks = range(first, last + 1, step)
    return range(first, tasks[-1] + 1, step if len(tasks) > 1 else 1)


JOBS = st.builds(
    JobTarget,
    job=st.integers(0, MAX_JOB_ID),
    tasks=st.none() | st.lists(ranges(), min_size=1, max_size=4).map(tuple),
    step=st.none() | st.sampled_from(["batch", "extern", "interactive", "0", "17"]),
) | st.builds(JobTarget, job=st.integers(0, MAX_JOB_ID), component=st.integers(0, 128))


@pytest.mark.parametrize(
    ("word", "target"),
    [
        ("14", JobTarget(14)),
        ("14_2", JobTarget(14, (range(2, 3),))),
        ("14_[2-7%2]", JobTarget(14, (range(2, 8),))),
        ("14_[2-7]", JobTarget(14, (range(2, 8),))),
        ("14_[0,3,5-9:2%4]", JobTarget(14, (range(1), range(3, 4), range(5, 10, 2)))),
        ("14+0", JobTarget(14, component=0)),
        ("14+1.0", JobTarget(14, component=1, step="0")),
        ("14.batch", JobTarget(14, step="batch")),
        ("14.0", JobTarget(14, step="0")),
        ("14_2.extern", JobTarget(14, (range(2, 3),), step="extern")),
        ("s-20260101-120000-ab12", SweepTarget("s-20260101-120000-ab12")),
        ("p-0a1b2c", PointTarget("p-0a1b2c")),
        ("local-7", LocalTarget("local-7")),
        ("latest", LatestTarget()),
        ("runs/s-1", FolderTarget(Path("runs/s-1"))),
        ("./s-1", FolderTarget(Path("s-1"))),
    ],
)
def test_each_form_has_one_meaning(word: str, target: object) -> None:
    assert looks_like_target(word)
    assert parse_target(word) == target


@pytest.mark.parametrize(
    "word",
    [
        "", "14_", "14_x", "14_[", "14_[]", "14_[7-2]", "14_[2-7:0]", "14_[1,,2]", "14.foo",
        "14 15", "14;rm", "_2", "+0", "-14", "14_2_3", "14+", "1٤", "s-", "s-a b", "p-$(x)",
        "p-..", "later", "99999999999", "14_4000001", "14_[1,3,5,...]",
    ],
)  # fmt: skip
def test_other_words_are_refused_in_one_line(word: str) -> None:
    with pytest.raises(InvalidWord) as refused:
        parse_target(word)
    assert "\n" not in str(refused.value)


@given(JOBS)
def test_a_printed_target_is_read_back(target: JobTarget) -> None:
    assert parse_target(str(target)) == target


@given(st.text(max_size=30) | st.text(string.digits + "_[]-,:%+.batch", max_size=30))
def test_any_text_is_an_id_or_refused(word: str) -> None:
    try:
        target = parse_target(word)
    except InvalidWord:
        return
    assert isinstance(target, FolderTarget) or parse_target(str(target)) == target


@given(JOBS, st.integers(0, MAX_ARRAY_INDEX))
def test_a_job_covers_the_tasks_it_names(target: JobTarget, task: int) -> None:
    named = target.tasks is None or any(task in part for part in target.tasks)
    assert target.covers(target.job, task) == named
    assert target.covers(target.job, None) == (target.tasks is None)
    assert not target.covers(target.job + 1, task)


@pytest.mark.parametrize("word", ["sweep", "shape=tiny", "--cfg", "~shape", "+x=1", "a/b=c"])
def test_verbs_flags_and_overrides_are_no_ids(word: str) -> None:
    assert not looks_like_target(word)
