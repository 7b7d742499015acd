"""The typed record of an attempt, written by the node and read by `collect`.

Units are in the names: `_ms`, `_s`, `_tflops`, `_gib`, `_gb_per_s`, `_mhz`, `_watt`, `_celsius`.
Fields of newer versions are kept. NaN and infinity are strings, because JSON lacks them. Evidence
is quoted as it was read, and must be escaped for display.
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from jobs.errors import RecordError
from jobs.files import read_bounded
from jobs.validation import first_problem

SCHEMA_VERSION = 1

# A figure can be NaN or infinite, and is then a string in JSON and in the schema.
Number = Annotated[
    float,
    WithJsonSchema({"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}),
]


DIRECTIONS = ("fprop", "bprop")


class Outcome(StrEnum):
    """Result of an attempt; UNSUPPORTED is never a pass."""

    PASSED = "PASSED"
    FAILED = "FAILED"
    UNSUPPORTED = "UNSUPPORTED"
    ERROR = "ERROR"


class State(StrEnum):
    """Where a point stands: its outcome, or one of four states before it has one."""

    PASSED = "PASSED"
    FAILED = "FAILED"
    UNSUPPORTED = "UNSUPPORTED"
    ERROR = "ERROR"
    PLANNED = "PLANNED"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    REQUEUED = "REQUEUED"

    @property
    def finished(self) -> bool:
        """True if the point has an outcome."""
        return not self.under_way and self is not State.PLANNED

    @property
    def under_way(self) -> bool:
        """True if a job runs the point, or will."""
        return self in (State.PENDING, State.RUNNING, State.REQUEUED)


class Cause(StrEnum):
    """Cause of an ERROR."""

    exception = "exception"
    import_error = "import_error"
    out_of_memory_gpu = "out_of_memory_gpu"
    out_of_memory_host = "out_of_memory_host"
    crashed = "crashed"
    timeout = "timeout"
    node_fail = "node_fail"
    preempted = "preempted"
    cancelled = "cancelled"
    launch_failed = "launch_failed"
    container_failed = "container_failed"
    storage = "storage"
    submit_rejected = "submit_rejected"
    lost = "lost"


INFRASTRUCTURE_CAUSES = frozenset(
    {
        Cause.node_fail,
        Cause.preempted,
        Cause.launch_failed,
        Cause.container_failed,
        Cause.storage,
        Cause.lost,
    }
)


def state_text(state: str, cause: str | None) -> str:
    """Return "ERROR (timeout)", or the state alone if it has no cause."""
    return f"{state} ({cause})" if cause else str(state)


class Model(BaseModel):
    """Base of every part: frozen, keeps unknown fields."""

    model_config = ConfigDict(extra="allow", frozen=True, ser_json_inf_nan="strings")


class Identity(Model):
    """Identity of an attempt: its point, sweep, job and number."""

    point_id: str
    sweep_id: str | None = None
    job_id: str | None = Field(default=None, description="As users type it: 14, 14_2 or local-...")
    raw_job_id: str | None = Field(default=None, description="SLURM's own id of the array task")
    attempt: int = 1
    restart_count: int = 0


class Environment(Model):
    """Hardware and software of the node; None if absent."""

    host: str | None = None
    platform: str | None = None
    python: str | None = None
    cpu: str | None = None
    gpu_name: str | None = None
    gpu_uuid: str | None = None
    gpu_count: int = 0
    gpu_memory_gib: float | None = None
    compute_capability: str | None = None
    driver: str | None = None
    cuda: str | None = None
    torch: str | None = None
    triton: str | None = None
    transformer_engine: str | None = None
    cudnn_torch: str | None = Field(default=None, description="cuDNN that torch loaded")
    cudnn_transformer_engine: str | None = Field(default=None, description="cuDNN that TE loaded")
    commit: str | None = None
    dirty: bool | None = None
    dirty_hash: str | None = None
    image: str | None = None
    variables: dict[str, str] = Field(default_factory=dict)

    @property
    def node_name(self) -> str:
        """The scheduler's name of the node, which may differ from `host`; empty if unknown."""
        nodes = self.variables.get("SLURM_JOB_NODELIST", "")
        return "" if set(nodes) & set("[,") else nodes


class Check(Model):
    """One capability check, with the reason in the library's own words."""

    name: str
    ok: bool | None = Field(description="null if the check does not apply")
    reason: str = ""
    remedy: str = ""
    source: str = ""


class Capability(Model):
    """Capability of the machine, and the attention kernels that ran."""

    checks: list[Check] = Field(default_factory=list)
    attention_backend: dict[str, str] = Field(
        default_factory=dict, description="Attention kernel that ran, by arm"
    )
    flags: list[str] = Field(
        default_factory=list, description="Environment variables that change the meaning of a run"
    )


class TensorError(Model):
    """Error of one tensor of one arm against one reference."""

    tensor: str
    reference: str = Field(
        description="fp32, bf16, or stage (FP32 on the arm's own inputs of this stage)"
    )
    arm: str = Field(description="recipe or bf16")
    rel_l2: Number
    worst_head_rel_l2: Number | None = None
    worst_head: int | None = None
    max_abs: Number
    rmse: Number
    cosine: Number
    nonfinite_count: int
    outside_share: Number | None = Field(
        default=None, description="Share outside atol + rtol * |ref|"
    )
    gate: str | None = Field(default=None, description="The gate as text")
    gate_low: Number | None = None
    gate_high: Number | None = None
    predicted_rel_l2: Number | None = None
    passed: bool | None = Field(default=None, description="null if not gated")


