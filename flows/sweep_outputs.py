"""What a sweep leaves: its table, trade-offs, report and verdict."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evenhand.flows.grid import Grid, PointResult, as_text
from evenhand.flows.run_outputs import REPORTED_PACKAGES
from evenhand.flows.tradeoffs import tradeoffs
from evenhand.flows.verdict import Verdict, write_verdict
from evenhand.tasks.fingerprint import git_state, library_versions
from evenhand.tasks.reporting.formats import seconds as seconds_in_words
from evenhand.tasks.reporting.sweep import render_sweep
from evenhand.tasks.store import Store

__all__ = ["finish", "read_tradeoffs", "sweep_table"]


def finish(grid: Grid, store: Store, run_id: str, results: Sequence[PointResult], seconds: float) -> Verdict:
    """Write everything about a sweep whose points have all ended; the verdict comes last."""
    folder = ("runs", run_id)
    document: dict[str, Any] = {"run_id": run_id, "seconds": round(seconds, 3)} | tradeoffs(grid, results)
    verdict = Verdict(run_id, "evaluated", 0, seconds={"sweep": round(seconds, 3)})
    text = json.dumps(document, indent=1, allow_nan=False, default=str)
    verdict.artifacts["tradeoff"] = store.write_text(text, *folder, "tradeoff.json")
    verdict.artifacts["sweep"] = _write_table(store, sweep_table(grid, results), *folder, "sweep.parquet")
    balances = _balances(grid, results)
    if balances:
        text = json.dumps({"run_id": run_id, "points": balances}, indent=1, allow_nan=False)
        verdict.artifacts["balances"] = store.write_text(text, *folder, "balances.json")
    failed = [result for result in results if result.status == "failed"]
    if failed:
        verdict.status = "failed" if len(failed) == len(results) else "evaluated"
        verdict.exit_code = 4
        verdict.error = f"{len(failed)} of {len(results)} runs failed; the first: {failed[0].error}"
    elif document["miss"]:
        verdict.exit_code, verdict.error = 1, document["miss"]
    verdict.artifacts["report"] = store.write_text(_page(grid, document, balances), *folder, "report.html")
    write_verdict(store, verdict)
    return verdict


def _balances(grid: Grid, results: Sequence[PointResult]) -> list[dict[str, Any]]:
    """What each run of a proxy found of its groups; nothing of other runs."""
    return [
        {"value": point.value, "seed": point.seed, "balance": result.balance}
        for point, result in zip(grid.points, results, strict=True)
        if result.balance is not None
    ]


def _page(grid: Grid, document: Mapping[str, Any], balances: Sequence[Mapping[str, Any]]) -> str:
    commit, dirty = git_state()
    asked = grid.job.sweep
    made = [
        ("Job", grid.job.name),
        *((f"Values of {axis.key}", ", ".join(map(as_text, axis.values))) for axis in grid.axes),
        ("Seeds", ", ".join(map(str, grid.seeds))),
        ("Time", seconds_in_words(document["seconds"])),
        ("Carried out by", "Dask" if asked.engine == "dask" else "worker processes"),
        ("Git commit", f"{commit or 'not recorded'}{', with changes not committed' if dirty else ''}"),
        ("Python", platform.python_version()),
        ("Machine", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"),
        *sorted(library_versions(REPORTED_PACKAGES).items()),
    ]
    files = [("all runs as a table", "sweep.parquet"), ("the trade-offs as JSON", "tradeoff.json")]
    if balances:
        files.append(("the groups of every run as JSON", "balances.json"))
    return render_sweep(
        document,
        balances=balances,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        made=made,
        files=files,
    )


def read_tradeoffs(store: Store, run_id: str) -> dict[str, Any] | None:
    """Read ``tradeoff.json`` of a sweep; None if it has none."""
    text = store.read_text("runs", run_id, "tradeoff.json")
    content: dict[str, Any] | None = None if text is None else json.loads(text)
    return content


def sweep_table(grid: Grid, results: Sequence[PointResult]) -> pa.Table:
    """Build the table of all runs, one row a point."""
    columns: dict[str, list[Any]] = {
        axis.key: _column([point.settings[axis.key] for point in grid.points]) for axis in grid.axes
    }
    columns["seed"] = [point.seed for point in grid.points]
    for name in ("status", "verdict"):
        columns[name] = [getattr(result, name) for result in results]
    for name in dict.fromkeys(name for result in results for name in result.metrics):
        for key, suffix in (("value", ""), ("low", ".low"), ("high", ".high")):
            columns[f"{name}{suffix}"] = [_number(result.metrics, name, key) for result in results]
    columns["seconds"] = [sum(result.seconds.values()) for result in results]
    for step in dict.fromkeys(step for result in results for step in result.seconds):
        columns[f"seconds.{step}"] = [result.seconds.get(step) for result in results]
    columns["cached"] = [", ".join(result.cached) for result in results]
    columns["error"] = [result.error for result in results]
    texts = {"status", "verdict", "cached", "error"}
    swept = {"seed", *(axis.key for axis in grid.axes)}
    return pa.table(
        {
            name: pa.array(values, None if name in swept else pa.string() if name in texts else pa.float64())
            for name, values in columns.items()
        }
    )


def _column(values: Sequence[Any]) -> list[Any]:
    """Values of one type as they are, any mixture as text."""
    kinds = {type(value) for value in values}
    if kinds <= {int, float} or kinds in ({str}, {bool}):
        return [float(value) for value in values] if kinds == {int, float} else list(values)
    return [as_text(value) for value in values]


def _number(metrics: Mapping[str, Mapping[str, float | None]], name: str, key: str) -> float | None:
    return metrics[name][key] if name in metrics else None


def _write_table(store: Store, table: pa.Table, *parts: str) -> str:
    uri = store.uri(*parts)
    with store.workdir() as folder:
        path = folder / parts[-1]
        pq.write_table(table, path)
        if store.is_local:
            path.replace(uri)
        else:
            store.filesystem.put_file(str(path), uri)
    return uri
