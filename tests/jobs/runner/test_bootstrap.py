"""What a job starts tells an interpreter that is too old, in words that every Python can read."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from jobs.runner import bootstrap


def test_an_interpreter_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 18, "final", 0))
    with pytest.raises(SystemExit) as ended:
        bootstrap.main()
    told = str(ended.value)
    assert "must be Python 3.11 or later, got 3.9.18" in told
    assert sys.executable in told
    assert "cluster.python" in told


def test_its_words_are_as_old_as_what_they_refuse() -> None:
    tree = ast.parse(Path(bootstrap.__file__).read_text(), feature_version=(3, 4))
    nodes = list(ast.walk(tree))
    assert not any(isinstance(node, ast.JoinedStr | ast.AnnAssign) for node in nodes)
    assert not any(isinstance(node, ast.FunctionDef) and node.returns for node in nodes)
    imported = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert imported == {"submitit.core.submission"}


def test_the_oldest_is_what_the_project_asks_for() -> None:
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert f'requires-python = ">={".".join(map(str, bootstrap.OLDEST))}"' in project
