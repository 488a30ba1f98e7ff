"""``evenhand sweep``: run a grid of jobs, and print its trade-offs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.flows.commands.terminal import Verb, print_result, print_table, run_verb
from evenhand.flows.engine import DirectEngine, Engine, Verdict
from evenhand.flows.grid import make_grid
from evenhand.flows.sweep import cached_points, execute, read_tradeoffs, run_points
from evenhand.tasks.errors import InputError
from evenhand.tasks.store import Store

SHOWN_COLUMNS = 4
MAIN_KINDS = (
    "consistency.", "gap_max.", "certificate.", "accuracy", "disclosivity", "smallest_growth", "kept",
)  # fmt: skip


def sweep(
    job: str,
    over: Sequence[str],
    seeds: int,
    overrides: Sequence[str] | None,
    best: str | None,
    workers: int | None,
    as_json: bool,
    store_url: str | None,
    direct: bool,
) -> int:
    """Run the grid, and print the metrics of each of its values."""
    overrides = [*(overrides or ()), *([f"sweep.workers={workers}"] if workers is not None else [])]

    def plan() -> Verb:
        grid = make_grid(job, over, seeds=seeds, overrides=overrides, best=best)
        if direct and grid.job.sweep.engine == "dask":
            raise InputError("--direct runs without Prefect, and Dask needs Prefect: leave one of them out.")

        def execute_points(store: Store, run_id: str, engine: Engine) -> Verdict:
            cached = isinstance(engine, DirectEngine) and engine.cached_only
            return execute(grid, store, run_id, cached_points if cached else run_points)

        given = {"job": job, "over": list(over), "seeds": seeds, "overrides": overrides, "best": best}
        return Verb(grid.run_name, execute_points, "sweep", given)

    verdict, store, _ = run_verb(plan, as_json=as_json, store_url=store_url, direct=direct)
    document = read_tradeoffs(store, verdict.run_id) if store is not None and verdict.run_id else None
    summary = _summary(verdict, document) if as_json else None
    return print_result(verdict, summary, lambda: _print(verdict, document))


def _summary(verdict: Verdict, document: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the object that --json prints."""
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


def _print(verdict: Verdict, document: Mapping[str, Any] | None) -> None:
    """Print one line per grid value, the best one marked; nothing if the sweep ended early."""
    if document is None or "sweep" not in verdict.artifacts:
        return
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
    print_table(rows)
    print()
    if len(document["seeds"]) > 1:
        print(f"±         half the {100 * document['level']:g}% interval of the mean over the seeds")
    if best is not None:
        print(f"best      {document['best']['name']} for {document['goal']}")
    print(f"table     {verdict.artifacts['sweep']}")
    print(f"report    {verdict.artifacts['report']}")


def _main_metrics(document: Mapping[str, Any]) -> list[str]:
    """Choose the goal's metrics, then performance, consistency and gaps, as many as fit a terminal."""
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
