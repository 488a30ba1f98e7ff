"""Write docs/papers/: a page a paper, with each printed table and figure and ours next to it.

``python -m benchmarks.page_generators.paper_pages`` makes the pages from the transcriptions in
``benchmarks/reproductions/printed/`` and the results; nothing in them is written by hand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.common import DOCS
from benchmarks.page_generators import paper_figures, paper_tables, sensei_paper_tables
from benchmarks.page_generators.markdown_lines import shorten
from benchmarks.reproductions.paper_cells import cells, reasons, share
from benchmarks.reproductions.paper_results import stored
from benchmarks.reproductions.printed_values import PAPERS, read_paper

TITLES = {
    "dadi": "DADI",
    "sensei": "SenSeI",
    "faias": "FAIAS",
    "budro": "BuDRO",
    "proxies": "Balancing proxies",
}
METHOD_PAGES = {
    "dadi": "dadi",
    "sensei": "sensei",
    "faias": "faias",
    "budro": "budro",
    "proxies": "proxies",
}
WORDS = """\
How to read it: *printed* is the paper's mean ± standard deviation over its splits, *ours* the same over ours. The
difference is ours less printed, ± the standard error of that difference. Of the paper's own method a difference beyond
one standard error is *better by* or *worse by*; of a baseline it is *higher by* or *lower by*, because there closeness is
what counts. Standard errors treat the splits as independent, although their training rows overlap. *Plain* and *blind*
are our [baselines](../glossary.md#baselines-and-comparison) on the same splits. A statement that a paper makes of a figure
is *true of ours*, *true of ours within two standard errors, not by the means*, or *not true of ours*; a number
of ours that is better by more than two standard errors is *better than printed*. The command next to it measures ours
again, where the results lack it: of a row that is whole with `--again`, of other results once their file in
`benchmarks/results` is away.
"""


def page(paper: str) -> str:
    """Return the page of a paper."""
    content = read_paper(paper)
    return shorten("\n".join(_lines(paper, content)).rstrip() + "\n")


def _lines(paper: str, content: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {TITLES[paper]}, table by table\n"
    yield f"Source: {content['paper']['cite']}. Our method: [{TITLES[paper]}](../{METHOD_PAGES[paper]}.md)."
    yield "[All papers](index.md).\n"
    yield WORDS
    yield from _counts(paper)
    yield f"`make papers PAPERS={paper}` measures what is missing and writes this page again.\n"
    yield from _unavailable(content)
    for remark in reasons().get("remarks", {}).get(paper, ()):
        yield f"{remark}\n"
    for item in content["items"]:
        yield f"## {_title(item)}\n"
        yield f"*{item['title']}.*\n"
        yield from _item(paper, content, item)
    if paper == "sensei":
        yield from sensei_paper_tables.width_section()
        yield from sensei_paper_tables.tuned_section()
        yield from sensei_paper_tables.search_section()
    yield from _origins(paper)


def _title(item: Mapping[str, Any]) -> str:
    return f"{item['id'][0].upper()}{item['id'][1:]}"


def _counts(paper: str) -> Iterator[str]:
    counted = share(list(cells(paper)))
    yield (
        f"{counted.with_ours} of {counted.cells} printed numbers and statements have ours next to them; "
        f"of {counted.own} on the paper's own method {counted.own_close} are within two standard errors, "
        "better, or true of ours.\n"
    )


def _unavailable(content: Mapping[str, Any]) -> Iterator[str]:
    for absent in content["unavailable"]:
        where = ", ".join(absent["items"])
        yield f"**Not to be had: {absent['data']}** ({where}). {absent['why']} In its place: {absent['instead']}.\n"


def _item(paper: str, content: Mapping[str, Any], item: Mapping[str, Any]) -> Iterator[str]:
    kind = item["kind"]
    if item.get("protocol"):
        yield f"Printed protocol: {item['protocol']}.\n"
    if item.get("shows"):
        yield f"Printed: {item['shows']}.\n"
    if item.get("stand_in"):
        yield f"Substitute tables: {item['stand_in']}.\n"
    if item.get("note"):
        # a long note is kept as a list of its parts
        note = item["note"]
        words = note if isinstance(note, str) else " ".join(note)
        yield f"{words}\n"
    if kind == "results":
        yield from _results(paper, content, item)
    elif kind == "settings":
        yield from paper_tables.settings_table(paper, item)
    elif kind == "times":
        yield from paper_tables.times_table(item)
        yield from paper_tables.entropic_table()
    yield from paper_figures.points(paper, item)
    yield from paper_figures.statements(paper, item)
    if item.get("picture"):
        yield f"![{item['title']}, by our methods](../{item['picture']})\n"


def _results(paper: str, content: Mapping[str, Any], item: Mapping[str, Any]) -> Iterator[str]:
    if "repeats" not in item:
        yield from paper_tables.result_table(paper, content["own"], item)
        return
    repeated = {repeated_item["id"]: repeated_item for repeated_item in content["items"]}[
        item["repeats"]
    ]
    anchor = _anchor(_title(repeated))
    yield f"Printed (ours). [{repeated['id'].capitalize()}](#{anchor}) has the differences.\n"
    yield from paper_tables.means_table(paper, item)
    only_here = {name: row for name, row in item["rows"].items() if name not in repeated["rows"]}
    if only_here:
        yield from paper_tables.result_table(paper, content["own"], {**item, "rows": only_here})


def _anchor(title: str) -> str:
    """The anchor of a heading, as MkDocs makes it."""
    anchor = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return "-".join(anchor.split())


def _origins(paper: str) -> Iterator[str]:
    """Where the rows come from."""
    origins = stored(paper)["origins"]
    if not origins:
        return
    yield "## Origins\n"
    for name, origin in origins.items():
        machine = origin["machine"]
        words = f"- {name}: {machine['cores']} cores, {machine['cpu']}, Python {origin['python']}"
        if "restored_from" in origin:
            # the command of that time is no longer one
            _, _, commit = origin["restored_from"].partition("before commit ")
            words += "; an earlier measurement"
            if commit:
                words += f", restored from before commit {commit}"
        else:
            words += f"; `{origin['command']}`"
        yield words
    yield ""


# Share of the cells of the papers' own methods that should be close.
GOAL = 0.8


def goal_words(close: int, own: int) -> str:
    """Say that too few cells are close; nothing where enough are."""
    if close >= GOAL * own:
        return ""
    return f" (the goal is {GOAL:.0%}: {math.ceil(GOAL * own) - close} more would reach it)"


def index() -> str:
    """Return the page that leads to the papers."""
    lines = [
        "# The five papers\n",
        "Each printed table and figure, with ours at the printed settings next to it. Rows that a choice has",
        "seen are shown and marked.\n",
        "| paper | printed cells | with ours | of its own method | close, better or true |",
        "|---|---|---|---|---|",
    ]
    total = [0, 0, 0, 0]
    every = share([cell for paper in PAPERS for cell in cells(paper)])
    for paper in PAPERS:
        counted = share(list(cells(paper)))
        numbers = [counted.cells, counted.with_ours, counted.own, counted.own_close]
        total = [sum(pair) for pair in zip(total, numbers, strict=True)]
        lines.append(
            f"| [{TITLES[paper]}]({paper}.md) | {' | '.join(str(number) for number in numbers)} |"
        )
    lines.append(f"| all | {' | '.join(str(number) for number in total)} |")
    lines += [
        "",
        f"{total[1]} of the {total[0]} printed cells have ours next to them, and {total[3] / total[2]:.0%} of those on a",
        f"paper's own method are within two standard errors, better, or true of ours{goal_words(total[3], total[2])}. A cell is a printed number",
        "or a statement that the paper makes of a figure; rows that another table repeats count once, and numbers that are",
        "absent from our copies (most of those of SenSeI) do not count. What is measured on a substitute for a table that",
        "cannot be had is shown, but not counted as of its own method, true or not; nor are networks before any agent and",
        "comparators. Every other cell of a paper's own method has a reason on its page, and a table of what single",
        "differences do to it. Theorems and lemmas are not counted. Cells go by the printed number of splits: of BuDRO on",
        "German the largest and the RMS gap by age are close there, and worse by more than two standard errors on 40 more",
        "splits; of BuDRO on COMPAS one of the ten models is degenerate.",
        f"Of {every.numbers} numbers in tables of results {every.on_all_splits} are",
        "measured on all printed splits; every row states on how many.\n",
        "## Where each table and figure is\n",
    ]
    for paper in PAPERS:
        content = read_paper(paper)
        lines.append(f"### {content['paper']['cite']}\n")
        for item in content["items"]:
            title = _title(item)
            lines.append(f"- [{title}]({paper}.md#{_anchor(title)}): {item['title']}")
        lines.append("")
    lines += [
        "## Run them again\n",
        "    make papers                        # hours; an interrupted command goes on where it ended",
        "    make papers PAPERS=budro           # one paper",
        "    python -m benchmarks.reproductions.papers --list",
        "    python -m benchmarks.reproductions.papers budro --row 'german budro' --again",
        "    python -m benchmarks.reproductions.papers budro --again     # restored rows, too",
        "    python -m benchmarks.reproductions.papers --minutes 0       # what is missing",
    ]
    return shorten("\n".join(lines) + "\n")


def main() -> None:
    """Write the pages."""
    folder = DOCS / "papers"
    folder.mkdir(exist_ok=True)
    (folder / "index.md").write_text(index(), encoding="utf-8")
    for paper in PAPERS:
        (folder / f"{paper}.md").write_text(page(paper), encoding="utf-8")


if __name__ == "__main__":
    main()
