"""Baselines hold good records by GPU and by what was asked, and are not overwritten by chance."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.compare.baseline import baseline_names, coverage, load_baseline, save_baseline
from jobs.compare.comparison import Rules, compare
from jobs.compare.load import load_side
from jobs.compare.rows import headline, not_compared
from jobs.errors import BaselineConflict, InvalidValue, NoPassedPoint, UnknownName
from jobs.status.collection import Collection
from tests.builders.records import point_config, record
from tests.builders.runs import collected, run, with_state


def test_a_baseline_is_read_back_as_it_was_stored(tmp_path: Path) -> None:
    saved = save_baseline(run(), "gb300", tmp_path)
    assert (saved.added, saved.replaced, saved.left_out) == (2, 0, {})
    held = load_baseline("gb300", tmp_path)
    assert [point.record for point in held.points] == [point.record for point in run().points]
    (found,) = compare([held, run("now")])
    assert found.exit_code == 0


def test_only_what_passed_is_stored(tmp_path: Path) -> None:
    saved = save_baseline(with_state(run(), "ERROR"), "b", tmp_path)
    assert len(saved.baseline.points) == 1
    assert saved.left_out == {"ERROR": 1}
    with pytest.raises(NoPassedPoint):
        save_baseline(Collection("none", []), "c", tmp_path)


def test_what_it_has_is_replaced_only_on_request(tmp_path: Path) -> None:
    save_baseline(run(), "b", tmp_path)
    save_baseline(run(), "b", tmp_path)  # the same records again: nothing to refuse
    with pytest.raises(BaselineConflict) as caught:
        save_baseline(run(scale=1.1), "b", tmp_path)
    assert len(caught.value.points) == 2
    saved = save_baseline(run(scale=1.1), "b", tmp_path, replace=True)
    assert saved.replaced == 2
    assert load_baseline("b", tmp_path).points[0].record == run(scale=1.1).points[0].record


def test_what_was_stored_and_left_out_adds_up(tmp_path: Path) -> None:
    probes = [
        collected(
            record(f"p-{day}", point_config(job="probe")).model_copy(
                update={"finished_at": day, "benchmark": None, "validation": None}
            )
        )
        for day in ("2026-01-02", "2026-01-01")
    ]
    lost = with_state(run(), "ERROR").points
    everything = Collection("all", [*run(lengths=(1024,)).points, *lost, *probes])
    for added, kept in ((3, 0), (0, 3)):
        saved = save_baseline(everything, "b", tmp_path)
        parts = (saved.added, saved.replaced, saved.kept, saved.repeated)
        assert parts == (added, 0, kept, 1)
        assert saved.left_out == {"ERROR": 1}
        assert sum(parts) + 1 == len(everything.points)
    held = load_baseline("b", tmp_path)
    assert [p.point_id for p in held.points if p.setting("job") == "probe"] == ["p-2026-01-02"]
    assert coverage(held)["NVIDIA GB300", "probe"] == 1
    (found,) = compare([held, held])
    assert found.exit_code == 0  # two fingerprints are no doubt


def test_runs_of_the_same_software_are_stored_together(tmp_path: Path) -> None:
    several = [run(day=day, seed=day) for day in (1, 2, 3)]
    older = run(day=1, seed=9, driver="570.1")
    points = [point for one in [older, *several] for point in one.points]
    for added, kept in ((6, 0), (0, 6)):
        saved = save_baseline(Collection("several", points), "b", tmp_path)
        assert (saved.added, saved.kept, saved.repeated) == (added, kept, 2)
    held = load_baseline("b", tmp_path)
    assert len({point.record_file for point in held.points}) == 6
    (found,) = compare([held, run("now", seed=7)])
    assert found.repeated == 0
    assert "first: mean of 3 runs" in found.points[0].judged[0].note
    with pytest.raises(BaselineConflict):
        save_baseline(run(), "b", tmp_path)
    assert save_baseline(run(), "b", tmp_path, replace=True).replaced == 2
    assert len(load_baseline("b", tmp_path).points) == 2


def test_gpus_stand_beside_each_other_and_are_never_mixed(tmp_path: Path) -> None:
    save_baseline(run(gpu="gb300"), "b", tmp_path)
    save_baseline(run(gpu="h200", recipe="fp8_current"), "b", tmp_path)
    held = load_baseline("b", tmp_path)
    assert coverage(held) == {("NVIDIA GB300", "dsv3"): 2, ("NVIDIA H200", "dsv3"): 2}
    (found,) = compare([held, run("now", gpu="gb300")])
    assert len(found.points) == 2
    assert {point.gpus for point in found.points} == {("NVIDIA GB300", "NVIDIA GB300")}


def test_points_of_gpus_that_the_other_side_did_not_use_are_not_missing(tmp_path: Path) -> None:
    save_baseline(run(gpu="gb300"), "b", tmp_path)
    save_baseline(run(gpu="h200", recipe="fp8_current"), "b", tmp_path)
    held = load_baseline("b", tmp_path)
    for sides in ([held, run("now")], [run("now"), held]):
        (found,) = compare(sides)
        assert found.exit_code == 0
        (line,) = not_compared(found)
        assert "baseline/b" in line
        assert "NVIDIA H200" in line
        assert headline(found) == "2 matched points: 2 SAME"
    (allowed,) = compare([held, run("now")], Rules(across_gpus=True))
    assert not not_compared(allowed)


def test_a_point_missing_on_a_gpu_that_was_asked_for_still_counts(tmp_path: Path) -> None:
    save_baseline(run(gpu="gb300"), "b", tmp_path)
    held = load_baseline("b", tmp_path)
    (found,) = compare([held, run("now", lengths=(2048,))])
    assert (found.exit_code, len(found.only_first)) == (3, 1)
    # Lost before it told its GPU: what was asked for tells which of the baseline's it concerns.
    (found,) = compare([held, with_state(run("now", lengths=(1024,)), "ERROR")])
    assert (found.exit_code, len(found.only_first)) == (3, 2)
    (found,) = compare([held, run("now", gpu="h200", recipe="fp8_current")])
    assert found.exit_code == 3  # nothing was judged
    assert "NVIDIA GB300" in not_compared(found)[0]


def test_a_baseline_is_named_on_the_command_line(tmp_path: Path) -> None:
    save_baseline(run(), "gb300", tmp_path)
    assert baseline_names(tmp_path) == ["gb300"]
    assert load_side("baseline/gb300", tmp_path / "runs", tmp_path).name == "gb300"
    with pytest.raises(UnknownName) as caught:
        load_side("baseline/nope", tmp_path / "runs", tmp_path)
    assert (caught.value.name, caught.value.choices) == ("nope", ["gb300"])


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 65, "a b"])
def test_a_name_that_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        save_baseline(run(), name, tmp_path)
    assert (caught.value.key, caught.value.value) == ("name", name)
