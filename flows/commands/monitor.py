"""``evenhand monitor``: hold a batch against a model's training rows, retrain if it has drifted."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.flows.commands.terminal import one_line_errors, progress_bars, through_prefect, verdict_of
from evenhand.flows.runtime import prepare_environment
from evenhand.flows.verdict import Verdict, read_verdict
from evenhand.tasks.progress import listen
from evenhand.tasks.store import Store

if TYPE_CHECKING:
    from evenhand.flows.monitor_run import MonitorJob
    from evenhand.flows.resolved_job import ResolvedJob

__all__ = ["Wish", "monitor_model"]

HEAVY = ("pandas", "pyarrow.parquet", "sklearn.linear_model", "great_expectations", "mlflow")
SHOWN_COLUMNS = 10
SHOWN_GATES = 10


@dataclass(frozen=True)
class Wish:
    """What the command line says."""

    model: str
    data: str
    gates: str | None = None
    overrides: Sequence[str] = ()
    retrain: str | None = None


def monitor_model(wish: Wish, *, as_json: bool, store_url: str | None, direct: bool) -> int:
    """Compare, print, retrain if the gates refuse and a job is named, and return the gates' exit code."""
    started = time.perf_counter()
    run_id, store, retrained = "", None, None  # type: str, Store | None, Verdict | None
    with one_line_errors() as caught:
        home = prepare_environment(store_url)
        from evenhand.flows.job import load_job
        from evenhand.flows.monitor_run import monitor_name, plan_monitoring
        from evenhand.flows.resolved_job import resolve
        from evenhand.flows.run_outputs import new_run_id

        job = plan_monitoring(wish.model, wish.data, wish.gates, wish.overrides)
        successor = None if wish.retrain is None else resolve(*load_job(wish.retrain, ()))
        store = Store(store_url)
        run_id = new_run_id(monitor_name(wish.model))
        with progress_bars(quiet=as_json) as listener, listen(listener):
            _execute(wish, job, store, run_id, home, direct=direct)
    verdict = verdict_of(store, run_id, caught.error)
    if not as_json and verdict.status == "monitored":
        _print(verdict, time.perf_counter() - started)
    if caught.error is None and verdict.exit_code == 1 and successor is not None and store is not None:
        if not as_json:
            print(f"\nretraining {successor.job.name}")
        retrained = _retrain(str(wish.retrain), successor, store, home, verdict, as_json, direct)
        if not as_json:
            _print_retrained(retrained)
    if as_json:
        print(json.dumps(verdict.to_dict() | ({"retrained": retrained.to_dict()} if retrained else {})))
    if verdict.error:
        print(f"evenhand: {verdict.error}", file=sys.stderr)
    return verdict.exit_code


def _execute(wish: Wish, job: MonitorJob, store: Store, run_id: str, home: Path, *, direct: bool) -> None:
    """Find everything in the cache, or start the flow."""
    from evenhand.flows.engine import CacheMiss, DirectEngine
    from evenhand.flows.monitor_run import carry_out_monitoring
    from evenhand.tasks.errors import GateRefused

    if direct:
        carry_out_monitoring(job, store, run_id, DirectEngine(store))
        return
    if not os.environ.get("PREFECT_API_URL"):
        # nothing to compute is nothing to orchestrate: starting a server would take most of the time
        with contextlib.suppress(CacheMiss):
            carry_out_monitoring(job, store, run_id, DirectEngine(store, cached_only=True))
            return
    # a gate that refuses ends the flow as failed; here the verdict says so
    with contextlib.suppress(GateRefused):
        through_prefect(home, _flow, (wish.model, wish.data, job.gates, list(wish.overrides)), store, run_id)


def _flow() -> Callable[..., Any]:
    for module in HEAVY:
        importlib.import_module(module)
    from evenhand.flows.monitor import monitor

    def look(
        model: str, data: str, gates: dict[str, Any] | None, overrides: list[str], store: str, run_id: str
    ) -> None:
        monitor(model, data, gates, overrides, store=store, run_id=run_id)

    return look


