"""Measurements of runs: for ``/metrics`` of ``evenhand serve``, and for OpenTelemetry."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterator, Mapping

from evenhand.flows.run_verdict import FinishedStep, Verdict
from evenhand.tasks.errors import InputError

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
ENDPOINTS = tuple(f"OTEL_EXPORTER_OTLP_{signal}ENDPOINT" for signal in ("", "TRACES_", "METRICS_"))


def measurements(verdict: Verdict) -> Iterator[tuple[str, float, tuple[str, ...]]]:
    """Return name, value and labels of what a run adds to the counters and sets the gauges to."""
    from evenhand.tasks.pages.fronts.index_front import RUN_ID

    job = verdict.run_id
    match = RUN_ID.fullmatch(verdict.run_id)
    if match:
        job = match[2]
    yield "evenhand_runs", 1, (job, verdict.status)
    rows: float | None = verdict.rows
    if rows is None:
        rows = verdict.metrics.get("rows_in")
    yield "evenhand_rows", rows or 0, (job,)
    for step, seconds in verdict.seconds.items():
        yield "evenhand_steps", 1, (step, str(step in verdict.cached).lower())
        yield "evenhand_step_seconds", seconds, (step,)
    for gate in verdict.gates.get("results", []):
        yield "evenhand_gates", 1, (job, str(gate["passed"]).lower())
    for name, value in verdict.metrics.items():
        if name.startswith("psi.") and not name.endswith((".low", ".high")) and value is not None:
            yield "evenhand_drift_psi", value, (job, name.removeprefix("psi."))


@functools.cache
def prepare() -> None:
    """Have OpenTelemetry's SDK read its variables, unless a program around ours has set providers
    up.

    Raises `InputError` if the exporter that they name is not installed.
    """
    from opentelemetry import trace
    from opentelemetry.sdk._configuration import _OTelSDKConfigurator

    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return
    if "service.name" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        os.environ.setdefault("OTEL_SERVICE_NAME", "evenhand")
    os.environ.setdefault("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    for signal in ("TRACES", "METRICS"):
        os.environ.setdefault(f"OTEL_{signal}_EXPORTER", "otlp")
    try:
        _OTelSDKConfigurator().configure()
    except RuntimeError as error:
        reason = (str(error).splitlines() or [""])[0]
        raise InputError(
            f"OpenTelemetry: {reason}: `pip install 'evenhand[otel]'` has exporters."
        ) from None


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
    for name, value, values in measurements(verdict):
        text, labels = (COUNTERS | GAUGES)[name]
        dotted_name = name.replace("_", ".", 1)
        attributes = dict(zip(labels, values, strict=True))
        if name in COUNTERS:
            meter.create_counter(dotted_name, description=text).add(value, attributes)
        else:
            meter.create_gauge(dotted_name, description=text).set(value, attributes)
