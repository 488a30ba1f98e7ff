"""What a page is made of: a front, and sections of paragraphs, tables, charts and definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]
Documents = Json
"""JSON that a page is built from, by name: the outputs of steps, and ``run`` with facts about this
run.
"""


@dataclass(frozen=True)
class Cell:
    """One cell of a table, where plain text or a number is not enough."""

    text: str
    below: tuple[str, ...] = ()  # smaller lines under the text; empty ones are left out
    code: str = ""  # a technical name under the text
    # CSS class: passed, refused, insufficient_evidence, failed, or lack where a number is missing
    kind: str = ""
    symbol: str = ""  # a mark before the text, which a screen reader skips
    href: str | None = None  # a relative link
    time: str | None = None  # the text's moment as ISO 8601
    span: int = 1  # number of columns that the cell takes

    def __post_init__(self) -> None:
        object.__setattr__(self, "below", tuple(line for line in self.below if line))


Value = str | int | float | bool | None | Cell


@dataclass(frozen=True)
class Table:
    """A table; the first cell of a row is its head."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]
    folded: bool = False  # opens on a click
    pairs: bool = False  # of names with values


@dataclass(frozen=True)
class Chart:
    """A figure: a function of :mod:`fairlib.plots` by name, its JSON arguments, and its text
    alternative.

    `plot` is ``module.function``; the chart is drawn only when the store has no picture of the same
    name, arguments and code. `description` says in words what the chart shows; the page adds that
    its tables have every number. `table` holds them where no other table of the section does.
    """

    plot: str
    data: Mapping[str, Any]
    title: str
    description: str
    caption: str = ""
    table: Table | None = None


@dataclass(frozen=True)
class Charts:
    """Several small figures side by side; `large` ones are half as wide as a page."""

    items: Sequence[Chart]
    large: bool = False


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Terms:
    """Terms with their explanations: (term, remark, explanation)."""

    entries: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Items:
    """A list of statements, marked up as paragraphs are."""

    entries: Sequence[str]


Block = str | Table | Chart | Charts | Heading | Terms | Items
"""A string is a paragraph, in which ``**bold**`` and ```code``` are marked up and all else is plain
text.
"""


@dataclass(frozen=True)
class Section:
    """A part of a page with a title; `id` is its anchor.

    A `folded` one opens on a click, or from the keyboard, and is printed only when it is open.
    """

    id: str
    title: str
    blocks: Sequence[Block]
    folded: bool = False


@dataclass(frozen=True)
class Front:
    """The top of a page: what it is, its verdict, the answer in sentences, and where things are."""

    kind: str
    title: str
    meta: Sequence[str]
    headline: Sequence[str]
    created: str = ""  # an ISO time, which stands after the texts of `meta`
    badge: tuple[str, str, str] | None = None  # CSS class, symbol and verdict
    facts: Sequence[tuple[str, Cell]] = ()
    note: str = ""
    verdict_place: int = 1  # position of the verdict in `headline`
    footer: str = (
        "The numbers are evidence about the rows that were measured, not about other people. "
        "This page contains everything that it shows and loads nothing."
    )


@dataclass(frozen=True)
class Page:
    """A whole page."""

    front: Front
    sections: Sequence[Section] = field(default_factory=tuple)

    @property
    def first(self) -> list[Section]:
        """Sections that are open: what a reader decides by."""
        return [section for section in self.sections if not section.folded]

    @property
    def details(self) -> list[Section]:
        """Sections that are folded, below the first part."""
        return [section for section in self.sections if section.folded]
