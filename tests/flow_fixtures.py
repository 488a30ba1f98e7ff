"""Fixtures of all tests that run flows: folders with a made-up table of people, finished runs on it,
and steps that a session computes once.

`tests/conftest.py` loads this file as a plugin, so tests of every folder share one finished run.
"""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.flows.people import (
    DADI_JOB,
    JOB,
    PROXY_JOB,
    Bench,
    Done,
    clean_environment,
    make_people,
    make_uneven,
    run_all,
)

REMEMBERED = pytest.StashKey[Any]()


def runs_flows(item: pytest.Item) -> bool:
    """Whether a test asks for `flow_environment`."""
    return "flow_environment" in getattr(item, "fixturenames", ())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of flows come last and together: few workers of xdist compute the same step, and threads
    that flows leave behind disturb no other test.
    """
    items.sort(key=runs_flows)


def session_folder(config: pytest.Config) -> Path:
    """A folder that all workers of xdist share, and that ends with the session's others."""
    folder: Path = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Remember steps in the tests that use `flow_environment`, but for those that use
    `monkeypatch`; draw few charts.
    """
    if not runs_flows(item):
        return (yield)
    import evenhand.data_contracts.table_check
    import evenhand.flows.engine
    import evenhand.flows.tune_search
    import evenhand.tasks.pages.build
    from tests.flows.remembered import Remembered, command_of

    stash = item.session.stash
    if REMEMBERED not in stash:
        stash[REMEMBERED] = Remembered(session_folder(item.config) / "remembered")
    with pytest.MonkeyPatch.context() as patch:
        if "monkeypatch" not in getattr(item, "fixturenames", ()):
            for module in (evenhand.flows.engine, evenhand.flows.tune_search):
                patch.setattr(module, "run_step", stash[REMEMBERED].run_step)
        patch.setattr(evenhand.data_contracts.table_check, "run_suite", stash[REMEMBERED].run_suite)
        patch.setattr(evenhand.tasks.pages.build, "_svg", stash[REMEMBERED].draw)
        patch.setattr("typer.testing._get_command", command_of)
        return (yield)


@pytest.fixture
def flow_environment() -> Iterator[None]:
    """What a test that runs flows in this process needs; it is in every test of tests/flows and
    tests/e2e.

    What a run sets in the environment ends with the test, and stderr does not depend on how long a
    run takes. No test gets `monkeypatch` by this."""
    import evenhand.flows.commands.terminal

    with clean_environment(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(evenhand.flows.commands.terminal, "EVERY_S", 3600.0)
        patch.setattr(evenhand.flows.commands.terminal, "NEW_STEPS_S", 3600.0)
        yield


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty MLflow registry, to copy."""
    from evenhand.tasks.registry.client import registry_client

    path = tmp_path_factory.mktemp("registry") / "mlflow.db"
    with registry_client(f"sqlite:///{path}") as client:
        client.search_registered_models()
    return path


# finished runs: only read, or copied


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory, registry: Path) -> Done:
    """A finished run of the job that trains a classifier."""
    return run_all(Bench(tmp_path_factory.mktemp("published"), database=registry), JOB)


@pytest.fixture(scope="session")
def two_versions(tmp_path_factory: pytest.TempPathFactory, published: Done) -> Done:
    """A champion, version 1, and a challenger, version 2, both passed by their own runs' gates."""
    bench = Bench(tmp_path_factory.mktemp("two-versions"))
    published.copied_to(bench.store)
    method = JOB["method"] | {"n_steps": 6}
    return run_all(bench, JOB | {"publish": {"alias": "challenger"}, "method": method})


@pytest.fixture(scope="session")
def published_proxy(tmp_path_factory: pytest.TempPathFactory, registry: Path) -> Done:
    """A finished run of the job that learns a proxy."""
    bench = Bench(tmp_path_factory.mktemp("published-proxy"), make_uneven(), database=registry)
    return run_all(bench, PROXY_JOB)


@pytest.fixture(scope="session")
def agent_store(tmp_path_factory: pytest.TempPathFactory, registry: Path) -> Path:
    """A store with a published agent, people-dadi, and a published model that asks nothing,
    people-gbdt.
    """
    bench = Bench(tmp_path_factory.mktemp("agent"), database=registry)
    bench.properties["job"]["description"] = "Line of work."
    bench.properties["income"]["logicalTypeOptions"] = {"minimum": -1000}
    bench.properties["income"]["customProperties"].append({"property": "unit", "value": "euros"})
    return run_all(bench, JOB, DADI_JOB).store


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A Dask cluster of two worker processes."""
    distributed = pytest.importorskip("distributed")
    started = distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        scheduler_kwargs={"dashboard": False},
    )
    with started:
        yield started


# what a test changes


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Everything right: a test makes one thing wrong."""
    with contextlib.chdir(tmp_path):
        yield Bench(tmp_path)


@pytest.fixture
def publishing(bench: Bench, registry: Path) -> Bench:
    """A bench whose store has a registry already."""
    bench.database = registry
    return bench


@pytest.fixture
def champion(bench: Bench, published: Done) -> Bench:
    """A bench whose store has a champion: version 1, of the very job, table and contract."""
    published.copied_to(bench.store)
    return bench


@pytest.fixture
def points_here() -> Iterator[None]:
    """Points of sweeps run in this process: for tests of what comes of a sweep, not of its
    workers.
    """

    import evenhand.flows.sweep
    import evenhand.flows.workers

    class Here(evenhand.flows.workers.Pool):
        size = 1

        def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
            return function(*arguments)

        def run_until(
            self, is_over: Callable[[], bool], function: Callable[..., Any], *arguments: Any
        ) -> Any:
            return function(*arguments)

        def close(self, *, kill: bool = False) -> None:
            pass

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evenhand.flows.sweep, "make_pool", lambda section, most: Here())
        yield


@pytest.fixture
def people() -> Callable[..., pa.Table]:
    return make_people


@pytest.fixture
def agents(publishing: Bench) -> Bench:
    """A bench whose job trains an agent that asks for features."""
    publishing.job = copy.deepcopy(DADI_JOB)
    return publishing


@pytest.fixture
def proxies(publishing: Bench) -> Bench:
    """A bench whose job learns a proxy."""
    publishing.table = make_uneven()
    publishing.job = copy.deepcopy(PROXY_JOB)
    return publishing
