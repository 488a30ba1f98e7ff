"""``evenhand sweep``: run a grid of jobs, and print its trade-offs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.flows.commands.terminal import Verb, print_table, run_verb
from evenhand.flows.engine import DirectEngine, Engine, Verdict
from evenhand.flows.sweep import cached_points, execute, make_grid, run_points
from evenhand.tasks.execution.store import Store

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


def sweep(
    overrides: Sequence[str] | None,
    workers: int | None,
    as_json: bool,
    store_url: str | None,
    direct: bool,
    **given: Any,
) -> int:
    """Run the grid, and print the metrics of each of its values.

    `given` are `job`, `over` and `seeds`: parameters of the grid and of the flow alike.
    """
    arguments = given | {"overrides": list(overrides or ())}
    if workers is not None:
        arguments["overrides"].append(f"sweep.workers={workers}")

    def plan() -> Verb:
        grid = make_grid(**arguments)

        def execute_points(store: Store, run_id: str, engine: Engine) -> Verdict:
            if isinstance(engine, DirectEngine) and engine.cached_only:
                return execute(grid, store, run_id, cached_points)
            return execute(grid, store, run_id, run_points)

        return Verb(grid.run_name, execute_points, "sweep", arguments)

    ended = run_verb(plan, as_json=as_json, store_url=store_url, direct=direct)
    document = ended.read("tradeoff.json")
    verdict = ended.verdict
    return ended.finish(lambda *_: _print(verdict, document), _summary(verdict, document))


def _summary(verdict: Verdict, document: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what ``--json`` prints: the verdict and the trade-offs, if there are any."""
    tradeoff = document or {"points": [], "values": [], "front": [], "fronts": {}}
    cached: Counter[str] = Counter()
    for point in tradeoff["points"]:
        cached.update(point["cached"])
    return {
        "run_id": verdict.run_id,
        "status": verdict.status,
        "exit_code": verdict.exit_code,
        "error": verdict.error,
        "sweep": verdict.artifacts.get("sweep"),
        "points": tradeoff["points"],
        "values": tradeoff["values"],
        "front": tradeoff["front"],
        "fronts": tradeoff["fronts"],
        "artifacts": verdict.artifacts,
        "seconds": verdict.seconds.get("sweep"),
        "cached": dict(cached),
    }


def _print(verdict: Verdict, document: Mapping[str, Any] | None) -> None:
    """Print one line per grid value; nothing if the sweep ended early."""
    if document is None or "sweep" not in verdict.artifacts:
        return
    metrics = _main_metrics(document)
    rows = [[", ".join(document["keys"]), "runs", "gates", *metrics]]
    for value in document["values"]:
        done = value["runs"] - value["failed"]
        runs = str(done)
        if value["failed"]:
            runs = f"{done}/{value['runs']}"
        passed = "failed"
        if done:
            passed = f"{value['passed']}/{done} pass"
        numbers = [_plus_minus(value["metrics"][name]) for name in metrics]
        rows.append([value["label"], runs, passed, *numbers])
    print_table(rows)
    print()
    if len(document["seeds"]) > 1:
        print(
            f"±         half the {100 * document['level']:g}% interval of the mean over the seeds"
        )
    print(f"table     {verdict.artifacts['sweep']}")
    print(f"report    {verdict.artifacts['report']}")


def _main_metrics(document: Mapping[str, Any]) -> list[str]:
    """Choose performance, consistency and gaps, as many as fit a terminal."""
    metrics: dict[str, None] = {}
    for kind in (document["performance"], *MAIN_KINDS):
        for name in document["metrics"]:
            # a kind that ends in a dot stands for a metric of any subject
            if kind in (name, name.partition(".")[0] + "."):
                metrics[name] = None
    return list(metrics)[:SHOWN_COLUMNS]


def _plus_minus(summary: Mapping[str, Any]) -> str:
    if summary["mean"] is None:
        return "-"
    mean = f"{summary['mean']:.3f}"
    if summary["low"] is None:
        return mean
    return f"{mean} ± {(summary['high'] - summary['low']) / 2:.3f}"
