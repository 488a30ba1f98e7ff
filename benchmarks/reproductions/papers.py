"""Run the rows of the five papers at their printed settings: ``make papers``.

``python -m benchmarks.reproductions.papers [PAPER ...] [--row KEY ...] [--splits N]`` measures the
splits that ``benchmarks/results/papers_PAPER.json`` lacks, so an interrupted command goes on where
it ended. ``--list`` prints the keys. Papers: dadi, sensei, faias, budro, proxies. Rows that are
restored from an earlier commit count as measured; ``--again`` measures them, too, and with ``--row``
also a row that is whole; the earlier one is kept until the new one has as many splits. A table that is absent or damaged, and a
measurement that fails, is reported in one line, and the others go on. ``--minutes M`` ends after
the split, agent or other unit that exceeds M minutes, and keeps it; with 0 nothing is measured. The
pages are written, and the last lines say what is missing: of each figure and row, how many units
are done of all.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.common import OutOfTime, code_state, log, read_result, time_limit
from benchmarks.page_generators import paper_pages
from benchmarks.reproductions import (
    dadi_curve,
    dadi_differences,
    dadi_paper,
    dadi_pretrained,
    dadi_theory,
    entropic_transport,
    faias_thresholds,
    german_differences,
    paper_surfaces,
    paper_times,
    proxies_curves,
    proxies_differences,
    proxies_paper,
    proxies_theory,
    sensei_budget,
)
from benchmarks.reproductions.paper_results import (
    add_split,
    measure_split,
    splits_anew,
    splits_done,
)
from benchmarks.reproductions.paper_rows import PaperRow, rows_of
from benchmarks.reproductions.printed_values import PAPERS
from benchmarks.studies import (
    inner_search,
    unseen_terms,
    unseen_terms_differences,
    unseen_terms_tuned,
)
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.store import Store

# What tells that a file of a table is not there, in the words of the library.
WHERE = "set EVENHAND_DATA to the folder that has the publishers' files (docs/how-to/own-table.md)"
# So begins an error of a job, which is not that of a table.
JOB = "job "
# Exit codes: a table is absent or damaged; something else went wrong.
ABSENT = 2
FAILED = 1


@dataclass(frozen=True)
class Part:
    """A figure that is measured by a command of its own.

    Attributes
    ----------
    name : str
    result, key : str
        The file of its results, and what that has when nothing is missing.
    measure : callable
        Gets the minutes that are left. It writes its results after every unit, and is ended after
        the one that exceeds them.
    count : callable, optional
        Returns how many units are done, and of how many. Without it the part is one unit.
    """

    name: str
    result: str
    key: str
    measure: Callable[[float], None]
    count: Callable[[], tuple[int, int]] | None = None

    @property
    def progress(self) -> tuple[int, int]:
        """Units that are done, and all units."""
        if self.count is not None:
            return self.count()
        return int(bool(read_result(self.result).get(self.key))), 1

    @property
    def is_done(self) -> bool:
        """Whether the results have it."""
        done, units = self.progress
        return done >= units


def _entries(result: str, key: str, depth: int, units: int) -> Callable[[], tuple[int, int]]:
    """Return the counter of the entries of a result, so many containers deep."""

    def count() -> tuple[int, int]:
        content: Any = read_result(result).get(key, {})
        return _entries_of(content, depth), units

    return count


def _entries_of(content: Any, depth: int) -> int:
    if depth == 1:
        return len(content)
    inner = content.values() if isinstance(content, dict) else content
    return sum(_entries_of(item, depth - 1) for item in inner)


def _german_splits() -> tuple[int, int]:
    rows = read_result("papers_german").get("rows", {})
    first = german_differences.METRICS[0]
    done = len(next(iter(rows.values()))[first]) if rows else 0
    done += len(german_differences.later_splits().get(first, ()))
    return done, german_differences.SPLITS + german_differences.LATER


def _loans_samples() -> tuple[int, int]:
    samples = read_result("dadi").get("loans", {}).get("result", {}).get("seeds", [])
    return len(samples), dadi_paper.SEEDS


def _proxies(name: str) -> Part:
    return Part(f"proxies {name}", "proxies", name, lambda _: proxies_paper.main([name]))


def _agents(table: str) -> Callable[[float], None]:
    return lambda minutes: dadi_curve.main(["--table", table, "--minutes", str(minutes)])


def _terms(table: str) -> Callable[[float], None]:
    return lambda _: unseen_terms.main(["--table", table])


# Agents and trees that are measured with single differences, and FAIAS with other thresholds.
DADI_DIFFERENCES = len(dadi_differences.VARIANTS) * len(dadi_differences.SHOWN)
PROXIES_DIFFERENCES = len(proxies_differences.VARIANTS) * proxies_differences.SPLITS
FAIAS_THRESHOLDS = len(faias_thresholds.VARIANTS) * faias_thresholds.SPLITS
PARTS: dict[str, tuple[Part, ...]] = {
    "budro": (
        Part("two clusters", "papers_surfaces", "budro", lambda _: paper_surfaces.main(["budro"])),
        Part(
            *("German differences", "papers_german", "whole", german_differences.main),
            count=_german_splits,
        ),
        Part(
            *("table 10", "papers_times", "whole", lambda _: paper_times.main([])),
            count=_entries("papers_times", "rows", 1, len(paper_times.STEPS)),
        ),
        Part(
            *("solvers", "papers_entropic", "whole", lambda _: entropic_transport.main([])),
            count=_entries("papers_entropic", "rows", 1, len(entropic_transport.TABLES)),
        ),
    ),
    "sensei": (
        Part("surfaces", "papers_surfaces", "sensei", lambda _: paper_surfaces.main(["sensei"])),
        Part(
            *("budget", "papers_sensei_budget", "whole", lambda _: sensei_budget.main()),
            count=_entries("papers_sensei_budget", "rows", 1, len(sensei_budget.CANDIDATES)),
        ),
        Part("search", "inner_search", "adult", lambda _: inner_search.main(["adult"])),
        Part(
            *("search, trained networks", "inner_search", "trained"),
            lambda _: inner_search.main(["trained"]),
            count=lambda: (inner_search.splits_done(), inner_search.SPLITS),
        ),
        Part("terms", "unseen_terms", "whole", _terms("tweets")),
        Part("terms of templates", "unseen_terms_templates", "whole", _terms("templates")),
        Part(
            *("terms, differences", "unseen_terms_differences", "whole"),
            lambda _: unseen_terms_differences.main([]),
        ),
        Part(
            *("terms, fine-tuned encoder", "unseen_terms_tuned", "whole"),
            lambda _: unseen_terms_tuned.main([]),
        ),
    ),
    "dadi": (
        Part(
            *("loans", "dadi", "loans", lambda _: dadi_paper.main(["loans"])),
            count=_loans_samples,
        ),
        Part(
            *("pretrained networks", "papers_dadi_pretrained", "rows"),
            lambda _: dadi_pretrained.main([]),
            count=_entries(
                "papers_dadi_pretrained", "rows", 2, sum(dadi_pretrained.SPLITS.values())
            ),
        ),
        Part("theorem 1", "papers_dadi_theory", "rows", lambda _: dadi_theory.main([])),
        Part(
            *("figure 2", "papers_dadi_printed", "whole", _agents("adult")),
            count=_entries("papers_dadi_printed", "folds", 2, len(dadi_curve.order())),
        ),
        Part(
            *("figure 3, differences", "papers_dadi_differences", "whole"),
            dadi_differences.main,
            count=_entries("papers_dadi_differences", "rows", 2, DADI_DIFFERENCES),
        ),
        Part(
            # those at the printed settings take several times as long
            *("households", "papers_dadi_households_short", "whole", _agents("households-short")),
            count=_entries("papers_dadi_households_short", "folds", 2, len(dadi_curve.order())),
        ),
    ),
    "faias": (
        Part(
            *("thresholds", "papers_faias_thresholds", "whole", faias_thresholds.main),
            count=_entries("papers_faias_thresholds", "rows", 2, FAIAS_THRESHOLDS),
        ),
    ),
    "proxies": (
        *(_proxies(name) for name in ("points", "shares", "compositions")),
        Part(
            *("figure 4, differences", "papers_proxies_differences", "whole"),
            proxies_differences.main,
            count=_entries("papers_proxies_differences", "rows", 2, PROXIES_DIFFERENCES),
        ),
        Part(
            *("figures 1 and 2", "proxies_trees_bank", "families"),
            lambda minutes: proxies_curves.main(["--minutes", str(minutes)]),
            count=proxies_curves.count,
        ),
        Part(
            *("theorems", "papers_proxies_theory", "rows", lambda _: proxies_theory.main([])),
            count=lambda: (proxies_theory.splits_done(), proxies_paper.SEEDS),
        ),
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing, then write the pages; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reproductions.papers")
    parser.add_argument("papers", nargs="*", metavar="PAPER", help=", ".join(PAPERS))
    parser.add_argument("--row", nargs="*", help="keys of rows (--list prints them)")
    parser.add_argument("--splits", type=int, help="at most so many splits of a row")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no more after M")
    parser.add_argument(
        "--again", action="store_true", help="measure restored rows anew, and those of --row"
    )
    parser.add_argument("--quick", action="store_true", help="run a few steps and keep nothing")
    parser.add_argument("--list", action="store_true", help="print the keys of all rows")
    chosen = parser.parse_args(arguments)
    papers = chosen.papers or list(PAPERS)
    unknown = [name for name in papers if name not in PAPERS]
    if unknown:
        print(f"no paper {unknown[0]!r}: {', '.join(PAPERS)}", file=sys.stderr)
        return 2
    if chosen.list:
        try:
            _print_list(papers)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader of our output, such as `head`, has closed it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    rows = {paper: _wanted(paper, chosen.row) for paper in papers}
    if chosen.row and not any(rows.values()):
        print(f"no row {chosen.row[0]!r}: --list prints the keys", file=sys.stderr)
        return 2
    code_state()
    run = Run(
        Store(os.environ.get("EVENHAND_STORE")),
        chosen.minutes,
        chosen.quick,
        chosen.again,
        is_named=bool(chosen.row),
    )
    for paper in papers:
        if not chosen.row and not chosen.quick:
            run.measure_parts(paper)
        for number, row in enumerate(rows[paper]):
            if run.is_in_time:
                log(f"{paper}: row {number + 1} of {len(rows[paper])}: {row.key}")
            run.measure_row(paper, row, chosen.splits or row.splits)
    if not chosen.quick:
        paper_pages.main()
        for line in closing_lines(rows, chosen):
            log(line)
    return run.exit_code


def closing_lines(rows: Mapping[str, Sequence[PaperRow]], chosen: argparse.Namespace) -> list[str]:
    """Return one line for each figure and row that is not whole, and one of the whole papers.

    Parameters
    ----------
    rows : mapping of str to sequence of PaperRow
        By paper.
    chosen : argparse.Namespace
        The options: with ``row`` figures are left out, ``splits`` are enough of a row.
    """
    lines = []
    whole = []
    for paper, rows_of_paper in rows.items():
        missing = []
        for part in PARTS.get(paper, ()) if not chosen.row else ():
            done, units = part.progress
            if done < units:
                missing.append(f"missing: {paper}: {part.name}: {done} of {units} done")
        for row in rows_of_paper:
            done = splits_done(paper, row, is_again=chosen.again)
            wanted = chosen.splits or row.splits
            if done < wanted:
                missing.append(f"missing: {paper}: {row.key}: {done} of {wanted} splits done")
        lines += missing
        if not missing:
            whole.append(paper)
    if whole:
        lines.append(f"nothing is missing of {', '.join(whole)}")
    return lines


def _print_list(papers: Sequence[str]) -> None:
    for paper in papers:
        for row in rows_of(paper):
            print(f"{paper}: {row.key}: {splits_done(paper, row)} of {row.splits} splits")


def _wanted(paper: str, keys: Sequence[str] | None) -> list[PaperRow]:
    return [row for row in rows_of(paper) if not keys or row.key in keys]


class Run:
    """Measures rows and figures, and remembers what could not be measured.

    Parameters
    ----------
    store
        Where the runs are kept.
    minutes
        What exceeds so many ends after its unit, and nothing more begins.
    is_quick
        True: a few steps of one split, and nothing is kept.
    is_again
        True: restored rows count for nothing.
    is_named
        True: the rows are named, and `is_again` is of whole ones, too.
    """

    def __init__(
        self,
        store: Store,
        minutes: float,
        is_quick: bool = False,
        is_again: bool = False,
        is_named: bool = False,
    ) -> None:
        self.store = store
        self.end = time.monotonic() + 60 * minutes
        self.is_quick = is_quick
        self.is_again = is_again
        self.is_anew = is_again and is_named
        self.absent: set[str] = set()
        self.exit_code = 0

    @property
    def is_in_time(self) -> bool:
        """Whether another measurement may begin."""
        return time.monotonic() < self.end

    def measure_row(self, paper: str, row: PaperRow, splits: int) -> None:
        """Measure the splits of a row that are missing, unless its table is absent."""
        if row.data in self.absent:
            return
        first = splits_done(paper, row, is_again=self.is_again)
        if self.is_anew:
            first = splits_anew(paper, row)
        if self.is_quick:
            first, splits = 0, 1
        for seed in range(first, splits):
            if not self.is_in_time:
                return
            log(f"{paper}: {row.key}: split {seed + 1} of {splits}")
            try:
                values = measure_split(self.store, row, seed, is_quick=self.is_quick)
            except (InputError, FileNotFoundError) as error:
                if str(error).startswith(JOB):
                    self._report_failure(paper, row.key, error)
                else:
                    self.absent.add(row.data)
                    self._leave_out(paper, row.data, error)
                return
            except Exception as error:  # noqa: BLE001 - hours of other rows follow
                self._report_failure(paper, row.key, error)
                return
            if not self.is_quick:
                add_split(paper, row, values, is_anew=self.is_anew)

    def measure_parts(self, paper: str) -> None:
        """Measure the figures of a paper that have commands of their own."""
        for part in PARTS.get(paper, ()):
            if part.is_done:
                continue
            if not self.is_in_time:
                return
            log(f"{paper}: {part.name}")
            try:
                with time_limit(self.end):
                    part.measure((self.end - time.monotonic()) / 60)
            except OutOfTime:
                return
            except (InputError, FileNotFoundError) as error:
                self._leave_out(paper, part.name, error)
            except Exception as error:  # noqa: BLE001 - hours of other figures follow
                self._report_failure(paper, part.name, error)

    def _leave_out(self, paper: str, name: str, error: Exception) -> None:
        self.exit_code = self.exit_code or ABSENT
        reason = _one_line(error)
        cure = "" if "optional extra" in reason else f"; {WHERE}"
        log(f"{paper}: {name} is left out: {reason}{cure}")

    def _report_failure(self, paper: str, name: str, error: Exception) -> None:
        self.exit_code = FAILED
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(place.filename)}, line {place.lineno}"
        log(f"{paper}: {name} failed in {where}: {type(error).__name__}: {_one_line(error)}")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


if __name__ == "__main__":
    sys.exit(main())
