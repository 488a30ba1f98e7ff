"""The engine that runs steps as Prefect tasks of the current flow run.

Prefect stores no result: a stored one names the serializer that reads it, and so could execute
code. The store has the steps' records; a step that was found there ends in the state that Prefect
calls Cached.
"""

from __future__ import annotations

import atexit
import json
import os
import platform
from contextlib import suppress
from copy import copy
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self
from uuid import UUID

from filelock import FileLock, Timeout

from evenhand.flows.runtime import make_prefect_home, prepare_environment, wait_for_server

make_prefect_home(prepare_environment())  # before Prefect reads its settings

import httpx  # noqa: E402
from prefect import task  # noqa: E402
from prefect.cache_policies import NO_CACHE  # noqa: E402
from prefect.client.orchestration import get_client  # noqa: E402
from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError  # noqa: E402
from prefect.exceptions import ObjectNotFound, PrefectException  # noqa: E402
from prefect.runtime import deployment, flow_run  # noqa: E402
from prefect.states import Completed, Crashed  # noqa: E402
from prefect.tasks import Task, exponential_backoff  # noqa: E402

from evenhand.flows.engine import Inputs, Json, StepOutcome  # noqa: E402
from evenhand.tasks.errors import EvenhandError, InputError, internal_fault  # noqa: E402
from evenhand.tasks.execution.step import (  # noqa: E402
    IN_THIS_PROCESS,
    STEPS,
    ExecutionContext,
    report_progress,
    run_step,
    working,
)
from evenhand.tasks.execution.store import Artifact, Store, default_store_url  # noqa: E402
from evenhand.tasks.sources.fetching import FETCH, fetch_source, needs_network  # noqa: E402

HOUR_S = 3600
ATTEMPTS = 3
TIMEOUT_S = {
    **dict.fromkeys(("tune_encoder", "train", "membership", "learn_proxy"), 24 * HOUR_S),
    "publish": HOUR_S // 4,
}
TASK: dict[str, Any] = {"cache_policy": NO_CACHE, "persist_result": False, "log_prints": False}


def _step_task(name: str) -> Task[..., Any]:
    @task(
        name=name,
        task_run_name=name,
        description=STEPS[name].summary,
        tags={"evenhand", name},
        timeout_seconds=TIMEOUT_S.get(name, HOUR_S),
        **TASK,
    )
    def run(
        step: str,
        key: str,
        store_url: str,
        parameters: dict[str, Any],
        inputs: dict[str, dict[str, Any]],
        execution: ExecutionContext,
    ) -> Any:
        report = report_progress(step, prefect=True)
        try:
            record, cached = run_step(
                Store(store_url),
                STEPS[step],
                key,
                parameters,
                {label: Artifact(**item) for label, item in inputs.items()},
                report,
                execution,
            )
            report.finish()
        except (EvenhandError, OSError):
            raise
        except Exception as error:
            if os.environ.get("EVENHAND_LOG"):
                raise
            # Prefect stores the message of an error, and a library's message may quote a person's
            # value.
            raise internal_fault(error) from None
        if cached:
            return Completed(name="Cached", data=(record, cached))
        return record, cached

    return run


class StepTasks(dict[str, Task[..., Any]]):
    """The tasks of all steps by name, each made when it is first asked for."""

    def __missing__(self, name: str) -> Task[..., Any]:
        self[name] = _step_task(name)
        return self[name]


STEP_TASKS = StepTasks()


def _worth_retrying(task: Any, task_run: Any, state: Any) -> bool:
    """Whether to repeat a read: a network fault may pass, a wrong digest or a bad query stays."""
    error = state.result(raise_on_failure=False)
    return not (isinstance(error, InputError) and "cannot be reached" not in str(error))


