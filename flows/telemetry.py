"""Measurements of runs: for ``/metrics`` of ``evenhand serve``, and for OpenTelemetry."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Iterator, Mapping

from evenhand.flows.run_verdict import FinishedStep, Verdict

# Name of each counter and gauge: description and labels. The last counters and the last gauge are
# those of `evenhand serve` alone: a run does not know its deployment.
COUNTERS = {
    "evenhand_runs": ("Runs by their verdict.", ("job", "status")),
    "evenhand_rows": ("Rows of the tables and files of runs.", ("job",)),
    "evenhand_steps": ("Steps of runs; a cached one computed nothing.", ("step", "cached")),
    "evenhand_step_seconds": ("Seconds of steps.", ("step",)),
    "evenhand_gates": ("Gates of runs by their result.", ("job", "passed")),
    "evenhand_flow_runs": ("Runs of deployments by their final state.", ("deployment", "state")),
    "evenhand_flow_run_seconds": ("Seconds of runs of deployments.", ("deployment",)),
}
GAUGES = {
    "evenhand_drift_psi": ("Stability index of the rows monitored last.", ("job", "column")),
    "evenhand_last_success_timestamp_seconds": ("When a run last completed.", ("deployment",)),
}
# Gauges of the last run of a job, for runs that end before anybody could ask them: a file
# (`evenhand.flows.metrics_file`), and OpenTelemetry.
JOB_GAUGES = {
    "evenhand_job_end_timestamp_seconds": ("When a run last ended.", ("job",)),
    "evenhand_job_success_timestamp_seconds": ("When a run last ended with code 0.", ("job",)),
    "evenhand_job_exit_code": ("Exit code of the last run.", ("job",)),
    "evenhand_job_verdict": ("Verdict of the last run, 1 for its status.", ("job", "status")),
    "evenhand_job_seconds": ("Seconds of the steps of the last run.", ("job",)),
    "evenhand_job_rows": ("Rows of the last run's table or files.", ("job",)),
    "evenhand_job_gates_refused": ("Gates that refused in the last run.", ("job",)),
    "evenhand_job_drift_psi": ("Stability index of the rows monitored last.", ("job", "column")),
    "evenhand_model_version": ("Version with the alias.", ("job", "model", "alias")),
    "evenhand_model_since_timestamp_seconds": (
        "When the alias got its version.",
        ("job", "model", "alias"),
    ),
}
ENDPOINTS = tuple(f"OTEL_EXPORTER_OTLP_{signal}ENDPOINT" for signal in ("", "TRACES_", "METRICS_"))


def measurements(verdict: Verdict) -> Iterator[tuple[str, float, tuple[str, ...]]]:
    """Return name, value and labels of what a run adds to the counters and sets the gauges to."""
    job = job_of(verdict)
    yield "evenhand_runs", 1, (job, verdict.status)
    yield "evenhand_rows", _rows(verdict) or 0, (job,)
    for step, seconds in verdict.seconds.items():
        yield "evenhand_steps", 1, (step, str(step in verdict.cached).lower())
        yield "evenhand_step_seconds", seconds, (step,)
    for gate in verdict.gates.get("results", []):
        yield "evenhand_gates", 1, (job, str(gate["passed"]).lower())
    for column, value in _drift(verdict):
        yield "evenhand_drift_psi", value, (job, column)


def job_of(verdict: Verdict) -> str:
    """Return the name of a verdict's job, with its verb if that is not a training."""
    from evenhand.tasks.pages.fronts.index_front import RUN_ID

    match = RUN_ID.fullmatch(verdict.run_id)
    if match:
        return match[2]
    return verdict.run_id


