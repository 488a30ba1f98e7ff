"""What the repository keeps of a large result, and how a result is written.

A benchmark writes its whole result to ``benchmarks/results/whole/NAME.json``, which git ignores,
and a summary to ``benchmarks/results/NAME.json``: what the pages of docs/benchmarks.md need.

    python -m benchmarks.summaries [NAME ...]

makes the summaries again from the whole results that are there.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# The modules whose function `summarise` makes the summary of a whole result.
MODULES = {
    "faias": "benchmarks.reproductions.faias_paper",
    "fronts": "benchmarks.studies.method_fronts",
    "judged": "benchmarks.studies.judged_methods",
    "membership": "benchmarks.studies.membership_study",
    "proxies": "benchmarks.reproductions.proxies_paper",
    "proxies_judged": "benchmarks.studies.judged_proxies",
    "scale": "benchmarks.speed.run_scale",
    "tuned_jobs": "benchmarks.studies.tuned_jobs",
    "tuning": "benchmarks.peers.tuning_comparison",
    "untuned": "benchmarks.studies.untuned_tables",
}
# Widest line of a file of results: a record of numbers may fill it.
WIDEST = 294
# What has at most so many containers in each other is a record.
RECORD_DEPTH = 2
# What has one more may fill so many lines.
MOST_LINES = 8
# Digits behind the point that pages show, and that a rounded number has at least.
SHOWN_DIGITS = 3
FEWEST_DIGITS = 5
# The key of records that are kept by column.
COLUMNS = "columns"


# ---------------------------------------------------------------------------------- records and text


def by_column(records: Sequence[Any]) -> dict[str, Any]:
    """Records of one shape as lists, one a column; :func:`records_of` is the inverse.

    A column that some records lack is left out.
    """
    return {COLUMNS: _transposed(records)}


def _transposed(records: Sequence[Any]) -> Any:
    if not all(isinstance(record, Mapping) for record in records):
        return list(records)
    shared = [key for key in records[0] if all(key in record for record in records)]
    return {key: _transposed([record[key] for record in records]) for key in shared}


def records_of(content: Any) -> Any:
    """The same content with every table that is kept by column as a list of records."""
    if isinstance(content, list):
        return [records_of(item) for item in content]
    if not isinstance(content, Mapping):
        return content
    if set(content) != {COLUMNS}:
        return {key: records_of(item) for key, item in content.items()}
    columns = content[COLUMNS]
    return [_record(columns, number) for number in range(_length(columns))]


def _length(columns: Any) -> int:
    while isinstance(columns, Mapping):
        columns = next(iter(columns.values()))
    return len(columns)


def _record(columns: Any, number: int) -> Any:
    if isinstance(columns, Mapping):
        return {key: _record(column, number) for key, column in columns.items()}
    return columns[number]


def only(record: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Those of some entries that a record has."""
    return {name: record[name] for name in names if name in record}


def shown_alike(content: Any) -> Any:
    """The same content with numbers of few digits that pages show as they do the unrounded ones."""
    if isinstance(content, Mapping):
        return {key: shown_alike(item) for key, item in content.items()}
    if isinstance(content, list):
        return [shown_alike(item) for item in content]
    if not isinstance(content, float):
        return content
    for digits in range(FEWEST_DIGITS, 17):
        number = round(content, digits)
        if f"{number:+.{SHOWN_DIGITS}f}" == f"{content:+.{SHOWN_DIGITS}f}":
            return number
    return content


def standard_error(values: Sequence[float]) -> float:
    """Of a mean; 0 of a single value."""
    if len(values) < 2:
        return 0.0
    return float(statistics.stdev(values) / len(values) ** 0.5)


def merged(earlier: Any, later: Any, levels: int) -> Any:
    """The later content, and the entries that only the earlier one has, on the first levels."""
    if levels == 0 or not isinstance(earlier, Mapping) or not isinstance(later, Mapping):
        return later
    # the order is the later one where that has everything
    both = dict(earlier) if set(earlier) - set(later) else {}
    for key, item in later.items():
        both[key] = merged(earlier[key], item, levels - 1) if key in earlier else item
    return both


def text_of(content: Any) -> str:
    """JSON in which a record stands on one line, and a longer one on as few as it fills."""
    return "\n".join(_lines(content, 0)) + "\n"


def _lines(content: Any, indent: int, name: str = "") -> list[str]:
    """A record is filled, and what holds records has an entry a line; `name` stands before it."""
    start = " " * indent + name
    if _depth(content) <= RECORD_DEPTH + 1:
        filled = _filled(_tokens(content), indent, start)
        if _depth(content) <= RECORD_DEPTH or len(filled) <= MOST_LINES:
            return filled
    if isinstance(content, dict) and len(content) == 1:
        ((key, item),) = content.items()
        lines = _lines(item, indent, f"{name}{{{json.dumps(key)}: ")
        lines[-1] += "}"
        return lines
    opening, closing = ("{", "}") if isinstance(content, dict) else ("[", "]")
    if isinstance(content, dict):
        entries = [(f"{json.dumps(key)}: ", item) for key, item in content.items()]
    else:
        entries = [("", item) for item in content]
    lines = [start + opening]
    open_line = False  # whether short entries may join the last line
    for entry, item in entries:
        inner = _lines(item, indent + 1, entry)
        inner[-1] += ","
        is_short = _depth(item) <= 1 and len(inner) == 1
        if is_short and open_line and len(lines[-1]) + len(inner[0]) < WIDEST:
            lines[-1] += f" {inner[0].strip()}"
        else:
            lines += inner
        open_line = is_short
    lines[-1] = lines[-1].removesuffix(",")
    return [*lines, " " * indent + closing]


def _filled(tokens: Iterable[str], indent: int, start: str) -> list[str]:
    """Lines of tokens that are no wider than a file of results may be."""
    first, *others = tokens
    lines = [start + first]
    for token in others:
        if len(lines[-1]) + len(token) < WIDEST:
            lines[-1] += f" {token}"
        else:
            lines.append(" " * (indent + 1) + token)
    return lines


def _tokens(content: Any) -> list[str]:
    """JSON as parts between which a line may end."""
    if not isinstance(content, (dict, list)) or not content:
        return [json.dumps(content)]
    if isinstance(content, dict):
        opening, closing = "{", "}"
        items = list(content.values())
        names = [f"{json.dumps(key)}: " for key in content]
    else:
        opening, closing = "[", "]"
        items = content
        names = [""] * len(items)
    tokens: list[str] = []
    for name, item in zip(names, items, strict=True):
        first, *others = _tokens(item)
        tokens += [name + first, *others]
        tokens[-1] += ","
    tokens[0] = opening + tokens[0]
    tokens[-1] = tokens[-1].removesuffix(",") + closing
    return tokens


def _depth(content: Any) -> int:
    """How many containers stand in each other."""
    if isinstance(content, dict):
        return 1 + max(map(_depth, content.values()), default=0)
    if isinstance(content, list):
        return 1 + max(map(_depth, content), default=0)
    return 0


# --------------------------------------------------------------------------------------- the command


def main(names: Sequence[str]) -> None:
    """Make the named summaries (default: of all whole results that are there)."""
    from benchmarks import common

    for name in names or MODULES:
        path = common.whole_path(name)
        if not path.is_file():
            if names:
                sys.exit(f"{path} is not there: run python -m {MODULES[name]}, which writes it.")
            continue
        module = importlib.import_module(MODULES[name])
        summary = module.summarise(json.loads(path.read_text()))
        (common.RESULTS / f"{name}.json").write_text(text_of(summary))


if __name__ == "__main__":
    main(sys.argv[1:])
