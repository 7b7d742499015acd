"""Text in any field arrives unchanged or is refused; no shell reads what was not meant for it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.launcher import Launcher
from tests.slurm_cluster import stand_in_node as node
from tests.slurm_cluster.launching import FAST, SlurmUser
from tests.slurm_cluster.slurm import SlurmCluster

pytestmark = pytest.mark.slurm

HARD = (
    "two words",
    "it's",
    'a "quoted" word',
    "$HOME and `id` and $(id)",
    "a=b,c=d;e|f&g>h<i#j",
    "back\\slash \\n and \\",
    "größe 寸法 ñ",
    "100%j %A !x *?[a]~",
    " 'mixed\" \\'quotes\\\" ",
)


def hydra(key: str, text: str) -> str:
    """An override whose value is this text, quoted as Hydra reads it."""
    # Hydra takes a backslash for itself unless a quote follows.
    escaped = re.sub(
        r"(\\*)('|$)", lambda match: match[1] * 2 + match[2].replace("'", "\\'"), text
    )
    return f"{key}='{escaped}'"


def test_any_text_arrives_unchanged(slurm_launcher: Launcher, slurm_user: SlurmUser) -> None:
    cluster = slurm_user.cluster
    jobs = {}
    for number, text in enumerate(HARD):
        words = [
            hydra("cluster.comment", text),
            hydra("cluster.wckey", f"key{number}"),
            f"+cluster.env.HARD={hydra('', text)[1:]}",
            f"shape.seed={100 * number + node.WRITES_ENVIRONMENT}",
        ]
        site = ("cluster=slurm", f"cluster.python={slurm_user.node}")
        done = slurm_launcher("run", *site, *FAST, *words)
        assert done.code == 0, (text, done.err)
        ledger = slurm_user.ledger()
        (line,) = ledger.jobs()
        jobs[line.job_id] = (text, ledger)
    cluster.wait_jobs(*jobs)
    for job_id, (text, ledger) in jobs.items():
        shown = cluster.run("squeue", "-h", "-t", "all", "-j", job_id, "-o", "%j|%k")
        assert shown == f"{ledger.sweep_id}.0|{ledger.sweep_id}.0 {text}".rstrip()
        (path,) = ledger.root.glob("*/p-*/attempt-1/environment.json")
        seen, _ = json.loads(path.read_text())
        assert seen["HARD"] == text


def test_a_folder_may_have_almost_any_name(slurm_cluster: SlurmCluster, tmp_path: Path) -> None:
    folder = tmp_path / 'it\'s $HOME; a "größe" & #1'
    folder.mkdir()
    user = SlurmUser(slurm_cluster, folder)
    user.runs = tmp_path / "it's $HOME; `x` (größe) & #1"
    words = ("cluster=slurm", hydra("cluster.python", str(user.node)), *FAST, "wait=true")
    command = [word for word in user.words("run", *words) if not word.startswith("runs_dir")]
    done = _run(user, [*command, hydra("runs_dir", str(user.runs))])
    assert done.returncode == 0, done.stdout + done.stderr
    (record,) = user.records(user.ledger())
    assert record["outcome"] == "PASSED"


def _run(user: SlurmUser, command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=user.environment(), cwd=user.cwd, capture_output=True, text=True, check=False
    )


def test_setup_lines_run_first_and_their_failure_is_the_jobs(slurm_user: SlurmUser) -> None:
    words = ("cluster=slurm", f"cluster.python={slurm_user.node}", *FAST, "wait=true")
    good = "cluster.setup=['export MADE=\"by $HOME\"  # a comment','cd /']"
    seed = f"shape.seed={node.WRITES_ENVIRONMENT}"
    done = slurm_user.run("run", *words, good, seed)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = slurm_user.ledger().root.glob("*/p-*/attempt-1/environment.json")
    assert json.loads(path.read_text())[0]["MADE"] == f"by {slurm_user.environment()['HOME']}"

    bad = "cluster.setup=['true','module load it','touch never']"
    failed = slurm_user.run("run", *words, bad)
    assert failed.returncode == 1, failed.stdout
    assert "ERROR" in failed.stdout
    ledger = slurm_user.ledger()
    (line,) = ledger.jobs()
    log = (ledger.job_folder(line.job_id) / f"{line.job_id}_batch_log.out").read_text()
    assert "setup line 2 failed: module load it" in log
    assert not list(ledger.root.rglob("attempt-*"))
    assert not list(ledger.root.rglob("never"))


def test_a_container_is_handed_to_srun_as_pyxis_takes_it(slurm_user: SlurmUser) -> None:
    # No pyxis here: an srun of ours notes its options and leaves those of pyxis out.
    seen = slurm_user.folder / "srun-words"
    slurm_user.wrap(
        "srun",
        f'printf "%s\\n" "$@" > {seen}\n'
        'kept=(); for word in "$@"; do case "$word" in --container-*) ;; *) kept+=("$word");; '
        'esac; done\nexec "$REAL" "${kept[@]}"',
    )
    done = slurm_user.run(
        *("run", "cluster=slurm", *FAST, "wait=true", "launch.cpus_per_task=2"),
        f"cluster.container.image={slurm_user.folder}/image.sqsh",
        "cluster.container.mounts=['/data:/data:ro']",
        "cluster.container.workdir=/tmp",
        f"cluster.container.python={slurm_user.node}",
        "cluster.container.pythonpath=/opt/checkout",
        "cluster.srun=['--kill-on-bad-exit=1']",
        f"+cluster.env.PATH='{slurm_user.env['PATH']}'",
        f"shape.seed={node.WRITES_ENVIRONMENT}",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    words = seen.read_text().splitlines()
    ledger = slurm_user.ledger()
    assert f"--container-image={slurm_user.folder}/image.sqsh" in words
    assert f"--container-mounts={ledger.root}:{ledger.root},/data:/data:ro" in words
    assert "--container-workdir=/tmp" in words
    assert "--cpus-per-task=2" in words
    assert "--kill-on-bad-exit=1" in words
    assert words[words.index("/usr/bin/env") : words.index("/usr/bin/env") + 3] == [
        "/usr/bin/env",
        f"PYTHONPATH={ledger.root}/submissions/0/entry.zip",
        str(slurm_user.node),
    ]
    (path,) = ledger.root.glob("*/p-*/attempt-1/environment.json")
    python_path = json.loads(path.read_text())[0]["PYTHONPATH"]
    assert python_path.split(":")[0] == "/opt/checkout"


def test_a_snapshot_is_what_runs(slurm_user: SlurmUser) -> None:
    words = ("cluster=slurm", f"cluster.python={slurm_user.node}", *FAST, "wait=true")
    seed = f"shape.seed={node.WRITES_ENVIRONMENT}"
    done = slurm_user.run("run", *words, seed, "launch.snapshot=true")
    assert done.returncode == 0, done.stdout + done.stderr
    ledger = slurm_user.ledger()
    snapshot = ledger.root / "snapshot"
    assert (snapshot / "jobs" / "node" / "__main__.py").is_file()
    assert not (snapshot / ".venv").exists()
    (path,) = ledger.root.glob("*/p-*/attempt-1/environment.json")
    seen = json.loads(path.read_text())[0]
    assert seen["PYTHONPATH"].split(":")[0] == str(snapshot)
