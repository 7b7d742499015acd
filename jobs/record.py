"""The record of an attempt, typed: what the node and the collector agree on.

Units are in the names: `_ms`, `_s`, `_tflops`, `_gib`, `_gb_per_s`, `_mhz`, `_watt`, `_celsius`.
Fields that a newer version added are kept on reading. NaN and infinity are written as strings,
because JSON has no word for them. Evidence is quoted as it was read; whoever shows it escapes it.
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

# An error can be NaN or infinite, and its JSON is then a string: the schema says so too.
Number = Annotated[
    float,
    WithJsonSchema({"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}),
]


DIRECTIONS = ("fprop", "bprop")


class Outcome(StrEnum):
    """How an attempt ended; UNSUPPORTED is never a pass."""

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
    """Why an attempt is an ERROR."""

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
    """Base of every part: frozen, keeping fields it does not know."""

    model_config = ConfigDict(extra="allow", frozen=True, ser_json_inf_nan="strings")


class Identity(Model):
    """Which execution of which point this is."""

    point_id: str
    sweep_id: str | None = None
    job_id: str | None = Field(
        default=None, description="As people type it: 14, 14_2 or local-..."
    )
    raw_job_id: str | None = Field(
        default=None, description="SLURM's own number of the array task"
    )
    attempt: int = 1
    restart_count: int = 0


class Environment(Model):
    """What the node is and what it runs; None: not there."""

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
    """One question about this machine, its answer and the reason in the library's own words."""

    name: str
    ok: bool | None = Field(description="None: the question does not arise here")
    reason: str = ""
    remedy: str = ""
    source: str = ""


class Capability(Model):
    """What this machine can run, and what really ran."""

    checks: list[Check] = Field(default_factory=list)
    attention_backend: dict[str, str] = Field(
        default_factory=dict, description="Per arm, the attention kernel that ran"
    )
    flags: list[str] = Field(
        default_factory=list, description="Variables that change the meaning of a run"
    )


class TensorError(Model):
    """One tensor of the recipe's arm against one reference."""

    tensor: str
    reference: str = Field(
        description="fp32, bf16, or stage: FP32 of the inputs that the arm gave this stage"
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
    gate: str | None = Field(default=None, description="The rule, in words and numbers")
    gate_low: Number | None = None
    gate_high: Number | None = None
    predicted_rel_l2: Number | None = None
    passed: bool | None = Field(default=None, description="None: not gated")


class Validation(Model):
    """Accuracy of one point."""

    tolerance: str
    prediction: str | None = Field(
        default=None, description="stored, predicted on the node, or None"
    )
    tensors: list[TensorError]
    passed: bool | None = None
    failures: list[str] = Field(default_factory=list)


class Timing(Model):
    """One direction of one arm."""

    samples_ms: list[float]
    throttled: list[bool] = Field(default_factory=list)
    median_ms: float
    mean_ms: float
    low_ms: float = Field(description="Lower end of the interval on the shown statistic")
    high_ms: float
    tokens_per_s: float
    tflops: float | None = None
    share_of_peak: float | None = None
    share_of_roofline: float | None = None


class Speedup(Model):
    """BF16 time over the recipe's time, from paired blocks; None where none is claimed."""

    ratio: float
    low: float
    high: float
    claim: str = Field(description="speedup, noise (an arm against itself) or emulated (no claim)")


class StageTiming(Model):
    """One stage of one arm, timed by itself."""

    arm: str
    stage: str
    direction: str
    median_ms: float
    tflops: float | None = None
    share_of_roofline: float | None = None


class ArmBenchmark(Model):
    """Both directions of one arm."""

    arm: str
    precision: str
    emulated: bool = False
    fprop: Timing
    bprop: Timing
    first_iteration_ms: float | None = None
    peak_memory_gib: float | None = None


class BenchmarkResult(Model):
    """Speed of one point, both arms from one collection."""

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
"""The reasons for a lower clock that make a measurement unfit for a verdict.

A power cap in software is how a large GPU runs under matrix products all the time; idle and clock
settings are a choice.
"""


class TelemetrySample(Model):
    """What NVML saw at one moment."""

    when: str = Field(description="before, during or after")
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_watt: float | None = None
    power_limit_watt: float | None = None
    temperature_celsius: float | None = None
    throttle_reasons: list[str] = Field(default_factory=list)

    @property
    def throttled(self) -> bool:
        """Whether the GPU ran slower than it can under such a load."""
        return not THROTTLING.isdisjoint(self.throttle_reasons)


class Probe(Model):
    """A node's fingerprint, so that a bad node and a regression can be told apart."""

    copy_gb_per_s: float | None = None
    bf16_matmul_tflops: float | None = None
    ecc_enabled: bool | None = None
    ecc_errors: int | None = None
    max_sm_clock_mhz: float | None = None
    power_limit_watt: float | None = None


class Evidence(Model):
    """Lines that show why, and where they stand."""

    lines: list[str]
    file: str | None = None
    offset: int | None = None


class Process(Model):
    """Which process runs something; `jobs.process` tells whether it still does."""

    host: str
    pid: int
    boot_id: str | None = Field(default=None, description="Which boot it belongs to")
    pid_namespace: str | None = Field(default=None, description="Where its number is counted")
    start_ticks: int | None = Field(default=None, description="Since the boot, as Linux counts")


class Started(Process):
    """`started.json`: an attempt began."""

    schema_version: int = SCHEMA_VERSION
    identity: Identity
    started_at: str


class Record(Model):
    """`record.json`: what an attempt left."""

    schema_version: int = SCHEMA_VERSION
    identity: Identity
    config: dict[str, Any] = Field(description="The whole point, as conf.plain writes it")
    environment: Environment = Environment()
    capability: Capability = Capability()
    validation: Validation | None = None
    benchmark: BenchmarkResult | None = None
    probe: Probe | None = None
    telemetry: list[TelemetrySample] = Field(default_factory=list)
    outcome: Outcome
    cause: Cause | None = None
    reason: str = Field(default="", description="One line: why this outcome")
    evidence: list[Evidence] = Field(default_factory=list)
    started_at: str | None = None
    finished_at: str | None = None
    duration_s: float | None = None
    command: str | None = None


def config_value(config: dict[str, Any], key: str) -> Any:  # noqa: ANN401 - any of JSON's types
    """What a plain configuration holds under a dotted key; None where it does not say."""
    value: Any = config
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def read_record(path: Path, *, inside: Path | None = None) -> Record:
    """Reads one record.

    Args:
        path: A `record.json`.
        inside: A link must not leave this folder; None: it may lead anywhere.

    Returns:
        The record; fields of newer versions are kept.

    Raises:
        RecordError: The file is missing, too large, no JSON, or no record; names the file.
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
    """A record as JSON text, two spaces deep, ending with a newline."""
    return model.model_dump_json(indent=2) + "\n"


def json_schema() -> str:
    """The JSON Schema of `record.json`, as `docs/record.schema.json` holds it."""
    return json.dumps(Record.model_json_schema(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":  # python -m jobs.record > docs/record.schema.json
    print(json_schema(), end="")
