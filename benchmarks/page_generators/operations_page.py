"""The part of docs/benchmarks.md on evaluation at scale and on the real services."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["sections"]


def sections(
    evaluation: Mapping[str, Any],
    services: Mapping[str, Any],
    latency: Mapping[str, Any],
    provenance: Callable[[Any], str],
) -> list[str]:
    """Markdown of the measured parts; empty without any."""
    parts = ["## Run for real\n"] if evaluation or services else []
    if services:
        parts += [_services(services), provenance(services)]
    if latency:
        parts += [_latency(latency), provenance(latency)]
    if evaluation:
        parts += [_evaluation(evaluation), provenance(evaluation)]
    return parts


def _latency(result: Mapping[str, Any]) -> str:
    load, target = result["load_before"], result["target"]
    beside = (
        f" Other programs used the machine at the same time (load {load:.1f})." if load > 1 else ""
    )
    lines = [
        f"An unchanged retraining, from the time at which it is due to its end.{beside}\n",
        "| with | median | all | target |",
        "|---|---|---|---|",
    ]
    for key, name in (("pool", "one worker of a work pool"), ("serve", "`evenhand serve`")):
        taken = ", ".join(f"{value:.1f}" for value in result[key]["seconds"])
        lines.append(
            f"| {name} | {result[key]['median_s']:.1f} s | {taken} s | {target[f'{key}_s']} s |"
        )
    return "\n".join(lines) + "\n"


def _services(result: Mapping[str, Any]) -> str:
    target, ten = result["target"], result["at_once"]
    killed, judged, reports = result["killed"], result["evaluate"], result["reports"]
    opens = reports["index_opens_ms"]
    rows = [
        (
            "retrainings of different jobs at once on one worker",
            f"{ten['completed']} of {ten['runs']} completed, in {ten['seconds']:.0f} s",
            "all",
        ),
        (
            "worker and run killed in training",
            f"marked {killed['state']} after {killed['noticed_after_s']} s; the next one "
            f"{killed['next_state']}, from the cache: {', '.join(killed['next_from_cache'])}",
            "marked, and finished from the cache",
        ),
        (
            f"`evenhand evaluate` with a baseline, {judged['rows']:,} rows from CSV, "
            f"{judged['draws']} "
            f"draws, {judged['metrics']} metrics and their differences",
            f"{judged['median_s']:.0f} s, {judged['peak_gb']:.2f} GB",
            f"{target['evaluate_s']} s, {target['evaluate_gb']} GB",
        ),
        ("the largest report", f"{reports['largest_report_mb']:.2f} MB", "2 MB"),
        (
            f"the page over {reports['index_runs']} runs opens",
            "not measured" if opens is None else f"{opens:.0f} ms ({reports['index_mb']:.2f} MB)",
            f"{target['index_ms']} ms",
        ),
    ]
    lines = ["Prefect server and MLflow on PostgreSQL, and one worker, all on this machine.\n"]
    lines += ["| case | measured | target |", "|---|---|---|"]
    lines += [f"| {case} | {found} | {target} |" for case, found, target in rows]
    return "\n".join(lines) + "\n"


def _evaluation(result: Mapping[str, Any]) -> str:
    alone, both = result["evaluation"], result["evaluation_with_baseline"]
    tenth, whole = result["beside_resampling_a_tenth"], result["beside_resampling"]
    return (
        f"Metrics alone, {result['rows']:,} rows in memory, {alone['metrics']} metrics, "
        f"{result['draws']} "
        f"draws, median of {result['repeats']}: {alone['seconds']:.1f} s and "
        f"{alone['peak_gb']:.2f} GB for "
        f"one model, {both['seconds']:.1f} s and {both['peak_gb']:.2f} GB for two and their paired "
        f"differences. A bootstrap that resamples rows takes {tenth['ratio']:.0f} times the "
        "processor "
        f"time at {tenth['rows']:,} rows and {whole['ratio']:.0f} times at {whole['rows']:,}.\n"
    )
