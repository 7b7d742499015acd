"""Run RoPE kernel cases under Triton's interpreter, in a process of its own.

TRITON_INTERPRET is read when triton is imported, which a test process may have done for another
reason. A child with that variable reads the names of cases from its input, one a line, and answers
each with one line of JSON: null, or the traceback.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback


class Interpreter:
    """The child process; restarted after a case that did not end."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None

    def failure_of(self, case: str) -> str | None:
        """Run a case; return its traceback, None if it passed."""
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
            )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            print(case, file=self._child.stdin, flush=True)
            answer = self._child.stdout.readline()
            failure: str | None = json.loads(answer)
        except BaseException:
            # A time limit, or a child that died: the next case must not read this one's answer.
            self.close()
            raise
        return failure

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            with self._child:
                self._child.kill()
        self._child = None


def _answer_cases() -> None:
    from tests.mxfp8_attention.rope.rope_kernel_cases import CASES

    answers = sys.stdout
    sys.stdout = sys.stderr  # whatever a case prints is no answer
    for line in sys.stdin:
        failure = None
        try:
            CASES[line.strip()]("cpu")
        except Exception:
            failure = traceback.format_exc()
        print(json.dumps(failure), file=answers, flush=True)


if __name__ == "__main__":
    _answer_cases()
