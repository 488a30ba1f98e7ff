"""The part of docs/benchmarks.md about untuned tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

INIT = """\
## How `init` understands a table

A column is right if its role and its encoding are, and every planted spelling of a missing value was found.
False alarms are innocent columns that are ignored. The truth of the published files was written by hand. The files
of offices have other encodings, delimiters, marks and dates, or are spreadsheets; their leaks are in two or three
columns together.
"""
SETS = {
    "planted": "generated tables with planted traits",
    "held_out": "generated tables with other names, written after the rules",
    "office": "files as offices write them",
    "published": "published files",
}
HEAD = """\
## Untuned: every method by `init` and `run`

Nothing was edited, and nothing of the shipped jobs and contracts was used: `init` saw a CSV file, the label
and the sensitive columns. Decisions have the default threshold (`balanced`). One split and one seed each.
"Difference from blind" is that of balanced accuracy from the same learner without mitigation and without the
sensitive columns. "Difference from boosting" is that of AUC from scikit-learn's
HistGradientBoostingClassifier with its defaults on the same encoded rows; in brackets its calibration error.
"Training" is the step `train` in seconds. A method that is no better than blind in what it is meant for has
no effect there. `dadi` is not among them: its trees are newer than these measurements.
"""


def understanding(
    corpus: Mapping[str, Any], size: Mapping[str, Any], provenance: Callable[[Any], str]
) -> list[str]:
    """How many columns `init` gets right, and what a large table costs; nothing without results."""
    if not corpus or not size:
        return []
    parts = [INIT, provenance(corpus)]
    parts.append(
        "| tables | columns | right | planted leaks found | false alarms per 100 columns |"
    )
    parts.append("|---|---|---|---|---|")
    for name, row in corpus["sets"].items():
        cells = [
            f"{row['tables']} {SETS[name]}",
            f"{row['columns']:,}",
            f"{row['right']:.1%}",
            f"{row['leaks_found']:.0%} of {row['leaks_planted']}",
            f"{row['false_alarms_per_100']:.1f}",
        ]
        parts.append(f"| {' | '.join(cells)} |")
    parts += [
        f"\n`init` on {size['rows']:,} rows and {size['columns']} columns:\n",
        "| file | size | median time | peak memory |",
        "|---|---|---|---|",
    ]
    for name, row in size["files"].items():
        parts.append(
            f"| `{name}` | {row['megabytes']} MB | {row['median_seconds']:.1f} s | "
            f"{row['peak_gb']:.1f} GB |"
        )
    return [*parts, "", provenance(size)]


def sections(content: Mapping[str, Any], provenance: Callable[[Any], str]) -> list[str]:
    """The tables, one a table of people; nothing without results."""
    if not content:
        return []
    parts = [HEAD, provenance(content)]
    for table, methods in content["results"].items():
        measured = {name: row for name, row in methods.items() if "balanced_accuracy" in row}
        rows = max((row["rows"] for row in measured.values()), default=0)
        parts += [
            f"### Untuned: {table} ({rows:,} rows)\n",
            "| method | balanced accuracy | difference from blind | AUC | difference from boosting | ECE | log loss "
            "gain "
            "| flips (blind) | drf, relative | training |",
            "|---|---|---|---|---|---|---|---|---|---|",
        ]
        parts += [_row(name, row) for name, row in measured.items()]
        failed = [name for name in methods if name not in measured]
        parts += [f"| {name} | {methods[name]['status']} | | | | | | | | |" for name in failed]
        parts.append("")
    return parts


def _row(name: str, row: Mapping[str, Any]) -> str:
    blind, reference = row["blind"], row["reference"]
    beside = row["balanced_accuracy"] - blind["balanced_accuracy"]
    flips = "" if row.get("certificate.flips") is None else f"{row['certificate.flips']:.3f}"
    if flips and blind.get("certificate.flips") is not None:
        flips += f" ({blind['certificate.flips']:.3f})"
    relative = row.get("certificate.drf_relative")
    cells = [
        f"`{name}`",
        f"{row['balanced_accuracy']:.3f}",
        "its own" if blind["same_as"] == "method" else f"{beside:+.3f}".replace("-", "−"),
        f"{row['auc']:.3f}",
        f"{row['auc'] - reference['auc']:+.3f}".replace("-", "−"),
        f"{row['ece']:.3f} ({reference['ece']:.3f})",
        f"{row['log_loss_gain']:.3f}",
        flips,
        "" if relative is None else f"{relative:.2f}",
        f"{row['steps']['train']:.0f} s",
    ]
    return f"| {' | '.join(cells)} |"
