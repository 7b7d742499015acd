"""Histories: one series a GPU and thing asked, cut where it changed for good and nowhere else."""

from __future__ import annotations

import random

import pytest

from jobs.compare.history import Series, emulated_points, history, why_nothing
from jobs.compare.history_output import line, page
from jobs.compare.verdict import Verdict
from jobs.status.collection import Collection
from tests.builders.runs import run


def runs(scales: list[float], **late: str) -> list[Collection]:
    made = []
    for number, scale in enumerate(scales):
        about = late if number >= len(scales) // 2 else {}
        made.append(
            run(
                f"run-{number}",
                lengths=(4096,),
                scale=scale,
                seed=1000 * number,
                day=number + 1,
                **about,
            )
        )
    return made


def of(series: list[Series], metric: str) -> Series:
    return next(one for one in series if one.metric == metric)


def test_a_change_for_good_is_dated_sized_and_given_company() -> None:
    found = history(runs([1.0] * 6 + [1.04] * 6, driver="590.1"))
    (change,) = of(found, "recipe fprop").changes
    assert (change.at, change.collection, change.verdict) == (6, "run-6", Verdict.SLOWER)
    assert change.ratio == pytest.approx(1.04, abs=0.005)
    assert [(one.fact, one.second) for one in change.why] == [("driver", "590.1")]
    assert not of(found, "bf16 fprop").changes


def test_two_changes_are_two() -> None:
    found = of(history(runs([1.0] * 5 + [1.06] * 5 + [0.97] * 5)), "recipe bprop")
    assert [change.at for change in found.changes] == [5, 10]
    assert [change.verdict for change in found.changes] == [Verdict.SLOWER, Verdict.FASTER]


def test_a_fall_of_the_speedup_is_slower() -> None:
    found = of(history(runs([1.0] * 5 + [1.05] * 5)), "fprop speedup")
    assert [change.verdict for change in found.changes] == [Verdict.SLOWER]


def test_one_bad_night_is_no_change_for_good_of_what_follows() -> None:
    found = of(history(runs([1.0] * 6 + [1.08] + [1.0] * 6)), "recipe fprop")
    assert [change.at for change in found.changes] in ([], [6, 7])


def test_noise_alone_is_rarely_cut() -> None:
    rng = random.Random(3)
    false = 0
    for number in range(25):
        scales = [1 + rng.gauss(0, 0.004) for _ in range(10)]
        found = history(runs(scales))
        false += bool(of(found, "recipe fprop").changes)
        assert number < 25
    assert false <= 1


def test_order_of_collections_and_repetition_do_not_matter() -> None:
    made = runs([1.0] * 4 + [1.05] * 4)
    found = history(made)
    assert history([*reversed(made), made[2]]) == found


def test_gpus_are_series_of_their_own() -> None:
    mixed = [*runs([1.0, 1.0]), run("h", gpu="h200", lengths=(4096,), day=9)]
    found = history(mixed)
    assert {one.gpu for one in found} == {"NVIDIA GB300"}
    assert all(len(one.values) == 2 for one in found)


def test_what_occurs_once_has_no_history() -> None:
    assert history([run()]) == []
    assert history([]) == []


def test_errors_are_followed_also_of_emulated_runs_whose_times_are_not() -> None:
    made = [run(f"e-{day}", gpu="cpu", lengths=(4096,), day=day) for day in range(1, 7)]
    for collection in made[4:]:
        validation = collection.points[0].record.validation  # type: ignore[union-attr]
        assert validation is not None
        for error in validation.tensors:
            if (error.tensor, error.arm, error.reference) == ("dx", "recipe", "fp32"):
                object.__setattr__(error, "rel_l2", error.rel_l2 * 1.08)
    found = history(made)
    assert emulated_points(made) == emulated_points([*made, made[0]]) == 6
    assert all(one.metric.startswith("error of ") for one in found)
    (changed,) = [one for one in found if one.changes]
    assert changed.metric == "error of dx"
    assert [change.verdict for change in changed.changes] == [Verdict.WORSE]
    assert changed.changes[0].collection == "e-5"
    assert not any(one.changes for one in history(made, accuracy_threshold=0.1))
    assert "error of dx" in page(found)


def test_why_nothing_is_followed_is_told() -> None:
    emulated = [run(f"e-{day}", gpu="cpu", lengths=(4096,), day=day) for day in (1, 2)]
    for collection in emulated:
        (point,) = collection.points
        assert point.record is not None
        object.__setattr__(point.record, "validation", None)
    assert not history(emulated)
    assert "times of emulated arms do not" in why_nothing(emulated)
    assert "ran twice" in why_nothing([run(), run("h", gpu="h200")])
    assert "none of the collections has times or errors" in why_nothing([])


def test_of_very_many_series_the_steady_ones_are_left_out_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jobs.compare.history_output._MOST_PAGE_ROWS", 3)
    found = history(runs([1.0] * 4 + [1.05] * 4))
    text = page(found)
    assert text.count("<polyline") == 3
    assert f"{len(found) - 3} more steady series" in text


def test_a_steady_series_is_drawn_flat() -> None:
    found = of(history(runs([1.0, 1.001, 1.0])), "recipe fprop")
    heights = [float(pair.split(",")[1]) for pair in line(found).split()]
    assert max(heights) - min(heights) < 10
    assert "polyline" in page([found])
