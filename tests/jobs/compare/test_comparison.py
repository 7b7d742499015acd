"""`compare`: verdicts, the gate, partners, and why two runs may differ."""

from __future__ import annotations

import dataclasses
import json

import pytest

from jobs.compare.comparison import Comparison, Rules, compare, exit_code
from jobs.compare.rows import as_json
from jobs.compare.verdict import Verdict
from jobs.errors import InvalidValue
from jobs.record import Cause, Environment, Outcome, Record
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult
from tests.builders.records import point_config, record
from tests.builders.runs import collected, run, with_state


def compared(first: Collection, second: Collection, **rules: object) -> Comparison:
    (found,) = compare([first, second], Rules(**rules))  # type: ignore[arg-type] # by name
    return found


def verdicts(comparison: Comparison, metric: str) -> set[Verdict]:
    return {
        one.verdict for point in comparison.points for one in point.judged if one.metric == metric
    }


def test_the_same_code_measured_twice_is_the_same() -> None:
    found = compared(run(seed=1), run("second", seed=50))
    assert found.counts == {Verdict.SAME: 2}
    assert found.exit_code == 0


def test_a_slower_recipe_shows_in_its_times_and_speedups_alone() -> None:
    found = compared(run(seed=1), run("second", seed=50, scale=1.04))
    for metric in ("recipe fprop", "recipe bprop", "fprop speedup", "bprop speedup"):
        assert verdicts(found, metric) == {Verdict.SLOWER}
    assert verdicts(found, "bf16 fprop") == {Verdict.SAME}
    assert found.exit_code == 1


def test_faster_is_no_alarm() -> None:
    found = compared(run(seed=1), run("second", seed=50, scale=0.95))
    assert found.counts == {Verdict.FASTER: 2}
    assert found.exit_code == 0


def test_a_change_below_the_threshold_is_no_change_of_practice() -> None:
    found = compared(run(), run("second", scale=1.03), threshold=0.05)
    assert found.exit_code == 0


def test_only_named_metrics_are_judged() -> None:
    found = compared(run(), run("second"), metrics=("speedup",))
    assert {one.metric for point in found.points for one in point.judged} == {
        "fprop speedup",
        "bprop speedup",
    }


@pytest.mark.parametrize(
    ("state", "cause", "verdict", "code"),
    [
        ("FAILED", None, Verdict.WORSE, 1),
        ("ERROR", "crashed", Verdict.WORSE, 1),
        ("UNSUPPORTED", None, Verdict.UNCLEAR, 3),
        ("PENDING", None, Verdict.UNCLEAR, 3),
    ],
)
def test_an_outcome_that_changed_opens_no_gate(
    state: str, cause: str | None, verdict: Verdict, code: int
) -> None:
    found = compared(run(), with_state(run("second"), state, cause))
    assert found.points[0].verdict is verdict
    assert found.exit_code == code


def test_what_failed_before_and_passes_now_is_better() -> None:
    found = compared(with_state(run(), "ERROR", "crashed"), run("second"))
    assert found.points[0].verdict is Verdict.BETTER
    assert found.exit_code == 0


@pytest.mark.parametrize("cause", ["cancelled", "preempted", "node_fail", "storage", "lost"])
def test_what_the_cluster_ended_is_unclear_on_either_side(cause: str) -> None:
    ended = with_state(run("second"), "ERROR", cause)
    for found in (compared(run(), ended), compared(ended, run("third"))):
        assert found.points[0].verdict is Verdict.UNCLEAR
        assert found.points[0].outcome.endswith("is unrelated to the point itself")
        assert found.exit_code == 3
    late = compared(run(), with_state(run("second"), "ERROR", "timeout"))
    assert late.exit_code == 1


def test_unsupported_on_both_sides_is_the_same() -> None:
    found = compared(with_state(run(), "UNSUPPORTED"), with_state(run("second"), "UNSUPPORTED"))
    assert found.points[0].verdict is Verdict.SAME
    assert found.exit_code == 0


