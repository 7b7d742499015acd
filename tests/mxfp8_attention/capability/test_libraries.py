"""Two cuDNNs on one machine are detected, whichever way they disagree."""

from __future__ import annotations

import sys

import pytest

from mxfp8_attention.capability import libraries
from mxfp8_attention.capability.libraries import LibraryAnswers, query_libraries, show_version

YES = {"fp8": [True, ""], "mxfp8": [False, "needs 10.0"], "fp8_block_scaling": [True, ""]}
# As seen on a machine with 9.14.0 in the system and 9.19.0 beside PyTorch.
MISMATCH = (
    "RuntimeError: cuDNN version incompatibility: PyTorch was compiled against (9, 19, 0) "
    "but answers runtime version (9, 14, 0)."
)
SYMBOL = "OSError: libcudnn_heuristic.so.9: undefined symbol: _ZN5cudnn"


@pytest.mark.parametrize(
    ("encoded", "shown"), [(91900, "9.19.0"), (92101, "9.21.1"), (8907, "8.9.7"), (90000, "9.0.0")]
)
def test_encoded_versions_are_decoded(encoded: int, shown: str) -> None:
    assert show_version(encoded) == shown


def test_one_cudnn_for_both_is_no_conflict() -> None:
    answers = LibraryAnswers.from_replies({"torch": 91900}, {"te": 91900, "torch": 91900, **YES})
    assert (answers.cudnn_torch, answers.cudnn_te) == ("9.19.0", "9.19.0")
    assert answers.conflict is None
    assert not answers.differ
    assert answers.availability["mxfp8"] == (False, "needs 10.0")


def test_two_that_both_work_differ_without_a_conflict() -> None:
    answers = LibraryAnswers.from_replies({"torch": 91900}, {"te": 92101, "torch": 91900, **YES})
    assert answers.differ
    assert answers.conflict is None


@pytest.mark.parametrize(
    ("alone", "together", "user"),
    [
        ({"torch_error": MISMATCH}, {"te": 91400, **YES}, "PyTorch alone"),
        (
            {"torch": 91900},
            {"te": 91400, "torch_error": MISMATCH, **YES},
            "PyTorch beside Transformer Engine",
        ),
        ({"torch": 91900}, {"te_error": SYMBOL, "torch": 91900}, "Transformer Engine"),
    ],
)
def test_a_conflict_names_the_user_and_the_error(
    alone: dict[str, object], together: dict[str, object], user: str
) -> None:
    answers = LibraryAnswers.from_replies(alone, together)
    assert answers.conflict is not None
    assert answers.conflict.user == user
    assert "cudnn" in answers.conflict.error.lower()


def test_a_library_that_is_not_installed_is_no_cudnn_conflict() -> None:
    missing = "ModuleNotFoundError: No module named 'transformer_engine'"
    answers = LibraryAnswers.from_replies({"torch": 91900}, {"te_error": missing, "torch": 91900})
    assert answers.conflict is None
    assert answers.te_error == missing


def test_a_child_that_dies_is_reported_and_its_earlier_replies_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replies = "print('REPLY {\"torch\": 91900}', flush=True)"
    dies = f"{replies}\nimport os, signal\nos.kill(os.getpid(), signal.SIGSEGV)"
    monkeypatch.setattr(libraries, "_TORCH_PROGRAM", replies)
    monkeypatch.setattr(libraries, "_TRANSFORMER_ENGINE_PROGRAM", dies)
    answers = query_libraries()
    assert answers.cudnn_torch == "9.19.0"
    assert answers.te_error is not None
    assert "exit status -11" in answers.te_error


def test_a_child_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "_TORCH_PROGRAM", "import time; time.sleep(60)")
    monkeypatch.setattr(libraries, "_TRANSFORMER_ENGINE_PROGRAM", "pass")
    answers = query_libraries(timeout_s=0.5)
    assert answers.cudnn_torch_error == "no answer within 0.5 s"


def test_the_children_run_under_this_interpreter() -> None:
    assert sys.executable
    answers = query_libraries()
    # Neither library need be installed here; the query itself never raises.
    assert answers.te_error is not None or answers.cudnn_te is not None
