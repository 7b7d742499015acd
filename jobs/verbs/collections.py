"""Collections named on the command line of `compare`, `baseline` and `history`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from conf import verbs
from jobs.compare.comparison import Rules
from jobs.compare.load import load_side
from jobs.schedulers.registry import installed_schedulers
from jobs.status.collection import Collection
from jobs.sweeps.folders import results_dir, runs_dir
from jobs.terminal.console import Console
from jobs.text import shell_quote
from jobs.verbs.command_line import Call


def load_collections(config: verbs.Places, call: Call, out: Console) -> list[Collection]:
    """Read every collection of a command, as `collect` would, and print its notes."""
    places = runs_dir(config), results_dir(config)
    collections = [load_side(word, *places, installed_schedulers()) for word in call.ids]
    for note in dict.fromkeys(note for one in collections for note in one.notes):
        out.print_line(f"Note: {note}", style="yellow")
    return collections


def print_pages(write: Callable[[], list[Path]], out: Console) -> None:
    """Write pages and print their paths; a failure leaves the verdict as it is."""
    try:
        for page in write():
            out.print_line(f"Written: {shell_quote(page)}")
    except OSError as error:
        problem = f"{error.filename}: {error.strerror}"
        out.print_line(f"Cannot write the page: {problem}; set results_dir to another folder")


def rules_of(config: verbs.Comparing) -> Rules:
    """Return the rules that the configuration describes."""
    return Rules(
        threshold=config.threshold,
        accuracy_threshold=config.accuracy_threshold,
        ignore=tuple(config.ignore),
        across_gpus=config.across_gpus,
        metrics=tuple(config.metrics),
    )
