"""Records are read and written whole, and their schema is the one that is published."""

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


def test_the_schema_is_one() -> None:
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
    ("content", "told"),
    [
        (b"", "is no record"),
        (b"{", "is no record"),
        (b"\xff\xfe", "is no record"),
        (b"[]", "is no record"),
        (b"{}", "is no record: identity: Field required"),
        (b'{"identity": {"point_id": "p"}, "config": {}, "outcome": "GOOD"}', "outcome"),
        (b"[" * 100_000, "is no record"),
    ],
)
def test_a_broken_record_is_told_with_its_file(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(content)
    with pytest.raises(RecordError, match=r"record\.json") as error:
        read_record(path)
    assert told in str(error.value)


def test_a_missing_and_a_huge_record_are_told(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot be read"):
        read_record(tmp_path / "none.json")
    huge = tmp_path / "record.json"
    with huge.open("wb") as handle:
        handle.truncate(MAX_BYTES + 1)
    with pytest.raises(RecordError, match="larger than 16 MiB"):
        read_record(huge)


def test_every_cause_has_the_name_that_design_lists() -> None:
    assert {cause.name for cause in Cause} == {cause.value for cause in Cause}
