"""Folders with a made-up table of people, finished runs on it, and steps that a session computes
once.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import html
import json
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer.main

import evenhand.data_contracts.table_check
import evenhand.flows.commands.terminal
import evenhand.flows.engine
import evenhand.flows.sweep
import evenhand.flows.tune_search
import evenhand.flows.workers
import evenhand.tasks.pages.build
from evenhand.tasks.execution.step import Step, StepContext, StepResult, run_step
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

draw_chart = evenhand.tasks.pages.build._svg
run_suite = evenhand.data_contracts.table_check.run_suite
# Typer makes it anew for every call of a command, from the signatures of all
command_of = functools.cache(typer.main.get_command)


class Remembered:
    """
    What steps gave in this session, by their keys, which hold all that they depend on; checks;
    drawn charts.

    A step that another test has run is not computed again. It counts as run all the same: its
    outputs are put into the test's own store, its record is written, and it is not called cached.
    Publications change a registry, so they are never remembered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps: dict[tuple[str, str], StepResult] = {}
        self.checked: dict[bytes, Any] = {}
        self.drawn: set[str] = set()

    def run_step(self, store: Any, step: Step, key: str, *rest: Any) -> Any:
        """Run a step as the engine does, but its function only once a session."""
        if step.name == "publish":
            return run_step(store, step, key, *rest)
        once = dataclasses.replace(step, function=lambda context: self.result(step, key, context))
        return run_step(store, once, key, *rest)

    def result(self, step: Step, key: str, context: StepContext) -> StepResult:
        """Compute the outputs, or copy them into the step's working folder."""
        folder = self.folder / f"{step.name}-{key}"
        if (step.name, key) not in self.steps:
            found = step.run(context)
            copied = {
                name: (folder / path.name, kind) for name, (path, kind) in found.outputs.items()
            }
            folder.mkdir()
            for name, (path, _) in found.outputs.items():
                copy_path(path, copied[name][0])
            self.steps[step.name, key] = StepResult(copied, copy.deepcopy(found.facts))
            return found
        known = self.steps[step.name, key]
        outputs = {
            name: (context.workdir / path.name, kind)
            for name, (path, kind) in known.outputs.items()
        }
        for name, (path, _) in outputs.items():
            copy_path(known.outputs[name][0], path)
        return StepResult(outputs, copy.deepcopy(known.facts))

    def run_suite(
        self, frame: Any, rules: Any, name: str = "contract", *, callback: Any = None
    ) -> Any:
        """Give the outcomes, and the progress, of the same rules for the same values."""
        key = pickle.dumps((frame, rules, name))
        if key not in self.checked:
            told: list[tuple[int, int]] = []
            found = run_suite(frame, rules, name, callback=lambda *progress: told.append(progress))
            self.checked[key] = found, told
        found, told = self.checked[key]
        for progress in told if callback else ():
            callback(*progress)
        return copy.deepcopy(found)

    def draw(self, chart: Any, form: str) -> str:
        """Draw the first chart of a kind; give the data of others, where a test may look for
        values.
        """
        if chart.plot not in self.drawn:
            self.drawn.add(chart.plot)
            return draw_chart(chart, form)
        shown = html.escape(json.dumps(chart.data, default=str))
        return f'<svg width="1" height="1" viewBox="0 0 1 1"><text>{shown}</text></svg>'


def copy_path(source: Path, target: Path) -> None:
    """Copy a file or a folder."""
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


REMEMBERED = pytest.StashKey[Remembered]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Remember steps in the tests of this folder, but for those that use `monkeypatch`; draw few
    charts.
    """
    if Path(__file__).parent not in item.path.parents:
        return (yield)  # pytest calls this hook for the tests of all folders
    stash = item.session.stash
    if REMEMBERED not in stash:
        stash[REMEMBERED] = Remembered(item.config._tmp_path_factory.mktemp("remembered"))  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        if "monkeypatch" not in getattr(item, "fixturenames", ()):
            for module in (evenhand.flows.engine, evenhand.flows.tune_search):
                patch.setattr(module, "run_step", stash[REMEMBERED].run_step)
        patch.setattr(evenhand.data_contracts.table_check, "run_suite", stash[REMEMBERED].run_suite)
        patch.setattr(evenhand.tasks.pages.build, "_svg", stash[REMEMBERED].draw)
        patch.setattr("typer.testing._get_command", command_of)
        return (yield)


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    """What a run sets in the environment ends with the test."""
    with clean_environment():
        yield


@pytest.fixture(autouse=True)
def no_progress_lines() -> Iterator[None]:
    """Stderr of a test does not depend on how long its run takes; no test gets `monkeypatch` by
    this.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evenhand.flows.commands.terminal, "EVERY_S", 3600.0)
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
