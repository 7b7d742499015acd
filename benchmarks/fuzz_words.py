"""The command line and a user's own config folder, through `launch.main` in this process."""

from __future__ import annotations

import contextlib
import io
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from hypothesis import strategies as st

import launch
from benchmarks.fuzz_reader import NASTY_TEXT, NUMBERS, Reader
from tests.jobs.cluster.fake_ledger import passed_sweep

UNSHOWN = frozenset(map(chr, [*range(9), *range(11, 32), *range(127, 160)]))
_KEYS = st.sampled_from(
    [
        *("shape", "shape.seq_len", "shape.batch", "shape.num_heads", "shape.head_dim_nope"),
        *("shape.seed", "shape.projection", "shape.name", "gpu", "gpu.name", "gpu.request"),
        *("recipe", "recipe.name", "recipe.fp8_dpa", "backend", "tolerance", "job", "benchmark"),
        *("benchmark.blocks", "benchmark.min_fprop_speedup", "cluster", "cluster.scheduler"),
        *("cluster.partition", "cluster.setup", "cluster.env", "cluster.env.A", "cluster.nice"),
        *("cluster.sbatch.time", "cluster.container.image", "cluster.dependency", "launch"),
        *("launch.points_per_job", "launch.time_min", "launch.memory_gib", "launch.share"),
        *(
            "launch.point_time_limit_s",
            "launch.retries",
            "grid",
            "grid.axes",
            "wait",
            "tolerance.",
        ),
        *(
            "report",
            "watch",
            "interval_s",
            "lines",
            "compare.threshold",
            "compare.ignore",
            "every",
        ),
        *(
            "hydra.mode",
            "hydra.verbose",
            "hydra.searchpath",
            "nope",
            "shape@gpu",
            "a.b.c",
            "",
            "=",
        ),
        *("gpu/x", "recipe@recipe", "override shape", "_target_", "defaults", "hydra/help"),
    ]
)
_VALUES = (
    st.sampled_from(
        [
            *("tiny", "dsv3", "h200", "gb300", "cpu", "mxfp8", "bf16", "te", "slurm", "dlcluster"),
            *("128", "1024,2048", "a,b", "[a,b]", "[", "{", "}", "{a:1}", "{a:{b:c}}", "'", '"'),
            *("range(1,4)", "range(0,3,0.5)", "range(3,1)", "interval(1,2)", "choice(1,2)"),
            *("glob(*)", "glob(s*,exclude=s)", "sort(3,1)", "shuffle(1,2)", "tag(a,1)", "int(x)"),
            *("float(1e400)", "str(1)", "bool(2)", "json_str(1)", "extend_list(1)", "off", "null"),
            *("${shape.batch}", "${nope}", "${oc.env:NOPE}", "${oc.env:HOME}", "${hydra:x}", "${"),
            *("${shape}", "${.}", "${..a}", "\\${a}", "???", "1_000", "0x10", "001", "1e3", "+1"),
            *("a=b", "a:b", "a b", "a\tb", "\\", "~", "true", "false", "quick", "none", "probe"),
        ]
    )
    | NUMBERS.map(str)
    | NASTY_TEXT
    | st.text(max_size=8)
)
_PREFIXES = st.sampled_from(["", "", "", "", "+", "++", "~"])
_OVERRIDES = st.builds(lambda sign, key, value: f"{sign}{key}={value}", _PREFIXES, _KEYS, _VALUES)
_FITTING = st.sampled_from(
    [
        *(
            "shape=tiny",
            "shape.seq_len=128,256",
            "shape.batch=1,2",
            "recipe=bf16,mxfp8",
            "gpu=cpu",
        ),
        *("gpu=h200,gb300", "shape=dsv3", "backend=te", "cluster=local", "launch.retries=1"),
        *(
            "launch.points_per_job=3",
            "cluster.comment=${oc.env:HOME}",
            "grid=seq_len",
            "grid=none",
        ),
        *("tolerance=seed", "benchmark=quick,off", "job=probe", "shape.seed=range(0,4)"),
        *("cluster.env={A:b}", "+cluster.env.B=1", "cluster.setup=[a,b]", "+cluster.sbatch.x=y"),
        *("shape.rope_kernel=triton", "shape.num_heads=1", "benchmark.blocks=10", "shape.name=me"),
    ]
)
_FLAGS = st.sampled_from(
    [
        *("--multirun", "-m", "--cfg", "--cfg=job", "job", "--info", "--info=all", "plugins"),
        *(
            "--resolve",
            "--package",
            "-p",
            "--help",
            "-h",
            "--config-name",
            "--config-dir",
            "-cn=x",
        ),
        *(
            "--config-dir=/nope",
            "--nope",
            "-",
            "--",
            "---",
            "-x",
            "--run",
            "--config-path=.",
            "=x",
        ),
    ]
)
_IDS = st.sampled_from(
    [
        *("latest", "14", "14_1", "14_[0-2]", "14.batch", "p-0001", "s-nope", "local-1", "99"),
        *("14_[", "14_[2-1]", "9" * 30, "p-", "s-../x", "here/", "gathered/", "baseline/x", "x/y"),
    ]
)
_PLAIN = (NASTY_TEXT | st.text(max_size=8)).filter(
    lambda word: "/" not in word and "~" not in word
)
_WORDS = {
    "plan": st.lists(_OVERRIDES | _OVERRIDES | _FLAGS | _PLAIN, max_size=3)
    | st.lists(_FITTING, max_size=4, unique_by=lambda word: word.partition("=")[0]),
    "status": st.lists(_IDS | _OVERRIDES | _PLAIN, max_size=4),
    "collect": st.lists(_IDS | _IDS | _OVERRIDES | _PLAIN, max_size=4),
    "compare": st.lists(_IDS | _IDS | _OVERRIDES | _PLAIN, max_size=4),
    "logs": st.lists(_IDS | _OVERRIDES | _PLAIN, max_size=3),
}
_GROUPS = st.sampled_from(["cluster", "shape", "gpu", "grid", "benchmark", "launch"])
_FILE_KEYS = st.sampled_from(
    [
        *("name", "seq_len", "hidden", "num_heads", "matches", "request", "device", "scheduler"),
        *(
            "partition",
            "setup",
            "env",
            "requests",
            "sbatch",
            "container",
            "axes",
            "blocks",
            "nope",
        ),
        *("time_min", "share", "defaults", "_target_", "_self_", "1", "null", "a.b", "peak_mxfp8"),
    ]
)
_YAML = st.lists(
    st.builds(
        lambda key, value: f"{key}: {value}",
        _FILE_KEYS,
        st.sampled_from(
            [
                *("[", "{a: 1}", "[1, 2]", "{shape.seq_len: [128, 256]}", "{recipe: [bf16, x]}"),
                *("!!python/object:os.system x", "&a [*a]", "*a", "|\n  text", "{seq_len: 1}"),
                *("[/shape: tiny]", "[own]", "[{override /gpu: h200}]", "2001-01-01", "0o7", "~"),
                *(
                    "{gb300: {partition: x}}",
                    "slurm",
                    "local",
                    "tiny",
                    "1e999",
                    ".nan",
                    "''",
                    "{}",
                ),
            ]
        )
        | _VALUES,
    )
    | NASTY_TEXT,
    max_size=5,
).map("\n".join)


