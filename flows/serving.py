"""The runner of ``evenhand serve``: processes for work, none for a retraining of unchanged data."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, Self
from uuid import UUID

import anyio
import httpx
import prefect.runner.runner as prefect_runner
from anyio import to_thread
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse, SetStateStatus
from prefect.exceptions import PrefectException, TerminationSignal
from prefect.flows import Flow, load_flow_from_entrypoint
from prefect.logging.loggers import flow_run_logger
from prefect.runner import Runner
from prefect.states import Completed, Failed, Running, State
from prometheus_client import CollectorRegistry, Counter, Gauge

from evenhand.fairlib.escaping import terminal_text
from evenhand.flows import telemetry
from evenhand.flows.engine import DirectEngine, Verdict, new_run_id, read_verdict
from evenhand.flows.flow_records import name_of_run
from evenhand.flows.job_file import load_job
from evenhand.flows.metrics_server import Answer, MetricsServer
from evenhand.flows.resolved_job import resolve
from evenhand.flows.unchanged import find_unchanged, up_to_date
from evenhand.tasks.errors import NotCarriedOut
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.client import ADDRESSES

POLL_S = 1.0
# a process imports the libraries before its run is due
EARLY_S = 3.0
CHECK_S = 60.0
RETRAIN = "evenhand.flows.prefect_flows.retrain"


class CodeSource(NamedTuple):
    """The keys of a deployment that say which code its runs execute."""

    entrypoint: str | None
    path: str | None
    pull_steps: list[dict[str, Any]]
    storage: UUID | None

    @classmethod
    def of(cls, deployment: DeploymentResponse) -> CodeSource:
        """Read the keys of the server's answer."""
        pull_steps = deployment.pull_steps or []
        return cls(
            deployment.entrypoint, deployment.path, pull_steps, deployment.storage_document_id
        )

    def changed_keys(self, now: CodeSource) -> list[str]:
        """Name the keys that differ."""
        return [key for key in self._fields if getattr(self, key) != getattr(now, key)]


def serve(deployments: Sequence[Any], limit: int, metrics_port: int | None) -> None:
    """Register deployments, built by Prefect, and run them on their schedules until Ctrl-C or
    SIGTERM.

    A run whose deployment names other code than was registered here is refused.

    Raises `NotCarriedOut` if the port for ``/metrics`` and ``/healthz`` cannot be used.
    """
    runner = ServingRunner(limit=limit, query_seconds=POLL_S, prefetch_seconds=EARLY_S)
    if metrics_port is not None:
        runner.metrics = RunMetrics(Store())
        serve_metrics(runner.metrics, metrics_port, lambda: runner.last_polled)
    for deployment in deployments:
        identifier: Any = runner.add_deployment(deployment)
        runner.names[identifier] = deployment.name
        runner.remember_source(identifier, deployment.entrypoint)
        if deployment.entrypoint == RETRAIN:
            runner.retrainings.add(identifier)
    if runner.retrainings:
        # in advance: the import takes longer than a comparison
        importlib.import_module("mlflow.store.tracking.sqlalchemy_store")
    # hooks of a flow are found by loading it, in this process
    # setattr, as the module's attribute has no type
    setattr(prefect_runner, "load_flow_from_flow_run", runner.load_registered)  # noqa: B010
    with suppress(KeyboardInterrupt, TerminationSignal):
        asyncio.run(runner.start())


def end_unchanged(parameters: Mapping[str, Any]) -> Verdict | None:
    """Write the verdict ``up_to_date`` of a run of the flow ``retrain`` with these parameters.

    None, and nothing written, if the run has work to do. Raises `CacheMiss` if its table is read
    over the network, and `EvenhandError` if something is wrong: both write nothing, for the run's
    own process reports.
    """
    resolved = resolve(*load_job(parameters["job"], parameters.get("overrides") or ()))
    store = Store(parameters.get("store"))
    engine = DirectEngine(store, cached_only=True)
    if find_unchanged(resolved, store, engine) is None:
        return None
    run_id = parameters.get("run_id") or new_run_id(resolved.job.name)
    return up_to_date(resolved, store, run_id, engine)