def test_a_point_that_is_missing_now_holds_the_gate() -> None:
    found = compared(run(), run("second", lengths=(2048,)))
    assert [one.point.setting("shape.seq_len") for one in found.only_first] == [4096]
    assert found.exit_code == 3
    assert compared(run(lengths=(2048,)), run("second")).exit_code == 0


def test_folder_place_and_order_of_points_do_not_matter() -> None:
    second = run("second")
    points = [
        dataclasses.replace(point, point_id=f"other-{point.point_id}", sweep_id="s-9", job_id="77")
        for point in reversed(second.points)
    ]
    found = compared(run(), Collection("second", points))
    assert len(found.points) == 2
    assert not found.only_first


def test_a_key_that_a_later_version_added_counts_as_its_default() -> None:
    first = run()
    for point in first.points:
        del point.config["benchmark"]["cuda_graph"]
    assert len(compared(first, run("second")).points) == 2


def test_what_was_asked_differently_is_named_and_can_be_let_pass() -> None:
    first, second = run(lengths=(4096,)), run("second", lengths=(4096,))
    second.points[0].config["benchmark"]["blocks"] = 40
    found = compared(first, second)
    assert not found.points
    assert "benchmark.blocks (20 vs 40)" in found.only_first[0].why
    assert len(compared(first, second, ignore=("benchmark",)).points) == 1


def test_gpus_are_never_compared_silently() -> None:
    first = run(gpu="gb300")
    second = Collection(
        "second",
        [
            collected(record(point.point_id, point.config, gpu_name="NVIDIA GB200"))
            for point in run("second", gpu="gb300").points
        ],
    )
    found = compared(first, second)
    assert not found.points
    assert "NVIDIA GB300 vs NVIDIA GB200" in found.only_first[0].why
    assert found.exit_code == 3
    allowed = compared(first, second, across_gpus=True)
    assert allowed.points[0].gpus == ("NVIDIA GB300", "NVIDIA GB200")
    assert len(compared(first, run("x", gpu="h200"), across_gpus=True).points) == 2


def of_gpu(name: str, gpu: str, scale: float = 1.0) -> list[PointResult]:
    """Points that were asked for one GPU and ran on another."""
    return [
        collected(record(point.point_id, point.config, gpu_name=gpu, scale=scale))
        for point in run(name, gpu="gb300").points
    ]


def test_a_side_of_two_gpus_serves_both() -> None:
    baseline = Collection(
        "both", of_gpu("a", "NVIDIA GB300") + of_gpu("b", "NVIDIA GB200", scale=2)
    )
    for gpu, scale in (("NVIDIA GB300", 1), ("NVIDIA GB200", 2)):
        found = compared(baseline, Collection("second", of_gpu("c", gpu, scale=scale)))
        assert [point.gpus for point in found.points] == [(gpu, gpu)] * 2
        assert found.repeated == 0
        assert {one.verdict for point in found.points for one in point.judged} == {Verdict.SAME}
        assert len(found.only_first) == 2
    found = compared(baseline, Collection("second", of_gpu("c", "NVIDIA B200")))
    assert "NVIDIA GB300, NVIDIA GB200 vs NVIDIA B200" in found.only_second[0].why


def test_a_newer_end_whose_gpu_is_not_known_stands_for_the_run_before_it() -> None:
    lost = [
        collected(
            record(point.point_id, point.config, Outcome.ERROR, cause=Cause.crashed).model_copy(
                update={"environment": Environment(), "finished_at": "2026-01-01T00:00:00Z"}
            )
        )
        for point in run().points
    ]
    found = compared(run(), Collection("second", [*run("second").points, *lost]))
    assert found.repeated == 2
    assert found.counts == {Verdict.WORSE: 2}


