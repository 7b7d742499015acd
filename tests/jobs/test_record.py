"""Records survive a round trip, and their schema is the published one."""

from __future__ import annotations

import json
import math
from pathlib import Path

import jsonschema
import pytest

from jobs.errors import RecordError
from jobs.files import MAX_BYTES
from jobs.record import (
    SCHEMA_VERSION,
    Cause,
    Identity,
    Outcome,
    Record,
    TensorError,
    Validation,
    json_schema,
    read_record,
    to_json,
)

SCHEMA_FILE = Path(__file__).resolve().parents[2] / "docs" / "record.schema.json"


def record(**changed: object) -> Record:
    fields: dict[str, object] = {
        "identity": Identity(point_id="p-1"),
        "config": {},
        "outcome": Outcome.PASSED,
    }
    return Record.model_validate(fields | changed)


def with_error(value: float) -> Record:
    error = TensorError(
        tensor="dx",
        reference="fp32",
        arm="recipe",
        rel_l2=value,
        max_abs=value,
        rmse=value,
        cosine=value,
        nonfinite_count=1,
    )
    return record(validation=Validation(tolerance="none", tensors=[error]))


def test_the_published_schema_is_current() -> None:
    assert SCHEMA_FILE.read_text() == json_schema(), (
        "run: python -m jobs.record > docs/record.schema.json"
    )


def test_the_schema_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(json_schema()))


@pytest.mark.parametrize("value", [0.5, math.nan, math.inf, -math.inf])
def test_every_number_survives_a_round_trip_and_fits_the_schema(
    tmp_path: Path, value: float
) -> None:
    path = tmp_path / "record.json"
    path.write_text(to_json(with_error(value)))
    jsonschema.validate(json.loads(path.read_text()), json.loads(json_schema()))
    back = read_record(path).validation
    assert back is not None
    found = back.tensors[0].rel_l2
    assert found == value or (math.isnan(found) and math.isnan(value))


def test_fields_of_a_newer_version_are_kept(tmp_path: Path) -> None:
    newer = json.loads(to_json(record())) | {"schema_version": SCHEMA_VERSION + 1, "moon": "full"}
    path = tmp_path / "record.json"
    path.write_text(json.dumps(newer))
    back = json.loads(to_json(read_record(path)))
    assert back["moon"] == "full"
    assert back["schema_version"] == SCHEMA_VERSION + 1


@pytest.mark.parametrize(
    ("content", "named"),
    [
        *((content, "") for content in (b"", b"{", b"\xff\xfe", b"[]", b"[" * 100_000)),
        (b"{}", "identity"),
        (b'{"identity": {"point_id": "p"}, "config": {}, "outcome": "GOOD"}', "outcome"),
        (None, ""),
        (b" " * (MAX_BYTES + 1), "16 MiB"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_broken_record_is_refused_with_its_file(
    tmp_path: Path, content: bytes | None, named: str
) -> None:
    path = tmp_path / "record.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecordError) as error:
        read_record(path)
    assert error.value.path == path
    assert named in error.value.problem


def test_the_name_of_a_cause_is_its_value() -> None:
    assert {cause.name for cause in Cause} == {cause.value for cause in Cause}
