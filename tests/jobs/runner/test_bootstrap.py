"""The entry point of a job rejects an old Python, in a file that every Python can parse."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from jobs.runner import bootstrap


def test_an_old_interpreter_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 18, "final", 0))
    with pytest.raises(SystemExit) as ended:
        bootstrap.main()
    for part in ("3.11", "3.9.18", sys.executable, "cluster.python"):
        assert part in str(ended.value)


def test_its_syntax_is_as_old_as_what_it_rejects() -> None:
    tree = ast.parse(Path(bootstrap.__file__).read_text(), feature_version=(3, 4))
    nodes = list(ast.walk(tree))
    assert not any(isinstance(node, ast.JoinedStr | ast.AnnAssign) for node in nodes)
    assert not any(isinstance(node, ast.FunctionDef) and node.returns for node in nodes)
    imported = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert imported == {"submitit.core.submission"}


def test_the_oldest_version_is_that_of_the_project() -> None:
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert f'requires-python = ">={".".join(map(str, bootstrap.OLDEST))}"' in project