def word_readers(folder: Path) -> list[Reader]:
    """Every reader of commands.

    Args:
        folder: Where a home, sweeps and results are made for them.
    """
    user = _User(folder / "user")
    commands = st.sampled_from(sorted(_WORDS)).flatmap(
        lambda verb: st.tuples(st.just(verb), _WORDS[verb])
    )
    files = st.tuples(_GROUPS, _YAML, st.lists(_OVERRIDES, max_size=1))
    return [
        Reader("command line", commands, lambda asked: user.types(asked[0], *asked[1]), turn=60),
        Reader("config folder", files, lambda asked: user.owns(*asked), turn=25),
        Reader("completion", st.lists(_OVERRIDES | _FLAGS | _IDS, max_size=3), user.tabs, turn=20),
    ]


class _User:
    """Somebody at a terminal without SLURM, with one finished sweep."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.config = self.home / "config"
        self.cwd = folder / "cwd"
        for made in (self.config, self.cwd):
            made.mkdir(parents=True)
        self.runs, self.results = folder / "runs", folder / "results"
        root = passed_sweep(self.runs).ledger.root
        (self.cwd / "here").symlink_to(root)
        self.places = (f"runs_dir={self.runs}", f"results_dir={self.results}")
        assert not self.types("collect", "latest", "report=false")
        (self.cwd / "gathered").symlink_to(self.results / root.name)

    def types(self, verb: str, *words: str) -> bool:
        """One command: ends with a known code, and says each problem in a line of its own."""
        with self._seated():
            code, out, err = _run([verb, *words, *self.places])
        _assert_told(code, out, err)
        return code == 2

    def owns(self, group: str, text: str, words: list[str]) -> bool:
        """A plan that names a file of the user's own folder."""
        path = self.config / group / "own.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        try:
            return self.types("plan", f"{group}=own", *words)
        finally:
            path.unlink()

    def tabs(self, words: list[str]) -> bool:
        """The shell asks what may follow; only suggestions are answered, and never an error."""
        line = " ".join(["python launch.py plan", *words]).replace("\0", "")
        asked = {
            "COMP_LINE": line.encode("utf-8", "replace").decode(),
            "COMP_POINT": str(len(line)),
        }
        with self._seated(asked):
            code, out, err = _run(["-sc", "query=bash"])
        assert (code, err) == (0, ""), (code, err)
        assert not UNSHOWN & set(out), out
        return False

    @contextlib.contextmanager
    def _seated(self, more: dict[str, str] | None = None) -> Iterator[None]:
        """In the user's home and folder, with an environment that names no cluster."""
        before, cwd = dict(os.environ), os.getcwd()
        kept = {key: before[key] for key in ("LANG", "LC_ALL") if key in before}
        own = {"HOME": str(self.home), "MXFP8_CONFIG_DIR": str(self.config), "PATH": "/nowhere"}
        os.environ.clear()
        os.environ.update(kept | own | (more or {}))
        os.chdir(self.cwd)
        try:
            yield
        finally:
            os.chdir(cwd)
            os.environ.clear()
            os.environ.update(before)


def _run(words: list[str]) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    handlers = logging.root.handlers[:]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = launch.main(words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        logging.root.handlers[:] = handlers
    return code, out.getvalue(), err.getvalue()


def _assert_told(code: int, out: str, err: str) -> None:
    assert code in (0, 1, 2, 3), code
    assert "Traceback" not in out + err, err
    assert not UNSHOWN & set(out + err), (out, err)
    (out + err).encode()  # or a terminal could not be given it
    if code == 2:
        assert err, out
        assert all(line.startswith("launch.py: ") for line in err.splitlines()), err