def job_gauges(verdict: Verdict, ended: float) -> Iterator[tuple[str, float, tuple[str, ...]]]:
    """Return name, value and labels of the gauges that a run which ended then says itself."""
    job = job_of(verdict)
    yield "evenhand_job_end_timestamp_seconds", ended, (job,)
    if verdict.exit_code == 0:
        yield "evenhand_job_success_timestamp_seconds", ended, (job,)
    yield "evenhand_job_exit_code", verdict.exit_code, (job,)
    yield "evenhand_job_verdict", 1, (job, verdict.status)
    if verdict.seconds:
        yield "evenhand_job_seconds", sum(verdict.seconds.values()), (job,)
    rows = _rows(verdict)
    if rows is not None:
        yield "evenhand_job_rows", rows, (job,)
    if "results" in verdict.gates:
        refused = [gate for gate in verdict.gates["results"] if not gate["passed"]]
        yield "evenhand_job_gates_refused", len(refused), (job,)
    for column, value in _drift(verdict):
        yield "evenhand_job_drift_psi", value, (job, column)


def _rows(verdict: Verdict) -> float | None:
    """Return the rows of a run's table, or of its files; None if it read none."""
    if verdict.rows is not None:
        return verdict.rows
    return verdict.metrics.get("rows_in")


def _drift(verdict: Verdict) -> Iterator[tuple[str, float]]:
    """Give each monitored column with its stability index."""
    for name, value in verdict.metrics.items():
        if name.startswith("psi.") and not name.endswith((".low", ".high")) and value is not None:
            yield name.removeprefix("psi."), value


@functools.cache
def prepare() -> bool:
    """Have OpenTelemetry's SDK read its variables, unless a program around ours has set providers
    up.

    Returns False after one warning if the SDK, or the exporter that the variables name, is not
    installed: a run is right without it.
    """
    try:
        from opentelemetry import trace
        from opentelemetry.sdk._configuration import _OTelSDKConfigurator

        if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            return True
        if "service.name" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
            os.environ.setdefault("OTEL_SERVICE_NAME", "evenhand")
        os.environ.setdefault("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        for signal in ("TRACES", "METRICS"):
            os.environ.setdefault(f"OTEL_{signal}_EXPORTER", "otlp")
        _OTelSDKConfigurator().configure()
    except (ImportError, RuntimeError) as error:
        reason = (str(error).splitlines() or [""])[0].rstrip(".")
        sys.stderr.write(
            f"evenhand: WARNING: nothing is sent to OpenTelemetry ({reason}): "
            "`pip install 'evenhand[otel]'` has exporters.\n"
        )
        return False
    return True


def record(verdict: Verdict, steps: Mapping[str, FinishedStep], started_ns: int) -> None:
    """Record a run that has ended: its measurements, a span of the run, and one of each step below
    it.

    No text of an error is recorded, because that may quote a person's value.
    """
    from opentelemetry import metrics, trace

    tracer = trace.get_tracer("evenhand")
    meter = metrics.get_meter("evenhand")
    facts: dict[str, str | int] = {"run_id": verdict.run_id, "status": verdict.status}
    run = tracer.start_span(
        "run", start_time=started_ns, attributes=facts | {"exit_code": verdict.exit_code}
    )
    if verdict.status == "failed":
        run.set_status(trace.StatusCode.ERROR)
    for name, step in steps.items():
        span = tracer.start_span(
            name,
            trace.set_span_in_context(run),
            start_time=step.ended_ns - int(step.seconds * 1e9),
            attributes={"cached": step.cached, "key": step.record.key},
        )
        span.end(step.ended_ns)
    run.end(time.time_ns())
    ended = time.time()
    for name, value, values in [*measurements(verdict), *job_gauges(verdict, ended)]:
        text, labels = (COUNTERS | GAUGES | JOB_GAUGES)[name]
        dotted_name = name.replace("_", ".", 1)
        attributes = dict(zip(labels, values, strict=True))
        if name in COUNTERS:
            meter.create_counter(dotted_name, description=text).add(value, attributes)
        else:
            meter.create_gauge(dotted_name, description=text).set(value, attributes)
