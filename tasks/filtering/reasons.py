"""Reasons of predictions in the contract's words: the columns that moved each of them most."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenhand.data_contracts.column import value_text
from evenhand.fairlib.catalogue import spoken

# A smaller contribution would be shown as 0.00.
LEAST = 0.005
LEAD = "principal reasons: "


def reason_texts(
    found: NDArray[np.float64],
    rows: pa.RecordBatch,
    columns: list[str],
    names: Mapping[str, Mapping[str, str]],
    most: int,
    negative: NDArray[np.bool_] | None,
) -> pa.Array:
    """Largest contributions of each of n rows as text, ``hours per week: 60 (+0.41); job: clerk (-0.20)``.

    `found`, shape (n, columns), are contributions to the log-odds, `names` the contract's names of values,
    and `most` is the number of reasons. With `negative`, which rows have the negative decision, only these
    have reasons, those that lowered the probability, without numbers: principal reasons of adverse action.
    """
    adverse = negative is not None
    weight = -found if adverse else np.abs(found)
    order = np.argsort(-weight, axis=1, kind="stable")[:, :most]
    used = np.take_along_axis(weight, order, axis=1) >= LEAST
    if negative is not None:
        used &= negative[:, None]
    texts = np.full(order.shape, "", dtype=object)
    for place, column in enumerate(columns):
        where = used & (order == place)
        at = np.nonzero(where)[0]
        said = _values(rows.column(column).take(pa.array(at)), names.get(column, {}))
        lead = f"{spoken(column.replace('-', ' '))}: "
        sizes = np.char.mod(" (%+.2f)", found[at, place]).astype(object)
        texts[where] = lead + said + ("" if adverse else sizes)
    joined = texts[:, 0].copy()
    for more in texts[:, 1:].T:
        joined = joined + np.where(more == "", "", "; ") + more
    return pa.array((LEAD if adverse else "") + joined, pa.string(), mask=joined == "")


def _values(values: pa.Array, names: Mapping[str, str]) -> NDArray[np.object_]:
    """Text of each value; every distinct one is written once."""
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    plain = [None if v is None else value_text(v) for v in values.dictionary.to_pylist()]
    texts = np.array([*("missing" if v is None else names.get(v, v) for v in plain), "missing"], dtype=object)
    return texts[values.indices.cast(pa.int64()).fill_null(len(plain)).to_numpy()]
