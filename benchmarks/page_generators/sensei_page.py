"""The part of docs/benchmarks.md on SenSeI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def sections(found: dict[str, Any], provenance: Callable[[dict[str, Any]], str]) -> list[str]:
    """Text of the parts that were measured."""
    makers: dict[str, Callable[[Any], str]] = {"speed": speed, "steps": steps}
    present = [name for name in makers if name in found]
    parts = ["## SenSeI\n"] if present else []
    for name in present:
        parts += [makers[name](found[name]["result"]), provenance(found[name])]
    return parts


def speed(found: dict[str, Any]) -> str:
    """An epoch beside inFairness."""
    settings, seconds, times = found["settings"], found["seconds_per_epoch"], found["times_faster"]
    hidden = "-".join(str(units) for units in settings["hidden"])
    lines = [
        f"""\
### Speed compared with inFairness 0.2.3

Adult, a network {settings["features"]}-{hidden}-2, batches of {settings["batch"]},
{settings["steps"]} auditor steps, ρ = {settings["rho"]:g}, ε = {settings["budget"]:g}, one core; processor
time, median of {settings["epochs"]} epochs of {found["batches"]} mini-batches each.

| | seconds an epoch | times as fast |
|---|---|---|
| inFairness | {seconds["inFairness"]} | 1 |
| ours, all {settings["steps"]} steps taken | {seconds["ours"]} | {times["ours"]} |
| ours, with early end | {seconds["ours, early end"]} | {times["ours, early end"]} |
| plain training | {seconds["plain"]} | |

After {settings["epochs"]} epochs, on the test rows:
"""
    ]
    names = list(next(iter(found["after"].values())))
    lines += [f"| | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for who, values in found["after"].items():
        lines.append(f"| {who} | {' | '.join(f'{values[name]:.3f}' for name in names)} |")
    return "\n".join(lines) + "\n"


def steps(found: list[dict[str, Any]]) -> str:
    """Steps of the search that training needs."""
    lines = [
        """\
### Auditor steps in training

Networks trained with 8 corners and the given number of steps in full space, all certified by the same longer
search (δ at ε = 0.01 on the test rows of the first split).

| steps in full space | ms a training step | δ | balanced accuracy |
|---|---|---|---|"""
    ]
    lines += [
        f"| {item['full_steps']} | {item['ms_per_step']:.2f} | {item['certificate']:.4f} "
        f"| {item['balanced_accuracy']:.3f} |"
        for item in found
    ]
    return "\n".join(lines) + "\n"
