"""``evenhand sweep``: run a grid, print what it traded for what, and give the exit code."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evenhand.flows.commands.terminal import one_line_errors, progress_bars, through_prefect, verdict_of
from evenhand.flows.engine import CacheMiss
from evenhand.flows.grid import Grid, make_grid
from evenhand.flows.run_grid import find_points, run_points
from evenhand.flows.runtime import prepare_environment
from evenhand.flows.sweep_outputs import finish, read_tradeoffs
from evenhand.flows.verdict import Verdict
from evenhand.tasks.errors import InputError
from evenhand.tasks.progress import listen
from evenhand.tasks.store import Store

__all__ = ["run_sweep"]

SHOWN_COLUMNS = 4
MAIN_KINDS = (
    "consistency.",
    "gap_max.",
    "certificate.",
    "accuracy",
    "disclosivity",
    "smallest_growth",
    "kept",
)


def run_sweep(
    name: str,
    over: Sequence[str],
    *,
    seeds: int,
    overrides: Sequence[str],
    best: str | None,
    as_json: bool,
    store_url: str | None,
    direct: bool,
) -> int:
    """Run, print, and return the exit code."""
    started = time.perf_counter()
    run_id, store = "", None  # type: str, Store | None
    with one_line_errors() as caught:
        home = prepare_environment(store_url)
        grid = make_grid(name, over, seeds=seeds, overrides=overrides, best=best)
        if direct and grid.job.sweep.engine == "dask":
            raise InputError("--direct runs without Prefect, and so without Dask: leave one of them out.")
        store = Store(store_url)
        from evenhand.flows.run_outputs import new_run_id

        run_id = new_run_id(f"{grid.job.name}-sweep")
        with progress_bars(quiet=as_json) as listener, listen(listener):
            if not (direct or os.environ.get("PREFECT_API_URL")) and _all_cached(
                grid, store, run_id, started
            ):
                pass
            elif direct:
                _directly(grid, store, run_id, started)
            else:
                through_prefect(home, _flow, (name, list(over), seeds, list(overrides), best), store, run_id)
    verdict = verdict_of(store, run_id, caught.error)
    document = read_tradeoffs(store, run_id) if store is not None and run_id else None
    if as_json:
        print(json.dumps(_summary(verdict, document)))
    elif document is not None and "sweep" in verdict.artifacts:  # else it died on the way
        _print_table(verdict, document)
    if verdict.error:
        print(f"evenhand: {verdict.error}", file=sys.stderr)
    return verdict.exit_code


def _all_cached(grid: Grid, store: Store, run_id: str, started: float) -> bool:
    """Finish from the cache alone; a server would take most of the time."""
    with contextlib.suppress(CacheMiss):
        finish(grid, store, run_id, find_points(grid, store.url), time.perf_counter() - started)
        return True
    return False


def _flow() -> Callable[..., Any]:
    from evenhand.flows.sweep import sweep

    return sweep


def _directly(grid: Grid, store: Store, run_id: str, started: float) -> None:
    finish(grid, store, run_id, run_points(grid, store.url), time.perf_counter() - started)


def _summary(verdict: Verdict, document: Mapping[str, Any] | None) -> dict[str, Any]:
    """The one object that --json prints."""
    found = document or {"points": [], "values": [], "front": [], "fronts": {}, "best": None}
    cached = Counter(step for point in found["points"] for step in point["cached"])
    return {
        "run_id": verdict.run_id,
        "status": verdict.status,
        "exit_code": verdict.exit_code,
        "error": verdict.error,
        "sweep": verdict.artifacts.get("sweep"),
        **{key: found[key] for key in ("points", "values", "front", "fronts", "best")},
        "artifacts": verdict.artifacts,
        "seconds": verdict.seconds.get("sweep"),
        "cached": dict(cached),
    }


def _print_table(verdict: Verdict, document: Mapping[str, Any]) -> None:
    """One line a grid value, the best one marked."""
    metrics = _main_metrics(document)
    best = document["best"]["value"] if document["best"] else None
    rows = [["", ", ".join(document["keys"]), "runs", "gates", *metrics]]
    for index, value in enumerate(document["values"]):
        done = value["runs"] - value["failed"]
        rows.append(
            [
                "*" if index == best else "",
                value["label"],
                f"{done}/{value['runs']}" if value["failed"] else str(done),
                f"{value['passed']}/{done} pass" if done else "failed",
                *(_plus_minus(value["metrics"][name]) for name in metrics),
            ]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    print()
    if best is not None:
        print(f"best      {document['best']['name']} for {document['goal']}")
    print(f"table     {verdict.artifacts['sweep']}")
    print(f"report    {verdict.artifacts['report']}")


def _main_metrics(document: Mapping[str, Any]) -> list[str]:
    """The goal's metrics, then performance, consistency and gaps, as many as a terminal shows."""
    goal = document["goal_metrics"]
    kinds = (document["performance"], *MAIN_KINDS)
    order = [*goal, *(name for kind in kinds for name in document["metrics"] if _is_of(name, kind))]
    shown = [name for name in dict.fromkeys(order) if name in document["metrics"]]
    return shown[: max(SHOWN_COLUMNS, len(goal))]


def _is_of(name: str, kind: str) -> bool:
    return name.startswith(kind) if kind.endswith(".") else name == kind


def _plus_minus(summary: Mapping[str, Any]) -> str:
    if summary["mean"] is None:
        return "-"
    if summary["low"] is None:
        return f"{summary['mean']:.3f}"
    return f"{summary['mean']:.3f} ± {(summary['high'] - summary['low']) / 2:.3f}"
