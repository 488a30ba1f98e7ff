"""A contract in memory: what each column of a table is, may hold and is used for."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

from evenhand.data_contracts.column import ROLES, Column, finite, one_of, only_known
from evenhand.data_contracts.errors import ContractError, ContractViolation, Violation, did_you_mean
from evenhand.data_contracts.odcs import (
    COLUMN_PROPERTIES,
    CONTRACT_PROPERTIES,
    ContractDocument,
    PropertyDocument,
    custom_properties,
    parse_document,
)

__all__ = [
    "Column",
    "Contract",
    "ContractError",
    "ContractViolation",
    "Violation",
    "load_contract",
    "parse_contract",
    "shipped_contracts",
]


@dataclass(frozen=True)
class Contract:
    """What a table promises.

    Attributes
    ----------
    name, version, description : str
        Who it is.
    columns : tuple of Column
        In the order in which the table is kept.
    min_rows, max_rows : int or None
        Inclusive bounds on the number of rows; ``max_rows`` may be open.
    unseen_categories : {'error', 'ignore'}
        What the encoder does with a category that no training row had.
    on_violation : {'stop', 'quarantine'}
        Whether bad rows end the run, or are set aside.
    quarantine_share : float
        Largest share of rows that may be set aside, in [0, 1].
    missing_sensitive : {'error', 'own_group', 'drop'}
        What a missing value of a sensitive column means.
    """

    name: str
    version: str
    description: str
    columns: tuple[Column, ...]
    min_rows: int = 1
    max_rows: int | None = None
    unseen_categories: str = "error"
    on_violation: str = "stop"
    quarantine_share: float = 0.05
    missing_sensitive: str = "error"

    def __post_init__(self) -> None:
        """Refuse a contract whose parts do not fit together."""
        for key in ("name", "version"):
            if not isinstance(getattr(self, key), str) or not getattr(self, key).strip():
                raise ContractError(f"{key} of the contract is empty: give it one")
        where = f"contract '{self.name}'"
        one_of(where, "unseenCategories", self.unseen_categories, ("error", "ignore"))
        one_of(where, "onViolation", self.on_violation, ("stop", "quarantine"))
        one_of(where, "missingSensitive", self.missing_sensitive, ("error", "own_group", "drop"))
        share = finite(where, "quarantineShare", self.quarantine_share)
        if not 0.0 <= share <= 1.0:
            raise ContractError(f"{where}: quarantineShare is {share:g}, expected a share between 0 and 1")
        object.__setattr__(self, "quarantine_share", share)
        object.__setattr__(self, "columns", tuple(self.columns))
        if self.min_rows < 1:
            raise ContractError(
                f"{where}: the row count may not start below 1 (an empty table passes nothing)"
            )
        if self.max_rows is not None and self.max_rows < self.min_rows:
            raise ContractError(f"{where}: rowCount ends below its start: swap the bounds")
        self._check_columns(where)

    def _check_columns(self, where: str) -> None:
        names = [column.name for column in self.columns]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ContractError(f"{where}: column '{twice[0]}' is described twice: keep one of them")
        labels = [column for column in self.columns if column.role == "label"]
        if len(labels) != 1:
            raise ContractError(
                f"{where}: {len(labels) or 'no'} columns have role label, expected exactly one"
            )
        label = labels[0]
        if label.positive is None:
            raise ContractError(f"{where}: label '{label.name}' needs positive, the value that becomes 1")
        if not label.required:
            raise ContractError(f"{where}: label '{label.name}' needs required: true")
        if label.allowed is not None and len(label.allowed) != 2:
            raise ContractError(
                f"{where}: label '{label.name}' lists {len(label.allowed)} values, expected two"
            )
        if label.logical_type == "date":
            raise ContractError(f"{where}: label '{label.name}' is a date; expected a column with two values")
        if not self.features:
            raise ContractError(f"{where}: no column is a model input: give one the role feature")
        if self.missing_sensitive == "own_group":
            for column in self.sensitive:
                if column.is_feature and column.encoding != "onehot":
                    raise ContractError(
                        f"{where}: missingSensitive: own_group cannot encode a missing '{column.name}' as "
                        f"{column.encoding}: use error or drop, or encoding: onehot"
                    )

    @property
    def label(self) -> Column:
        """The column that is predicted."""
        return next(column for column in self.columns if column.role == "label")

    @property
    def features(self) -> tuple[Column, ...]:
        """The model inputs, sensitive ones with ``use: feature`` included."""
        return tuple(column for column in self.columns if column.is_feature)

    @property
    def sensitive(self) -> tuple[Column, ...]:
        """The sensitive columns, model inputs or not."""
        return tuple(column for column in self.columns if column.role == "sensitive")

    @property
    def ids(self) -> tuple[Column, ...]:
        """The columns that identify rows."""
        return tuple(column for column in self.columns if column.role == "id")

    def column(self, name: str) -> Column:
        """Return the column called ``name``, or raise ContractError naming the nearest one."""
        for column in self.columns:
            if column.name == name:
                return column
        known = [column.name for column in self.columns]
        raise ContractError(f"contract '{self.name}' has no column '{name}'{did_you_mean(name, known)}")

    def with_sensitive(self, names: Sequence[str]) -> Contract:
        """Return a copy in which ``names`` are sensitive and no model inputs, and all else is as it was.

        Raises
        ------
        ContractError
            Where a column is not there, is the label or an id, or is a number without bins.
        """
        for name in names:
            column = self.column(name)
            if column.role in ("label", "id"):
                raise ContractError(f"column '{name}' is the {column.role}, so it cannot be sensitive")
            if column.is_numeric and column.bins is None and column.allowed is None:
                raise ContractError(
                    f"column '{name}' is a number without groups: give it role: sensitive and bins "
                    "(cut points, such as [25]) in the contract"
                )
        hidden = {"role": "sensitive", "is_feature": False, "encoding": None, "positive": None}
        columns = [replace(c, **hidden) if c.name in names else c for c in self.columns]  # type: ignore[arg-type]
        return replace(self, columns=tuple(columns))

    def with_attributes(self, names: Sequence[str]) -> Contract:
        """Return a copy of which ``names`` are the only groups that anything is about.

        They are as :meth:`with_sensitive` makes them. Other sensitive columns become plain features where
        they are model inputs, and are ignored elsewhere: for learning only, since a check by this contract,
        or a table that leaves by it, would show their values.
        """
        whole = self.with_sensitive(names)
        return replace(whole, columns=tuple(_plain_unless(column, names) for column in whole.columns))

    @property
    def digest(self) -> str:
        """sha256 (hex) of the content: comments, key order and layout of the file do not count."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return the contract as plain JSON types."""
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**data, "columns": [column.to_dict() for column in self.columns]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Contract:
        """Rebuild a contract from :meth:`to_dict`."""
        only_known("contract", data, [field.name for field in fields(cls)])
        columns = tuple(Column.from_dict(column) for column in data["columns"])
        return cls(**{**data, "columns": columns})


