"""The part of docs/choose-a-method.md on planted worlds and real tables: what decides is whether
the metric finds the proxy features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# How far below the best baseline's true AUC a method may lie and still lose nothing.
TOLERANCE = 0.003
METHODS = ("project", "budro", "sensei")
LEARNED = "-learned"
BASELINES = ("plain", "blind", "leave_out", "reweigh", "group_thresholds")
UNSEEN = """\
\\* Written after all defaults were set, and so unknown to them. No longer blind after one rule change: the rule was changed
after the first run on *salaries*, *small-groups*, *crossed* and *traces*, another one after that on *clinic* and
*questionnaire* ([first runs](research/fair-metric.md#the-first-run-on-untuned-worlds))."""
TABLES_HEAD = """\
### On real and generated tables

Balanced accuracy / consistency / leak. The truth is not known here, so that accuracy is that of the recorded labels, which
a mitigation may have to contradict. Consistency is the share of test people whose decision does not change for any of
their [counterparts](fair-metric.md), which were learned from the test rows; the leak is the AUC of the best-predicted attribute from the
columns that the model reads. All methods select the same share of people, chosen on training rows. The last columns have
the learned metric.
"""
TABLES_END = """\
A leak above .5 with a consistency near 1 says that what is left of the attribute moves few decisions
(`python -m benchmarks.studies.real_tables`)."""

HEAD = """\
## What decides: whether the metric finds the proxy features

In planted worlds the true label of everybody is known, and every person can be regenerated under another group. The
recorded labels are biased against a group. The table shows the gain in true AUC over the best baseline of the world
(unmitigated, without the sensitive columns, without all columns that predict an attribute, reweighed, thresholds by
group) and, after the slash, the share of decisions that stay when the person is regenerated; everything at a selected
share of one half. The *default* metric is `sensitive-subspace`, the *learned* one `learned`
([fair metrics](fair-metric.md)).
"""


def section(results: Mapping[str, Any], rows: int = 2500) -> str:
    """Text from the summary of ``benchmarks.studies.planted_worlds``.

    Columns that were not measured in every world of the benchmark are left out.
    """
    worlds = {}
    unseen = {}
    for name, world in results["worlds"][str(rows)].items():
        if world.get("unseen"):
            unseen[name] = world
        else:
            worlds[name] = world
    columns = []
    for method in METHODS:
        for suffix, title in (("", "default"), (LEARNED, "learned")):
            kind = method + suffix
            if all(kind in world["methods"] for world in worlds.values()):
                columns.append((kind, f"`{method}`, {title}"))
    titles = ["world", "best baseline", *(title for _, title in columns)]
    lines = [HEAD, f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for name, world in [*worlds.items(), *unseen.items()]:
        best = world["methods"][world["best_control"]]
        title = f"{name} \\*" if name in unseen else name
        cells = [title, f"{best['true_auc']:.3f} / {best['consistency']:.3f}"]
        for kind, _ in columns:
            method = world["methods"].get(kind)
            cells.append("" if method is None else _cell(method))
        lines.append(f"| {' | '.join(cells)} |")
    if unseen:
        lines += ["", UNSEEN]
    lines.append("")
    for kind, title in columns:
        counts = _counts(worlds, kind)
        if any(kind in world["methods"] for world in unseen.values()):
            counts += f", and in {_counts(unseen, kind)} marked \\*"
        lines.append(
            f"- {title} metric: at most {TOLERANCE} of true AUC below the best baseline in {counts}."
        )
    seeds = [
        min(world["seeds_by_method"][kind] for world in worlds.values()) for kind, _ in columns
    ]
    numbers = ", ".join(
        f"{title} {count}" for (_, title), count in zip(columns, seeds, strict=True)
    )
    lines.append(
        f"\nMeans at {rows:,} training rows over these numbers of seeds, at least: {numbers} "
        "([all methods, standard errors and what was "
        "tried](research/fair-metric.md#the-learned-metric)). So choose "
        "the metric first. Where no column predicts the attribute (*no-proxy*), leaving the sensitive "
        "column out is enough."
    )
    older = _older([*worlds.values(), *unseen.values()])
    if older:
        lines.append(f"\n{older}")
    return "\n".join(lines) + "\n"


def tables_section(results: Mapping[str, Any]) -> str:
    """Text from the summary of ``benchmarks.studies.real_tables``.

    Parameters
    ----------
    results : mapping

    Returns
    -------
    str
    """
    kinds = [*BASELINES, *(method + LEARNED for method in METHODS)]
    shown = []
    for kind in kinds:
        if all(kind in methods for methods in results["tables"].values()):
            shown.append(kind)
    titles = ["table", *(f"`{kind.removesuffix(LEARNED)}`" for kind in shown)]
    lines = [TABLES_HEAD, f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    splits = []
    older = 0
    results_shown = 0
    for table, methods in results["tables"].items():
        cells = [table]
        for kind in shown:
            entry = methods[kind]
            splits.append(entry["splits"])
            older += entry["older_rules"]
            results_shown += entry["splits"]
            values = (entry["balanced_accuracy"], entry["consistency"], entry["leak"])
            cells.append(" / ".join(f"{value:.3f}".removeprefix("0") for value in values))
        lines.append(f"| {' | '.join(cells)} |")
    numbers = str(min(splits))
    if max(splits) > min(splits):
        numbers += f" to {max(splits)}"
    lines += ["", f"Means over {numbers} splits. {TABLES_END}"]
    if older:
        lines.append(
            f"Of {results_shown} results {older} have a metric or counterparts by the rules before they "
            "last changed."
        )
    return "\n".join(lines) + "\n"


def _cell(method: Mapping[str, Any]) -> str:
    gain = f"{method['gain']:+.3f}".replace("-", "−")
    return f"{gain} / {method['consistency']:.3f}"


def _older(worlds: Sequence[Mapping[str, Any]]) -> str:
    """How many results with the learned metric were measured before its rules last changed."""
    older = 0
    results = 0
    for world in worlds:
        for kind, seeds in world["seeds_by_method"].items():
            if kind.endswith(LEARNED):
                results += seeds
                older += world.get("older_rules", {}).get(kind, 0)
    if not older:
        return ""
    return (
        f"Of {results} results with the learned metric {older} were measured before its rules last "
        "changed, and are replaced one by one."
    )


def _counts(worlds: Mapping[str, Any], method: str) -> str:
    """In how many worlds a method loses nothing, of those in which it was measured."""
    gains = []
    for world in worlds.values():
        if method in world["methods"]:
            gains.append(world["methods"][method]["gain"])
    return f"{sum(gain >= -TOLERANCE for gain in gains)} of {len(gains)} worlds"
