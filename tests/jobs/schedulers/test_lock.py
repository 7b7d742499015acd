"""One process at a time submits or runs a sweep."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from jobs.schedulers.lock import LOCK, is_submitting, submitting
from tests.builders.ledger import FakeSweep


def test_a_look_does_not_take_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = FakeSweep.plan(tmp_path, [{}]).ledger
    assert not is_submitting(ledger.root)  # nobody ever had it
    with submitting(ledger):
        assert is_submitting(ledger.root)
    assert not is_submitting(ledger.root)
    looking = (ledger.root / LOCK).open("rb")
    fcntl.flock(looking, fcntl.LOCK_SH)
    monkeypatch.setattr("jobs.schedulers.lock.time.sleep", lambda _: looking.close())
    with submitting(ledger):
        assert looking.closed
