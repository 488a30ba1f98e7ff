"""The engine that runs steps as Prefect tasks of the current flow run."""

from __future__ import annotations

import atexit
import json
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import UUID

from filelock import FileLock, Timeout

from evenhand.flows.runtime import make_prefect_home, prepare_environment, wait_for_server

make_prefect_home(prepare_environment())  # before Prefect reads its settings

import httpx  # noqa: E402
from prefect.client.orchestration import get_client  # noqa: E402
from prefect.exceptions import ObjectNotFound, PrefectException  # noqa: E402
from prefect.runtime import deployment, flow_run  # noqa: E402
from prefect.states import Crashed  # noqa: E402

from evenhand.tasks.errors import InputError  # noqa: E402
from evenhand.tasks.prefect_tasks import STEP_TASKS, fetch_task  # noqa: E402
from evenhand.tasks.sources import FETCH, fetch_source, needs_network  # noqa: E402
from evenhand.tasks.step import working  # noqa: E402
from evenhand.tasks.store import Artifact, StepRecord, Store, default_store_url  # noqa: E402


def open_store(url: str | None) -> Store:
    """Open the store of a flow run.

    Raises `InputError` if the store cannot be opened; or if the run is a deployment's, and the store is a
    relative path, which is deleted with the run's folder, or the registry is on a machine that others cannot
    reach.
    """
    place = url or default_store_url()
    if deployment.id and "://" in place and not os.environ.get("MLFLOW_TRACKING_URI"):
        raise InputError(
            "a deployed run with a remote store needs a registry that all machines reach: set "
            "MLFLOW_TRACKING_URI where the worker runs."
        )
    if deployment.id and "://" not in place and not Path(place).expanduser().is_absolute():
        raise InputError(
            f"the store {place!r} of a deployed run is relative to a folder that the run deletes: set "
            "EVENHAND_STORE where the worker runs to an absolute folder or a URL."
        )
    store = Store(url)
    if flow_run.id:
        _close_killed(store)
    return store


_held: list[FileLock] = []  # until this process ends; a lock that nothing refers to is released


def _close_killed(store: Store) -> None:
    """Mark flow runs of killed processes of this machine as crashed, and hold a lock while this one lives."""
    folder, kind = store.local / "locks", f"flow-{platform.node()}-"
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

    def __init__(self, store: Store) -> None:
        self.store = store
        self._fetched: dict[str, dict[str, Artifact]] = {}

    def fetch(self, source: Mapping[str, Any]) -> dict[str, Artifact]:
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
        self,
        name: str,
        key: str,
        parameters: Mapping[str, Any],
        inputs: Mapping[str, Artifact],
        *,
        refresh: bool,
    ) -> tuple[StepRecord, bool]:
        """Run the step's task."""
        if refresh:
            self.store.forget(name, key)
        wait_for_server()
        state: Any = STEP_TASKS[name](
            step=name,
            key=key,
            store_url=self.store.url,
            parameters=dict(parameters),
            inputs={label: asdict(artifact) for label, artifact in inputs.items()},
            return_state=True,
        )
        found: tuple[StepRecord, bool] = state.result()
        return found
