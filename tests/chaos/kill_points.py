"""A run in a process of its own that ends itself with SIGKILL at a point, and what it left
behind.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from evenhand.tasks.execution.store import Store
from tests.flows.people import JOB, Bench

MODEL = JOB["name"]
# Imported once, in the process from which all others are forked.
PRELOADED = (
    "tests.chaos.kill_points",
    "evenhand.flows.commands.run_command",
    "evenhand.flows.commands.promote_command",
    "evenhand.flows.commands.lists_command",
    "evenhand.tasks.steps.publish_step",
    "evenhand.tasks.steps.controls_step",
    "evenhand.tasks.steps.evaluate_step",
    "evenhand.tasks.steps.train_step",
    "evenhand.tasks.steps.decide_step",
    "evenhand.tasks.steps.ingest_step",
    "evenhand.tasks.steps.contract_step",
    "evenhand.tasks.steps.preprocess_step",
    "evenhand.tasks.steps.profile_step",
    "evenhand.tasks.pages.build",
    "mlflow.pyfunc",
    "mlflow.store.tracking.sqlalchemy_store",
    "great_expectations",
    "xgboost",
    "altair",
)
# The writes of MLflow's client, and our own.
WRITES = ("create_", "set_", "log_", "delete_", "finalize_", "update_")


def _watch(visit: Callable[[str], None]) -> None:
    """Call `visit` before and after each step, each write to the store and each write to the
    registry.
    """
    import mlflow

    from evenhand.tasks.execution.step import Step
    from evenhand.tasks.execution.store import Store

    def watch(owner: Any, name: str, label: Callable[..., str]) -> None:
        whole = getattr(owner, name)

        def watched(*arguments: Any, **options: Any) -> Any:
            visit(f"before {label(*arguments)}")
            result = whole(*arguments, **options)
            visit(f"after {label(*arguments)}")
            return result

        setattr(owner, name, watched)

    watch(Step, "run", lambda step, *rest: f"step {step.name}")
    watch(Store, "put", lambda store, source, kind: f"put {kind}")
    watch(Store, "write_text", lambda store, text, *parts: f"write {parts[0]}/{parts[-1][-12:]}")
    for name in sorted(dir(mlflow.MlflowClient)):
        if name.startswith(WRITES):
            watch(mlflow.MlflowClient, name, lambda *rest, name=name: f"registry {name}")
    for name in ("log_artifacts", "start_run", "end_run"):
        watch(mlflow, name, lambda *rest, name=name: f"registry {name}")
    watch(mlflow.pyfunc, "log_model", lambda *rest: "registry log_model")


def _watch_registry_file(visit: Callable[[str], None]) -> None:
    """Call `visit` before the registry's file gets its name, and after statements of its
    migration.
    """
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    from evenhand.tasks.registry import registry_file

    replace = registry_file._replace

    def watched(part: Path, path: Path) -> None:
        visit("replace")
        replace(part, path)

    def executed(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        words = statement.split()[:3]
        if words[:2] in (["CREATE", "TABLE"], ["INSERT", "INTO"]):
            name = words[2].partition("_tmp")
            visit(f"sql {words[0]} {words[1]} {name[0]}{name[1]}")

    registry_file._replace = watched
    event.listen(Engine, "after_cursor_execute", executed)


def _carry_out(
    answers: Connection,
    folder: str,
    command: list[str],
    kill_at: int | str | None,
    variables: dict[str, str],
    model: str,
) -> None:
    """Carry a command out, and send the points that it passed, its exit code and its outputs."""
    from typer.testing import CliRunner

    from evenhand.flows.cli import app
    from evenhand.tasks.pages import build

    os.chdir(folder)
    Path("scratch").mkdir(exist_ok=True)
    os.environ.update(
        EVENHAND_STORE=f"{folder}/store", TMPDIR=f"{folder}/scratch", OMP_NUM_THREADS="1"
    )
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    os.environ.update(variables)
    build._svg = lambda chart, form: '<svg width="1" height="1" viewBox="0 0 1 1"></svg>'
    points: list[str] = []

    def visit(name: str) -> None:
        points.append(name)
        if kill_at in (len(points) - 1, name):
            os.kill(os.getpid(), signal.SIGKILL)

    _watch(visit)
    if isinstance(kill_at, str):
        _watch_registry_file(visit)
    answers.send("ready")
    done = CliRunner().invoke(app, command)
    uri = os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/store/mlflow.db")
    is_published = done.exit_code == 0 and command[0] not in ("cache", "policy")
    state = registry_state(uri, model) if is_published else {}
    answers.send((points, done.exit_code, done.stdout, done.stderr, state))


@dataclass
class Ended:
    """How a command ended: by SIGKILL, or with an exit code, after which points."""

    killed: bool
    points: list[str] = field(default_factory=list)
    code: int | None = None
    out: str = ""
    err: str = ""
    registry: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


def attempt(
    folder: Path,
    *command: str,
    kill_at: int | str | None = None,
    kill_after: float | None = None,
    variables: dict[str, str] | None = None,
    model: str = MODEL,
) -> Ended:
    """Carry a command out in a process of its own; kill it at a point (number or name), or after
    seconds.

    `variables` are added to its environment; the state of the registry is that of `model`.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    ours, theirs = context.Pipe(duplex=False)
    given = list(command) or ["run", "job.yaml", "--direct", "--json"]
    process = context.Process(
        target=_carry_out, args=(theirs, str(folder), given, kill_at, variables or {}, model)
    )
    process.start()
    theirs.close()
    assert ours.poll(120), "the process did not start"
    ours.recv()
    started, answer = time.monotonic(), None
    if not ours.poll(120 if kill_after is None else kill_after) and kill_after is not None:
        process.kill()
    with contextlib.suppress(EOFError):
        answer = ours.recv()
    process.join(120)
    seconds = time.monotonic() - started
    if answer is None:
        assert process.exitcode == -signal.SIGKILL, process.exitcode
        return Ended(killed=True, seconds=seconds)
    points, code, out, err, state = answer
    return Ended(
        killed=False,
        points=points,
        code=code,
        out=out,
        err=err,
        registry=state,
        seconds=seconds,
    )


