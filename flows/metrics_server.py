"""``/metrics`` and ``/healthz`` of ``evenhand serve``."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, make_wsgi_app, start_http_server

from evenhand.flows import telemetry
from evenhand.flows.engine import read_verdict
from evenhand.tasks.errors import NotCarriedOut
from evenhand.tasks.store import Store

SILENT_S = 30.0


class RunMetrics:
    """Prometheus' counters and gauges of what has happened in a store since the start."""

    def __init__(self, store: Store) -> None:
        self.store, self.registry, self._lock = store, CollectorRegistry(), threading.Lock()
        self._metrics = {
            name: kind(name, text, labels, registry=self.registry)
            for kind, listed in ((Counter, telemetry.COUNTERS), (Gauge, telemetry.GAUGES))
            for name, (text, labels) in listed.items()
        }
        self._seen = set(store.runs_with("verdict.json"))

    def count(self, deployment: str, state: str, seconds: float) -> None:
        """Count a run of a deployment that has ended now."""
        self._add("evenhand_flow_runs", 1, (deployment, state))
        self._add("evenhand_flow_run_seconds", seconds, (deployment,))
        if state == "completed":
            self._add("evenhand_last_success_timestamp_seconds", time.time(), (deployment,))

    def read_new(self) -> None:
        """Add the verdicts that are new, also those of runs by hand."""
        with self._lock:
            new = set(self.store.runs_with("verdict.json")) - self._seen
            self._seen |= new
        for run_id in sorted(new):
            with suppress(AttributeError, KeyError, TypeError, ValueError):  # damaged, or of another release
                verdict = read_verdict(self.store, run_id)
                for measurement in telemetry.measurements(verdict) if verdict is not None else ():
                    self._add(*measurement)

    def _add(self, name: str, value: float, labels: tuple[str, ...]) -> None:
        metric = self._metrics[name].labels(*labels)
        (metric.set if isinstance(metric, Gauge) else metric.inc)(value)


def serve_metrics(metrics: RunMetrics, port: int, last_polled: Callable[[], datetime | None]) -> None:
    """Serve both addresses on this machine, in a thread that ends with this process.

    The health is 503 if the runner asked for due runs more than 30 seconds ago, or never. Raises
    `NotCarriedOut` if the port cannot be used.
    """
    exposition = make_wsgi_app(metrics.registry)

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/healthz":
            metrics.read_new()
            return exposition(environ, start_response)
        polled = last_polled()
        silent = None if polled is None else round((datetime.now(UTC) - polled).total_seconds(), 1)
        well = silent is not None and silent <= SILENT_S
        start_response(
            "200 OK" if well else "503 Service Unavailable", [("Content-Type", "application/json")]
        )
        return [json.dumps({"healthy": well, "seconds_since_poll": silent}).encode()]

    try:
        server, _ = start_http_server(port, "127.0.0.1", metrics.registry)
    except OSError as error:
        reason = f"port {port} cannot be used ({error.strerror})"
        raise NotCarriedOut(f"--metrics-port: {reason}: choose another one.") from None
    server.set_app(answer)
