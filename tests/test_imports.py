"""The order of imports, and what a command must not load, by scanning and in fresh processes."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.fake_node import install

ROOT = Path(__file__).parents[1]
# Top first, as in DESIGN.md: a module imports only from its own folder and those below it.
HOUSE = (
    "launch",
    "hydra_plugins",
    "jobs.verbs",
    "jobs.compare",
    "jobs.report",
    "jobs.collect",
    "jobs.status",
    "jobs.schedulers",
    "jobs.sweeps",
    "jobs.terminal",
    "jobs.runner",
    "jobs.node",
    "jobs",
    "mxfp8_attention",
    "conf",
)
# Only launch.py imports it.
PLUGINS = "hydra_plugins"
NODE_SIDE = ("conf", "mxfp8_attention", "jobs.node", "jobs.runner")
# A separate process on the node, which the login side never imports.
CHILD = "jobs.node"
# Uses submitit, which is packed with it into the sweep folder.
SUBMITIT_ENTRY = "jobs.runner.bootstrap"
LOGIN_ONLY = {"hydra", "omegaconf", "submitit", "rich"}
LAZY = {"transformer_engine", "matplotlib"}


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the product, with its file."""
    for folder in ("conf", "mxfp8_attention", "jobs", PLUGINS):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path
    yield "launch", ROOT / "launch.py"


def imports(tree: ast.AST, *, everywhere: bool) -> Iterator[str]:
    """Dotted names of imports, with `everywhere` also those in functions, but none for types."""
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


def floor(name: str) -> int | None:
    """Index of a module's folder in HOUSE; None for other packages."""
    for number, folder in enumerate(HOUSE):
        if name == folder or name.startswith(f"{folder}."):
            return number
    return None


MODULES = list(modules())
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES}
SHARED = {name for name, _ in MODULES if floor(name) == HOUSE.index("jobs")}


def test_a_folder_imports_only_from_those_below_it() -> None:
    wrong = [
        f"{name} imports {imported}"
        for name, tree in TREES.items()
        if (own := floor(name)) is not None
        for imported in imports(tree, everywhere=True)
        if (other := floor(imported)) is not None and other < own
    ]
    assert wrong == []


def test_nothing_outside_a_scheduler_s_folder_tests_which_scheduler_it_has() -> None:
    names = {path.name for path in (ROOT / "jobs" / "schedulers").iterdir() if path.is_dir()}
    names -= {"__pycache__"}
    wrong = [
        f"{name}: {ast.unparse(node)}"
        for name, tree in TREES.items()
        if not name.startswith(("conf", *(f"jobs.schedulers.{one}" for one in names)))
        for node in ast.walk(tree)
        if _names_a_scheduler(node, names)
    ]
    assert wrong == []


def _names_a_scheduler(node: ast.AST, names: set[str]) -> bool:
    """True for a comparison with a scheduler's name, and for an import from its folder."""
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").startswith(tuple(f"jobs.schedulers.{one}" for one in names))
    if isinstance(node, ast.Attribute):  # the choices of conf/choices.py
        return ast.unparse(node) in {f"Scheduler.{one}" for one in names}
    return isinstance(node, ast.Compare) and any(
        isinstance(part, ast.Constant) and part.value in names for part in ast.walk(node)
    )


def test_no_module_imports_itself_through_others() -> None:
    arrows = {
        name: {
            target
            for imported in imports(tree, everywhere=True)
            for target in (imported, imported.rpartition(".")[0])
            if target in TREES and target != name
        }
        for name, tree in TREES.items()
    }
    TopologicalSorter(arrows).prepare()  # raises CycleError, which names the circle


def test_the_login_side_never_imports_the_child_of_the_node() -> None:
    wrong = [
        f"{name} imports {imported}"
        for name, tree in TREES.items()
        if not name.startswith(CHILD)
        for imported in imports(tree, everywhere=True)
        if imported.startswith(f"{CHILD}.")
    ]
    assert wrong == []


def test_only_launch_and_its_plugins_import_hydra() -> None:
    importers = {
        name
        for name, tree in TREES.items()
        for imported in imports(tree, everywhere=True)
        if imported.partition(".")[0] in ("hydra", "omegaconf", PLUGINS)
    }
    assert {name for name in importers if name.partition(".")[0] != PLUGINS} == {"launch"}


def test_the_node_s_side_never_imports_what_only_a_login_node_has() -> None:
    wrong = [
        f"{name} imports {imported}"
        for name, tree in TREES.items()
        if (name.startswith(NODE_SIDE) and name != SUBMITIT_ENTRY) or name in SHARED
        for imported in imports(tree, everywhere=True)
        if imported.partition(".")[0] in LOGIN_ONLY
    ]
    assert wrong == []


def test_heavy_optional_packages_are_imported_inside_functions() -> None:
    wrong = [
        f"{name} imports {imported}"
        for name, tree in TREES.items()
        for imported in imports(tree, everywhere=False)
        if imported.partition(".")[0] in LAZY
    ]
    assert wrong == []


def test_the_login_side_imports_no_torch() -> None:
    for name, tree in TREES.items():
        if name.startswith(("mxfp8_attention", CHILD)):
            continue
        imported = set(imports(tree, everywhere=True))
        assert not [one for one in imported if one == "torch" or one.startswith("torch.")], name


def loaded_after(script: str, *, cwd: Path) -> set[str]:
    """Packages loaded in a fresh process after a script; its output is discarded."""
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
@pytest.mark.parametrize("package", ["jobs.node", "mxfp8_attention", "jobs.runner"])
def test_in_a_fresh_process_the_node_s_side_loads_nothing_of_the_login_side(
    package: str, tmp_path: Path
) -> None:
    names = [
        name
        for name, _ in MODULES
        if (name == package or name.startswith(f"{package}."))
        and not name.endswith(("__main__", ".triton", ".triton_kernels"))
    ]
    script = "import importlib\n" + "\n".join(f"importlib.import_module({n!r})" for n in names)
    loaded = loaded_after(script, cwd=tmp_path)
    assert not loaded & (LOGIN_ONLY | LAZY)
    if package == "jobs.runner":
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
