"""A short run of the fuzzer, and every input that once raised a fault."""

from __future__ import annotations

import ast
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.fuzz.fuzz import all_readers, fuzz, main
from tests.fuzz.reader import Count, Reader

_ROOT = Path(__file__).parents[2]
_SUMMARY = _ROOT / "docs" / "results" / "fuzz.json"
_DEEP = b"[" * 5000
_PUBLISHED = b'{"name": "p", "rows": [{"name": "a", "gpu_name": "g", "asked": %s, "source": "s", '
_TIMES = b'"recipe": {"fprop_ms": 1, "bprop_ms": 1}, "bf16": {"fprop_ms": 1, "bprop_ms": 1}}]}'
PINNED: list[tuple[str, Any]] = [
    ("id", "~../../etc/passwd"),
    ("id", ",\x1b"),
    ("id", "\x1b_1,2"),
    ("id", ","),
    (
        "squeue and sacct",
        ("14|0|16|PENDING|²|0:12|n1|None|s-1.0|s-1.0|", "14|²|FAILED|0:0|²|n|x|s"),
    ),
    ("scontrol, sinfo, sacctmgr", ("", "", "b|up|2|8|4|" + "9" * 5000 + "|x|idle|", "", "")),
    ("squeue and sacct", ("14|0|16|PENDING|0|" + "9" * 5000 + ":12|n1|None|s|s|", "")),
    ("id", "0" * 5000 + "1"),
    ("record.json on the node", _DEEP),
    ("point.json on the node", _DEEP),
    (".last_seen.json", _DEEP),
    (".last_seen.json", b'{"at": 1' + b"0" * 400 + b', "tasks": {}}'),
    (".last_seen.json", b'{"at": 1, "tasks": {"14_1": {"job_id": 1, "names": [2]}}}'),
    (
        "collection.json",
        b'{"points": [], "problems": [], "name": "x", "job_ids": [], "sweeps": {"s": 1}}',
    ),
    ("published figures", _PUBLISHED % b'{"recipe": null}' + _TIMES),
    ("command line", ("collect", ["=\x08"])),
    ("command line", ("plan", ["hydra.verbose=float(1e400)"])),
    ("command line", ("plan", ["shape.seed=range(0,1000000000)"])),
    ("command line", ("plan", ["~shape=true"])),
    ("command line", ("plan", ["launch.memory_gib=" + "9" * 400])),
    ("command line", ("plan", ["shape.seed=" + "9" * 5000])),
    ("command line", ("plan", ["shape.seed=range(nan,1)"])),
    ("command line", ("plan", ["shape.seed=range(0,1,0)"])),
    ("command line", ("plan", ["hydra.searchpath=[nope://x]"])),
    ("config folder", ("cluster", b"", b"", ["shape=\x1b"])),
    ("config folder", ("shape", b"defaults: {a: 1}", b"", [])),
    ("config folder", ("shape", b"defaults: ['???']", b"", [])),
    ("config folder", ("shape", b"defaults: [two]", b"defaults: [own]", [])),
    ("config folder", ("shape", b"a: " + b"9" * 5000, b"", [])),
    ("config folder", ("cluster", b"!!set (", b"", [])),
    ("numeric keys", (("status", "", "interval_s"), "9" * 400)),
    ("numeric keys", (("plan", "tolerance=seed", "tolerance.atol"), "nan,1")),
    ("environment", (("plan",), {"COLUMNS": "9" * 5000})),
    ("environment", (("-sc", "query=bash"), {"COLUMNS": "9" * 5000})),
    ("environment of a job", {"SLURM_RESTART_COUNT": "9" * 5000}),
    ("completion", ["shape.seed=" + "9" * 5000]),
    ("completion", ["+=x", "shape=tiny"]),
    ("completion", ["shape=0", "latest"]),
    ("completion", ["shape=0", "shape.seq_len=tiny"]),
]


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reader]:
    return {reader.name: reader for reader in all_readers(tmp_path_factory.mktemp("fuzz"))}


@pytest.mark.parametrize(
    ("name", "value"), PINNED, ids=[f"{n}-{i}" for i, (n, _) in enumerate(PINNED)]
)
def test_an_input_that_once_raised_a_fault(
    name: str, value: object, readers: dict[str, Reader]
) -> None:
    readers[name].read(value)


def test_each_reader_accepts_its_valid_input(readers: dict[str, Reader]) -> None:
    assert {name: reader.read(reader.valid) for name, reader in readers.items()} == dict.fromkeys(
        readers, False
    )


def test_a_reader_that_refuses_its_valid_input_is_reported() -> None:
    broken = Reader("broken", st.none(), lambda value: True, 1, None)
    with pytest.raises(AssertionError, match="broken"):
        fuzz([broken], seconds=1)


QUICK = ("id", "squeue and sacct", "scontrol, sinfo, sacctmgr", "log", "record.json")


def test_a_turn_of_the_quick_readers_finds_no_fault(readers: dict[str, Reader]) -> None:
    few = [dataclasses.replace(readers[name], turn=20) for name in QUICK]
    counts = fuzz(few, seconds=float("inf"), first_seed=7, turns=1)
    assert {name: count.faults for name, count in counts.items()} == {name: {} for name in QUICK}
    assert all(count.examples for count in counts.values())


def test_the_committed_summary_is_plausible(
    readers: dict[str, Reader],
) -> None:
    summary = json.loads(_SUMMARY.read_text())
    assert "minutes=10 " in summary["command"]
    assert summary["faults"] == 0
    assert summary["examples"] == sum(one["examples"] for one in summary["readers"].values())
    assert summary["readers"].keys() == readers.keys()
    for name, count in summary["readers"].items():
        assert count["examples"] >= readers[name].turn
        assert count["refused"] < count["examples"], name
        assert count["refused"] > 0 or readers[name].note.startswith("refuses nothing: "), name


def _breaks(read: Callable[[str], bool]) -> Count:
    count = Count()
    count.take_turn(Reader("broken", st.text(max_size=5), read, 50, "x"), 1)
    return count


def test_a_fault_is_noted_with_its_smallest_input(capsys: pytest.CaptureFixture[str]) -> None:
    def read(text: str) -> bool:
        if len(text) > 2:
            raise KeyError(text)
        return not text

    count = _breaks(read)
    ((place, shown),) = count.faults.items()
    assert place.startswith("KeyError, test_fuzz.py:")
    assert len(ast.literal_eval(shown)) == 3
    assert "KeyError" in capsys.readouterr().err
    assert count.refused > 0


def test_the_command_writes_its_summary(tmp_path: Path) -> None:
    output = tmp_path / "fuzz.json"
    assert main(["minutes=0.02", "reader=id", f"output={output}"]) == 0
    assert '"faults": 0' in output.read_text()
