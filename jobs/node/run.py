"""Runs one point from its start to its record: environment, capability, job, outcome."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from conf.choices import Backend, Job
from jobs.files import write_atomic
from jobs.node.arms import PathBuilder
from jobs.node.attention import run_attention
from jobs.node.draft import Draft
from jobs.node.environment import (
    gather_environment,
    source_change,
    transformer_engine_version,
)
from jobs.node.outcome import End, RefusedError, end_of_exception, end_of_refusal
from jobs.node.point_file import PointFile, attempt_identity
from jobs.node.probe import fingerprint
from jobs.node.report import report
from jobs.node.telemetry import Telemetry
from jobs.process import current_process
from jobs.record import Outcome, Record, Started, to_json
from jobs.span import iso
from mxfp8_attention.capability.checks import Check, first_refusal, query_machine, run_checks
from mxfp8_attention.capability.environment import flagged_variables
from mxfp8_attention.paths import build_path


def run_attempt(
    point_file: PointFile,
    attempt_dir: Path,
    *,
    build: PathBuilder = build_path,
    variables: Mapping[str, str] | None = None,
) -> Record:
    """Runs a point and leaves `started.json` and `record.json`, each whole or not at all.

    Args:
        point_file: The point.
        attempt_dir: The attempt's folder.
        build: Makes an arm; `mxfp8_attention.paths.build_path`, or a test's own.
        variables: The environment, `os.environ` if None.

    Returns:
        The record that was written. Whatever the point raised is in it.

    Raises:
        OSError: The folder cannot be written.
    """
    variables = os.environ if variables is None else variables
    identity = attempt_identity(point_file.point_id, point_file.sweep_id, attempt_dir, variables)
    draft = Draft(identity, point_file)
    _write_started(draft, attempt_dir)
    record = draft.finish(_run(draft, attempt_dir, build, variables))
    print(report(record), end="", flush=True)
    write_atomic(attempt_dir / "record.json", to_json(record))
    return record


def _run(draft: Draft, attempt_dir: Path, build: PathBuilder, variables: Mapping[str, str]) -> End:
    """Runs the job; every exception becomes an end, with what was known by then kept."""
    telemetry: Telemetry | None = None
    try:
        draft.environment = gather_environment(draft.point_file, variables)
        draft.flags = [
            *flagged_variables(variables),
            *source_change(draft.point_file, draft.environment),
        ]
        _say(f"node {draft.environment.host}, GPU {draft.environment.gpu_name or 'none'}")
        _ask_capability(draft)
        telemetry = Telemetry(draft.environment.gpu_uuid)
        draft.telemetry += telemetry.samples("before")
        draft.probe = fingerprint(draft.environment, telemetry, long=_is_probe(draft))
        if _is_probe(draft):
            return End(Outcome.PASSED, "fingerprint taken")
        return run_attention(draft, attempt_dir, build, telemetry, _say)
    except RefusedError as refused:
        return end_of_refusal(refused.check)
    except Exception as error:  # the record is where every error of a point belongs
        return end_of_exception(error)
    finally:
        if telemetry is not None:
            draft.telemetry += telemetry.samples("after")


def _ask_capability(draft: Draft) -> None:
    point = draft.point_file.point
    needs_libraries = point.gpu.device == "cuda" and (
        point.backend is Backend.te or point.job is Job.probe
    )
    machine = query_machine(transformer_engine_version(), query=needs_libraries)
    draft.checks = run_checks(point, machine)
    if machine.libraries is not None:
        draft.environment = draft.environment.model_copy(
            update={
                "cudnn_torch": machine.libraries.cudnn_torch,
                "cudnn_transformer_engine": machine.libraries.cudnn_te,
            }
        )
    for check in draft.checks:
        _say(_said(check))
    refusal = first_refusal(draft.checks)
    if refusal is not None:
        raise RefusedError(refusal)


def _said(check: Check) -> str:
    """A check in words; that of MXFP8 in the form that its reviewers know."""
    if check.name == "MXFP8 available":
        return f"{check.name}: ({check.ok}, {check.reason!r})"
    answer = {True: "yes", False: "no", None: "not asked"}[check.ok]
    return f"{check.name}: {answer}{f', {check.reason}' if check.reason else ''}"


def _is_probe(draft: Draft) -> bool:
    return draft.point_file.point.job is Job.probe


def _write_started(draft: Draft, attempt_dir: Path) -> None:
    started = Started(
        **current_process().model_dump(),
        identity=draft.identity,
        started_at=iso(draft.span.started),
    )
    write_atomic(attempt_dir / "started.json", to_json(started))


def _say(line: str) -> None:
    print(f"[{datetime.now():%H:%M:%S}] {line}", flush=True)
