"""A user's mistake is one line on stderr and exit code 2, before anything starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launcher import Launcher

ROOT = Path(__file__).parents[1]

REFUSALS = [
    # values
    ("shape.num_heads=0", "shape.num_heads must be at least 1, got 0"),
    ("tolerance.upper_factor=-1", "tolerance.upper_factor must be at least 0, got -1.0"),
    ("shape.seq_len=abc", "shape.seq_len must be an integer, got 'abc'"),
    ("shape.seq_len=1e3", "shape.seq_len must be an integer, got '1e3'"),
    ("shape.init_std=nan", "shape.init_std must be a finite number, got nan"),
    ("launch.memory_gib=" + "9" * 400, "launch.memory_gib must be a number of at most 300 digits, "
     "got 99999999999999999999... (400 digits)"),
    ("shape.seed=" + "9" * 5000, "shape.seed must be a number of at most 300 digits, got 999999999"
     "99999999999... (5000 digits); for a text, quote it: 'shape.seed=\"99999999999999999999..."),
    ("launch.retries=" + "9" * 400, "launch.retries must fit into 64 bits, got 9999999999999999999"
     "9... (400 digits)"),
    ("launch.memory_gib=inf", "launch.memory_gib must be a finite number, got inf"),
    ("launch.memory_gib=1e308", "launch.memory_gib must be at most 1048576, a petabyte, got 1e+3"),
    ("launch.time_min=1e400", "launch.time_min must be an integer, got '1e400'"),
    ("launch.time_min=525601", "launch.time_min must be at most 525600, got 525601"),
    ("benchmark.budget_s=1e300", "benchmark.budget_s must be at most 31536000, a year, got 1e+30"),
    ("status interval_s=nan", "interval_s must be a finite number, got nan"),
    ("history compare.threshold=" + "9" * 400, "compare.threshold must be a number of at most"),
    ("--cfg job gpu.memory_gib=" + "9" * 400, "gpu.memory_gib must be a number of at most"),
    ("plan --help gpu.memory_gib=" + "9" * 400, "gpu.memory_gib must be a number of at most"),
    ("shape.projection=1e400", "shape.projection must be one of fused, split, got '1e400'"),
    ("shape=" + "x" * 1000, "shape must be one of dsv2_lite, dsv3, dsv3_model, hopper_fp8, kimi_k2"
     ", tiny, got 'xx"),
    ("shape.projection=both", "shape.projection must be one of fused, split, got 'both'"),
    ("gpu.matches=B200", "gpu.matches must be a list, as in [a,b], got 'B200'"),
    ("recipe.name=bf16", "recipe.name must fit the other keys of recipe, got bf16; use recipe=b"),
    ("backend=cuda", "backend must be one of te, emulated, got 'cuda'"),
    ("runs_dir=", "runs_dir must name a folder, got ''; leave it out for runs/"),
    ("shape.seq_len=${nope}", "shape.seq_len must refer to a key that exists, got Interpolation"),
    ("cluster.setup=[env]", "cluster.setup must be empty with a local cluster, got 'env'; type"),
    ("cluster=slurm cluster.setup=[true]", "cluster.setup must be shell lines, got the bool true"
     "; quote it: ['true']"),
    ("cluster.python=../python", "cluster.python must be an absolute path, or a name that the "
     "node's PATH finds, got '../python'; use /"),
    ("cluster.python='~/python'", "cluster.python must be an absolute path, or a name that the "),
    ("cluster.container.python=bin/python", "cluster.container.python must be an absolute path, "),
    ("cluster.container.pythonpath=/a:b", "cluster.container.pythonpath must be one absolute "),
    ("cluster.container.pythonpath=src", "cluster.container.pythonpath must be one absolute path"),
    ("benchmark.bootstrap_resamples=100001", "benchmark.bootstrap_resamples must be at most "),
    # keys and choices
    ("shape.nope=1", "shape.nope is no key of shape; known: attn_mask, batch"),
    ("shap=tiny", "shap is no key; did you mean shape?; known: allow_unsupported, backend"),
    ("+new=1", "new is no key; known: allow_unsupported, backend"),
    ("recipe=bf16 recipe.fp8_dpa=true", "recipe.fp8_dpa is no key of recipe; known: name"),
    ("shape=tinny", "shape must be one of dsv2_lite, dsv3, dsv3_model, hopper_fp8, kimi_k2, tiny, "
     "got 'tinny'; did you mean tiny?"),
    ("shape=null", "shape must be the name of one of its choices, got null"),
    ("shape=[tiny,dsv3]", "shape must have one value, got [tiny,dsv3]; to run several: python"),
    ("shape=tiny shape=dsv3", "shape must be given once, got it twice; last: shape=dsv3"),
    ("shape.seed=1 +shape.seed=2", "shape.seed must be given once, got it twice; last: +shape"),
    ("cluster.env.A=1", "cluster.env.A must be added, for cluster.env holds none of that name "
     "yet: +cluster.env.A=1"),
    ("sweep cluster.env.A=1,2", "cluster.env.A must be added, for cluster.env holds none of that "
     "name yet: +cluster.env.A=1,2"),
    ("cluster.requests.gb300.partition=x", "cluster.requests.gb300 must be added, for "
     "cluster.requests holds none of that name yet: in a file of your own, cluster/NAME.yaml"),
    ("~shape", "shape.name must be given, got nothing"),
    ("~shape.seq_len", "shape.seq_len must stay, got ~shape.seq_len; set it instead"),
    ("=1", "=1 must read key=value, got no key"),
    ("a=b=c", "a=b=c must read key=value, got a word that cannot be parsed; quote it"),
    ("cluster.nodelist=n[1-2]", "cluster.nodelist=n[1-2] must read key=value, got a word that "
     "cannot be parsed; quote it: 'cluster.nodelist=\"n[1-2]\"'"),
    ("cluster.partition=a,b", "cluster.partition=a,b must have one value with this verb; to run "
     "every value: python launch.py sweep cluster.partition=a,b; for one text: "
     "'cluster.partition=\"a,b\"'"),
    ("cluster.srun=--a,--b", "cluster.srun=--a,--b must have one value with this verb; to run "
     "every value: python launch.py sweep cluster.srun=a,b; for a list: cluster.srun=[a,b]"),
    ("shape.seq_len=128,256", "shape.seq_len=128,256 must have one value with this verb; to run"),
    ("collect latest shape=tiny", "shape is no key here; --cfg job shows every key"),
    # sweeps: every point is checked before the first one starts
    ("plan shape.seq_len=128,256,0", "shape.seq_len must be at least 1, got 0"),
    ("sweep shape.seq_len=128,256,abc", "shape.seq_len must be an integer, got 'abc'"),
    ("--multirun recipe=bf16,mxfp9", "recipe must be one of bf16, fp8_block, fp8_current, "),
    ("sweep shape.seq_len=128,128", "shape.seq_len must name each value once, got 128 twice"),
    ("plan shape.seed=range(0,1000000000)", "shape.seed must have at most 10000 values, got more"),
    (
        "plan shape.seed=range(0,4000) shape.batch=1,2,3",
        "a sweep must have at most 10000 points, got 12000: 4000 of shape.seed x 3 of shape.batch",
    ),
    ("plan ~shape=true", "shape must be the name of one of its choices, got true"),
    ("plan hydra.verbose=1", "hydra.verbose must be true, false or names of loggers, got 1"),
    ("sweep shape.seq_len=128,0128", "shape.seq_len=128 and shape.seq_len=0128 make the same p"),
    ("sweep recipe=null,bf16", "recipe must be the name of one of its choices, got null, bf16"),
    ("sweep shape.seq_len=glob(*)", "shape.seq_len must have at least one value, got none"),
    ("sweep shape.seq_len=interval(1,2)", "shape.seq_len must list its values, got shape.seq_len"),
    ("plan shape.rope_base=1," + "9" * 400, "shape.rope_base must be a number of at most 300 "
     "digits, got 1,99999999999999999999... (400 digits)"),
    ("plan shape.init_std=0.1,inf", "shape.init_std must be a finite number, got inf"),
    ("plan shape.seed=range(nan,1)", "shape.seed must be swept over values that can be counted, "
     "got shape.seed=range(nan,1); list them: a,b"),
    ("plan shape.seed=range(0,1,0)", "shape.seed must be swept over values that can be counted"),
    ("plan shape.seed=range(0,1,0.0)", "shape.seed must be swept over values that can be counted"),
    ("plan shape.seed=shuffle(range(0,1000000000))", "shape.seed must have at most 10000 values"),
    ("plan +shape=shuffle(range(0,1000000000))", "shape must have at most 10000 values, got more"),
    ("plan hydra.searchpath=[/nope]", "hydra.searchpath must list folders that exist, as [/a,/b], "
     "got '/nope'"),
    ("plan hydra.searchpath=[pkg://os]", "hydra.searchpath must list folders that exist, as [/a"),
    ("plan hydra.searchpath=3", "hydra.searchpath must list folders that exist, as [/a,/b], got "),
    ("sweep grid=smoke,none", "grid must have one value for the whole sweep, got smoke, none"),
    ("sweep grid=nope", "grid must be one of models, none, seq_len, smoke, got 'nope'"),
    ("sweep runs_dir=a,b", "runs_dir must have one value for the whole sweep, got a, b"),
    ("sweep +grid.axes.batch=[1,2]", "batch is no key; did you mean shape.batch?; known: "),
    # verbs, ids and flags
    ("swep", "'swep' must be a verb, an id or key=value, got none of them; did you mean sweep?"),
    ("shape=tiny plan", "plan must come first, as in: python launch.py plan ..."),
    ("plan 14", "plan must be given no id, got 14; these take ids: "),
    ("collect", "collect must be given ids, got none; for the newest sweep: latest"),
    ("status latset", "'latset' must be a verb, an id or key=value, got none of them; did you "
     "mean latest?"),
    ("recipe mxfp8", "'recipe' must be a verb, an id or key=value, got none of them; did you "
     "mean recipe=mxfp8?"),
    ("seq_len 128", "'seq_len' must be a verb, an id or key=value, got none of them; did you "
     "mean shape.seq_len=128?"),
    ("help", "'help' must be a verb, an id or key=value, got none of them; did you mean --help?"),
    ("recipe==mxfp8", "recipe==mxfp8 must read key=value, got more than one =; did you mean "
     "recipe=mxfp8?"),
    ("recipe=MXFP8", "recipe must be one of bf16, fp8_block, fp8_current, fp8_delayed, mxfp8, got "
     "'MXFP8'; did you mean mxfp8?"),
    ("status --watch", "--watch is no flag; did you mean watch=true?"),
    ("cancel --yes latest", "--yes is no flag; did you mean yes=true?"),
    ("--shape=tiny", "--shape=tiny is no flag; did you mean shape=tiny?"),
    ("plan --seq-len 128", "--seq-len is no flag; did you mean shape.seq_len=128?"),
    ("--sweep", "--sweep is no flag; did you mean sweep?"),
    ("status --shape=tiny", "--shape is no flag; "),
    ("partition=low", "partition is no key; did you mean cluster.partition?; known: "),
    ("status partition=low", "partition is no key; known: interval_s, "),
    ("launch.mem=4", "launch.mem is no key of launch; did you mean launch.memory_gib?; known: "),
    ("sweep recipe=bf16, mxfp8", "recipe=bf16, must list its values without a space: "
     "recipe=bf16,mxfp8"),
    ("sweep recipe=bf16 ,mxfp8", "recipe=bf16 must list its values without a space: "
     "recipe=bf16,mxfp8"),
    ("status 14_0,14_2", "ids must be separated by spaces, got '14_0,14_2'; use 14_0 14_2"),
    ("status 14_0,2", "ids must be separated by spaces, got '14_0,2'; use 14_[0,2]"),
    ("--multirn", "--multirn is no flag; did you mean --multirun?; flags: --help"),
    ("--cfg jobs", "--cfg must be given one of job, hydra, all, got 'jobs'"),
    ("--cfg job --info", "--cfg must be used alone, got --info too"),
    ("sweep --cfg job shape.seq_len=128,256 recipe=bf16", "shape.seq_len=128,256 must have one "
     "value with --cfg, which shows one configuration; to see every point: python launch.py plan "
     "shape.seq_len=128,256 recipe=bf16"),
    ("--resolve", "--resolve must be used with --cfg, got it alone"),
    ("--help=3", "--help must be given no value, got '3'"),
    ("--config-dir=/nope/x", "Additional config directory '/nope/x' not found"),
    ("--config-name=plan", "--config-name cannot be used here: every verb has its own primary"),
    ("--experimental-rerun=x", "--experimental-rerun cannot be used here: a point's record holds"),
    ("doctor -m", "doctor must run once, got --multirun; these take many: plan, sweep"),
    ("hydra/sweeper=basic", "hydra/sweeper must be left as it is: Hydra only composes here, it "),
    ("hydra.run.dir=x", "hydra.run.dir must be left as it is: Hydra only composes here, it runs"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "sentence"), REFUSALS, ids=[words[:60] for words, _ in REFUSALS]
)
def test_a_mistake_is_one_line_and_starts_nothing(
    launcher: Launcher, words: str, sentence: str
) -> None:
    assert launcher(*words.split()).refusal().startswith(sentence)
    assert not launcher.runs_dir.exists()
    assert list(launcher.cwd.iterdir()) == []


def test_each_problem_of_a_command_has_a_line(launcher: Launcher) -> None:
    result = launcher("shape.num_heads=0", "shape.batch=0")
    assert result.code == 2
    assert result.err.splitlines() == [
        "launch.py: shape.batch must be at least 1, got 0",
        "launch.py: shape.num_heads must be at least 1, got 0",
    ]


@pytest.mark.parametrize("below", ["file", "file/deeper"])
def test_a_runs_dir_that_cannot_be_made_is_told(launcher: Launcher, below: str) -> None:
    (launcher.cwd / "file").touch()
    sentence = launcher(f"runs_dir={below}").refusal()
    assert sentence.startswith(
        f"runs_dir must be a folder that can be written, got {launcher.cwd}"
    )


def test_the_process_ends_with_2_one_line_and_no_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "launch.py", "shape.num_heads=0", f"runs_dir={tmp_path}/runs"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "launch.py: shape.num_heads must be at least 1, got 0\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [[], ["plan"], ["status"], ["collect", "latest"], ["--help"]])
def test_a_working_directory_that_was_deleted_is_named(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("PWD", str(launcher.cwd))
    launcher.cwd.rmdir()
    told = launcher(*words).refusal()
    assert told == (
        f"the working directory must exist, got {launcher.cwd}: No such file or directory; "
        "cd to another"
    )


def test_a_folder_of_the_search_path_is_checked_like_ones_own(launcher: Launcher) -> None:
    (launcher.cwd / "more" / "shape").mkdir(parents=True)
    file = launcher.cwd / "more" / "shape" / "mine.yaml"
    file.write_text("defaults: {a: 1}")
    refused = launcher("plan", "shape=mine", f"hydra.searchpath=[{launcher.cwd}/more]").refusal()
    assert refused.startswith(f"{file} must have a list as its defaults, got a mapping; write a")
    file.write_text("defaults: [tiny]")
    assert launcher("plan", "shape=mine", f"hydra.searchpath=[{launcher.cwd}/more]").code == 0


@pytest.mark.parametrize("value", ["9" * 5000, "²", "-1", "x", "1" + "0" * 30])
@pytest.mark.parametrize("variable", ["COLUMNS", "LINES"])
def test_a_size_of_the_screen_that_is_none_is_not_read(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert launcher("doctor", "--cfg", "job").code == 0
    assert launcher("status").refusal().startswith("no sweep in ")


def test_what_a_refusal_says_to_add_can_be_added(launcher: Launcher) -> None:
    added = launcher("cluster.env.A=1").refusal().rpartition(" ")[2]
    shown = launcher("sweep", added, "--cfg", "job", "--package", "cluster.env")
    assert (shown.code, shown.out.splitlines()[-1]) == (0, "A: '1'")


def test_a_file_that_holds_no_records_is_told_what_is_read(launcher: Launcher) -> None:
    (launcher.cwd / "notes.md").write_text("no record")
    assert (
        launcher("collect", "notes.md")
        .refusal()
        .startswith(
            "'notes.md' must be a verb, an id or key=value, got none of them; "
            "a folder or file is named with a slash: ./notes.md"
        )
    )
    assert (
        launcher("collect", "./notes.md")
        .refusal()
        .startswith(
            "./notes.md must be a folder or a file of records, one a line, whose name ends"
        )
    )


def test_a_sweep_that_is_not_there_is_told_with_the_nearest(launcher: Launcher) -> None:
    assert launcher("status", "s-nope").refusal() == f"no sweep s-nope in {launcher.runs_dir}"
    name = "s-20260301-101500-1a2b3c"
    (launcher.runs_dir / name).mkdir(parents=True)
    (launcher.runs_dir / name / "sweep.json").write_text("{}")
    told = launcher("status", name[:-1] + "d").refusal()
    assert told.endswith(f"; did you mean {name}?")
