"""Keep the lines of a Markdown page short: wrap prose, divide or list wide tables."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

__all__ = ["shorten", "wrap"]

WIDEST = 140
WRAPPED = 120
# A table whose cells are longer than this becomes a list, the others are divided by columns.
LONGEST_CELL = 60

LIST_ITEM = re.compile(r"^(\s*)([-*+]|\d+[.)])(\s+)")
# What begins a list, a heading or a quotation where it stands first in a line.
MARKER_INSIDE = re.compile(r" (?=(?:[-+*#>|=]|\d+[.)])(?: |$))")
# A command that fills a line whole stays in it, too.
CODE_SPAN = re.compile(r"`[^`\n]{1,136}`")
KEPT_SPACE = "\x00"

Rows = Sequence[Sequence[str]]


def shorten(text: str) -> str:
    """Return the page with no line over 140 columns, but for code and links that are longer.

    Prose is wrapped at 120 columns. A wide table of short cells becomes several tables that repeat
    the columns that identify a row; one of long cells becomes a list.

    Parameters
    ----------
    text
        A page in Markdown.
    """
    lines: list[str] = []
    for block in _blocks(text.split("\n")):
        if all(len(line) <= WIDEST for line in block):
            lines += block
        elif block[0].startswith("|"):
            lines += _shorten_table(block)
        elif _is_prose(block[0]):
            lines += wrap(block)
        else:
            lines += block
    return "\n".join(lines)


def wrap(block: Sequence[str]) -> list[str]:
    """Return a paragraph or a list item, wrapped at 120 columns.

    Code spans stay in one line, and no line begins with what would start a list.

    Parameters
    ----------
    block
        The lines of the paragraph.
    """
    words = " ".join(line.strip() for line in block)
    item = LIST_ITEM.match(block[0])
    if item:
        first = block[0][: item.end()]
        words = words[len(first.strip()) :].strip()
    else:
        first = block[0][: len(block[0]) - len(block[0].lstrip())]
    words = CODE_SPAN.sub(lambda span: span[0].replace(" ", KEPT_SPACE), words)
    words = MARKER_INSIDE.sub(KEPT_SPACE, words)
    wrapped = textwrap.wrap(
        words,
        WRAPPED,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(KEPT_SPACE, " ") for line in wrapped]


def _is_prose(line: str) -> bool:
    if LIST_ITEM.match(line):
        return True
    return not line.startswith(("    ", "#", "|", "```", "~~~", "<"))


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield tables, fenced code, paragraphs and list items, each as its lines."""
    block: list[str] = []
    fence = ""
    for line in lines:
        if fence:
            block.append(line)
            if line.strip() == fence:
                yield block
                block = []
                fence = ""
            continue
        opening = re.match(r"^(```|~~~)", line)
        if block and (opening or _begins_a_block(block[-1], line)):
            yield block
            block = []
        block.append(line)
        if opening:
            fence = opening[1]
    if block:
        yield block


def _begins_a_block(before: str, line: str) -> bool:
    if not line.strip() or not before.strip():
        return True
    if before.startswith("#") or line.startswith("#"):
        return True
    if line.startswith("|") != before.startswith("|"):
        return True
    return LIST_ITEM.match(line) is not None


# ------------------------------------------------------------------------------------------ tables


def _shorten_table(block: Sequence[str]) -> list[str]:
    header, _, *rows = [_cells(line) for line in block]
    keys = _identifying_columns(rows)
    widths = [max(len(row[number]) for row in [header, *rows]) for number in range(len(header))]
    key_width = sum(width + 3 for width in widths[:keys])
    narrow = all(key_width + width + 4 <= WIDEST for width in widths[keys:])
    if narrow and max(widths) <= LONGEST_CELL and len(header) > keys:
        return _divided(header, rows, widths, keys)
    return _listed(header, rows)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def _identifying_columns(rows: Rows) -> int:
    """Number of leading columns whose cells differ between any two rows, at most three."""
    for count in (1, 2):
        if len({tuple(row[:count]) for row in rows}) == len(rows):
            return count
    return 3


def _divided(header: Sequence[str], rows: Rows, widths: Sequence[int], keys: int) -> list[str]:
    """Tables of some columns each, of about equal width."""
    groups: list[list[int]] = [[]]
    room = WIDEST - sum(width + 3 for width in widths[:keys]) - 1
    used = 0
    for number in range(keys, len(header)):
        needed = widths[number] + 3
        if groups[-1] and used + needed > room:
            groups.append([])
            used = 0
        groups[-1].append(number)
        used += needed
    lines: list[str] = []
    for group in groups:
        shown = [*range(keys), *group]
        lines += [
            _line([header[number] for number in shown]),
            f"|{'---|' * len(shown)}",
            *(_line([row[number] for number in shown]) for row in rows),
            "",
        ]
    return lines[:-1]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _listed(header: Sequence[str], rows: Rows) -> list[str]:
    """A list with an item a row: the first cell, then the others, each after its column's name.

    A line before it has the name of the first column.
    """
    lines = [f"By {header[0]}:", ""] if header[0] else []
    for row in rows:
        first = row[0].replace("\\|", "|")
        others = []
        for name, cell in zip(header[1:], row[1:], strict=True):
            if not cell:
                continue
            cell = cell.replace("\\|", "|").replace("<br>", "; ")
            named = len(header) > 2 and name
            others.append(f"{name}: {cell}" if named else cell)
        text = f"- {first}: {'; '.join(others)}" if others else f"- {first}"
        lines += wrap([text])
    return lines