def test_other_inputs_make_other_errors_that_are_no_regression() -> None:
    first, second = run(), with_error(run("second"), "dx", 1.5)
    for point in second.points:
        point.config["shape"]["seed"] = 7
    found = compared(first, second, ignore=("shape.seed",))
    assert found.counts == {Verdict.UNCLEAR: 2}
    worse = [one for one in found.points[0].judged if one.verdict is not Verdict.SAME]
    own = "BF16's own: 0.0078 to 0.0078"
    assert {one.note for one in worse} == {f"different inputs: shape.seed (42 vs 7); {own}"}
    missed = with_error(run("second"), "dx", 1.5, passed=False)
    for point in missed.points:
        point.config["shape"]["seed"] = 7
    assert compared(first, missed, ignore=("shape.seed",)).exit_code == 1


def test_a_label_of_two_points_names_nothing_in_which_they_may_differ() -> None:
    found = compared(run(recipe="mxfp8"), run("b", recipe="fp8_block"), ignore=("recipe",))
    assert [point.label for point in found.points] == [
        "dsv3 b=1 s=2048 gb300",
        "dsv3 b=1 s=4096 gb300",
    ]


def test_labels_tell_both_sides_apart() -> None:
    first, second = run(), run("second")
    for point in second.points:
        point.config["shape"]["seed"] = 7
    found = compared(first, second)
    assert found.only_first[0].point.label.endswith(" seed=42")
    assert found.only_second[0].point.label.endswith(" seed=7")


def test_of_repeated_points_by_other_software_the_newest_counts() -> None:
    older = run(day=1, scale=1.5, driver="570.1")
    twice = Collection("second", [*older.points, *run(day=2).points])
    found = compared(run(), twice)
    assert found.repeated == 2
    assert found.exit_code == 0


def test_runs_of_the_same_software_count_together() -> None:
    runs = [run(day=day, seed=10 * day, scale=1 + day / 100) for day in (1, 2, 3)]
    thrice = Collection("second", [point for one in runs for point in one.points])
    found = compared(run(), thrice)
    assert found.repeated == 0
    (fprop,) = [one for one in found.points[0].judged if one.metric == "recipe fprop"]
    assert "second: mean of 3 runs" in fprop.note
    assert fprop.ratio is not None
    assert fprop.ratio.value == pytest.approx(1.02, abs=0.004)


def test_emulated_times_are_not_compared_but_their_errors_are() -> None:
    found = compared(run(gpu="cpu"), run("second", gpu="cpu", scale=2))
    metrics = {one.metric for point in found.points for one in point.judged}
    assert metrics
    assert all(metric.startswith("error of") for metric in metrics)


def with_error(collection: Collection, name: str, factor: float, **more: object) -> Collection:
    points = []
    for point in collection.points:
        assert point.record is not None
        plain = point.record.model_dump(mode="json")
        for error in plain["validation"]["tensors"]:
            if error["tensor"] == name and error["arm"] == "recipe":
                error["rel_l2"] *= factor
                error.update(more)
        points.append(collected(Record.model_validate(plain)))
    return Collection(collection.name, points)


@pytest.mark.parametrize(
    ("factor", "more", "verdict"),
    [
        (1.0, {}, Verdict.SAME),
        (1.04, {}, Verdict.SAME),
        (1.1, {}, Verdict.WORSE),
        (0.9, {}, Verdict.BETTER),
        (1.0, {"passed": False}, Verdict.WORSE),
        (1.0, {"nonfinite_count": 3}, Verdict.WORSE),
        (1.0, {"rel_l2": "NaN"}, Verdict.UNCLEAR),
    ],
)
def test_accuracy_is_judged_tensor_by_tensor(
    factor: float, more: dict[str, object], verdict: Verdict
) -> None:
    found = compared(run(), with_error(run("second"), "dx", factor, **more))
    assert verdicts(found, "error of dx") == {verdict}
    assert verdicts(found, "error of q") == {Verdict.SAME}


def test_a_tensor_judged_on_one_side_alone_is_unclear() -> None:
    second = with_error(run("second"), "dx", 1.0, tensor="dy")
    assert verdicts(compared(run(), second), "error of dx") == {Verdict.UNCLEAR}


