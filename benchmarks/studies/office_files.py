"""Tables as offices write them: files with other encodings, delimiters, marks and dates, spreadsheets,
headers with gaps, and columns that only together reveal the label or a sensitive column.

:mod:`benchmarks.studies.init_corpus` measures how `init` reads and understands them.
"""

from __future__ import annotations

import csv
import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from evenhand.data_contracts.arrow import convert, decode
from evenhand.tasks.sources.table_reader import infer_table_forms, open_table
from tests.workbooks import write_workbook

OFFICE_FILES = 40
Random = np.random.Generator
Format = Callable[[Any], str]


@dataclass(frozen=True)
class Habit:
    """How an office writes a file."""

    name: str
    encoding: str
    delimiter: str  # "" is a spreadsheet
    decimal: str
    thousands: str
    dates: str


HABITS = [
    Habit("german", "cp1252", ";", ",", ".", "%d.%m.%Y"),
    Habit("german utf-8", "utf-8-sig", ";", ",", ".", "%d.%m.%Y"),
    Habit("french", "latin-1", ";", ",", " ", "%d/%m/%Y"),
    Habit("swiss", "cp1252", "\t", ".", "'", "%d.%m.%Y"),
    Habit("unicode text", "utf-16", "\t", ",", ".", "%d.%m.%Y"),
    Habit("british", "utf-8", "|", ".", ",", "%d/%m/%Y"),
    Habit("american", "utf-8", ",", ".", ",", "%m/%d/%Y"),
    Habit("spreadsheet", "", "", ",", ".", "%d.%m.%Y"),
]


@dataclass
class OfficeTable:
    """A table in a file, what `init` reads of it, and what its columns are."""

    name: str
    path: Path
    label: str
    sensitive: list[str]
    # by column: kinds that are right, and the planted spelling of missing values
    kinds: dict[str, tuple[str, ...]] = field(default_factory=dict)
    missing: dict[str, Any] = field(default_factory=dict)
    # by column the numbers, days or texts that the file means, None where missing
    values: dict[str, list[Any]] = field(default_factory=dict)
    spellings: dict[str, set[str]] = field(default_factory=dict)  # planted, by column

    def read(self) -> tuple[pa.Table, list[str]]:
        """Read the file as `init` does: the table, and the columns that have other values than
        meant.
        """
        forms = infer_table_forms(self.path, {})
        table = open_table(self.path, forms.keys).read_all()
        misread = []
        for name, expected in self.values.items():
            values = decode(table[name])
            if isinstance(expected[0], int | float) and pa.types.is_string(values.type):
                # a contract reads plain numbers in text, such as 1,234.50
                values = convert(values, "number") or values
            if not _same(values.to_pylist(), expected):
                misread.append(name)
        return table, misread


class _Writer:
    """Collects columns, and the texts that a habit writes for them."""

    def __init__(self, r: Random, n: int, habit: Habit, table: OfficeTable) -> None:
        self.r = r
        self.n = n
        self.habit = habit
        self.table = table
        self.cells: dict[str, list[Any]] = {}

    def add(
        self,
        name: str,
        values: Sequence[Any],
        kinds: tuple[str, ...],
        write: Format | None = None,
        gap: Any = None,
        gap_text: str = "",
        has_sign: bool = False,
    ) -> None:
        """Add a column; with a `gap`, a tenth of its values is missing and written so."""
        texts: list[Any] = list(values)
        # the cells of a spreadsheet have types, but for numbers with a sign behind them
        if write is not None and (self.habit.delimiter or has_sign):
            texts = [write(value) for value in values]
        expected: list[Any] = list(values)
        if gap is not None:
            for row in np.flatnonzero(self.r.random(self.n) < 0.1):
                texts[row] = gap_text
                if not self.habit.delimiter and not isinstance(gap, str):
                    texts[row] = gap
                expected[row] = gap
            self.table.missing[name] = gap
        self.cells[name] = texts
        self.table.kinds[name] = kinds
        self.table.values[name] = expected

    def number(self, value: float, digits: int = 2) -> str:
        """A number with separators of thousands."""
        text = f"{value:,.{digits}f}"
        marks = {",": self.habit.thousands, ".": self.habit.decimal}
        return "".join(marks.get(sign, sign) for sign in text)

    def date(self, value: dt.date) -> str:
        return value.strftime(self.habit.dates)