@task(
    name="fetch",
    task_run_name="fetch",
    description="Read the table's bytes over the network.",
    tags={"evenhand", "network"},
    retries=2,
    retry_delay_seconds=exponential_backoff(backoff_factor=1),
    retry_jitter_factor=0.5,
    retry_condition_fn=_worth_retrying,
    timeout_seconds=HOUR_S,
    **TASK,
)
def fetch_task(store_url: str, source: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Fetch the source's files. Not cached: their digests are part of the keys of all steps."""
    report = report_progress(FETCH, prefect=True)
    with working(FETCH):
        files = fetch_source(
            Store(store_url), source, progress=lambda done, total: report(done, total, {})
        )
    report.finish()
    return {name: asdict(artifact) for name, artifact in files.items()}


def open_store(url: str | None) -> Store:
    """Open the store of a flow run.

    Raises `InputError` if the store cannot be opened; or if the run is a deployment's, and the
    store is a relative path, which is deleted with the run's folder, or the registry is on a
    machine that others cannot reach.
    """
    place = url or default_store_url()
    # whether the run is a deployment's is asked last: Prefect asks the server for it
    is_remote = "://" in place
    if is_remote and not os.environ.get("MLFLOW_TRACKING_URI") and deployment.id:
        raise InputError(
            "a deployed run with a remote store needs a registry that all machines reach: set "
            "MLFLOW_TRACKING_URI where the worker runs."
        )
    if not is_remote and not Path(place).expanduser().is_absolute() and deployment.id:
        raise InputError(
            f"the store {place!r} of a deployed run is relative to a folder that the run deletes: "
            "set EVENHAND_STORE where the worker runs to an absolute folder or a URL."
        )
    store = Store(url)
    if flow_run.id:
        _close_killed(store)
    return store


_held: list[FileLock] = []  # until this process ends; a lock that nothing refers to is released


def _close_killed(store: Store) -> None:
    """Mark flow runs of killed processes of this machine as crashed, and hold a lock while this one
    lives.
    """
    folder = store.local / "locks"
    kind = f"flow-{platform.node()}-"
    with store.lock("flows"):
        for path in folder.glob(f"{kind}*"):
            with (
                suppress(Timeout, RuntimeError, httpx.HTTPError, PrefectException),
                FileLock(path, timeout=0),
            ):
                with suppress(ObjectNotFound), get_client(sync_client=True) as client:
                    state = client.read_flow_run(UUID(path.name.removeprefix(kind))).state
                    if state is not None and not state.is_final():
                        client.set_flow_run_state(UUID(path.name.removeprefix(kind)), Crashed())
                path.unlink()
        _held.append(FileLock(folder / f"{kind}{flow_run.id}", timeout=0))
        with suppress(Timeout):  # a flow that this process repeats
            _held[-1].acquire()
    atexit.register(Path(_held[-1].lock_file).unlink, missing_ok=True)


class PrefectEngine:
    """Runs every step as a Prefect task of the current flow run."""

    def __init__(self, store: Store, execution: ExecutionContext = IN_THIS_PROCESS) -> None:
        self.store = store
        self.execution = execution
        self._fetched: dict[str, dict[str, Artifact]] = {}

    def fetch(self, source: Json) -> dict[str, Artifact]:
        """Fetch the table once per flow run; a fetch over the network is a task with retries."""
        if not needs_network(source):
            with working(FETCH):
                return fetch_source(self.store, source)
        place = json.dumps(source, sort_keys=True)
        if place not in self._fetched:
            files = fetch_task(self.store.url, dict(source))
            self._fetched[place] = {name: Artifact(**item) for name, item in files.items()}
        return self._fetched[place]

    def run(
        self, name: str, key: str, parameters: Json, inputs: Inputs, *, refresh: bool
    ) -> StepOutcome:
        """Run the step's task."""
        if refresh:
            self.store.forget(name, key)
        artifacts = {label: asdict(artifact) for label, artifact in inputs.items()}
        for attempts_left in reversed(range(ATTEMPTS)):
            wait_for_server()
            try:
                state: Any = STEP_TASKS[name](
                    step=name,
                    key=key,
                    store_url=self.store.url,
                    parameters=dict(parameters),
                    inputs=artifacts,
                    execution=self.execution,
                    return_state=True,
                )
                result: StepOutcome = state.result()
                break
            except ConcurrencySlotAcquisitionError:
                # the server went away just after it had answered, and the step has not begun
                if not attempts_left:
                    raise
        return result

    def executing_in(self, execution: ExecutionContext) -> Self:
        """Return an engine like this one, which passes this context to the steps that it runs."""
        engine = copy(self)
        engine.execution = execution
        return engine
