"""Options on how a table's text is read, and what `evenhand init` says of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from evenhand.data_contracts.arrow import converted_text, unlisted
from evenhand.data_contracts.errors import ContractError, did_you_mean
from evenhand.data_contracts.inference import ignored
from evenhand.flows.data_source import checked_section
from evenhand.flows.job import TableSource, check_encoding
from evenhand.tasks.errors import InputError

if TYPE_CHECKING:
    from evenhand.data_contracts.inference import Columns
    from evenhand.data_contracts.model import Contract
    from evenhand.data_contracts.spellings import Spellings
    from evenhand.tasks.sources.table_forms import Preview, TableForms

# So many columns of too many categories, and this share of the possible model inputs, are no
# accident.
FEWEST_LOST = 3
LOST_SHARE = 1 / 3
SHOWN = 8
MARKS = ("comma", "point")
ORDERS = ("day-first", "month-first", "year-first")


def stated_forms(
    encoding: str | None,
    decimal: Sequence[str] | None,
    dates: Sequence[str] | None,
    sheet: str | None = None,
) -> dict[str, Any]:
    """Return the keys of a job's ``table`` that the options state.

    Raises `InputError` for a value that a job would refuse.
    """
    forms: dict[str, Any] = {}
    if encoding is not None:
        try:
            forms["encoding"] = check_encoding(encoding)
        except ValueError as error:
            raise InputError(f"--encoding {error}.") from None
    if decimal:
        forms["decimal"] = _by_column("--decimal", decimal, MARKS)
    if dates:
        forms["dates"] = _by_column("--dates", dates, ORDERS)
    if sheet is not None:
        if not sheet.strip():
            raise InputError("--sheet is empty: give a sheet's name, or its number from 1.")
        forms["sheet"] = sheet
    checked_section(TableSource, "table", {"name": "table", **forms})
    return forms


def form_overrides(section: str, forms: Mapping[str, Any]) -> list[str]:
    """Return the options on forms as ``KEY=VALUE`` strings of a section, such as ``table``."""
    return [f"{section}.{key}={json.dumps(form)}" for key, form in forms.items()]


def refuse_repeated(forms: TableForms, option: str, names: Sequence[str], table: str) -> None:
    """Raise `InputError` where an option names a column whose name the header has twice."""
    for name in names:
        if name in forms.repeated:
            raise InputError(
                f"{option} {name!r}: the column name occurs more than once in {table}: rename all "
                "but one."
            )


def _by_column(option: str, given: Sequence[str], known: Sequence[str]) -> str | dict[str, str]:
    """Return one form for all columns, or forms by column."""
    by_column: dict[str, str] = {}
    general = ""
    for text in given:
        column, equals, form = text.rpartition("=")
        if form not in known:
            raise InputError(
                f"{option} {text!r}: expected {', '.join(known)}, or COLUMN={known[0]}."
            )
        if equals:
            by_column[column] = form
        else:
            general = form
    if general and (by_column or len(given) > 1):
        raise InputError(
            f"{option} is given for all columns and again: keep one, or name every column."
        )
    return general or by_column


def without_columns(contract: Contract, names: Sequence[str]) -> Contract:
    """Return a contract in which some columns are no model inputs.

    Raises `ContractError` for a column that is not there or has another role.
    """
    column_names = [column.name for column in contract.columns]
    columns = list(contract.columns)
    for name in names:
        if name not in column_names:
            raise ContractError(
                f"--ignore column '{name}' is not in the table{did_you_mean(name, column_names)}"
            )
        place = column_names.index(name)
        role = columns[place].role
        if role in ("label", "sensitive"):
            raise ContractError(
                f"column '{name}' is named with --ignore and is the {role}: choose one"
            )
        columns[place] = ignored(columns[place], "as asked")
    return replace(contract, columns=tuple(columns))


def with_legitimate(contract: Contract, names: Sequence[str]) -> Contract:
    """Return a contract that marks some model inputs as legitimate.

    Raises `ContractError` for a column that is not there, or is sensitive or no model input.
    """
    column_names = [column.name for column in contract.columns]
    columns = list(contract.columns)
    for name in names:
        if name not in column_names:
            raise ContractError(
                f"--legitimate column '{name}' is not in the table"
                f"{did_you_mean(name, column_names)}"
            )
        place = column_names.index(name)
        column = columns[place]
        if column.role == "sensitive":
            raise ContractError(
                f"column '{name}' is named with --legitimate and is sensitive: leave it out of one"
            )
        if column.role != "feature":
            raise ContractError(
                f"column '{name}' is named with --legitimate and is no model input (role "
                f"{column.role}): leave it out"
            )
        columns[place] = replace(column, legitimate=True)
    return replace(contract, columns=tuple(columns))


def refuse_lost_columns(contract: Contract) -> None:
    """Raise `InputError` where many columns would be left out for too many categories."""
    lost = [
        column.name
        for column in contract.columns
        if column.role == "ignore" and "too many categories" in column.description
    ]
    inputs = sum(column.role == "feature" for column in contract.columns)
    if len(lost) < FEWEST_LOST or len(lost) < LOST_SHARE * (inputs + len(lost)):
        return
    names = ", ".join(lost[:SHOWN])
    if len(lost) > SHOWN:
        names += f" and {len(lost) - SHOWN} more"
    raise InputError(
        f"{len(lost)} of {inputs + len(lost)} columns have too many categories to be model inputs: "
        f"{names}. If they hold numbers or dates, state how these are written with --decimal, "
        f"--dates or --encoding; leave the others out with --ignore {lost[0]}."
    )


def partly_read(contract: Contract, partly: Mapping[str, str]) -> list[str]:
    """Return warnings on ignored columns that would be numbers or dates but for some values."""
    names = [column.name for column in contract.columns if column.role == "ignore"]
    return [f"{partly[name]}, so it is ignored: correct them" for name in names if name in partly]


def shown_previews(previews: Sequence[Preview], contract: Contract) -> list[dict[str, Any]]:
    """Return the values of columns before and after they are read, of those that may be quoted."""
    quotable = {column.name for column in contract.columns if column.shows_values}
    documents = []
    for preview in previews:
        if preview.column in quotable:
            documents.append(
                {"column": preview.column, "before": preview.before, "after": preview.after}
            )
    return documents


def preview_lines(previews: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each column: its first values, each with what it is read as."""
    lines = []
    for preview in previews:
        pairs = zip(preview["before"], preview["after"], strict=True)
        values = "  ".join(f"{before.strip()} → {after}" for before, after in pairs)
        lines.append(f"{preview['column']}: {values}")
    return lines


