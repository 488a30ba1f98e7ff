"""Run the rows of the five papers at their printed settings: ``make papers``.

``python -m benchmarks.reproductions.papers [PAPER ...] [--row KEY ...] [--splits N]`` measures the
splits that ``benchmarks/results/papers_PAPER.json`` lacks, so an interrupted command goes on where
it ended. ``--list`` prints the keys. Papers: dadi, sensei, faias, budro, proxies. A table that is
absent is reported in one line, and the other rows go on.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.common import code_state, log, read_result
from benchmarks.page_generators import paper_pages
from benchmarks.reproductions import (
    dadi_curve,
    dadi_paper,
    entropic_transport,
    german_differences,
    paper_surfaces,
    paper_times,
    proxies_paper,
    sensei_budget,
)
from benchmarks.reproductions.paper_results import add_split, measure_split, splits_done
from benchmarks.reproductions.paper_rows import PaperRow, rows_of
from benchmarks.reproductions.printed_values import PAPERS
from benchmarks.studies import inner_search, unseen_terms
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.store import Store

# What tells that a file of a table is not there, in the words of the library.
WHERE = "set EVENHAND_DATA to the folder that has the publishers' files (docs/how-to/own-table.md)"


@dataclass(frozen=True)
class Part:
    """A figure that is measured by a command of its own."""

    name: str
    result: str
    key: str
    measure: Callable[[], None]

    @property
    def is_done(self) -> bool:
        """Whether the results have it."""
        return bool(read_result(self.result).get(self.key))


def _proxies(name: str) -> Part:
    return Part(f"proxies {name}", "proxies", name, lambda: proxies_paper.main([name]))


def _households() -> None:
    dadi_curve.main(["--table", "households"])


PARTS: dict[str, tuple[Part, ...]] = {
    "budro": (
        Part("two clusters", "papers_surfaces", "budro", lambda: paper_surfaces.main(["budro"])),
        Part("German differences", "papers_german", "whole", german_differences.main),
        Part("table 10", "papers_times", "whole", lambda: paper_times.main([])),
        Part("solvers", "papers_entropic", "whole", lambda: entropic_transport.main([])),
    ),
    "sensei": (
        Part("surfaces", "papers_surfaces", "sensei", lambda: paper_surfaces.main(["sensei"])),
        Part("budget", "papers_sensei_budget", "whole", sensei_budget.main),
        Part("search", "inner_search", "adult", lambda: inner_search.main(["adult"])),
        Part("terms", "unseen_terms", "whole", lambda: unseen_terms.main([])),
    ),
    "dadi": (
        Part("loans", "dadi", "loans", lambda: dadi_paper.main(["loans"])),
        Part("figure 2", "papers_dadi_printed", "whole", lambda: dadi_curve.main([])),
        Part("households", "papers_dadi_households", "whole", _households),
    ),
    "proxies": tuple(_proxies(name) for name in ("points", "curves", "shares", "compositions")),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing, then write the pages; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reproductions.papers")
    parser.add_argument("papers", nargs="*", metavar="PAPER", help=", ".join(PAPERS))
    parser.add_argument("--row", nargs="*", help="keys of rows (--list prints them)")
    parser.add_argument("--splits", type=int, help="at most so many splits of a row")
    parser.add_argument("--quick", action="store_true", help="run a few steps and keep nothing")
    parser.add_argument("--list", action="store_true", help="print the keys of all rows")
    chosen = parser.parse_args(arguments)
    papers = chosen.papers or list(PAPERS)
    unknown = [name for name in papers if name not in PAPERS]
    if unknown:
        print(f"no paper {unknown[0]!r}: {', '.join(PAPERS)}", file=sys.stderr)
        return 2
    if chosen.list:
        for paper in papers:
            for row in rows_of(paper):
                print(f"{paper}: {row.key}: {splits_done(paper, row)} of {row.splits} splits")
        return 0
    rows = {paper: _wanted(paper, chosen.row) for paper in papers}
    if chosen.row and not any(rows.values()):
        print(f"no row {chosen.row[0]!r}: --list prints the keys", file=sys.stderr)
        return 2
    code_state()
    store = Store(os.environ.get("EVENHAND_STORE"))
    absent: list[str] = []
    for paper in papers:
        if not chosen.row and not chosen.quick:
            _measure_parts(paper, absent)
        for number, row in enumerate(rows[paper]):
            log(f"{paper}: row {number + 1} of {len(rows[paper])}: {row.key}")
            _measure_row(store, paper, row, chosen.splits or row.splits, absent, chosen.quick)
    if not chosen.quick:
        paper_pages.main()
    return 2 if absent else 0


def _wanted(paper: str, keys: Sequence[str] | None) -> list[PaperRow]:
    return [row for row in rows_of(paper) if not keys or row.key in keys]


def _measure_row(
    store: Store, paper: str, row: PaperRow, splits: int, absent: list[str], is_quick: bool
) -> None:
    """Measure the splits of a row that are missing, unless its table is absent."""
    if row.data in absent:
        return
    first = 0 if is_quick else splits_done(paper, row)
    for seed in range(first, 1 if is_quick else splits):
        log(f"{paper}: {row.key}: split {seed + 1} of {splits}")
        try:
            values = measure_split(store, row, seed, is_quick=is_quick)
        except (InputError, FileNotFoundError) as error:
            absent.append(row.data)
            log(f"{paper}: {row.data} is left out: {_one_line(error)}; {WHERE}")
            return
        if not is_quick:
            add_split(paper, row, values)


def _measure_parts(paper: str, absent: list[str]) -> None:
    for part in PARTS.get(paper, ()):
        if part.is_done:
            continue
        log(f"{paper}: {part.name}")
        try:
            part.measure()
        except (InputError, FileNotFoundError) as error:
            absent.append(part.name)
            log(f"{paper}: {part.name} is left out: {_one_line(error)}; {WHERE}")


def _one_line(error: Exception) -> str:
    return str(error).replace("\n", " ").rstrip(".")


if __name__ == "__main__":
    sys.exit(main())
