"""The point file is read or refused with its name, and an attempt knows its identity."""

from __future__ import annotations

from pathlib import Path

import pytest

from conf.plain import to_plain
from jobs.errors import FileError
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
    ("content", "named"),
    [
        (None, ""),
        ("{", ""),
        ("[]", "point"),
        ('{"point": 1}', "point"),
        ('{"point": {"shape": {"widht": 1}}}', "shape.widht"),
        ('{"point": {"backend": "cuda"}}', "backend"),
        ('{"point": {"shape": {"hidden": "wide"}}}', "shape.hidden"),
    ],
)
def test_a_broken_point_file_is_refused_with_its_key(
    tmp_path: Path, content: str | None, named: str
) -> None:
    path = tmp_path / "p.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(FileError) as error:
        read_point_file(path)
    assert error.value.path == path
    assert named in error.value.problem
    assert "\n" not in str(error.value)


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
def test_the_job_id_is_that_which_users_type(
    variables: dict[str, str], job_id: str | None, raw: str | None, restarts: int
) -> None:
    found = attempt_identity("p-1", "s-1", Path("runs/x/attempt-12"), variables)
    assert (found.job_id, found.raw_job_id, found.restart_count) == (job_id, raw, restarts)
    assert found.attempt == 12


def test_a_folder_with_any_other_name_is_attempt_1() -> None:
    assert attempt_identity("p-1", None, Path("somewhere"), {}).attempt == 1
