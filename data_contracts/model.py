"""A contract in memory: the type, values and role of each column, and the policies for the
table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from evenhand.data_contracts.column import Column, finite, one_of, only_known
from evenhand.data_contracts.errors import ContractError, did_you_mean

# Most values of a label: each is a class with metrics of its own.
MOST_CLASSES = 100
# How the descriptions of contracts begin that `init` wrote.
INFERRED = "Inferred from a table of "
# How `init` describes a column of them.
SAMPLING_WEIGHT = "a sampling weight"


@dataclass(frozen=True)
class Contract:
    """The columns of a table, their values and roles, and the policies for bad rows.

    Parameters
    ----------
    name, version : str
        Name of the table, and version of its contract.
    description : str
        Purpose of the table.
    columns : tuple of Column
        In the order of the checked table.
    min_rows : int, default 1
        Smallest number of rows.
    max_rows : int or None, default None
        Largest number of rows; None for no upper bound.
    unseen_categories : {"error", "ignore"}, default "error"
        Whether the encoder refuses a category that no training row had, or encodes it as zeros.
    on_violation : {"stop", "quarantine"}, default "stop"
        Whether bad rows end the run, or are set aside.
    quarantine_share : float, default 0.05
        Largest share of rows that may be set aside, in [0, 1].
    missing_sensitive : {"error", "own_group", "drop"}, default "error"
        Whether a missing value of a sensitive column is a violation, forms a group of its own, or
        removes its row.
    rules : {"observed", "stated"} or None, default None
        Whether `init` saw the rules for values in a table, or a person states them; None: the
        contract does not say.

    Raises
    ------
    ContractError
        If a value is not valid, or two parts contradict each other.
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
    rules: str | None = None

    def __post_init__(self) -> None:
        """Check every attribute, and that the columns fit together."""
        for key in ("name", "version"):
            if not isinstance(getattr(self, key), str) or not getattr(self, key).strip():
                raise ContractError(f"{key} of the contract is empty: give it one")
        where = f"contract '{self.name}'"
        one_of(where, "unseenCategories", self.unseen_categories, ("error", "ignore"))
        one_of(where, "onViolation", self.on_violation, ("stop", "quarantine"))
        one_of(where, "missingSensitive", self.missing_sensitive, ("error", "own_group", "drop"))
        if self.rules is not None:
            one_of(where, "rules", self.rules, ("observed", "stated"))
        share = finite(where, "quarantineShare", self.quarantine_share)
        if not 0.0 <= share <= 1.0:
            raise ContractError(
                f"{where}: quarantineShare is {share:g}, expected a share between 0 and 1"
            )
        object.__setattr__(self, "quarantine_share", share)
        object.__setattr__(self, "columns", tuple(self.columns))
        self._check_row_bounds(where)
        self._check_columns(where)

    def _check_row_bounds(self, where: str) -> None:
        if self.min_rows < 1:
            raise ContractError(
                f"{where}: the row count may not start below 1 (an empty table passes nothing)"
            )
        if self.max_rows is not None and self.max_rows < self.min_rows:
            raise ContractError(f"{where}: rowCount ends below its start: swap the bounds")

    def _check_columns(self, where: str) -> None:
        names = [column.name for column in self.columns]
        repeated_names = sorted({name for name in names if names.count(name) > 1})
        if repeated_names:
            raise ContractError(
                f"{where}: column '{repeated_names[0]}' is described twice: keep one of them"
            )
        labels = [column for column in self.columns if column.role == "label"]
        if len(labels) != 1:
            raise ContractError(
                f"{where}: {len(labels) or 'no'} columns have role label, expected exactly one"
            )
        _check_label(where, labels[0])
        if not self.features:
            raise ContractError(f"{where}: no column is a model input: give one the role feature")
        if self.missing_sensitive == "own_group":
            self._check_missing_group(where)

    def _check_missing_group(self, where: str) -> None:
        """Check that missing values of each sensitive column can be encoded as a group."""
        for column in self.sensitive:
            if column.is_feature and column.encoding != "onehot":
                raise ContractError(
                    f"{where}: missingSensitive: own_group cannot encode a missing "
                    f"'{column.name}' as {column.encoding}: use error or drop, or encoding: onehot"
                )

    @property
    def rules_observed(self) -> bool:
        """True if nobody states the rules for values: a row outside them is unusual and not wrong.

        Contracts that `init` wrote before they had `rules` are recognised by their description.
        """
        if self.rules is None:
            return self.description.startswith(INFERRED)
        return self.rules == "observed"

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

    def column(self, name: str) -> Column:
        """Return the column called ``name``, or raise ContractError naming the nearest one.

        Parameters
        ----------
        name : str
            Name of the column.

        Returns
        -------
        Column

        Raises
        ------
        ContractError
            If the contract has no such column.
        """
        for column in self.columns:
            if column.name == name:
                return column
        names = [column.name for column in self.columns]
        raise ContractError(
            f"contract '{self.name}' has no column '{name}'{did_you_mean(name, names)}"
        )

    def with_sensitive(self, names: Sequence[str]) -> Contract:
        """Return a copy in which the columns ``names`` are sensitive and no model inputs.

        Parameters
        ----------
        names : sequence of str
            Names of columns.

        Returns
        -------
        Contract

        Raises
        ------
        ContractError
            If a column does not exist, is the label or an id, or is a number without bins.
        """
        for name in names:
            column = self.column(name)
            if column.role in ("label", "id"):
                raise ContractError(
                    f"column '{name}' is the {column.role}, so it cannot be sensitive"
                )
            if column.is_numeric and column.bins is None and column.allowed is None:
                raise ContractError(
                    f"column '{name}' is a number without groups: give it role: sensitive and bins "
                    "(cut points, such as [25]) in the contract"
                )
        columns = []
        for column in self.columns:
            if column.name in names:
                column = column.no_input("sensitive")
            columns.append(column)
        return replace(self, columns=tuple(columns))

    def without_inputs(self, names: Sequence[str]) -> Contract:
        """Return a copy in which the columns ``names`` are no model inputs: sensitive ones or
        ignored.

        Parameters
        ----------
        names : sequence of str
            Names of columns; those that the contract lacks have no effect.

        Returns
        -------
        Contract
        """
        columns = []
        for column in self.columns:
            if column.name in names:
                role = "sensitive" if column.role == "sensitive" else "ignore"
                column = column.no_input(role)
            columns.append(column)
        return replace(self, columns=tuple(columns))

    def with_attributes(self, names: Sequence[str]) -> Contract:
        """Return a copy in which the columns ``names`` are the only sensitive ones, and no model
        inputs.

        The other sensitive columns become plain features if they are model inputs, and are ignored
        otherwise. Use the copy for learning only: a check by it would quote values of columns that
        are sensitive in this contract.

        Parameters
        ----------
        names : sequence of str
            Names of columns.

        Returns
        -------
        Contract

        Raises
        ------
        ContractError
            As :meth:`with_sensitive`.
        """
        columns = []
        for column in self.with_sensitive(names).columns:
            if column.role == "sensitive" and column.name not in names:
                role = "feature" if column.is_feature else "ignore"
                column = replace(column, role=role, bins=None)
            columns.append(column)
        return replace(self, columns=tuple(columns))

    @property
    def value_names(self) -> dict[str, dict[str, str]]:
        """Names of coded values, by column and by value as text; columns without names are left
        out.
        """
        return {
            column.name: dict(column.value_names) for column in self.columns if column.value_names
        }

    def without_value_names(self) -> Contract:
        """Return a copy without names of values: the contract that steps get, so that names change
        no key.
        """
        columns = tuple(replace(column, value_names=None) for column in self.columns)
        return replace(self, columns=columns)

    def without_other(self) -> Contract:
        """Return a copy that reads no category as another one."""
        if all(column.other is None for column in self.columns):
            return self
        columns = tuple(replace(column, other=None) for column in self.columns)
        return replace(self, columns=columns)

    @property
    def unused_weights(self) -> tuple[str, ...]:
        """Names of ignored columns that `init` described as sampling weights."""
        names = []
        for column in self.columns:
            if column.role == "ignore" and SAMPLING_WEIGHT in column.description:
                names.append(column.name)
        return tuple(names)

    @property
    def legitimate(self) -> tuple[str, ...]:
        """Names of the model inputs whose differences between groups may count."""
        return tuple(column.name for column in self.features if column.legitimate)

    def without_legitimate(self) -> Contract:
        """Return a copy that marks no column as legitimate: only fair metrics depend on it, and a
        job states them.
        """
        columns = tuple(replace(column, legitimate=None) for column in self.columns)
        return replace(self, columns=columns)

    def without_favourable(self) -> Contract:
        """Return a copy that does not say which outcome is favourable: only measuring depends on
        it.
        """
        columns = tuple(replace(column, favourable=None) for column in self.columns)
        return replace(self, columns=columns)

    @property
    def case_terms(self) -> dict[str, dict[str, Any]]:
        """What case files need of each column: ``changeable`` and ``adverse_reason`` by language;
        columns without either are left out.
        """
        terms: dict[str, dict[str, Any]] = {}
        for column in self.columns:
            stated: dict[str, Any] = {}
            if column.changeable:
                stated["changeable"] = column.changeable
            reasons: Any = column.adverse_reason
            if reasons:
                stated["adverse_reason"] = dict(reasons)
            if stated:
                terms[column.name] = stated
        return terms

    def without_case_terms(self) -> Contract:
        """Return a copy that does not say what case files need: the contract that steps get, so
        that these texts change no key.
        """
        columns = []
        for column in self.columns:
            columns.append(replace(column, changeable=None, adverse_reason=None))
        return replace(self, columns=tuple(columns))

    @property
    def digest(self) -> str:
        """sha256 (hex) of :meth:`to_dict`: independent of comments, key order, layout and names of
        values.

        Nor does it depend on which outcome is favourable, so that models which were published
        before contracts had `favourable` can be compared with later ones, or on which columns are
        legitimate: models whose fair metrics differ can be compared. Texts and marks for case files
        do not count either.
        """
        measured = self.without_value_names().without_favourable().without_legitimate()
        plain = measured.without_case_terms().to_dict()
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return the contract as plain JSON types."""
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.rules is None:
            del data["rules"]  # the digests of contracts without it stay
        return {**data, "columns": [column.to_dict() for column in self.columns]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Contract:
        """Create a contract from :meth:`to_dict`.

        Parameters
        ----------
        data : mapping of str to value
            Attributes of the contract by name.

        Returns
        -------
        Contract

        Raises
        ------
        ContractError
            If an attribute is unknown or its value is not valid.
        """
        only_known("contract", data, [field.name for field in fields(cls)])
        columns = tuple(Column.from_dict(column) for column in data["columns"])
        return cls(**{**data, "columns": columns})


def _check_label(where: str, label: Column) -> None:
    listed = len(label.allowed or ())
    has_outcomes = label.positive is not None or label.at_least is not None
    if not has_outcomes and listed < 3:
        raise ContractError(
            f"{where}: label '{label.name}' needs positive, the value that becomes 1, or "
            "validValues with three classes or more, or of numbers atLeast, a threshold"
        )
    if not label.required:
        raise ContractError(f"{where}: label '{label.name}' needs required: true")
    if label.positive is not None and label.allowed is not None and listed != 2:
        raise ContractError(
            f"{where}: label '{label.name}' has positive and lists {listed} values, expected "
            "two: remove positive if each value is a class"
        )
    if listed > MOST_CLASSES:
        raise ContractError(
            f"{where}: label '{label.name}' lists {listed} classes: join some, at most "
            f"{MOST_CLASSES} are possible"
        )
    if label.logical_type == "date":
        raise ContractError(
            f"{where}: label '{label.name}' is a date; expected a column with two values"
        )