def with_spellings(forms: TableForms, spellings: Spellings) -> TableForms:
    """Return forms by which other spellings of categories are read as one value."""
    joined = {column: dict(values) for column, values in spellings.items()}
    return replace(forms, keys={**forms.keys, "spellings": joined})


def spelling_notes(forms: TableForms) -> list[str]:
    """Return a note on the spellings that are read as one value."""
    spellings = forms.keys.get("spellings")
    if not spellings:
        return []
    return [f"read as one value each (table.spellings): {described_spellings(spellings)}"]


def without_rare_spellings(forms: TableForms, contract: Contract) -> TableForms:
    """Return forms without spellings of values that the contract reads as another value, as they
    are of few people.
    """
    if "spellings" not in forms.keys:
        return forms
    remaining = dict(forms.keys["spellings"])
    for column in contract.columns:
        if column.other is not None and column.name in remaining:
            allowed = column.allowed or ()
            proposals = remaining.pop(column.name)
            joined = {
                spelling: variants
                for spelling, variants in proposals.items()
                if spelling in allowed
            }
            if joined:
                remaining[column.name] = joined
    keys = {**forms.keys, "spellings": remaining}
    if not remaining:
        del keys["spellings"]
    return replace(forms, keys=keys)


def rare_warnings(table: Columns, contract: Contract, least_people: int) -> list[str]:
    """Return a warning on columns whose values of few people are read as one."""
    counts = []
    for column in contract.columns:
        if column.other is not None:
            values = converted_text(table.column(column.name), column)
            rare = pc.count_distinct(values.filter(unlisted(values, column))).as_py()
            counts.append(f"{rare} of {column.name}")
    if not counts:
        return []
    return [
        f"values of fewer than {least_people} people are read as one and not named: "
        f"{', '.join(counts)}; give --keep-rare to keep them"
    ]


def spelling_warnings(contract: Contract, spellings: Spellings) -> list[str]:
    """Return warnings on categories that seem to be one, and are read as they stand."""
    warnings = []
    for column in contract.columns:
        if column.role in ("id", "ignore") or column.name not in spellings:
            continue
        proposals = spellings[column.name]
        if column.other is not None:
            # a value of few people is not quoted
            proposals = _with_values(proposals, column.allowed or ())
        if not proposals:
            continue
        described = _described(column.name, proposals)
        warnings.append(
            f"values that seem to be one, and are read as they stand: {described}; to read them as "
            "one, give --join-spellings, or write table.spellings into the job"
        )
    return warnings


def _with_values(
    values: Mapping[str, Sequence[str]], allowed: Sequence[Any]
) -> dict[str, list[str]]:
    """Return a column's spellings of which both the value that stays and the other are allowed."""
    quotable: dict[str, list[str]] = {}
    for spelling, variants in values.items():
        listed = [variant for variant in variants if variant in allowed]
        if spelling in allowed and listed:
            quotable[spelling] = listed
    return quotable


def described_spellings(spellings: Spellings) -> str:
    """Return the values of columns with their other spellings."""
    return "; ".join(_described(column, values) for column, values in spellings.items())


def _described(column: str, values: Mapping[str, Sequence[str]]) -> str:
    """Return a column's values with their other spellings."""
    texts = []
    for spelling, variants in list(values.items())[:SHOWN]:
        texts.append(f"{', '.join(map(repr, variants))} as {spelling!r}")
    if len(values) > SHOWN:
        texts.append(f"and {len(values) - SHOWN} more")
    return f"{column} {', '.join(texts)}"
