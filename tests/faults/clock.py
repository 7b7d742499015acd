"""A node with a clock of its own: an hour off, or set while a point runs."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.builders.programs import write_program

# Only the calendar is shifted: nothing sets the clocks that count from the boot.
_SHIFT_C = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift(void) {
    char text[32] = "0";
    int file = open(getenv("NODE_CLOCK"), O_RDONLY);
    if (file >= 0) { if (read(file, text, sizeof text - 1) < 0) text[0] = '0'; close(file); }
    return atol(text);
}
int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(id, now);
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) now->tv_sec += shift();
    return failed;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    int failed = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return failed;
}
time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
"""


@dataclass(frozen=True)
class NodeClock:
    """A node's interpreter with a clock of its own.

    Attributes:
        python: The interpreter, for `cluster.python`.
        file: Number of seconds by which its calendar is ahead.
    """

    python: Path
    file: Path

    def set(self, ahead_s: int) -> None:
        """Set the clock, as an administrator or a time server does."""
        self.file.write_text(f"{ahead_s:+d}")


def install(folder: Path, python: Path, ahead_s: int = 0) -> NodeClock:
    """Give an interpreter, and all that it starts, a clock of its own."""
    folder.mkdir()
    source, library = folder / "shift.c", folder / "shift.so"
    source.write_text(_SHIFT_C)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    variables = (f"LD_PRELOAD={library}", f"NODE_CLOCK={folder / 'ahead_s'}", str(python))
    program = write_program(folder / "python", f'exec env {shlex.join(variables)} "$@"')
    clock = NodeClock(program, folder / "ahead_s")
    clock.set(ahead_s)
    return clock
