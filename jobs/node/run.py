"""Runs one point from its start to its record: environment, capability, job, outcome."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from conf.choices import Backend, Job
from jobs.files import write_atomic
from jobs.node.arm import PathBuilder
from jobs.node.attention import run_attention
from jobs.node.environment import (
    gather_environment,
    source_change,
    transformer_engine_version,
)
from jobs.node.output import print_progress
from jobs.node.point_file import PointFile, attempt_identity
from jobs.node.probe import fingerprint
from jobs.node.record_draft import Ending, RecordDraft, RefusedError
from jobs.node.telemetry import Telemetry
from jobs.node.text_report import check_line, text_report
from jobs.process import current_process
from jobs.record import Outcome, Record, Started, to_json
from jobs.span import iso
from mxfp8_attention.capability.checks import first_refusal, query_machine, run_checks
from mxfp8_attention.capability.environment import flagged_variables
from mxfp8_attention.paths import build_path


def run_attempt(
    point_file: PointFile,
    attempt_dir: Path,
    *,
    build: PathBuilder = build_path,
    variables: Mapping[str, str] | None = None,
) -> Record:
    """Run a point; write `started.json` and `record.json`, each whole or not at all.

    Every exception of the point ends in the record.

    Args:
        point_file: The point.
        attempt_dir: The attempt's folder.
        build: Builder of an arm's path; tests pass their own.
        variables: Environment variables, `os.environ` if None.

    Raises:
        OSError: The folder cannot be written.
    """
    variables = os.environ if variables is None else variables
    identity = attempt_identity(point_file.point_id, point_file.sweep_id, attempt_dir, variables)
    draft = RecordDraft(identity, point_file)
    started = Started(
        **current_process().model_dump(), identity=identity, started_at=iso(draft.span.started)
    )
    write_atomic(attempt_dir / "started.json", to_json(started))
    record = draft.finish(_run(draft, attempt_dir, build, variables))
    print(text_report(record), end="", flush=True)
    write_atomic(attempt_dir / "record.json", to_json(record))
    return record


def _run(
    draft: RecordDraft, attempt_dir: Path, build: PathBuilder, variables: Mapping[str, str]
) -> Ending:
    telemetry: Telemetry | None = None
    is_probe = draft.point_file.point.job is Job.probe
    try:
        draft.environment = gather_environment(draft.point_file, variables)
        draft.flags = [
            *flagged_variables(variables),
            *source_change(draft.point_file, draft.environment),
        ]
        gpu = draft.environment.gpu_name or "none"
        print_progress(f"node {draft.environment.host}, GPU {gpu}")
        _check_capability(draft)
        telemetry = Telemetry(draft.environment.gpu_uuid)
        draft.telemetry += telemetry.samples("before")
        draft.probe = fingerprint(draft.environment, telemetry, long=is_probe)
        if is_probe:
            return Ending(Outcome.PASSED, "fingerprint taken")
        return run_attention(draft, attempt_dir, build, telemetry)
    except RefusedError as error:
        return Ending.of_refusal(error.check)
    except Exception as error:  # every error of a point belongs in its record
        return Ending.of_exception(error)
    finally:
        if telemetry is not None:
            draft.telemetry += telemetry.samples("after")


def _check_capability(draft: RecordDraft) -> None:
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
        print_progress(check_line(check))
    refusal = first_refusal(draft.checks)
    if refusal is not None:
        raise RefusedError(refusal)
