"""The rules of ``check_batch`` about a batch's features, in Arrow, many times a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenhand.data_contracts.errors import Violation
from evenhand.data_contracts.model import Column
from evenhand.data_contracts.suites import needs_value
from evenhand.fairlib.preprocessing.encoder import MISSING, category_name
from evenhand.fairlib.proxies.columns import null_mask
from evenhand.tasks.filtering.bundle import ProxyBundle

__all__ = ["Verdict", "check_features"]

Mask = NDArray[np.bool_]


@dataclass
class Verdict:
    """
    What the rules say about a batch.

    Attributes
    ----------
    rows : int
    bad : ndarray of bool or None
        Rows that break a rule; None: none does.
    dropped : ndarray of bool or None
        Rows that lack a sensitive feature, where the contract leaves these out.
    violations : list of Violation
        Without example values.
    """

    rows: int
    bad: Mask | None = None
    dropped: Mask | None = None
    violations: list[Violation] = field(default_factory=list)

    @property
    def set_aside(self) -> Mask | None:
        """Bad rows that are not left out anyway."""
        if self.bad is None or self.dropped is None:
            return self.bad
        return self.bad & ~self.dropped

    def broken(self, mask: Mask, column: str, expectation: str, found: str, cure: str) -> None:
        """Note the rows that break a rule."""
        self.bad = mask if self.bad is None else self.bad | mask
        count = int(mask.sum())
        words = f"{count:,} of {self.rows:,} rows {found}"
        self.violations.append(Violation(column, expectation, count, (), cure, "row", words))


def check_features(values: Mapping[str, pa.Array], bundle: ProxyBundle) -> Verdict:
    """
    Check the features of a batch.

    Parameters
    ----------
    values : mapping of str to Array
        Every feature in its contract's type.
    bundle : ProxyBundle
        With ``unseenCategories: error`` a category that no training row had breaks the contract too.
    """
    contract = bundle.contract
    verdict = Verdict(len(values[bundle.features[0]]))
    for name in bundle.features:
        column = contract.column(name)
        missing = null_mask(values[name])
        if missing is not None:
            _missing(verdict, column, missing, bundle)
        nonfinite = _nonfinite(verdict, column, values[name])
        _allowed(verdict, column, values[name], nonfinite)
        _range(verdict, column, values[name], nonfinite)
        _unseen(verdict, name, values[name], missing, bundle)
    return verdict


def _missing(verdict: Verdict, column: Column, missing: Mask, bundle: ProxyBundle) -> None:
    contract = bundle.contract
    if column.role == "sensitive" and contract.missing_sensitive == "drop":
        verdict.dropped = missing if verdict.dropped is None else verdict.dropped | missing
    if needs_value(column, contract):
        cure = "fill the values, drop the rows, or set required: false in the contract"
        verdict.broken(missing, column.name, "no missing values", "without a value", cure)


def _nonfinite(verdict: Verdict, column: Column, values: pa.Array) -> Mask | None:
    if column.logical_type != "number":
        return None
    mask = _where(values, lambda items: pc.invert(pc.is_finite(items)))
    if mask is not None:
        cure = "write missing numbers as empty (null) and correct the rest"
        verdict.broken(mask, column.name, "finite numbers", "with NaN or infinity", cure)
    return mask


def _allowed(verdict: Verdict, column: Column, values: pa.Array, nonfinite: Mask | None) -> None:
    if column.allowed is None:
        return
    allowed = pa.array(column.allowed)
    # the column's own type may be too narrow for some of them
    mask = _where(values, lambda items: pc.invert(pc.is_in(items.cast(allowed.type), allowed)))
    if mask is not None and nonfinite is not None:
        mask = mask & ~nonfinite
    if mask is not None and mask.any():
        cure = "correct the values, or add them to validValues in the contract"
        verdict.broken(
            mask, column.name, f"one of {len(column.allowed)} allowed values", "with another value", cure
        )


def _range(verdict: Verdict, column: Column, values: pa.Array, nonfinite: Mask | None) -> None:
    low, high = column.minimum, column.maximum
    if low is None and high is None:
        return
    if not pa.types.is_dictionary(values.type) and nonfinite is None:
        least, most = pc.min_max(values).values()
        if not _outside(least, low, high) and not _outside(most, low, high):
            return

    def outside(items: pa.Array) -> pa.Array:
        sides = []
        if low is not None:
            sides.append(pc.less(items, pa.scalar(low)))
        if high is not None:
            sides.append(pc.greater(items, pa.scalar(high)))
        return pc.or_(*sides) if len(sides) == 2 else sides[0]

    mask = _where(values, outside)
    if mask is not None and nonfinite is not None:
        mask = mask & ~nonfinite
    if mask is not None and mask.any():
        words = " and ".join(
            f"{word} {bound}" for word, bound in (("at least", low), ("at most", high)) if bound is not None
        )
        cure = "correct the values, or widen logicalTypeOptions in the contract"
        verdict.broken(mask, column.name, f"values of {words}", "outside", cure)


def _outside(value: pa.Scalar, low: Any, high: Any) -> bool:
    found = value.as_py()
    return found is not None and ((low is not None and found < low) or (high is not None and found > high))


def _unseen(verdict: Verdict, name: str, values: pa.Array, missing: Mask | None, bundle: ProxyBundle) -> None:
    known = bundle.raw.encoder.categories_.get(name)
    if known is None or bundle.raw.encoder.unseen == "ignore":
        return

    def unseen(items: pa.Array) -> pa.Array:
        return pa.array(
            [value is not None and category_name(value) not in known for value in items.to_pylist()]
        )

    masks = [_where(values, unseen), missing if MISSING not in known else None]
    found = [mask for mask in masks if mask is not None]
    if not found:
        return
    mask = np.logical_or.reduce(found)
    for reported in (verdict.bad, verdict.dropped):
        mask = mask if reported is None else mask & ~reported
    if mask.any():
        cure = "correct the values, or set unseenCategories: ignore and publish the proxy again"
        verdict.broken(mask, name, "categories that training rows had", "with another", cure)


def _where(values: pa.Array, breaks: Callable[[pa.Array], pa.Array]) -> Mask | None:
    """Rows whose value breaks a rule, by way of the dictionary if there is one; a missing one breaks none."""
    items = values.dictionary if pa.types.is_dictionary(values.type) else values
    found = breaks(items).fill_null(False)
    if items.null_count:
        found = pc.and_(found, items.is_valid())
    mask = np.asarray(found.to_numpy(zero_copy_only=False), dtype=bool)
    if not mask.any():
        return None
    if items is values:
        return mask
    indices = values.indices.fill_null(0).to_numpy(zero_copy_only=False)
    rows = mask[indices]
    if values.indices.null_count:
        rows &= values.indices.is_valid().to_numpy(zero_copy_only=False)
    return rows if rows.any() else None
