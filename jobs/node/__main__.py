"""`python -m jobs.node POINT.json ATTEMPT_DIR`: runs one point and leaves its record.

Writes to ATTEMPT_DIR: `started.json`, `output.log` (everything printed, as it runs) and
`record.json`, whole or not at all. Exit code 0: there is a record, whatever its outcome.
"""

from __future__ import annotations

import faulthandler
import sys
from pathlib import Path

from jobs.errors import JobError
from jobs.node.output import log_output

USAGE = "usage: python -m jobs.node POINT.json ATTEMPT_DIR"


def main(arguments: list[str]) -> int:
    """Run one point; return 0 if there is a record, 2 if the command was wrong."""
    if len(arguments) != 2 or arguments[0] in ("-h", "--help"):
        print(USAGE, file=sys.stderr)
        return 2
    point_path, attempt_dir = map(Path, arguments)
    if not attempt_dir.is_dir():
        print(f"no such folder: {attempt_dir}; {USAGE}", file=sys.stderr)
        return 2
    log_output(attempt_dir / "output.log")
    faulthandler.enable(file=2)  # standard error, which goes to the log by now
    # Imported late, so that import errors reach the log.
    from jobs.node.point_file import read_point_file
    from jobs.node.run import run_attempt

    try:
        point_file = read_point_file(point_path)
    except JobError as error:
        print(error, file=sys.stderr)
        return 2
    run_attempt(point_file, attempt_dir)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
