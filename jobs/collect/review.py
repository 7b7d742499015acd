"""A collection as a Markdown block for a review comment, in the form that reviewers know."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from jobs.perf import perf_lines
from jobs.record import Record, State
from jobs.status.collection import Collection
from jobs.status.point_result import PointResult, emulated_note
from jobs.text import plain_text, pluralize

MAX_CHARS = 60_000
"""Review sites refuse comments of 65,536 characters and more."""

_MAX_LISTED = 40
_MAX_COMMANDS = 4
_MAX_DIGITS = 10


def review_text(collection: Collection) -> str:
    """The collection as Markdown: jobs, GPU, versions, command, result, times.

    Args:
        collection: Any collection.

    Returns:
        Text of at most MAX_CHARS characters; what does not fit is pluralize.
    """
    blocks = [f"### {collection.name}: {result_text(collection)}"]
    groups: dict[tuple[str, ...], list[PointResult]] = defaultdict(list)
    for point in collection.points:
        groups[_environment(point)].append(point)
    for environment, points in groups.items():
        blocks.append(_facts(environment, points))
        blocks += _times(points)
    blocks += _unhappy(collection.points)
    return _fit(blocks)


def result_text(collection: Collection) -> str:
    """Every outcome and state that occurs, with its count, and what was planned."""
    totals = collection.totals
    named = [f"{totals[name]} {name}" for name in State if totals[name]]
    return f"{', '.join(named) or 'nothing'} of {totals['planned']} planned"


def _environment(point: PointResult) -> tuple[str, ...]:
    if point.record is None:
        return ()
    found = point.record.environment
    mxfp8 = next((c for c in point.record.capability.checks if c.name == "MXFP8 available"), None)
    available = "unknown"
    if mxfp8 is not None and mxfp8.ok is not None:
        available = "yes" if mxfp8.ok else f"no: {mxfp8.reason}"
    return (
        found.gpu_name or "none",
        found.compute_capability or "none",
        _cudnn(found.cudnn_transformer_engine, found.cudnn_torch),
        available,
        found.transformer_engine or "none",
        found.driver or "none",
        found.commit or "unknown",
    )


def _cudnn(of_te: str | None, of_torch: str | None) -> str:
    if of_te and of_torch and of_te != of_torch:
        return f"{of_te} (Transformer Engine), {of_torch} (torch)"
    return of_te or of_torch or "none"


def _facts(environment: tuple[str, ...], points: list[PointResult]) -> str:
    names = (
        "GPU",
        "CUDA capability",
        "cuDNN",
        "MXFP8 available",
        "Transformer Engine",
        "Driver",
        "Commit",
    )
    counts = Counter(point.state for point in points)
    jobs = compact([point.job_id for point in points if point.job_id])
    commands = list(dict.fromkeys(point.command for point in points if point.command))
    facts = {"Job": _listed(jobs) or "none"}
    facts |= dict(zip(names, environment, strict=False))
    shown = [_code(command) for command in commands[:_MAX_COMMANDS]]
    rest = len(commands) - len(shown)
    shown += [f"and {rest} more, in points.csv"] if rest > 0 else []
    facts["Command"] = "<br>".join(shown) or "unknown"
    facts["Result"] = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    note = emulated_note(points)
    facts |= {"Emulated": note} if note else {}
    lines = ["| | |", "|---|---|"]
    for name, value in facts.items():
        lines.append(f"| {name} | {value if name == 'Command' else cell(value)} |")
    return "\n".join(lines)


def _times(points: list[PointResult]) -> list[str]:
    shown = [
        [point.label, *lines, *_notes(point.record)]
        for point in points
        if point.record is not None and (lines := perf_lines(point.record))
    ]
    if not shown:
        return []
    text = "\n".join("\n".join(lines) for lines in shown[:_MAX_LISTED])
    blocks = [_fenced(text)]
    if len(shown) > _MAX_LISTED:
        blocks.append(f"... and the times of {pluralize(len(shown) - _MAX_LISTED, 'more point')}.")
    return blocks


def _notes(record: Record) -> list[str]:
    notes = record.benchmark.notes if record.benchmark else []
    return [f"  Note: {' '.join(plain_text(note).split())}" for note in notes]


def _unhappy(points: list[PointResult]) -> list[str]:
    others = [point for point in points if point.state != "PASSED"]
    if not others:
        return []
    lines = ["| point | job | result | why |", "|---|---|---|---|"]
    for point in others[:_MAX_LISTED]:
        state = f"{point.state} {point.cause}" if point.cause else point.state
        why = point.reason or next((line for q in point.evidence for line in q.lines), "")
        cells = (point.label, point.job_id or "", state, why[:300])
        lines.append(f"| {' | '.join(cell(text) for text in cells)} |")
    blocks = ["\n".join(lines)]
    if len(others) > _MAX_LISTED:
        blocks.append(
            f"... and {pluralize(len(others) - _MAX_LISTED, 'more point')} that did not pass."
        )
    return blocks


def cell(text: str) -> str:
    """Text made harmless for one cell of a Markdown table: no markup, no mention, one line."""
    flat = " ".join(plain_text(text).split())
    marked = re.sub(r"([\\`*{}\[\]<>|#~]|(?<!\w)_|_(?!\w))", r"\\\1", flat)
    return marked.replace("@", "@\u200b")


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
    """Job ids as SLURM prints several of one array, `14_[0-3,7]`, in the order of the arrays.

    Args:
        job_ids: Ids of jobs or of tasks of arrays, in any order, also more than once.

    Returns:
        A word for each job.
    """
    tasks: dict[str, set[int]] = {}
    for job_id in job_ids:
        job, _, task = job_id.partition("_")
        is_task = task.isdecimal() and len(task) < _MAX_DIGITS
        known = tasks.setdefault(job if is_task else job_id, set())
        known |= {int(task)} if is_task else set()
    return [f"{job}_{_ranges(sorted(held))}" if held else job for job, held in tasks.items()]


def _ranges(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return str(numbers[0])
    ends: list[list[int]] = []
    for number in numbers:
        if ends and number == ends[-1][1] + 1:
            ends[-1][1] = number
        else:
            ends.append([number, number])
    words = (f"{low}-{high}" if low < high else str(low) for low, high in ends)
    return f"[{','.join(words)}]"


def _listed(words: list[str]) -> str:
    more = f" and {len(words) - 12} more" if len(words) > 12 else ""
    return ", ".join(words[:12]) + more


def _fit(blocks: list[str]) -> str:
    kept: list[str] = []
    size = 0
    for block in blocks:
        if size + len(block) > MAX_CHARS:
            rest = pluralize(len(blocks) - len(kept), "more block")
            kept.append(f"... {rest} did not fit: see report.html.")
            break
        kept.append(block)
        size += len(block) + 2
    return "\n\n".join(kept) + "\n"
