"""Measurements of runs, as Prometheus and OpenTelemetry get them."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from evenhand.flows import logs, telemetry
from evenhand.flows.engine import Verdict, recorded_verdict, write_verdict
from evenhand.flows.serving import RunMetrics, serve_metrics
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.execution.store import Store
from tests.e2e.real_services import free_ports

ROOT = Path(__file__).resolve().parents[2]
TRAINED = Verdict(
    "20260102-030405-people-gbdt-0a1b2c",
    "gated",
    1,
    metrics={"auc": 0.7, "auc.low": 0.6, "psi.city": 0.5},
    gates={"results": [{"passed": True}, {"passed": False}, {"passed": True}]},
    seconds={"ingest": 0.25, "train": 4.0},
    cached=["ingest"],
    rows=300,
)
DRIFTED = Verdict(
    "20260102-040506-people-monitor-0a1b2c",
    "monitored",
    0,
    metrics={"psi.city": 0.125, "psi.city.low": 0.1, "psi.age": None, "psi_max": 0.125},
    rows=40,
)
FILTERED = Verdict("by-hand", "filtered", 0, metrics={"rows_in": 7, "rows_out": 2})


def samples(text: bytes) -> dict[tuple[str, ...], float]:
    """Value of each sample by its name and its labels' values, in the order of their names."""
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for item in family.samples:
            if not item.name.endswith("_created"):
                found[item.name, *(value for _, value in sorted(item.labels.items()))] = item.value
    return found


