"""The point file is read or refused in one line, and an attempt knows whose it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conf.plain import to_plain
from jobs.errors import UsageError
from jobs.node.point_file import attempt_identity, read_point_file
from tests.jobs.node.points import point, write_point_file


def test_a_point_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = write_point_file(tmp_path / "p.json", point(), commit="abc", dirty=True)
    read = read_point_file(path)
    assert read.point == point()
    assert read.config == to_plain(point())
    assert (read.point_id, read.sweep_id) == ("p-test", "s-test")
    assert read.submitted == {"commit": "abc", "dirty": True}
    assert read.text("commit") == "abc"
    assert read.text("image") is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "must be JSON"),
        ("[]", "must hold an object with the key point"),
        ('{"point": 1}', "must hold an object with the key point"),
        ('{"point": {"shape": {"widht": 1}}}', "unknown key shape.widht"),
        ('{"point": {"backend": "cuda"}}', "backend must be one of te, emulated"),
        ('{"point": {"shape": {"hidden": "wide"}}}', "shape.hidden must be of type int"),
    ],
)
def test_a_broken_point_file_is_told_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"p\.json") as error:
        read_point_file(path)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_point_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_point_file(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("variables", "job_id", "raw", "restarts"),
    [
        ({}, None, None, 0),
        ({"MXFP8_JOB_ID": "local-7"}, "local-7", None, 0),
        ({"SLURM_JOB_ID": "14"}, "14", "14", 0),
        (
            {
                "SLURM_JOB_ID": "16",
                "SLURM_ARRAY_JOB_ID": "14",
                "SLURM_ARRAY_TASK_ID": "2",
                "SLURM_RESTART_COUNT": "3",
            },
            "14_2",
            "16",
            3,
        ),
        ({"SLURM_JOB_ID": "16", "MXFP8_JOB_ID": "14_2"}, "14_2", "16", 0),
        ({"SLURM_RESTART_COUNT": ""}, None, None, 0),
    ],
)
def test_the_job_is_named_as_people_type_it(
    variables: dict[str, str], job_id: str | None, raw: str | None, restarts: int
) -> None:
    found = attempt_identity("p-1", "s-1", Path("runs/x/attempt-12"), variables)
    assert (found.job_id, found.raw_job_id, found.restart_count) == (job_id, raw, restarts)
    assert found.attempt == 12


def test_a_folder_of_any_name_holds_a_first_attempt() -> None:
    assert attempt_identity("p-1", None, Path("somewhere"), {}).attempt == 1


def test_the_file_holds_nothing_that_json_does_not(tmp_path: Path) -> None:
    path = write_point_file(tmp_path / "p.json", point())
    assert json.loads(path.read_text())["point"]["recipe"]["name"] == "mxfp8"