class Validation(Model):
    """Accuracy of one point."""

    tolerance: str
    prediction: str | None = Field(
        default=None, description="stored, predicted on the node, or null"
    )
    tensors: list[TensorError]
    passed: bool | None = None
    failures: list[str] = Field(default_factory=list)


class Timing(Model):
    """Times of one direction of one arm."""

    samples_ms: list[float]
    throttled: list[bool] = Field(default_factory=list)
    median_ms: float
    mean_ms: float
    low_ms: float = Field(description="Lower end of the interval of the statistic")
    high_ms: float
    tokens_per_s: float
    tflops: float | None = None
    share_of_peak: float | None = None
    share_of_roofline: float | None = None


class Speedup(Model):
    """BF16 time over the recipe's time, from paired blocks."""

    ratio: float
    low: float
    high: float
    claim: str = Field(description="speedup, noise (an arm against itself) or emulated (no claim)")


class StageTiming(Model):
    """Time of one stage of one arm, measured by itself."""

    arm: str
    stage: str
    direction: str
    median_ms: float
    tflops: float | None = None
    share_of_roofline: float | None = None


class ArmBenchmark(Model):
    """Times of one arm, both directions."""

    arm: str
    precision: str
    emulated: bool = False
    fprop: Timing
    bprop: Timing
    first_iteration_ms: float | None = None
    peak_memory_gib: float | None = None


class BenchmarkResult(Model):
    """Speed of one point, both arms measured in one process."""

    method: str
    statistic: str
    confidence: float
    arms: list[ArmBenchmark]
    fprop_speedup: Speedup | None = None
    bprop_speedup: Speedup | None = None
    stages: list[StageTiming] = Field(default_factory=list)
    warmup_iterations: int = 0
    notes: list[str] = Field(default_factory=list)


THROTTLING = frozenset(
    {"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"}
)
"""Reasons for a lower clock that disqualify a measurement.

A software power cap is normal for a large GPU under matrix products; idle and clock settings are
a choice.
"""


class TelemetrySample(Model):
    """One reading of NVML."""

    when: str = Field(description="before, during or after")
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_watt: float | None = None
    power_limit_watt: float | None = None
    temperature_celsius: float | None = None
    throttle_reasons: list[str] = Field(default_factory=list)

    @property
    def throttled(self) -> bool:
        """True if the GPU was throttled."""
        return not THROTTLING.isdisjoint(self.throttle_reasons)


class Probe(Model):
    """Fingerprint of a node, to distinguish a bad node from a regression."""

    copy_gb_per_s: float | None = None
    bf16_matmul_tflops: float | None = None
    ecc_enabled: bool | None = None
    ecc_errors: int | None = None
    max_sm_clock_mhz: float | None = None
    power_limit_watt: float | None = None


class Evidence(Model):
    """Lines that show the cause, and their place in a file."""

    lines: list[str]
    file: str | None = None
    offset: int | None = None


class Process(Model):
    """Identity of a process; `jobs.process` checks if it is still running."""

    host: str
    pid: int
    boot_id: str | None = Field(default=None, description="Boot of the machine")
    pid_namespace: str | None = Field(default=None, description="Namespace of the pid")
    start_ticks: int | None = Field(default=None, description="Start, in ticks since the boot")


class Started(Process):
    """`started.json`: an attempt has started."""

    schema_version: int = SCHEMA_VERSION
    identity: Identity
    started_at: str


class Record(Model):
    """`record.json`: the result of an attempt."""

    schema_version: int = SCHEMA_VERSION
    identity: Identity
    config: dict[str, Any] = Field(description="Configuration of the whole point")
    environment: Environment = Environment()
    capability: Capability = Capability()
    validation: Validation | None = None
    benchmark: BenchmarkResult | None = None
    probe: Probe | None = None
    telemetry: list[TelemetrySample] = Field(default_factory=list)
    outcome: Outcome
    cause: Cause | None = None
    reason: str = Field(default="", description="Reason of the outcome, one line")
    evidence: list[Evidence] = Field(default_factory=list)
    started_at: str | None = None
    finished_at: str | None = None
    duration_s: float | None = None
    command: str | None = None


def config_value(config: dict[str, Any], key: str) -> Any:  # noqa: ANN401 - any of JSON's types
    """Return the value of a dotted key of a plain configuration, None if it is missing."""
    value: Any = config
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def read_record(path: Path, *, inside: Path | None = None) -> Record:
    """Read a `record.json`; links must not leave the folder `inside`.

    Raises:
        RecordError: The file is missing, too large, not JSON, or not a record.
    """
    try:
        return Record.model_validate_json(read_bounded(path, inside=inside))
    except OSError as error:
        raise RecordError(path, f"cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise RecordError(path, f"is not a record: {first_problem(error)}") from error
    except RecursionError as error:
        raise RecordError(path, "is not a record: nested too deeply") from error


def to_json(model: Model) -> str:
    """Return indented JSON with a final newline."""
    return model.model_dump_json(indent=2) + "\n"


def json_schema() -> str:
    """Return the JSON Schema of `record.json`, for `docs/record.schema.json`."""
    return json.dumps(Record.model_json_schema(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":  # python -m jobs.record > docs/record.schema.json
    print(json_schema(), end="")