def office_table(number: int, folder: Path, seed: int) -> OfficeTable:
    """Generate a table, and write it by the habit of its number."""
    r = np.random.default_rng([seed, number])
    habit = HABITS[number % len(HABITS)]
    n = int(r.choice([500, 1500, 4000]))
    suffix = ".csv"
    if not habit.delimiter:
        suffix = ".xlsx"
    table = OfficeTable(
        f"{habit.name}-{number}", folder / f"{number}{suffix}", "Entscheid", ["Geschlecht", "Alter"]
    )
    writer = _Writer(r, n, habit, table)
    z = r.normal(size=n)
    female = r.random(n) < 0.5
    age = np.clip(np.round(r.gamma(9, 4.6, n)), 18, 90).astype(int)
    refused = 1.1 * z + 0.3 * female + r.logistic(size=n) < r.uniform(-1, 0.3)
    _write_people(writer, female, age)
    _write_honest(writer, z, age)
    PLANTS[number % len(PLANTS)](writer, refused, female, age)
    order = [str(name) for name in r.permutation([*writer.cells])]
    order.append(table.label)
    writer.cells[table.label] = ["abgelehnt" if no else "bewilligt" for no in refused]
    table.kinds[table.label] = ("label",)
    header = list(order)
    if number % 3 == 0:
        # a copy under the same name, and a delimiter at the end of each row
        order.append("Ort")
        header.append("Ort")
        table.kinds["Ort_2"] = ("ignored",)
    rows = [[writer.cells[name][row] for name in order] for row in range(n)]
    _write_file(table.path, header, rows, habit)
    return table


def _write_people(writer: _Writer, female: Any, age: Any) -> None:
    """Sensitive columns; the sex is written in several ways."""
    r = writer.r
    words = {True: ["weiblich"] * 20 + ["w", "Weiblich"], False: ["männlich"] * 20 + ["m", "M "]}
    sexes = [str(r.choice(words[bool(value)])) for value in female]
    writer.add("Geschlecht", sexes, ("sensitive",))
    writer.table.spellings["Geschlecht"] = {"w", "Weiblich", "m", "M "} & set(sexes)
    writer.add("Alter", age.tolist(), ("sensitive",))


def _write_honest(writer: _Writer, z: Any, age: Any) -> None:
    """Columns that init should use, as the habit writes them."""
    r = writer.r
    n = writer.n
    number = writer.number
    income = np.round(np.exp(10.3 + 0.5 * r.normal(size=n) + 0.15 * z), 2)
    writer.add("Einkommen", income.tolist(), ("number",), number)
    writer.add("Rate", np.round(income / r.uniform(20, 90, n), 2).tolist(), ("number",), number)
    share = np.round(100 * r.beta(2, 5, n), 1)
    writer.add(
        "Quote", share.tolist(), ("number",), lambda value: f"{number(value, 1)} %", has_sign=True
    )
    fee = np.round(np.exp(r.normal(3, 1, n)), 2)
    sign = "EUR" if writer.habit.encoding == "latin-1" else "€"
    writer.add(
        "Gebühr", fee.tolist(), ("number",), lambda value: f"{number(value)} {sign}", has_sign=True
    )
    # three decimals: each value may be read in two ways, and the small ones say which is meant
    weight = np.round(np.exp(r.normal(0.5, 1.5, n)), 3)
    writer.add("Gewicht", weight.tolist(), ("number",), lambda value: number(value, 3))
    area = r.integers(1, 9000, n)
    writer.add("Fläche", area.tolist(), ("number",), lambda value: number(value, 0))
    score = np.round(r.normal(300 + 20 * z, 90, n), 1)
    writer.add("Punkte", score.tolist(), ("number",), lambda value: number(value, 1))
    children = r.integers(0, 5, n)
    gaps = [(777, "777"), (999, "999"), (None, "k.A."), (None, "-"), (None, "n/a")]
    gap, text = gaps[int(r.integers(len(gaps)))]
    sentinel = text if gap is None else gap
    writer.add("Kinder", children.tolist(), ("number", "category"), gap=sentinel, gap_text=text)
    savings = np.round(np.abs(r.normal(0, 9000, n)), 1)
    writer.add(
        "Ersparnis",
        savings.tolist(),
        ("number",),
        lambda value: number(value, 1),
        gap=999999.9,
        gap_text=number(999999.9, 1).replace(writer.habit.thousands, ""),
    )
    start = dt.date(2020, 1, 1)
    begun = [start + dt.timedelta(days=int(days)) for days in r.integers(0, 1500, n)]
    writer.add("Antrag", begun, ("date",), writer.date)
    places = ["Köln", "Zürich", "Genève", "Málaga", "Århus"]
    towns = [places[place] for place in r.integers(0, 5, n)]
    writer.add("Ort", towns, ("category",))
    # a noisy sum of honest columns is honest too, and a proxy feature is no leak
    total = np.round(0.3 * income + 20 * score + r.normal(0, 4000, n), 2)
    writer.add("Summe", total.tolist(), ("number",), number)
    experience = np.clip(np.round(age - 22 + r.normal(0, 5, n)), 0, 60).astype(int)
    writer.add("Erfahrung", experience.tolist(), ("number",))
    branch = [f"Zweig {letter}" for letter in r.choice([*"ABCDEFG"], n)]
    writer.add("Zweig", branch, ("category",))


# --------------------------------------------------------------- what only several columns reveal


def _plant_nothing(writer: _Writer, refused: Any, female: Any, age: Any) -> None:
    """No leak: only honest columns."""