def load_contract(name_or_path: str) -> Contract:
    """Load a contract that ships with the package, or one from a file.

    Parameters
    ----------
    name_or_path : str
        A shipped name, such as ``adult``, or the path of a YAML file.

    Returns
    -------
    Contract
        Checked.

    Raises
    ------
    ContractError
        Where there is no such contract (the nearest shipped name is given) or it is wrong.
    """
    name = str(name_or_path)
    if name in shipped_contracts():
        text = resources.files("evenhand.data_contracts").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
        return parse_contract(text, f"'{name}'")
    path = Path(name).expanduser()
    if path.suffix.lower() not in (".yaml", ".yml") and os.sep not in name and not path.is_file():
        raise ContractError(
            f"no shipped contract is called '{name}'{did_you_mean(name, shipped_contracts())} "
            "(or give the path of a .yaml file)"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ContractError(f"contract file '{name}' is not UTF-8 text: save it as UTF-8") from None
    except OSError as error:
        raise ContractError(f"contract file '{name}' cannot be read: {error.strerror}") from None
    return parse_contract(text, f"'{path.name}'")


def parse_contract(text: str, source: str = "text") -> Contract:
    """Make a contract from YAML text; see :func:`load_contract`."""
    document = parse_document(text, source)
    try:
        return _from_document(document)
    except ContractError as error:
        message = str(error)
        raise ContractError(message if source in message else f"contract {source}: {message}") from None


def shipped_contracts() -> list[str]:
    """Return the names of the contracts that ship with the package, sorted."""
    folder = resources.files("evenhand.data_contracts")
    return sorted(
        entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")
    )


def _from_document(document: ContractDocument) -> Contract:
    table = document.tables[0]
    extra = custom_properties(document.customProperties, CONTRACT_PROPERTIES, f"contract '{document.name}'")
    if len(table.quality) > 1:
        raise ContractError(f"contract '{document.name}': rowCount stands twice: keep one of them")
    low, high = table.quality[0].mustBeBetween if table.quality else (1, None)
    return Contract(
        name=document.name,
        version=document.version,
        description=document.description.purpose,
        columns=tuple(_column(item) for item in table.properties),
        min_rows=low,
        max_rows=high,
        unseen_categories=extra.get("unseenCategories", "error"),
        on_violation=extra.get("onViolation", "stop"),
        quarantine_share=extra.get("quarantineShare", 0.05),
        missing_sensitive=extra.get("missingSensitive", "error"),
    )


def _column(item: PropertyDocument) -> Column:
    where = f"column '{item.name}'"
    extra = custom_properties(item.customProperties, COLUMN_PROPERTIES, where)
    if "role" not in extra:
        raise ContractError(f"{where}: customProperties lacks role: say one of {', '.join(ROLES)}")
    if len(item.quality) > 1:
        raise ContractError(f"{where}: validValues stands twice: keep one of them")
    if extra.get("use") not in (None, "feature"):
        raise ContractError(f"{where}: use is {extra['use']!r}, expected feature (or leave it out)")
    if "use" in extra and extra["role"] != "sensitive":
        raise ContractError(f"{where}: use: feature is for sensitive columns only: remove it")
    bins = extra.get("bins")
    if bins is not None and not isinstance(bins, list):
        raise ContractError(f"{where}: bins is {bins!r}, expected a list such as [25]")
    return Column(
        name=item.name,
        logical_type=item.logicalType,
        required=item.required,
        description=item.description,
        minimum=item.logicalTypeOptions.minimum,
        maximum=item.logicalTypeOptions.maximum,
        allowed=tuple(item.quality[0].validValues) if item.quality else None,
        role=extra["role"],
        is_feature=extra["role"] == "feature" or extra.get("use") == "feature",
        positive=extra.get("positive"),
        encoding=extra.get("encoding"),
        bins=None if bins is None else tuple(bins),
    )


def _plain_unless(column: Column, names: Sequence[str]) -> Column:
    if column.name in names or column.role != "sensitive":
        return column
    return replace(column, role="feature" if column.is_feature else "ignore", bins=None)
