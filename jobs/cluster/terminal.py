"""A console whose reader may go away: what is shown never decides what runs."""

from __future__ import annotations

import os
import sys

from rich.console import Console


class Screen(Console):
    """Rich's console, but a closed pipe silences it instead of ending the program."""

    def on_broken_pipe(self) -> None:
        """Sends the rest nowhere; the verb goes on, and its outcome gives the exit code."""
        self.quiet = True
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, (sys.stderr if self.stderr else sys.stdout).fileno())
        os.close(descriptor)