def test_why_they_may_differ_is_every_fact_that_does() -> None:
    second = run("second", driver="590.1", cudnn_torch="9.22.0", variables={"NVTE_X": "1"})
    facts = {
        one.fact: (one.first, one.second, one.pairs) for one in compared(run(), second).differences
    }
    assert facts == {
        "driver": ("580.82.07", "590.1", 2),
        "cuDNN of torch": ("9.21.1", "9.22.0", 2),
        "NVTE_DEBUG": ("0", "none", 2),
        "NVTE_X": ("none", "1", 2),
    }


def test_a_slower_arm_names_the_stages_that_moved() -> None:
    point = compared(run(), run("second", scale=1.04)).points[0]
    assert point.stages["recipe fprop attention"] == pytest.approx(1.04, abs=0.02)
    assert not any(name.startswith("bf16") for name in point.stages)


def test_every_further_collection_is_judged_against_the_first() -> None:
    found = compare([run("a"), run("b"), run("c", scale=1.04)])
    assert [(one.first, one.second) for one in found] == [("a", "b"), ("a", "c")]
    assert exit_code(found) == 1


def test_json_for_scripts_holds_no_word_that_json_has_not() -> None:
    found = compare([run(), with_error(run("second"), "dx", 1.0, rel_l2="Infinity")])
    (plain,) = json.loads(as_json(found))
    assert plain["exit_code"] == 3
    assert plain["points"][0]["verdict"] == "UNCLEAR"


@pytest.mark.parametrize("value", [0.0, -1.0, 1.0, float("nan")])
def test_a_threshold_that_makes_no_sense_is_refused(value: float) -> None:
    with pytest.raises(InvalidValue) as caught:
        Rules(threshold=value)
    assert caught.value.key == "compare.threshold"


@pytest.mark.parametrize(
    "rules", [{"ignore": ("nonsense",)}, {"ignore": ("shape.nope",)}, {"metrics": ("speedups",)}]
)
def test_words_that_mean_nothing_are_refused(rules: dict[str, object]) -> None:
    with pytest.raises(InvalidValue) as caught:
        compared(run(), run("second"), **rules)
    assert caught.value.key == f"compare.{next(iter(rules))}"


@pytest.mark.parametrize("word", ["speedup", "recipe", "bf16 bprop", "error", "dx", "worst head"])
def test_every_word_of_a_metric_is_taken(word: str) -> None:
    found = compared(run(), run("second"), metrics=(word,), ignore=("benchmark", "shape.seed"))
    assert all(word in one.metric for point in found.points for one in point.judged)


def test_a_point_whose_plan_is_lost_matches_nothing() -> None:
    lost = dataclasses.replace(run().points[0], config={})
    found = compared(Collection("first", [lost]), run("second"))
    assert not found.points
    assert "not known" in found.only_first[0].why


def test_asking_for_other_recipes_can_be_compared_on_purpose() -> None:
    found = compared(
        run(recipe="mxfp8"), run("second", recipe="fp8_current"), ignore=("recipe", "backend")
    )
    assert len(found.points) == 2
    assert point_config("mxfp8") != point_config("fp8_current")


def test_the_share_of_blocks_that_ran_throttled_is_told_of_what_they_are_missing_from() -> None:
    first, second = run(), run("second", seed=50)
    left = second.points[0].record
    assert left is not None
    assert left.benchmark is not None
    left.benchmark.arms[0].bprop.throttled[0] = True
    throttled, clean = compared(first, second).points
    # Block i of every arm and direction ran in the same moment.
    times = [one.note for one in throttled.judged if one.unit]
    assert len(times) == 6
    assert all(note.startswith("second: 5 % of the blocks excluded") for note in times)
    assert not any(one.note for one in clean.judged if one.unit)
    again = compared(second, second).points[0].judged[0]
    assert again.note.startswith("first and second: 5 % of the blocks")