def get(port: int, path: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


@pytest.fixture
def metrics(store: Store) -> RunMetrics:
    """Of a store with a run from before, which does not count."""
    write_verdict(store, Verdict("20250101-000000-people-gbdt-000000", "published", 0, rows=1000))
    return RunMetrics(store)


def test_metrics_are_the_sums_over_new_verdicts(store: Store, metrics: RunMetrics) -> None:
    (port,) = free_ports(1)
    serve_metrics(metrics, port, lambda: None)
    for verdict in (TRAINED, DRIFTED, FILTERED):
        write_verdict(store, verdict)
    metrics.count("campaign", "completed", 1.5)
    metrics.count("campaign", "failed", 2.0)
    first = get(port, "/metrics")[1]
    assert samples(get(port, "/metrics")[1]) == samples(first), "a verdict counts once"
    found = samples(first)
    assert found.pop(("evenhand_last_success_timestamp_seconds", "campaign")) > 1.7e9
    assert found == {
        ("evenhand_runs_total", "people-gbdt", "gated"): 1,
        ("evenhand_runs_total", "people-monitor", "monitored"): 1,
        ("evenhand_runs_total", "by-hand", "filtered"): 1,
        ("evenhand_rows_total", "people-gbdt"): 300,
        ("evenhand_rows_total", "people-monitor"): 40,
        ("evenhand_rows_total", "by-hand"): 7,
        ("evenhand_steps_total", "true", "ingest"): 1,
        ("evenhand_steps_total", "false", "train"): 1,
        ("evenhand_step_seconds_total", "ingest"): 0.25,
        ("evenhand_step_seconds_total", "train"): 4,
        ("evenhand_gates_total", "people-gbdt", "true"): 2,
        ("evenhand_gates_total", "people-gbdt", "false"): 1,
        ("evenhand_drift_psi", "city", "people-gbdt"): 0.5,
        ("evenhand_drift_psi", "city", "people-monitor"): 0.125,
        ("evenhand_flow_runs_total", "campaign", "completed"): 1,
        ("evenhand_flow_runs_total", "campaign", "failed"): 1,
        ("evenhand_flow_run_seconds_total", "campaign"): 3.5,
    }


def test_a_damaged_verdict_does_not_end_the_metrics(store: Store, metrics: RunMetrics) -> None:
    store.write_text("{", "runs", "20260102-030405-torn-0a1b2c", "verdict.json")
    store.write_text(
        '{"of": "a later release"}', "runs", "20260102-030405-later-0a1b2c", "verdict.json"
    )
    write_verdict(store, TRAINED)
    metrics.read_new()
    assert metrics.registry.get_sample_value("evenhand_rows_total", {"job": "people-gbdt"}) == 300


def test_health_follows_the_last_poll(metrics: RunMetrics) -> None:
    (port,) = free_ports(1)
    polled: list[dt.datetime | None] = [None]
    serve_metrics(metrics, port, lambda: polled[0])
    assert get(port, "/healthz") == (503, b'{"healthy": false, "seconds_since_poll": null}')
    polled[0] = dt.datetime.now(dt.UTC)
    assert get(port, "/healthz")[0] == 200
    polled[0] -= dt.timedelta(seconds=31)
    status, body = get(port, "/healthz")
    assert (status, json.loads(body)["healthy"]) == (503, False)
    with pytest.raises(NotCarriedOut, match=f"--metrics-port: port {port} cannot be used"):
        serve_metrics(metrics, port, lambda: None)


def test_the_dashboard_queries_metrics_that_exist(store: Store, metrics: RunMetrics) -> None:
    for verdict in (TRAINED, DRIFTED):
        write_verdict(store, verdict)
    metrics.count("campaign", "completed", 1.5)
    metrics.read_new()
    known = {
        item.name: set(item.labels)
        for family in metrics.registry.collect()
        for item in family.samples
    }
    board = json.loads((ROOT / "deploy" / "grafana.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked = {name for query in queries for name in re.findall(r"evenhand_\w+", query)}
    assert asked == {name for name in known if not name.endswith("_created")}
    for query in queries:
        names = re.findall(r"evenhand_\w+", query)
        grouped = {
            label.strip()
            for group in re.findall(r"by \(([^)]*)\)", query)
            for label in group.split(",")
        }
        filtered = set(re.findall(r"(\w+)=~?\"", query))
        assert grouped | filtered <= set.union(*(known[name] for name in names)), query
    for panel in board["panels"]:
        for target in panel["targets"]:
            shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert shown <= {label for labels in known.values() for label in labels}


# OpenTelemetry


@pytest.fixture
def patched() -> Iterator[pytest.MonkeyPatch]:
    """Unlike `monkeypatch` it lets the folder's fixtures remember steps."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def test_spans_and_metrics_of_a_run(champion: Any, patched: pytest.MonkeyPatch) -> None:
    from opentelemetry import metrics as meters
    from opentelemetry import trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans, reader, traces = InMemorySpanExporter(), InMemoryMetricReader(), TracerProvider()
    traces.add_span_processor(SimpleSpanProcessor(spans))
    measured = MeterProvider([reader])
    # in place of the process's own, which can be set once only
    patched.setattr(trace, "get_tracer_provider", lambda: traces)
    patched.setattr(trace, "get_tracer", traces.get_tracer)
    patched.setattr(meters, "get_meter", measured.get_meter)
    patched.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    telemetry.prepare.cache_clear()

    verdict = champion.run("--json").json
    *steps, run = spans.get_finished_spans()
    assert run.name == "run"
    assert run.attributes == {"run_id": verdict["run_id"], "status": "published", "exit_code": 0}
    assert run.status.status_code is trace.StatusCode.UNSET
    assert [span.name for span in steps] == list(verdict["seconds"])
    for span in steps:
        assert span.parent.span_id == run.context.span_id
        assert span.attributes["cached"] is (span.name in verdict["cached"])
        taken = (span.end_time - span.start_time) / 1e9
        assert taken == pytest.approx(verdict["seconds"][span.name], abs=0.001)
        assert run.start_time <= span.start_time <= span.end_time <= run.end_time
    (scope,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
    values = {
        (metric.name, *(point.attributes[key] for key in sorted(point.attributes))): point.value
        for metric in scope.metrics
        for point in metric.data.data_points
    }
    assert values["evenhand.rows", "people-gbdt"] == verdict["rows"] == champion.table.num_rows
    assert values["evenhand.runs", "people-gbdt", "published"] == 1
    assert values["evenhand.steps", "true", "train"] == 1
    assert values["evenhand.gates", "people-gbdt", "true"] == 1

    spans.clear()
    (champion.folder / "people.csv").write_text("a;b\n")
    assert champion.run("--json").code == 2
    *_, failed = spans.get_finished_spans()
    assert failed.status.status_code is trace.StatusCode.ERROR
    assert failed.status.description is None
    assert failed.events == ()


def test_a_missing_exporter_is_one_warning() -> None:
    script = (
        "import tempfile\n"
        "from evenhand.flows.engine import recorded_verdict\n"
        "from evenhand.tasks.execution.store import Store\n"
        "store = Store(tempfile.mkdtemp())\n"
        "for run in ('a', 'b'):\n"
        "    with recorded_verdict(store, run) as verdict: verdict.status = 'gated'\n"
        "print(sorted(store.runs_with('verdict.json')))"
    )
    wanted = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "nosuch"}
    done = python(script, **wanted)
    assert (done.returncode, done.stdout) == (0, "['a', 'b']\n"), done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("evenhand: WARNING: nothing is sent to OpenTelemetry (")
    assert line.endswith("`pip install 'evenhand[otel]'` has exporters.")


def test_without_variables_nothing_of_it_is_imported() -> None:
    script = (
        "import sys, tempfile\n"
        "from evenhand.flows.engine import recorded_verdict\n"
        "from evenhand.tasks.execution.store import Store\n"
        "with recorded_verdict(Store(tempfile.mkdtemp()), 'r') as verdict: verdict.status = "
        "'gated'\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    assert python(script).stdout == "[]\n"
    assert (
        python(script, OTEL_SDK_DISABLED="true", OTEL_EXPORTER_OTLP_ENDPOINT="http://x").stdout
        == "[]\n"
    )


def python(script: str, **more: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-c", script], env=kept | more, capture_output=True, text=True
    )


# the log


def train(store: Store) -> None:
    """A run that fails after a step."""
    with recorded_verdict(store, "20260102-030405-people-0a1b2c"):
        logs.event("done", "train", seconds=1.5)
        sys.stderr.write("a library's wa")
        sys.stderr.write("rning\n\n")
        raise InputError("no such column")
