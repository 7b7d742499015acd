"""`make` creates a complete virtual environment, or fails and starts again the next time."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which

import pytest

ROOT = Path(__file__).parents[1]
# A system's interpreter whose venv module lacks ensurepip as long as {broken} exists.
PYTHON = """#!/bin/sh
test "$1 $2" = "-m venv" || exit 0
mkdir -p "$3/bin"
if test -e {broken}; then printf '#!/bin/sh\\nexit 1\\n' > "$3/bin/python"
else printf '#!/bin/sh\\nexit 0\\n' > "$3/bin/python"; fi
chmod +x "$3/bin/python"
test ! -e {broken} || {{ echo "ensurepip is not available" >&2; exit 1; }}
"""

pytestmark = pytest.mark.skipif(which("make") is None, reason="needs make")


def test_an_incomplete_environment_is_created_again(tmp_path: Path) -> None:
    python, venv, broken = (tmp_path / name for name in ("python", "venv", "broken"))
    python.write_text(PYTHON.format(broken=broken))
    python.chmod(0o755)
    words = ["make", f"VENV={venv}", f"PYTHON={python}", f"{venv}/.made"]

    broken.touch()
    for _ in range(2):
        failed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        assert failed.returncode == 2, failed.stdout
        assert "ensurepip is not available" in failed.stderr
    broken.unlink()
    subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    again = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "up to date" in again.stdout
