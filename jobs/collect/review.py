"""A collection as a Markdown block for a review comment."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from jobs.environment import LABELS
from jobs.perf import perf_lines
from jobs.record import Record, State
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult, emulated_note
from jobs.text import plain_text, pluralize

MAX_CHARS = 60_000
"""Review sites refuse comments of 65,536 characters and more."""

_MAX_LISTED = 40
_MAX_COMMANDS = 4
_MAX_JOBS = 12
_MAX_REASON = 300
_MAX_DIGITS = 10


def review_text(collection: Collection) -> str:
    """Return jobs, GPU, versions, command, result and times, at most `MAX_CHARS` characters."""
    blocks = [f"### {collection.name}: {result_text(collection)}"]
    groups: dict[tuple[tuple[str, str], ...], list[PointResult]] = defaultdict(list)
    for point in collection.points:
        groups[tuple(_environment(point).items())].append(point)
    for environment, points in groups.items():
        blocks.append(_facts(dict(environment), points))
        blocks += _times(points)
    blocks += _not_passed(collection.points)
    return _fit(blocks)


def result_text(collection: Collection) -> str:
    """Return the number of points in each state that occurs, and of those planned."""
    totals = collection.totals
    counts = [f"{totals[state]} {state}" for state in State if totals[state]]
    return f"{', '.join(counts) or 'nothing'} of {totals['planned']} planned"


def _environment(point: PointResult) -> dict[str, str]:
    if point.record is None:
        return {}
    environment, checks = point.record.environment, point.record.capability.checks
    mxfp8 = next((check for check in checks if check.name == "MXFP8 available"), None)
    available = "unknown"
    if mxfp8 is not None and mxfp8.ok is not None:
        available = "yes" if mxfp8.ok else f"no: {mxfp8.reason}"
    return {
        LABELS["gpu_name"]: environment.gpu_name or "none",
        "CUDA capability": environment.compute_capability or "none",
        "cuDNN": _cudnn(environment.cudnn_transformer_engine, environment.cudnn_torch),
        "MXFP8 available": available,
        LABELS["transformer_engine"]: environment.transformer_engine or "none",
        "Driver": environment.driver or "none",
        "Commit": environment.commit or "unknown",
    }


def _cudnn(of_transformer_engine: str | None, of_torch: str | None) -> str:
    if of_transformer_engine and of_torch and of_transformer_engine != of_torch:
        return f"{of_transformer_engine} (Transformer Engine), {of_torch} (torch)"
    return of_transformer_engine or of_torch or "none"


def _facts(environment: dict[str, str], points: list[PointResult]) -> str:
    counts = Counter(point.state for point in points)
    jobs = compact([point.job_id for point in points if point.job_id])
    commands = list(dict.fromkeys(point.command for point in points if point.command))
    shown = [_code(command) for command in commands[:_MAX_COMMANDS]]
    if len(commands) > _MAX_COMMANDS:
        shown.append(f"and {len(commands) - _MAX_COMMANDS} more, in points.csv")
    note = emulated_note(points)
    more = f" and {len(jobs) - _MAX_JOBS} more" if len(jobs) > _MAX_JOBS else ""
    rows = {
        "Job": cell(", ".join(jobs[:_MAX_JOBS]) + more) or "none",
        **{name: cell(value) for name, value in environment.items()},
        "Command": "<br>".join(shown) or "unknown",
        "Result": ", ".join(f"{count} {state}" for state, count in sorted(counts.items())),
    }
    rows |= {"Emulated": cell(note)} if note else {}
    return _table(("", ""), rows.items())


def _times(points: list[PointResult]) -> list[str]:
    shown = [
        [point.label, *lines, *_notes(point.record)]
        for point in points
        if point.record is not None and (lines := perf_lines(point.record))
    ]
    if not shown:
        return []
    blocks = [_fenced("\n".join("\n".join(lines) for lines in shown[:_MAX_LISTED]))]
    if len(shown) > _MAX_LISTED:
        blocks.append(f"... and the times of {pluralize(len(shown) - _MAX_LISTED, 'more point')}.")
    return blocks


def _notes(record: Record) -> list[str]:
    notes = record.benchmark.notes if record.benchmark else []
    return [f"  Note: {' '.join(plain_text(note).split())}" for note in notes]


def _not_passed(points: list[PointResult]) -> list[str]:
    others = [point for point in points if point.state is not State.PASSED]
    if not others:
        return []
    rows = []
    for point in others[:_MAX_LISTED]:
        reason = point.reason or next((line for q in point.evidence for line in q.lines), "")
        state = point.state_text
        row = (point.label, point.job_id or "", state, reason[:_MAX_REASON])
        rows.append(tuple(map(cell, row)))
    blocks = [_table(("point", "job", "result", "reason"), rows)]
    if len(others) > _MAX_LISTED:
        more = pluralize(len(others) - _MAX_LISTED, "more point")
        blocks.append(f"... and {more} that did not pass.")
    return blocks


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(text: str) -> str:
    """Return text as one cell of a Markdown table: no markup, no mention, one line."""
    flat = " ".join(plain_text(text).split())
    escaped = re.sub(r"([\\`*{}\[\]<>|#~]|(?<!\w)_|_(?!\w))", r"\\\1", flat)
    return escaped.replace("@", "@\u200b")


def _code(text: str) -> str:
    flat = " ".join(plain_text(text).split()).replace("|", "\\|")
    ticks = "`" * (_longest_run(flat) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{ticks}{pad}{flat}{pad}{ticks}"


def _fenced(text: str) -> str:
    shown = plain_text(text)
    fence = "`" * max(3, _longest_run(shown) + 1)
    return f"{fence}text\n{shown}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)


def compact(job_ids: Sequence[str]) -> list[str]:
    """Return one word for each job, tasks of an array as SLURM writes them: 14_[0-3,7]."""
    tasks: dict[str, set[int]] = {}
    for job_id in job_ids:
        job, _, task = job_id.partition("_")
        is_task = task.isdecimal() and len(task) < _MAX_DIGITS
        tasks.setdefault(job if is_task else job_id, set()).update([int(task)] if is_task else [])
    return [f"{job}_{_ranges(sorted(some))}" if some else job for job, some in tasks.items()]


def _ranges(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return str(numbers[0])
    ends: list[list[int]] = []
    for number in numbers:
        if ends and number == ends[-1][1] + 1:
            ends[-1][1] = number
        else:
            ends.append([number, number])
    return f"[{','.join(f'{low}-{high}' if low < high else str(low) for low, high in ends)}]"


def _fit(blocks: list[str]) -> str:
    kept: list[str] = []
    size = 0
    for block in blocks:
        if size + len(block) > MAX_CHARS:
            skipped = pluralize(len(blocks) - len(kept), "more block")
            kept.append(f"... {skipped} did not fit; see report.html.")
            break
        kept.append(block)
        size += len(block) + 2
    return "\n\n".join(kept) + "\n"