def make_bench(folder: Path, registry: Path) -> Path:
    """A folder with a job, its table and a store with an empty registry."""
    (folder / "store").mkdir(parents=True, mode=0o700)
    shutil.copyfile(registry, folder / "store" / "mlflow.db")
    bench = Bench(folder)
    with contextlib.chdir(folder):
        bench.write()
    return folder


def empty_registry(path: Path) -> Path:
    from evenhand.tasks.registry.client import registry_client

    with registry_client(f"sqlite:///{path}") as client:
        client.search_registered_models()
    return path


def put_back(snapshot: Path, folder: Path) -> None:
    """Make a folder what it was; keys of publications hold its path, so that a copy elsewhere
    differs.
    """
    shutil.rmtree(folder)
    shutil.copytree(snapshot, folder)


# what is left


def artifacts(store: Path) -> dict[str, dict[str, str]]:
    """Digest of each output of each step, of which there is one record."""
    records = [json.loads(path.read_text()) for path in sorted(store.glob("steps/*/*.json"))]
    found = {
        record["step"]: {name: item["sha256"] for name, item in record["outputs"].items()}
        for record in records
    }
    assert len(found) == len(records)
    return found


def registry_state(uri: str, model: str) -> dict[str, Any]:
    """Versions of the model, its chain, damage, and the numbers of runs by state; waits for the
    registry.
    """
    from evenhand.tasks.errors import waits_for_service

    # a command may end before the outage does that was meant for it
    return waits_for_service(_registry_state)(uri, model)


def _registry_state(uri: str, model: str) -> dict[str, Any]:
    from evenhand.tasks.registry.client import damaged_files, registry_client
    from evenhand.tasks.registry.ledger import history

    with registry_client(uri) as client:
        versions = [str(item.version) for item in client.search_model_versions(f"name = '{model}'")]
        experiment = client.get_experiment_by_name("evenhand")
        named = f"attributes.run_name = '{model}'"
        runs = Counter(
            run.info.status for run in client.search_runs([experiment.experiment_id], named)
        )
    chain = history(uri, model)
    damage = [fault for item in versions for fault in damaged_files(uri, model, item) or ()]
    return {
        "versions": sorted(versions),
        "aliases": dict(chain.aliases),
        "records": [record.kind for record in chain.records],
        "faults": [*chain.faults, *damage],
        # a kill or an outage between a run's end and its version leaves a finished run without one
        "finished": runs["FINISHED"] > 0,
        "under_way": runs["RUNNING"],
    }


PUBLISHED = {
    "versions": ["1"],
    "aliases": {"champion": "1"},
    "records": ["version", "evaluation", "move"],
    "faults": [],
    "finished": True,
    "under_way": 0,
}


def temporaries(folder: Path) -> list[str]:
    """What is unfinished: working folders, hidden and partial files, leases, SQLite journals."""
    store = folder / "store"
    names = [*store.glob("tmp/*"), *store.glob("leases/*"), *(folder / "scratch").glob("*")]
    names += [
        path for path in store.rglob("*") if path.name.startswith(".") or path.suffix == ".part"
    ]
    return sorted(str(path.relative_to(folder)) for path in names)


def collect_garbage(folder: Path) -> None:
    """What `cache gc` does, four days later."""
    then = time.time() - 4 * 24 * 3600
    for path in [*folder.glob("store/tmp/*"), *folder.glob("store/*.part")]:
        os.utime(path, (then, then))
    Store(str(folder / "store")).prune(5)