def _plant_difference(writer: _Writer, refused: Any, female: Any, age: Any) -> None:
    r = writer.r
    due = np.round(np.exp(r.normal(8, 0.6, writer.n)), 2)
    sign = np.where(refused, -1.0, 1.0)
    paid = np.round(due / r.choice([1.0, 2.5]) + sign * r.uniform(0.5, 300, writer.n), 2)
    for name, values in (("Forderung", due), ("Zahlung", paid)):
        writer.add(name, values.tolist(), ("leak",), writer.number)


def _plant_ratio(writer: _Writer, refused: Any, female: Any, age: Any) -> None:
    r = writer.r
    whole = np.round(np.exp(r.normal(8, 0.9, writer.n)), 2)
    share = np.where(refused, r.uniform(0.41, 0.95, writer.n), r.uniform(0.05, 0.4, writer.n))
    for name, values in (("Gesamt", whole), ("Teil", np.round(whole * share, 2))):
        writer.add(name, values.tolist(), ("leak",), writer.number)


def _plant_dates(writer: _Writer, refused: Any, female: Any, age: Any) -> None:
    r = writer.r
    filed = r.integers(18000, 19500, writer.n)
    closed = filed + np.where(refused, r.integers(0, 20, writer.n), r.integers(21, 200, writer.n))
    for name, days in (("Eingang", filed), ("Abschluss", closed)):
        values = [dt.date(1970, 1, 1) + dt.timedelta(days=int(day)) for day in days]
        writer.add(name, values, ("leak",), writer.date)


def _plant_three(writer: _Writer, refused: Any, female: Any, age: Any) -> None:
    r = writer.r
    first = np.round(r.uniform(0, 5000, writer.n), 2)
    second = np.round(r.uniform(0, 5000, writer.n), 2)
    sign = np.where(refused, -1.0, 1.0)
    third = np.round(first + second + sign * r.uniform(1, 900, writer.n), 2)
    for name, values in (("Teil 1", first), ("Teil 2", second), ("Summe 2", third)):
        writer.add(name, values.tolist(), ("leak",), writer.number)


def _plant_pair(writer: _Writer, refused: Any, female: Any, age: Any) -> None:
    r = writer.r
    one = r.integers(0, 4, writer.n)
    other = (one + np.where(refused, 0, r.integers(1, 4, writer.n))) % 4
    writer.add("Stelle", [f"S{k}" for k in one], ("leak",))
    writer.add("Stempel", [f"T{k}" for k in other], ("leak",))


def _plant_age(writer: _Writer, refused: Any, female: Any, age: Any) -> None:
    """A date of birth and a date of the form, whose difference is the age."""
    r = writer.r
    form = r.integers(15000, 19500, writer.n)
    born = np.floor(form - age * 365.25 - r.uniform(0, 365, writer.n)).astype(int)
    for name, days in (("Formular", form), ("Stichtag", born)):
        values = [dt.date(1970, 1, 1) + dt.timedelta(days=int(day)) for day in days]
        writer.add(name, values, ("derived",), writer.date)


def _plant_sex(writer: _Writer, refused: Any, female: Any, age: Any) -> None:
    """Two categories that only together are the sex."""
    r = writer.r
    key = r.integers(0, 2, writer.n)
    writer.add("Schlüssel", [f"K{k}" for k in key], ("derived",))
    writer.add("Kennung", [f"Z{k}" for k in key ^ female.astype(int)], ("derived",))


def _plant_tariff(writer: _Writer, refused: Any, female: Any, age: Any) -> None:
    """Numbers computed from age and sex."""
    tariff = np.round(40 + 3.0 * age + 25.0 * female, 1)
    writer.add("Tarif", tariff.tolist(), ("derived",), lambda value: writer.number(value, 1))


PLANTS = [
    _plant_nothing,
    _plant_difference,
    _plant_ratio,
    _plant_dates,
    _plant_three,
    _plant_pair,
    _plant_age,
    _plant_sex,
    _plant_tariff,
]


# ----------------------------------------------------------------------------------------- files


def _write_file(path: Path, header: list[str], rows: list[list[Any]], habit: Habit) -> None:
    if not habit.delimiter:
        write_workbook(path, {"Deckblatt": [["Auszug"]], "Daten": [header, *rows]})
        return
    with path.open("w", encoding=habit.encoding, errors="replace", newline="") as file:
        table = csv.writer(file, delimiter=habit.delimiter)
        table.writerow(header)
        table.writerows(rows)


def _same(found: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Whether values were read as they were meant."""
    for value, meant in zip(found, expected, strict=True):
        if value is None and meant in ("k.A.", "-", "n/a"):
            continue
        if isinstance(meant, int | float) and isinstance(value, int | float):
            if abs(value - meant) > 1e-9 * max(1.0, abs(meant)):
                return False
        elif isinstance(meant, str) and isinstance(value, str):
            if value != meant:
                return False
        elif str(value) != str(meant):
            return False
    return True
