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
    "consistency.", "gap_max.", "certificate.", "accuracy", "disclosivity", "smallest_growth", "kept",
)  # fmt: skip


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
    given["overrides"] = [
        *(overrides or ()),
        *([] if workers is None else [f"sweep.workers={workers}"]),
    ]

    def plan() -> Verb:
        grid = make_grid(**given)

        def execute_points(store: Store, run_id: str, engine: Engine) -> Verdict:
            cached = isinstance(engine, DirectEngine) and engine.cached_only
            return execute(grid, store, run_id, cached_points if cached else run_points)

        return Verb(grid.run_name, execute_points, "sweep", given)

    ended = run_verb(plan, as_json=as_json, store_url=store_url, direct=direct)
    document = ended.read("tradeoff.json")
    verdict = ended.verdict
    found = document or {"points": [], "values": [], "front": [], "fronts": {}}
    cached = Counter(step for point in found["points"] for step in point["cached"])
    summary = {
        **{key: getattr(verdict, key) for key in ("run_id", "status", "exit_code", "error")},
        "sweep": verdict.artifacts.get("sweep"),
        **{key: found[key] for key in ("points", "values", "front", "fronts")},
        "artifacts": verdict.artifacts,
        "seconds": verdict.seconds.get("sweep"),
        "cached": dict(cached),
    }
    return ended.finish(lambda *_: _print(verdict, document), summary)


def _print(verdict: Verdict, document: Mapping[str, Any] | None) -> None:
    """Print one line per grid value; nothing if the sweep ended early."""
    if document is None or "sweep" not in verdict.artifacts:
        return
    metrics = _main_metrics(document)
    rows = [[", ".join(document["keys"]), "runs", "gates", *metrics]]
    for value in document["values"]:
        done = value["runs"] - value["failed"]
        runs = f"{done}/{value['runs']}" if value["failed"] else str(done)
        passed = f"{value['passed']}/{done} pass" if done else "failed"
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
    kinds = (document["performance"], *MAIN_KINDS)
    # a kind that ends in a dot stands for a metric of any subject
    found = [
        name
        for kind in kinds
        for name in document["metrics"]
        if kind in (name, name.partition(".")[0] + ".")
    ]
    return list(dict.fromkeys(found))[:SHOWN_COLUMNS]


def _plus_minus(summary: Mapping[str, Any]) -> str:
    if summary["mean"] is None:
        return "-"
    half = "" if summary["low"] is None else f" ± {(summary['high'] - summary['low']) / 2:.3f}"
    return f"{summary['mean']:.3f}{half}"
