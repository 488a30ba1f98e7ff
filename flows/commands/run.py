"""``evenhand run``: carry a job out, print what came of it, and give the exit code of its verdict."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evenhand.flows.commands.terminal import one_line_errors, progress_bars, through_prefect, verdict_of
from evenhand.flows.job import load_job
from evenhand.flows.resolved_job import ResolvedJob, resolve
from evenhand.flows.runtime import prepare_environment
from evenhand.flows.verdict import Verdict
from evenhand.tasks.progress import listen
from evenhand.tasks.store import Store

__all__ = ["run_job"]

HEAVY = ("pandas", "pyarrow.parquet", "sklearn.linear_model", "great_expectations", "mlflow")
SHOWN_METRICS = 14


def run_job(
    name: str,
    overrides: Sequence[str],
    *,
    as_json: bool,
    store_url: str | None,
    direct: bool,
    only_if_changed: bool = False,
) -> int:
    """Run, print, and return the exit code."""
    started = time.perf_counter()
    run_id, store = "", None  # type: str, Store | None
    with one_line_errors() as caught:
        home = prepare_environment(store_url)
        resolved = resolve(*load_job(name, overrides))
        store = Store(store_url)
        from evenhand.flows.run_outputs import new_run_id

        run_id = new_run_id(resolved.job.name)
        with progress_bars(quiet=as_json) as listener, listen(listener):
            if not (only_if_changed and _nothing_to_do(resolved, store, run_id)):
                _execute(name, overrides, resolved, store, run_id, home, direct=direct)
    verdict = verdict_of(store, run_id, caught.error)
    _print(verdict, as_json=as_json, seconds=time.perf_counter() - started)
    return verdict.exit_code


def _nothing_to_do(resolved: ResolvedJob, store: Store, run_id: str) -> bool:
    """Compare with the registry in this process: that is too little for a server, or for a task."""
    from evenhand.flows.engine import DirectEngine
    from evenhand.flows.execute import up_to_date

    return up_to_date(resolved, store, run_id, DirectEngine(store)) is not None


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
    from evenhand.flows.engine import CacheMiss, DirectEngine
    from evenhand.flows.execute import carry_out

    if direct:
        carry_out(resolved, store, run_id, DirectEngine(store))
        return
    if not os.environ.get("PREFECT_API_URL"):
        # nothing to compute is nothing to orchestrate: starting a server would take most of the time
        with contextlib.suppress(CacheMiss):
            carry_out(resolved, store, run_id, DirectEngine(store, cached_only=True))
            return
    through_prefect(home, _flow, (name, list(overrides)), store, run_id)


def _flow() -> Callable[..., Any]:
    for module in HEAVY:
        importlib.import_module(module)
    from evenhand.flows.retrain import retrain

    return retrain


def _print(verdict: Verdict, *, as_json: bool, seconds: float) -> None:
    if as_json:
        print(json.dumps(verdict.to_dict()))
        if verdict.error:
            print(f"evenhand: {verdict.error}", file=sys.stderr)
        return
    if verdict.error:
        print(f"evenhand: {verdict.error}", file=sys.stderr)
        return
    if verdict.status == "up_to_date":
        print("\n".join(verdict.notes))
        print(f"run       {verdict.run_id}, {seconds:.1f} s")
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