def _retrain(
    name: str,
    job: ResolvedJob,
    store: Store,
    home: Path,
    verdict: Verdict,
    as_json: bool,
    direct: bool,
) -> Verdict:
    """Run the job unless its model is up to date; what comes of it is told beside the verdict on drift."""
    from evenhand.flows.engine import DirectEngine
    from evenhand.flows.execute import carry_out, up_to_date
    from evenhand.flows.monitor_run import add_retraining
    from evenhand.flows.run_outputs import new_run_id
    from evenhand.tasks.errors import GateRefused

    run_id = new_run_id(job.job.name)
    add_retraining(store, verdict, store.uri("runs", run_id, "verdict.json"))
    with one_line_errors() as caught, progress_bars(quiet=as_json) as listener, listen(listener):
        if up_to_date(job, store, run_id, DirectEngine(store)) is not None:
            pass
        elif direct:
            carry_out(job, store, run_id, DirectEngine(store))
        else:
            with contextlib.suppress(GateRefused):
                through_prefect(home, _retraining, (name, []), store, run_id)
    return read_verdict(store, run_id) or verdict_of(None, run_id, caught.error)


def _retraining() -> Callable[..., Any]:
    from evenhand.flows.retrain import retrain

    return retrain


def _print(verdict: Verdict, seconds: float) -> None:
    width = max(len(step) for step in verdict.seconds)
    for step, spent in verdict.seconds.items():
        print(f"  {step:{width}}  {'cached' if step in verdict.cached else f'{spent:6.1f} s'}")
    print()
    _print_metrics(verdict.metrics)
    print()
    _print_gates(verdict.gates)
    print()
    for note in verdict.notes:
        print(f"note      {note}")
    words = {0: "no drift beyond the gates", 1: "drifted", 3: "not enough evidence for a gate"}
    print(f"verdict   {words[verdict.exit_code]}")
    model = verdict.model
    if model:
        version = f" version {model['version']}" if model["version"] is not None else ""
        print(f"model     {model['name']}{version} ({model['method']})")
    print(f"report    {verdict.artifacts['report']}")
    print(f"run       {verdict.run_id}, {seconds:.1f} s")


def _print_metrics(metrics: Mapping[str, float | None]) -> None:
    """What is about the whole batch, and the columns that changed most; the report has all."""
    names = [name for name in metrics if not name.endswith((".low", ".high"))]
    columns = [name for name in names if name.startswith("psi.")]
    columns.sort(key=lambda name: -(metrics[name] or 0.0))
    whole = [
        name
        for name in names
        if ("." not in name or name.startswith(("group_share_change.", "label_rate_change.")))
        and metrics[name] is not None
    ]
    shown = [*whole, *columns[:SHOWN_COLUMNS]]
    width = max(len(name) for name in shown)
    for name in shown:
        print(f"  {name:{width}}  {_value(metrics, name)}")
    if len(columns) > SHOWN_COLUMNS:
        print(f"  … {len(columns) - SHOWN_COLUMNS} more columns in the report")


def _print_gates(gates: Mapping[str, Any]) -> None:
    """Every gate that did not pass in full, the others by their number."""
    results = gates["results"]
    failed = [result for result in results if not result["passed"]]
    failed.sort(key=lambda result: result["status"] != "ok")
    for result in failed[:SHOWN_GATES]:
        print(f"  {'FAIL' if result['status'] == 'ok' else '????'}  {result['text']}")
    if len(failed) > SHOWN_GATES:
        print(f"  … and {len(failed) - SHOWN_GATES} more")
    kind = "default gates" if gates.get("note") == "default gates" else "gates"
    print(f"  {len(results) - len(failed)} of {len(results)} {kind} passed")


def _value(metrics: Mapping[str, float | None], name: str) -> str:
    value = metrics[name]
    if value is None:
        return "insufficient evidence"
    low, high = metrics.get(f"{name}.low"), metrics.get(f"{name}.high")
    return f"{value:.3f}" if low is None or high is None else f"{value:.3f}  [{low:.3f}, {high:.3f}]"


def _print_retrained(verdict: Verdict) -> None:
    if verdict.error:
        print(f"evenhand: retraining: {verdict.error}", file=sys.stderr)
    elif verdict.status == "up_to_date":
        print("\n".join(verdict.notes))
    elif verdict.model:
        model = verdict.model
        print(f"published {model['name']} version {model['version']} as {model['uri']}")
    else:
        words = "the gates refused the model" if verdict.exit_code == 1 else "not enough evidence for a gate"
        print(f"not published: {words}")
    if "report" in verdict.artifacts:
        print(f"report    {verdict.artifacts['report']}")
