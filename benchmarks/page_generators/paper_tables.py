"""Printed tables of a paper with ours next to them, as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.common import read_result
from benchmarks.reproductions import entropic_transport, measured_reasons, unseen_terms
from benchmarks.reproductions.paper_cells import (
    compared,
    printed_row,
    reason_of,
    reasons,
    rows_for,
)
from benchmarks.reproductions.paper_results import entry_of, measured_row
from benchmarks.reproductions.paper_rows import PaperRow
from benchmarks.reproductions.printed_values import Comparison, Measured, measured
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve

COMMAND = "python -m benchmarks.reproductions.papers"
NAMES = {
    "budro": "BuDRO",
    "baseline": "plain trees",
    "project": "project",
    "reweigh": "reweigh",
    "baseline_nn": "plain network",
    "sensr": "SenSR",
    "sensei": "SenSeI",
    "adversarial_debiasing": "adversarial debiasing",
    "clp": "CLP",
}
# Parameters of the printed tables of settings, as methods call them.
PARAMETERS = {
    "max_depth": "max_depth",
    "lambda": "reg_lambda",
    "min_weight": "min_child_weight",
    "eta": "eta",
    "steps": "n_steps",
}


def signed(value: float) -> str:
    """Return a difference with its sign."""
    return f"{value:+.3f}".replace("-", "−")


def printed_text(cell: Sequence[float | None]) -> str:
    """Return a printed value with its standard deviation, where that is printed."""
    value, deviation = cell
    if deviation is None:
        return f"{value:.3f}"
    return f"{value:.3f} ± {deviation:.3f}"


def ours_text(ours: Measured) -> str:
    """Return a mean of ours with its standard deviation over the splits."""
    if ours.splits == 1:
        return f"{ours.mean:.3f}"
    return f"{ours.mean:.3f} ± {ours.deviation:.3f}"


def difference_text(comparison: Comparison) -> str:
    """Return a difference with its standard error."""
    if comparison.error is None:
        return signed(comparison.difference)
    return f"{signed(comparison.difference)} ± {comparison.error:.3f}"


def result_table(paper: str, own: Sequence[str], item: Mapping[str, Any]) -> Iterator[str]:
    """Yield a printed table, row by row: at the printed settings, then our other settings.

    Parameters
    ----------
    paper
        Its name.
    own
        The paper's own methods.
    item
        The table, as transcribed.
    """
    skipped = item.get("skip", ())
    for name, cells in item["rows"].items():
        if name in skipped:
            continue
        printed = printed_row(paper, item["data"], name)
        if printed is None:
            yield f"**{NAMES[name]}**: no value of ours at the printed settings. "
            yield f"{_missing(paper, item['data'], name)}\n"
            yield from _printed_only(item["columns"], cells)
        else:
            yield _head(paper, printed[0], printed[1])
            yield from _row(paper, item, name, cells, printed[1], name in own, is_printed=True)
        for row in rows_for(paper, item["data"], name):
            entry = entry_of(paper, row)
            if row.variant and entry is not None:
                yield _head(paper, row, entry)
                yield from _row(paper, item, name, cells, entry, name in own, variant=row.variant)


def _missing(paper: str, data: str, name: str) -> str:
    reason = reason_of(paper, f"{data} {name}")
    if rows_for(paper, data, name):
        row = rows_for(paper, data, name)[0]
        return f"{reason} `{COMMAND} {paper} --row '{row.key}'` measures it.".strip()
    return reason


def _head(paper: str, row: PaperRow, entry: Mapping[str, Any]) -> str:
    """The name of a row, its job and splits, what differs, and what a choice has seen."""
    title = NAMES.get(row.row, row.row)
    if row.variant:
        title = f"{title}, {row.variant}"
    words = [f"**{title}**: {_splits(entry)}, job `{row.job}`."]
    if row.differs:
        words.append(f"Differs: {row.differs}.")
    words += _degenerate_words(entry)
    if row.seen:
        words.append(f"**A choice has seen these people:** {row.seen}.")
    words.append(f"`{COMMAND} {paper} --row '{row.key}'`")
    return " ".join(words) + "\n"


def _degenerate_words(entry: Mapping[str, Any]) -> list[str]:
    """How many splits have a model that does not distinguish people, and the accuracy without
    them.
    """
    # earlier results have means alone
    found_values = entry.get("method", {}).get("balanced_accuracy", [])
    values = found_values if isinstance(found_values, list) else []
    useful = [value for value in values if value >= unseen_terms.DEGENERATE]
    failed = len(values) - len(useful)
    if not failed or not useful:
        return []
    splits = "1 split has" if failed == 1 else f"{failed} splits have"
    found = measured(useful)
    return [
        f"{splits} a degenerate model, balanced accuracy below {unseen_terms.DEGENERATE:g}; without, "
        f"{found.mean:.3f} ± {found.deviation:.3f}."
    ]


def _splits(entry: Mapping[str, Any]) -> str:
    splits = entry["splits"]
    words = "1 split" if splits == 1 else f"{splits} splits"
    if "changes" not in entry and entry.get("origin") != "tables":
        return f"{words} (an earlier measurement, restored)"
    return words


def _row(
    paper: str,
    item: Mapping[str, Any],
    name: str,
    cells: Sequence[Sequence[float | None]],
    entry: Mapping[str, Any],
    is_own: bool,
    is_printed: bool = False,
    variant: str = "",
) -> Iterator[str]:
    controls = [who for who in ("plain", "blind") if who in entry]
    titles = "".join(f" {who} |" for who in controls)
    yield f"| metric | printed | ours | difference | |{titles}"
    yield f"|---|---|---|---|---|{'---|' * len(controls)}"
    notes = []
    for metric, cell in zip(item["columns"], cells, strict=True):
        ours = measured_row(entry, metric)
        if ours is None:
            yield f"| {metric} | {printed_text(cell)} | | | |{' |' * len(controls)}"
            continue
        value, deviation = cell
        assert value is not None
        comparison = compared(metric, (value, deviation), ours, is_own)
        control_cells = ""
        for who in controls:
            control = measured_row(entry, metric, who)
            control_cells += f" {control.mean:.3f} |" if control else " |"
        yield (
            f"| {metric} | {printed_text(cell)} | {ours_text(ours)} | "
            f"{difference_text(comparison)} | {comparison.words} |{control_cells}"
        )
        # the reasons of the row at the printed settings are not those of its variants
        if variant:
            reason = reasons().get(paper, {}).get(f"{item['data']} {name}, {variant}", "")
        else:
            reason = reason_of(paper, f"{item['data']} {name} {metric}")
        is_apart = not comparison.words.startswith(("within", "equal", "better"))
        if is_apart and reason and reason not in notes:
            notes.append(reason)
    yield ""
    for reason in notes:
        yield f"{reason}\n"
    if is_own and is_printed:
        labels = {f"{item['data']} {name} {metric}": metric for metric in item["columns"]}
        yield from measured_reasons.tables(paper, labels)


def _printed_only(columns: Sequence[str], cells: Sequence[Sequence[float | None]]) -> Iterator[str]:
    yield "| metric | printed |"
    yield "|---|---|"
    for metric, cell in zip(columns, cells, strict=True):
        yield f"| {metric} | {printed_text(cell)} |"
    yield ""


def means_table(paper: str, item: Mapping[str, Any]) -> Iterator[str]:
    """Yield a table of means that another one repeats: printed, and ours in brackets."""
    yield f"| method | {' | '.join(item['columns'])} |"
    yield f"|---|{'---|' * len(item['columns'])}"
    for name, cells in item["rows"].items():
        printed = printed_row(paper, item["data"], name)
        texts = []
        for metric, cell in zip(item["columns"], cells, strict=True):
            ours = measured_row(printed[1], metric) if printed else None
            text = f"{cell[0]:.3f}"
            texts.append(f"{text} ({ours.mean:.3f})" if ours else f"{text} (none)")
        yield f"| {NAMES[name]} | {' | '.join(texts)} |"
    yield ""


def settings_table(paper: str, item: Mapping[str, Any]) -> Iterator[str]:
    """Yield the printed parameters, and those with which ours run."""
    yield f"| method | {' | '.join(item['columns'])} |"
    yield f"|---|{'---|' * len(item['columns'])}"
    for name, values in item["rows"].items():
        row = rows_for(paper, item["data"], name)[0]
        arguments = resolve(*load_job(row.job, list(row.changes))).arguments
        texts = []
        for column, value in zip(item["columns"], values, strict=True):
            ours = arguments.get(PARAMETERS[column])
            is_same = ours is not None and math.isclose(ours, value, rel_tol=5e-3)
            texts.append(f"{value:.4g}" if is_same else f"{value:.4g} (ours {ours})")
        yield f"| {NAMES[name]} | {' | '.join(texts)} |"
    yield ""
    yield "A number without brackets is that of our row at the printed settings, too.\n"


def times_table(item: Mapping[str, Any]) -> Iterator[str]:
    """Yield the printed seconds, ours, and the ratios of both methods."""
    times = read_result("papers_times").get("rows", {})
    yield "| data | rows, columns | plain trees | BuDRO | BuDRO over plain trees |"
    yield "|---|---|---|---|---|"
    for data, cells in item["rows"].items():
        printed = [cell[0] for cell in cells]
        size = item["size"][data]
        yield (
            f"| {data}, printed | {size[0]:,}, {size[1]} | {cells[0][0]} ± {cells[0][1]} s | "
            f"{cells[1][0]:,} ± {cells[1][1]} s | {printed[1] / printed[0]:.1f} |"
        )
        ours = times.get(data)
        if ours is None:
            yield f"| {data}, ours | not measured | | | |"
            continue
        means = [sum(ours["seconds"][who]) / len(ours["seconds"][who]) for who in item["columns"]]
        yield (
            f"| {data}, ours | {ours['size'][0]:,}, {ours['size'][1]} | {means[0]:.1f} s | "
            f"{means[1]:.1f} s | {means[1] / means[0]:.1f} |"
        )
        faster = [seconds / mean for seconds, mean in zip(printed, means, strict=True)]
        yield (
            f"| {data}, printed ÷ ours | | {faster[0]:.0f} | {faster[1]:.0f} | "
            f"{faster[1] / faster[0]:.1f} |"
        )
    yield ""
    yield "Ours are CPU seconds of one thread (`python -m benchmarks.reproductions.paper_times`); the printed ones"
    yield "are seconds on the clock of 2 to 4 CPUs of another machine. So *printed ÷ ours* compares machines and"
    yield "versions of XGBoost, too. Its last column, the ratio for BuDRO over the ratio for plain trees, does not: it says"
    yield "how many times cheaper the fair part has become. On Adult it is below 1: the printed fair part has a GPU and an"
    yield "approximate plan (algorithm 2), ours one thread and the exact plan. German has 62 printed columns and 61 of"
    yield "ours: the paper lists five personal statuses, of which the table has four (there are no single women in it).\n"


def entropic_table() -> Iterator[str]:
    """Yield what the entropic solver misses of the exact one, and the seconds of both."""
    rows = read_result("papers_entropic").get("rows", {})
    if not rows:
        return
    yield "**Algorithms 4 to 6, the entropic solver and its SGD**, beside the exact solver, on the transport problem of our BuDRO"
    yield "after half of the printed steps. γ is the weight of the entropy, as a share of the range of the losses; the paper"
    yield "prints none. *Missed* is the share of the adversary's rise, the loss of the exact plan less that without a move, that"
    yield "the plan does not reach; *spent* is the share of the budget that it uses. Algorithm 6 takes 100 steps of batches of 200"
    yield "from twice the root; where it spends more than 1, the plan is not allowed, and its loss may be above the exact one's."
    yield "CPU seconds of one thread:\n"
    yield "| data | people | γ | algorithms 4, 5: missed | seconds | algorithm 6: missed | spent | seconds | exact: seconds |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for data, row in rows.items():
        exact = row["exact"]
        for entropic in row["entropic"]:
            descent = entropic["sgd"]
            yield (
                f"| {data} | {row['people']:,} | {entropic['share']:g} | {entropic['missed']:.1%} | "
                f"{entropic['seconds']:.3f} | {descent['missed']:.1%} | {descent['spent']:.2f} | "
                f"{descent['seconds']:.3f} | {exact['following']:.4f} |"
            )
    yield ""
    largest = max(rows.values(), key=lambda row: row["people"])
    size = largest["matrices"]["bytes"] / 2**20
    yield "The exact solver misses nothing, and solves the next step's problem in the seconds of the last column; it holds no"
    yield f"matrix of pairs, where both matrices of the entropic one take {size:,.0f} MiB for {largest['people']:,} people (and for"
    yield "Adult's 36,177 people 20 GiB). So the entropic solver is a reference in `benchmarks/` only:"
    yield "`python -m benchmarks.reproductions.entropic_transport`.\n"
    for data in entropic_transport.TABLES:
        if data not in rows:
            yield f"{data} is not measured yet, only because its matrices of pairs take minutes of one core:"
            yield f"`python -m benchmarks.reproductions.entropic_transport {data}`.\n"
