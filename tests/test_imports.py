"""Who imports whom, and what a command must not load: held in fresh processes and by scanning."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fake_node import install

ROOT = Path(__file__).parents[1]
# Lowest first: a module imports its own layer and those before it.
LAYERS = ("conf", "mxfp8_attention", "jobs.record", "jobs.node", "jobs.cluster", "launch")
# Hydra's side of conf and of the planner: only launch.py imports it.
PLUGINS = "hydra_plugins"
SHARED = {
    *("jobs", "jobs.errors", "jobs.files", "jobs.log_pipe", "jobs.perf", "jobs.text"),
    *("jobs.span", "jobs.words"),
}
LOGIN_ONLY = {"hydra", "omegaconf", "submitit", "rich"}
LAZY = {"transformer_engine", "matplotlib"}


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the product and its file."""
    for folder in ("conf", "mxfp8_attention", "jobs", PLUGINS):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path
    yield "launch", ROOT / "launch.py"


def imports(tree: ast.AST, *, everywhere: bool) -> Iterator[str]:
    """What is imported, dotted; inside functions only if `everywhere`, for types alone never."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the direction"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        elif everywhere or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imports(node, everywhere=everywhere)


def layer(name: str) -> int | None:
    """The place of one of our modules in the order of imports, None for other packages."""
    for number in reversed(range(len(LAYERS))):
        if name == LAYERS[number] or name.startswith(f"{LAYERS[number]}."):
            return number
    return None


MODULES = list(modules())
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES}


def test_imports_go_one_way() -> None:
    wrong = [
        f"{name} imports {found}"
        for name, tree in TREES.items()
        if (own := layer(name)) is not None
        for found in imports(tree, everywhere=True)
        if (other := layer(found)) is not None and other > own
    ]
    assert wrong == []


def test_what_both_sides_share_imports_neither() -> None:
    for name in sorted(SHARED):
        sides = ("jobs.node", "jobs.cluster", "launch", PLUGINS)
        assert not [i for i in imports(TREES[name], everywhere=True) if i.startswith(sides)], name


def test_only_launch_and_its_plugins_import_hydra() -> None:
    importers = {
        name
        for name, tree in TREES.items()
        for found in imports(tree, everywhere=True)
        if found.partition(".")[0] in ("hydra", "omegaconf", PLUGINS)
    }
    assert {name for name in importers if name.partition(".")[0] != PLUGINS} == {"launch"}


def test_the_node_s_side_never_imports_what_only_a_login_node_has() -> None:
    wrong = [
        f"{name} imports {found}"
        for name, tree in TREES.items()
        if name.startswith(("conf", "mxfp8_attention", "jobs.node")) or name in SHARED
        for found in imports(tree, everywhere=True)
        if found.partition(".")[0] in LOGIN_ONLY
    ]
    assert wrong == []


def test_heavy_optional_packages_are_imported_inside_functions() -> None:
    wrong = [
        f"{name} imports {found}"
        for name, tree in TREES.items()
        for found in imports(tree, everywhere=False)
        if found.partition(".")[0] in LAZY
    ]
    assert wrong == []


def test_the_login_side_imports_neither_torch_nor_the_node_s_side() -> None:
    login = [
        name for name in TREES if name.startswith(("conf", "jobs.cluster", PLUGINS, "launch"))
    ]
    for name in [*login, *SHARED]:
        found = set(imports(TREES[name], everywhere=True))
        assert not [name for name in found if name.startswith(("torch.", "jobs.node"))], name
        assert "torch" not in found, name


def loaded_after(script: str, *, cwd: Path) -> set[str]:
    """The packages in a fresh process once a script has run; what it prints is thrown away."""
    program = f"import json, sys\n{script}\nprint('\\n' + json.dumps(list(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.timeout(180)  # the node's side imports torch
@pytest.mark.parametrize("package", ["jobs.node", "mxfp8_attention", "jobs.cluster.entry"])
def test_in_a_fresh_process_the_node_s_side_loads_nothing_of_the_login_side(
    package: str, tmp_path: Path
) -> None:
    names = [
        name
        for name, _ in MODULES
        if (name == package or name.startswith(f"{package}."))
        and not name.endswith(("__main__", "rope_triton", "_triton"))
    ]
    script = "import importlib\n" + "\n".join(f"importlib.import_module({n!r})" for n in names)
    loaded = loaded_after(script, cwd=tmp_path)
    assert not loaded & (LOGIN_ONLY | LAZY)
    if package == "jobs.cluster.entry":
        assert not loaded & {"torch", "pydantic", "numpy"}


def test_in_a_fresh_process_the_login_side_loads_no_torch(tmp_path: Path) -> None:
    places = [f"runs_dir={tmp_path / 'runs'}", f"results_dir={tmp_path / 'results'}"]
    commands = [
        ["--help"],
        ["plan", *places],
        ["sweep", f"cluster.python={install(tmp_path)}", *places],
        ["status", "latest", *places],
        ["collect", "latest", *places],
    ]
    script = "import launch\n" + "\n".join(f"assert launch.main({c!r}) == 0" for c in commands)
    assert not loaded_after(script, cwd=tmp_path) & {"torch", "triton", *LAZY - {"matplotlib"}}


def test_in_a_fresh_process_help_loads_the_least(tmp_path: Path) -> None:
    script = "import launch\nassert launch.main(['--help']) == 0"
    loaded = loaded_after(script, cwd=tmp_path)
    assert not loaded & {"torch", "submitit", "pyarrow", "matplotlib", "numpy", "jinja2", "rich"}
