"""``evenhand run``: carry a job out, print what came of it, and give the exit code of its verdict."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from flows.commands.terminal import one_line_errors, prefect_failed, progress_bars, quiet_console
from flows.job import load_job
from flows.resolved_job import ResolvedJob, resolve
from flows.runtime import SERVER_START_S, prepare_environment, prepare_prefect_home
from flows.server import start_temporary_server
from flows.verdict import Verdict, read_verdict
from tasks.errors import EvenhandError, NotCarriedOut
from tasks.progress import listen
from tasks.store import Store

__all__ = ["run_job"]

HEAVY = ("pandas", "pyarrow.parquet", "sklearn.linear_model", "great_expectations", "mlflow")
SHOWN_METRICS = 14


def run_job(
    name: str, overrides: Sequence[str], *, as_json: bool, store_url: str | None, direct: bool
) -> int:
    """Run, print, and return the exit code."""
    started = time.perf_counter()
    run_id, store = "", None  # type: str, Store | None
    with one_line_errors() as caught:
        home = prepare_environment(store_url)
        resolved = resolve(*load_job(name, overrides))
        store = Store(store_url)
        from flows.outcome import new_run_id

        run_id = new_run_id(resolved.job.name)
        with progress_bars(quiet=as_json) as listener, listen(listener):
            _execute(name, overrides, resolved, store, run_id, home, direct=direct)
    verdict = (read_verdict(store, run_id) if store is not None and run_id else None) or _no_verdict(
        run_id, caught.error
    )
    _print(verdict, as_json=as_json, seconds=time.perf_counter() - started)
    return verdict.exit_code


def _no_verdict(run_id: str, error: EvenhandError | None) -> Verdict:
    """A run that left no verdict has failed, whatever else was said of it."""
    message = str(error) if error else "the run ended without a verdict: see the log above."
    return Verdict(run_id, "failed", error.exit_code if error else 4, message)


def _execute(
    name: str,
    overrides: Sequence[str],
    resolved: ResolvedJob,
    store: Store,
    run_id: str,
    home: Path,
    *,
    direct: bool,
) -> None:
    """Find everything in the cache, or start the flow."""
    from flows.carry_out import carry_out
    from flows.engine import CacheMiss, DirectEngine

    if direct:
        carry_out(resolved, store, run_id, DirectEngine(store))
        return
    if not os.environ.get("PREFECT_API_URL"):
        # nothing to compute is nothing to orchestrate: starting a server would take most of the time
        with contextlib.suppress(CacheMiss):
            carry_out(resolved, store, run_id, DirectEngine(store, cached_only=True))
            return
    prepare_prefect_home(home)
    quiet_console()
    wait_for_server = start_temporary_server(SERVER_START_S)
    for module in HEAVY:
        importlib.import_module(module)
    from flows.retrain import retrain

    wait_for_server()
    try:
        retrain(name, list(overrides), store.url, run_id)
    except EvenhandError:
        raise
    except Exception as error:
        if read_verdict(store, run_id) is None:
            raise NotCarriedOut(prefect_failed(error)) from error


def _print(verdict: Verdict, *, as_json: bool, seconds: float) -> None:
    if as_json:
        print(json.dumps(verdict.to_dict()))
        if verdict.error:
            print(f"evenhand: {verdict.error}", file=sys.stderr)
        return
    if verdict.error:
        print(f"evenhand: {verdict.error}", file=sys.stderr)
        return
    width = max(len(step) for step in verdict.seconds)
    for step, spent in verdict.seconds.items():
        print(f"  {step:{width}}  {'cached' if step in verdict.cached else f'{spent:6.1f} s'}")
    print()
    names = [name for name in verdict.metrics if not name.endswith((".low", ".high"))]
    width = max(len(name) for name in names)
    for name in names:
        print(f"  {name:{width}}  {_value(verdict.metrics, name)}")
    print()
    for result in verdict.gates["results"]:
        print(f"  {'pass' if result['passed'] else 'FAIL'}  {result['text']}")
    if not verdict.gates["results"]:
        print("  the job has no gates: any model would pass")
    print()
    if verdict.model:
        model = verdict.model
        print(f"published {model['name']} version {model['version']} as {model['uri']}")
    else:
        words = "the gates refused the model" if verdict.exit_code == 1 else "not enough evidence for a gate"
        print(f"not published: {words}")
    print(f"report    {verdict.artifacts['report']}")
    print(f"run       {verdict.run_id}, {seconds:.1f} s")


def _value(metrics: Mapping[str, float | None], name: str) -> str:
    value = metrics[name]
    if value is None:
        return "insufficient evidence"
    low, high = metrics.get(f"{name}.low"), metrics.get(f"{name}.high")
    return f"{value:.3f}" if low is None or high is None else f"{value:.3f}  [{low:.3f}, {high:.3f}]"