class ServingRunner(Runner):
    """A runner that ends a run of ``retrain`` itself if there is nothing to train.

    The comparison runs in a thread, when the run is due. Every other run has a process of its own.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.names: dict[UUID, str] = {}
        self.retrainings: set[UUID] = set()
        self.sources: dict[UUID, CodeSource] = {}
        self.metrics: RunMetrics | None = None
        self._one_check = anyio.CapacityLimiter(1)
        self._addresses = {name: os.environ.get(name) for name in ADDRESSES}

    def remember_source(self, identifier: UUID, entrypoint: str) -> None:
        """Remember which code the runs of a deployment execute: the entrypoint that was
        registered.
        """
        with get_client(sync_client=True) as client:
            registered = CodeSource.of(client.read_deployment(identifier))
        self.sources[identifier] = registered._replace(
            entrypoint=entrypoint, pull_steps=[], storage=None
        )

    async def load_registered(self, run: FlowRun, **_: Any) -> Flow[..., Any]:
        """Load the flow that was registered, whatever the server names now."""
        if run.deployment_id not in self.sources:
            raise ValueError("the run is not one of a deployment that is served here")
        flow: Flow[..., Any] = load_flow_from_entrypoint(
            str(self.sources[run.deployment_id].entrypoint)
        )
        return flow

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        # Prefect has no public hook before the start of a run's process, nor after its end
        poller: Any = self._scheduled_run_poller
        proposer: Any = self._state_proposer
        self._admit = proposer.propose_pending
        proposer.propose_pending = self._admit_work
        self._submit = poller._submit_run
        poller._submit_run = self._submit_and_count
        self._resolve = poller._resolve_starter
        poller._resolve_starter = self._starter
        return self

    def _starter(self, run: FlowRun) -> Any:
        """Build the starter of a run's process, which must not inherit what a comparison sets
        meanwhile.
        """
        starter: Any = self._resolve(run)
        starter._env = {**starter._env, **self._addresses}
        if run.deployment_id in self.sources:
            # the process would ask the server, whose answer may be another one by then
            starter._entrypoint = self.sources[run.deployment_id].entrypoint
        return starter

    async def _is_unchanged(self, run: FlowRun) -> bool:
        """Whether a run's deployment names the code that was registered; if not, the run fails.

        If the server does not answer, the run stays scheduled.
        """
        if run.deployment_id is None:
            return False
        registered = self.sources.get(run.deployment_id)
        if registered is None:
            return False
        try:
            deployment = await self._client.read_deployment(run.deployment_id)
            changed = registered.changed_keys(CodeSource.of(deployment))
            if not changed:
                return True
            message = (
                f"refused: the deployment's {', '.join(changed)} was changed since `evenhand "
                "serve` registered it: start `evenhand serve` again."
            )
            line = f"evenhand: {self.names[run.deployment_id]}: {message}"
            sys.stderr.write(f"{terminal_text(line)}\n")
            await self._client.set_flow_run_state(run.id, Failed(message=message))
        except (httpx.HTTPError, PrefectException):
            pass
        return False

    async def _admit_work(self, run: FlowRun) -> bool:
        """Ask the server for a run's turn; return whether the run needs a process."""
        if not await self._is_unchanged(run):
            return False
        if run.deployment_id not in self.retrainings or not run.parameters.get("only_if_changed"):
            return bool(await self._admit(run))
        if run.next_scheduled_start_time is not None:
            # the data may still change until then
            await anyio.sleep(max(0.0, run.next_scheduled_start_time.timestamp() - time.time()))
            if not await self._is_unchanged(run):
                return False
        return bool(await self._admit(run)) and not await self._ended(run)

    async def _ended(self, run: FlowRun) -> bool:
        """End a run without work; return False if there is work, or the comparison failed."""
        try:
            with anyio.fail_after(CHECK_S):
                verdict = await to_thread.run_sync(
                    partial(end_unchanged, run.parameters),
                    abandon_on_cancel=True,
                    limiter=self._one_check,
                )
            if verdict is None:
                return False
            await self._client.update_flow_run(
                run.id, name=f"{name_of_run(run.parameters)} (up to date)"
            )
            note = "; ".join(verdict.notes)
            flow_run_logger(run).info("%s", note)
            states: list[State[Any]] = [Running(), Completed(message=note)]
            for state in states:
                answer = await self._client.set_flow_run_state(run.id, state)
                if answer.status != SetStateStatus.ACCEPT:  # somebody has cancelled the run
                    break
        except Exception:  # noqa: BLE001 - the run's own process meets the error, and reports it
            return False
        return True

    async def _submit_and_count(self, run: FlowRun, *arguments: Any) -> None:
        """Carry out a run, and count it once it has ended."""
        await self._submit(run, *arguments)
        if self.metrics is None or run.deployment_id is None:
            return
        with suppress(Exception):  # a run that ends while the server is away is not counted
            ended = await self._client.read_flow_run(run.id)
            if ended.state is not None and ended.state.is_final():
                seconds = ended.estimated_run_time.total_seconds()
                self.metrics.count(
                    self.names[run.deployment_id], ended.state.type.value.lower(), seconds
                )


SILENT_S = 30.0


class RunMetrics:
    """Prometheus' counters and gauges of what has happened in a store since the start."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.registry = CollectorRegistry()
        self._lock = threading.Lock()
        self._metrics: dict[str, Counter | Gauge] = {}
        for name, (text, labels) in telemetry.COUNTERS.items():
            self._metrics[name] = Counter(name, text, labels, registry=self.registry)
        for name, (text, labels) in telemetry.GAUGES.items():
            self._metrics[name] = Gauge(name, text, labels, registry=self.registry)
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
            # the errors are those of a verdict that is damaged, or of another release
            with suppress(AttributeError, KeyError, TypeError, ValueError):
                verdict = read_verdict(self.store, run_id)
                if verdict is None:
                    continue
                for measurement in telemetry.measurements(verdict):
                    self._add(*measurement)

    def _add(self, name: str, value: float, labels: tuple[str, ...]) -> None:
        metric = self._metrics[name].labels(*labels)
        if isinstance(metric, Gauge):
            metric.set(value)
        else:
            metric.inc(value)


def serve_metrics(
    metrics: RunMetrics, port: int, last_polled: Callable[[], datetime | None]
) -> None:
    """Serve both addresses on this machine, in a thread that ends with this process.

    The health is 503 if the runner asked for due runs more than 30 seconds ago, or never. Raises
    `NotCarriedOut` if the port cannot be used.
    """
    try:
        server = MetricsServer(
            port, metrics.registry, metrics.read_new, lambda: _health(last_polled())
        )
    except OSError as error:
        reason = f"port {port} cannot be used ({error.strerror})"
        raise NotCarriedOut(f"--metrics-port: {reason}: choose another one.") from None
    server.start()


def _health(polled: datetime | None) -> Answer:
    """Answer whether the runner asks for due runs."""
    silent_s = None
    if polled is not None:
        silent_s = round((datetime.now(UTC) - polled).total_seconds(), 1)
    healthy = silent_s is not None and silent_s <= SILENT_S
    status = 503
    if healthy:
        status = 200
    body = json.dumps({"healthy": healthy, "seconds_since_poll": silent_s}).encode()
    return Answer(status, "application/json", body)
