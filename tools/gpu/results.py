"""Runs the points of `docs/results/points.json` on a GPU machine, without Hydra.

    python -m tools.gpu.results OUT [--groups recipes,cudnn] [--seconds 540]

Each point runs in its own process through `python -m jobs.node`; a failure does not stop the
others. OUT gets `records.jsonl` (a line per point, appended as each ends), `harness.json`,
`logs.txt` and the profiles.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobs.errors import RecordError
from jobs.files import append_line
from jobs.record import read_record

ROOT = Path(__file__).resolve().parents[2]
POINTS = ROOT / "docs" / "results" / "points.json"
_POINT_LIMIT_S = 240
_LOG_BYTES = 60_000


def environment_of(cudnn: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a point's process; `as_found` reverts the choice of cuDNN."""
    env = dict(variables)
    if cudnn == "as_found":
        home = env.pop("CUDNN_HOME", None)
        paths = env.get("LD_LIBRARY_PATH", "").split(os.pathsep)
        kept = [path for path in paths if path and (home is None or not path.startswith(home))]
        env["LD_LIBRARY_PATH"] = os.pathsep.join(kept)
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), env.get("PYTHONPATH"))))
    return env


def run_point(entry: dict[str, Any], out: Path) -> str:
    """Run an entry of `points.json`, append its record, and return a line with its outcome."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        attempt = Path(scratch) / "attempt-1"
        attempt.mkdir()
        point_path = Path(scratch) / "point.json"
        submitted = {"point_id": "p-" + entry["name"].replace(" ", "-").replace(",", "")}
        point_path.write_text(json.dumps({**entry, **submitted}), encoding="utf-8")
        line = _run_child(entry, point_path, attempt)
        log = attempt / "output.log"
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        with (out / "logs.txt").open("a", encoding="utf-8") as logs:
            logs.write(f"\n##### {entry['name']}\n{text[-_LOG_BYTES:]}")
        for profile in attempt.glob("profile.*"):
            shutil.copy(profile, out)
        try:
            record = read_record(attempt / "record.json")
        except RecordError as error:
            line = f"NO RECORD: {line or error}"
        else:
            plain = {"name": entry["name"], "record": json.loads(record.model_dump_json())}
            append_line(out / "records.jsonl", json.dumps(plain))
            line = f"{record.outcome.value}: {record.reason[:300]}{_speeds(plain['record'])}"
    return f"{time.monotonic() - started:6.1f} s  {entry['name']}: {line}"


def _run_child(entry: dict[str, Any], point_path: Path, attempt: Path) -> str:
    command = [sys.executable, "-m", "jobs.node", str(point_path), str(attempt)]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment_of(entry["cudnn"], os.environ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_POINT_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return f"still running after {_POINT_LIMIT_S} s"
    return "" if done.returncode == 0 else f"exit code {done.returncode}"


def _speeds(record: dict[str, Any]) -> str:
    benchmark = record.get("benchmark")
    if not benchmark:
        return ""
    arms = {arm["arm"]: arm for arm in benchmark["arms"]}
    texts = []
    for direction in ("fprop", "bprop"):
        times = [f"{arms[arm][direction]['median_ms']:.3f}" for arm in ("bf16", "recipe")]
        speedup = benchmark[f"{direction}_speedup"]
        ratio = " = {ratio:.3f} [{low:.3f}, {high:.3f}]".format(**speedup) if speedup else ""
        texts.append(f"{direction} {'/'.join(times)} ms{ratio}")
    return " | " + ", ".join(texts)


def run_harness(out: Path) -> str:
    """Run `tools.gpu.harness`, and return its output."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.gpu.harness", "--output", str(out / "harness.json")],
        cwd=ROOT,
        env=environment_of("bundled", os.environ),
        capture_output=True,
        text=True,
        timeout=_POINT_LIMIT_S,
    )
    with (out / "logs.txt").open("a", encoding="utf-8") as logs:
        logs.write(f"\n##### harness\n{done.stdout}{done.stderr}")
    return (done.stdout + done.stderr).strip()


def main() -> None:
    """Run the selected groups until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path)
    parser.add_argument("--groups", default="recipes,harness,cudnn,paths,shapes,profile")
    parser.add_argument("--name", help="run only points whose name contains this")
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument("--commit", help="of the source, if there is no git")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + options.seconds
    entries = json.loads(POINTS.read_text(encoding="utf-8"))
    for group in options.groups.split(","):
        if group == "harness":
            try:
                print(run_harness(options.out), flush=True)
            except subprocess.TimeoutExpired as error:
                print(f"harness: {error}", flush=True)
            continue
        for entry in entries:
            if entry["group"] != group or (options.name or "") not in entry["name"]:
                continue
            if time.monotonic() > deadline:
                print(f"  out of time, not run: {entry['name']}", flush=True)
                continue
            print(run_point({**entry, "commit": options.commit}, options.out), flush=True)


if __name__ == "__main__":
    main()
