"""Copies of encoded rows against the encoding of changed table rows."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evenhand.fairlib.preprocessing.counterfactuals import encoded_copies
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder

SPECS = [
    ColumnSpec("income", "standard"),
    ColumnSpec("gaps", "standard"),
    ColumnSpec("points", "unit", None, 0, 30),
    ColumnSpec("since", "date"),
    ColumnSpec("job", "onehot"),
    ColumnSpec("level", "onehot"),
    ColumnSpec("owner", "binary", "true"),
    ColumnSpec("sex", "binary", "F"),
]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Columns of every kind, some with missing values."""
    rng = np.random.default_rng(0)
    n = 60
    return pd.DataFrame(
        {
            "income": rng.normal(3000, 800, n).round(2),
            "gaps": np.where(rng.random(n) < 0.3, np.nan, rng.integers(0, 9, n)),
            "since": [
                dt.date(2020, 1, 1) + dt.timedelta(days=int(d)) for d in rng.integers(0, 900, n)
            ],
            "job": rng.choice(["clerk", "smith", None], n),
            "level": rng.integers(1, 5, n),
            "owner": rng.random(n) < 0.5,
            "sex": rng.choice(["F", "M"], n),
            "points": np.where(rng.random(n) < 0.3, np.nan, rng.integers(0, 31, n)),
        }
    )


@pytest.fixture(scope="module")
def encoder(frame: pd.DataFrame) -> TableEncoder:
    return TableEncoder(SPECS).fit(frame.iloc[:40])


def changed_rows(frame: pd.DataFrame, values: dict[str, Any]) -> pd.DataFrame:
    """The table, had everybody these values."""
    copy = frame.copy()
    for column, value in values.items():
        copy[column] = value
    return copy


@pytest.mark.parametrize(
    "changes",
    [
        {"income": [1000, 2500.5]},
        {"gaps": [0, 3.0, 8]},
        {"gaps": [np.nan, 1]},
        {"points": [0, 7.5, 30]},
        {"points": [np.nan, 30]},
        {"since": ["2019-05-05", "2024-02-29"]},
        {"since": [dt.date(2021, 3, 4), dt.date(2022, 3, 4)]},
        {"job": ["clerk", "smith"]},
        {"job": [None, "smith"]},
        {"level": [1, 4]},
        {"level": ["2", 3.0]},
        {"owner": [True, False]},
        {"sex": ["M", "F"]},
        {"sex": ["F", "M"], "level": [1, 2, 3], "income": [0.0, 1e6]},
    ],
    ids=str,
)
def test_a_copy_is_the_encoding_of_the_changed_rows(
    changes: dict[str, list[Any]], frame: pd.DataFrame, encoder: TableEncoder
) -> None:
    copies = encoded_copies(encoder, encoder.transform(frame), changes)
    combinations = list(itertools.product(*changes.values()))
    assert len(copies) == len(combinations)
    for copy, values in zip(copies, combinations, strict=True):
        expected = encoder.transform(changed_rows(frame, dict(zip(changes, values, strict=True))))
        assert copy.dtype == np.float32
        np.testing.assert_array_equal(copy, expected)


@pytest.mark.parametrize("column", ["job", "level", "owner", "sex"])
def test_all_means_every_category_seen_in_training(
    column: str, frame: pd.DataFrame, encoder: TableEncoder
) -> None:
    seen = frame[column].iloc[:40].unique()
    copies = encoded_copies(encoder, encoder.transform(frame), {column: "all"})
    expected = [encoder.transform(changed_rows(frame, {column: value})) for value in seen]
    assert len(copies) == len(expected) >= 2
    for matrix in expected:
        assert sum(np.array_equal(matrix, copy) for copy in copies) == 1


def test_the_rows_themselves_stay_as_they_are(frame: pd.DataFrame, encoder: TableEncoder) -> None:
    X = encoder.transform(frame)
    before = X.copy()
    copies = encoded_copies(encoder, X, {"sex": "all", "job": "all"})
    np.testing.assert_array_equal(X, before)
    # each row is one of its own copies
    own = np.any([(copy == X).all(axis=1) for copy in copies], axis=0)
    assert own.all()


def test_no_change_is_one_copy(frame: pd.DataFrame, encoder: TableEncoder) -> None:
    X = encoder.transform(frame)
    (copy,) = encoded_copies(encoder, X, {})
    np.testing.assert_array_equal(copy, X)


def test_a_loaded_encoder_makes_the_same_copies(
    frame: pd.DataFrame, encoder: TableEncoder, tmp_path: Any
) -> None:
    encoder.save(tmp_path / "encoder.json")
    X, changes = encoder.transform(frame), {"gaps": [2], "owner": "all"}
    loaded = TableEncoder.load(tmp_path / "encoder.json")
    for one, other in zip(
        encoded_copies(encoder, X, changes), encoded_copies(loaded, X, changes), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_an_unseen_category_is_zeros_where_the_contract_says_so(
    frame: pd.DataFrame,
) -> None:
    lenient = TableEncoder(SPECS, "ignore").fit(frame.iloc[:40])
    (copy,) = encoded_copies(lenient, lenient.transform(frame), {"job": ["pilot"]})
    np.testing.assert_array_equal(copy[:, lenient.groups_["job"]], 0.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"jobs": "all"}, "'jobs', which the encoder lacks"),
        ({"income": "all"}, "'income' holds numbers: list values, not all"),
        ({"since": "all"}, "'since' holds numbers"),
        ({"points": "all"}, "'points' holds numbers"),
        ({"job": ["pilot"]}, "'job' has 1 rows with a category unseen in training"),
        ({"income": ["lots"]}, "'income' has values that are no number"),
        ({"since": ["soon"]}, "'since' has values that are no date"),
    ],
)
def test_errors_name_the_column(
    changes: dict[str, Any], message: str, frame: pd.DataFrame, encoder: TableEncoder
) -> None:
    with pytest.raises(ValueError, match=message):
        encoded_copies(encoder, encoder.transform(frame), changes)


@pytest.mark.parametrize("shape", [(3, 2), (11,)])
def test_rows_of_another_table_are_refused(shape: tuple[int, ...], encoder: TableEncoder) -> None:
    with pytest.raises(
        ValueError, match=f"rows of the encoder's {len(encoder.feature_names_)} columns"
    ):
        encoded_copies(encoder, np.zeros(shape), {"sex": "all"})
