"""Time and memory of `collect` and its report for 1,000 points.

    python -m benchmarks.collect [points]

Writes the ledger of a sweep by hand, collects it in a fresh process, and compares with the limits:
collecting in 5 s, the report in 10 s, 500 MB, on two cores. Exit code 1 if a limit is exceeded.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from jobs.collect.gather import collect
from jobs.report.report import write_report
from tests.builders.demo_ledger import demo_sweep

LIMITS = {"collect_s": 5.0, "report_s": 10.0, "again_s": 5.0, "peak_mb": 500.0}
_POINTS_A_COPY = 40
_GATHER = "--gather"


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark; return 1 if a limit is exceeded."""
    if arguments[:1] == [_GATHER]:
        print(json.dumps(gather(Path(arguments[1]))))
        return 0
    points = int(arguments[0]) if arguments else 1000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        demo_sweep(folder / "runs", copies=-(-points // _POINTS_A_COPY))
        command = [sys.executable, "-m", "benchmarks.collect", _GATHER, name]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        figures: dict[str, float] = json.loads(done.stdout)
    exceeded = False
    for key, value in figures.items():
        limit = LIMITS.get(key)
        above = limit is not None and value > limit
        exceeded = exceeded or above
        note = "" if limit is None else f"limit {limit:g}{'  EXCEEDED' if above else ''}"
        print(f"{key:<15}{value:>10.2f}  {note}".rstrip())
    return int(exceeded)


def gather(folder: Path) -> dict[str, float]:
    """Collect and report `runs/` of a folder, collect again, and return the costs."""
    runs, results = folder / "runs", folder / "results"
    start, cpu = time.perf_counter(), time.process_time()
    collection = collect(["latest"], runs, results)
    collected, cpu_collected = time.perf_counter(), time.process_time()
    page = write_report(collection)
    reported, cpu_reported = time.perf_counter(), time.process_time()
    collect(["latest"], runs, results)
    again = time.perf_counter()
    return {
        "points": len(collection.points),
        "collect_s": collected - start,
        "report_s": reported - collected,
        "again_s": again - reported,
        "collect_cpu_s": cpu_collected - cpu,
        "report_cpu_s": cpu_reported - cpu_collected,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "page_mb": page.stat().st_size / 2**20,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
