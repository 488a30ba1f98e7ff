from __future__ import annotations

import copy
import datetime as dt
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.fairlib.preprocessing.encoder import (
    ColumnSpec,
    TableEncoder,
    UnseenCategories,
    category_counts,
    category_name,
)

SPECS = [
    ColumnSpec("age", "standard"),
    ColumnSpec("sex", "binary", "F"),
    ColumnSpec("job", "onehot"),
]


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [20, 30, 40, 50],
            "sex": ["F", "M", "F", "F"],
            "job": ["cook", "baker", "cook", "diver"],
        }
    )


def test_matrix_equals_the_one_by_hand(frame: pd.DataFrame) -> None:
    encoder = TableEncoder(SPECS).fit(frame)
    deviation = np.sqrt(125.0)  # population deviation of 20, 30, 40, 50
    expected = [
        [-15 / deviation, 1, 0, 1, 0],
        [-5 / deviation, 0, 1, 0, 0],
        [5 / deviation, 1, 0, 1, 0],
        [15 / deviation, 1, 0, 0, 1],
    ]
    got = encoder.transform(frame)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, rtol=1e-7)
    assert encoder.feature_names_ == ["age", "sex=F", "job=baker", "job=cook", "job=diver"]
    assert encoder.groups_ == {"age": [0], "sex": [1], "job": [2, 3, 4]}
    assert encoder.kinds_ == {
        "age": "standard",
        "sex=F": "binary",
        "job=baker": "onehot",
        "job=cook": "onehot",
        "job=diver": "onehot",
    }
    assert encoder.categories_ == {"sex": ("M", "F"), "job": ("baker", "cook", "diver")}


def test_test_rows_are_encoded_with_what_training_rows_say(frame: pd.DataFrame) -> None:
    encoder = TableEncoder(SPECS).fit(frame)
    before = encoder.transform(frame)
    other = pd.DataFrame({"age": [35, 1000], "sex": ["M", "M"], "job": ["diver", "diver"]})
    got = encoder.transform(other)
    np.testing.assert_allclose(got[:, 0], [0.0, 965 / np.sqrt(125.0)], rtol=1e-6)
    np.testing.assert_array_equal(got[:, 1:], [[0, 0, 0, 1]] * 2)
    np.testing.assert_array_equal(encoder.transform(frame), before)


def test_missing_numbers_become_the_mean_and_are_marked() -> None:
    encoder = TableEncoder([ColumnSpec("x", "standard")]).fit(
        pd.DataFrame({"x": [1.0, np.nan, 3.0]})
    )
    assert encoder.feature_names_ == ["x", "x=(missing)"]
    assert encoder.kinds_ == {"x": "standard", "x=(missing)": "onehot"}
    np.testing.assert_array_equal(
        encoder.transform(pd.DataFrame({"x": [1.0, np.nan, 3.0]})), [[-1, 0], [0, 1], [1, 0]]
    )


def test_a_number_missing_only_later_becomes_the_mean() -> None:
    encoder = TableEncoder([ColumnSpec("x", "standard")]).fit(pd.DataFrame({"x": [1.0, 3.0]}))
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"x": [np.nan]})), [[0.0]])


def test_missing_category_is_a_category() -> None:
    frame = pd.DataFrame({"x": ["a", None, "b"]})
    encoder = TableEncoder([ColumnSpec("x", "onehot")]).fit(frame)
    assert encoder.feature_names_ == ["x=(missing)", "x=a", "x=b"]
    np.testing.assert_array_equal(encoder.transform(frame), [[0, 1, 0], [1, 0, 0], [0, 0, 1]])


def unit(low: float | None, high: float | None) -> ColumnSpec:
    return ColumnSpec("x", "unit", None, low, high)


def test_a_unit_column_is_the_share_of_its_range() -> None:
    frame = pd.DataFrame({"x": [10, 20, 50], "y": [1.0, 2.0, 3.0]})
    encoder = TableEncoder([unit(10, 50), ColumnSpec("y", "standard")]).fit(frame)
    got = encoder.transform(frame)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got[:, 0], [0.0, 0.25, 1.0])
    assert encoder.feature_names_ == ["x", "y"]
    assert encoder.kinds_ == {"x": "unit", "y": "standard"}
    # beyond its bounds it goes on: the check of the matrix, not the encoder, refuses that
    outside = pd.DataFrame({"x": [0, 90], "y": [1.0, 1.0]})
    np.testing.assert_array_equal(encoder.transform(outside)[:, 0], [-0.25, 2.0])


def test_a_unit_column_is_the_same_for_every_split() -> None:
    frame = pd.DataFrame({"x": [-3.5, 0.1, 7.25, 2.0, 100.0]})
    parts = [TableEncoder([unit(-4, 101)]).fit(frame[rows]) for rows in (slice(0, 2), slice(2, 5))]
    one, other = (part.transform(frame) for part in parts)
    np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(one[:, 0], (frame["x"] + 4) / 105, rtol=1e-6)


def test_a_missing_number_becomes_the_mean_and_is_marked() -> None:
    """The column is one of the unit interval."""
    encoder = TableEncoder([unit(0, 8)]).fit(pd.DataFrame({"x": [1.0, np.nan, 3.0]}))
    assert encoder.feature_names_ == ["x", "x=(missing)"]
    assert encoder.kinds_ == {"x": "unit", "x=(missing)": "onehot"}
    rows = pd.DataFrame({"x": [8.0, np.nan, 0.0]})
    np.testing.assert_array_equal(encoder.transform(rows), [[1, 0], [0.25, 1], [0, 0]])
    later = TableEncoder([unit(0, 8)]).fit(pd.DataFrame({"x": [1.0, 3.0]}))
    np.testing.assert_array_equal(later.transform(pd.DataFrame({"x": [np.nan]})), [[0.25]])
    with pytest.raises(ValueError, match="column 'x' has no value"):
        TableEncoder([unit(0, 8)]).fit(pd.DataFrame({"x": [np.nan]}))


@pytest.mark.parametrize(
    "bounds",
    [(None, 1), (0, None), (1, 1), (2, 1), (float("nan"), 1), (0, float("inf")), (-1e308, 1e308)],
)
def test_a_unit_column_needs_finite_bounds_in_order(
    bounds: tuple[float | None, float | None],
) -> None:
    with pytest.raises(ValueError, match="column 'x' is encoded as unit: it needs finite bounds"):
        TableEncoder([unit(*bounds)]).fit(pd.DataFrame({"x": [0.5]}))


FLOATS = st.floats(-1e300, 1e300)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(FLOATS, st.none()), min_size=1, max_size=20), FLOATS, FLOATS)
def test_a_unit_column_stays_in_the_interval_and_keeps_the_order(
    values: list[float | None], one: float, other: float
) -> None:
    known = [value for value in [*values, one, other] if value is not None]
    low, high = min(known), max(known)
    if low == high:
        high = low + max(1.0, abs(low))
    frame = pd.DataFrame({"x": [low, *values]}, dtype=float)
    encoder = TableEncoder([unit(low, high)]).fit(frame)
    got = encoder.transform(frame)[:, 0]
    assert ((got >= 0) & (got <= 1)).all()
    edges = encoder.transform(pd.DataFrame({"x": [low, high]}))[:, 0]
    np.testing.assert_array_equal(edges, [0.0, 1.0])
    present = frame["x"].notna().to_numpy()
    order = np.argsort(frame["x"][present].to_numpy(), kind="stable")
    assert (np.diff(got[present][order]) >= 0).all()


@pytest.mark.parametrize(
    "days",
    [
        pd.Series([dt.date(1970, 1, 1), dt.date(1970, 1, 3), None]),
        pd.Series(["1970-01-01", "1970-01-03", ""]),
        pd.Series(["1970-01-01", "1970-01-03", "NaT"]),
        pd.to_datetime(pd.Series(["1970-01-01", "1970-01-03", None])),
        pd.to_datetime(pd.Series(["1970-01-01", "1970-01-03", None])).dt.tz_localize("UTC"),
    ],
    ids=["date", "text", "text NaT", "timestamp", "with zone"],
)
def test_dates_are_standardised_days(days: pd.Series) -> None:
    encoder = TableEncoder([ColumnSpec("d", "date")]).fit(pd.DataFrame({"d": days}))
    got = encoder.transform(pd.DataFrame({"d": days}))
    np.testing.assert_allclose(got, [[-1, 0], [1, 0], [0, 1]], atol=1e-6)
    later = encoder.transform(pd.DataFrame({"d": [dt.date(1970, 1, 12)]}))
    np.testing.assert_allclose(later, [[10.0, 0.0]], rtol=1e-6)


@pytest.mark.parametrize("value", [0.1, 3.0, -1e6, 1e-300, 12345.678])
def test_constant_column_becomes_exactly_zero(value: float) -> None:
    encoder = TableEncoder([ColumnSpec("x", "standard")]).fit(pd.DataFrame({"x": [value] * 7}))
    np.testing.assert_array_equal(
        encoder.transform(pd.DataFrame({"x": [value] * 3})), np.zeros((3, 1))
    )


def test_a_tiny_scale_is_still_a_scale() -> None:
    frame = pd.DataFrame({"x": [1e-14, 3e-14]})
    got = TableEncoder([ColumnSpec("x", "standard")]).fit(frame).transform(frame)
    np.testing.assert_allclose(got, [[-1.0], [1.0]], rtol=1e-6)


def test_an_unseen_category_names_the_column_and_no_value(frame: pd.DataFrame) -> None:
    encoder = TableEncoder(SPECS).fit(frame)
    with pytest.raises(ValueError, match="column 'job' has 1 rows") as caught:
        encoder.transform(frame.assign(job=["cook", "acrobat", "cook", "cook"]))
    assert "acrobat" not in str(caught.value)
    assert "unseenCategories" in str(caught.value)


def test_unseen_categories_of_all_columns_are_named_at_once() -> None:
    frame = pd.DataFrame({"a": ["x", "y"], "b": ["S", "M"], "c": ["p", "q"], "d": [1.0, 2.0]})
    specs = [
        ColumnSpec("a", "onehot"),
        ColumnSpec("b", "ordinal", order=("S", "M")),
        ColumnSpec("c", "onehot"),
        ColumnSpec("d", "standard"),
    ]
    encoder = TableEncoder(specs).fit(frame)
    new = pd.DataFrame({"a": ["z", "w"], "b": ["S", "XL"], "c": ["p", "q"], "d": [1.0, 2.0]})
    with pytest.raises(UnseenCategories) as caught:
        encoder.transform(new)
    assert caught.value.rows == {"a": 2, "b": 1}
    assert "column 'a' has 2 rows" in str(caught.value)
    assert "column 'b' has 1 rows" in str(caught.value)
    with pytest.raises(UnseenCategories) as caught:
        encoder.transform(new.assign(c=["p", "r"]))
    assert list(caught.value.rows) == ["a", "b", "c"]
    # a worker process sends it as such a copy
    again = copy.copy(caught.value)
    assert (str(again), again.rows) == (str(caught.value), caught.value.rows)


def test_unseen_category_can_be_zeros(frame: pd.DataFrame) -> None:
    encoder = TableEncoder(SPECS, unseen="ignore").fit(frame)
    got = encoder.transform(
        frame.assign(job=["acrobat", "cook", None, "cook"], sex=["X", "F", "M", None])
    )
    np.testing.assert_array_equal(got[:, 2:], [[0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(got[:, 1], [0, 1, 0, 0])


@pytest.mark.parametrize("values", [["F", "M", "X"], ["F", None, "M"], ["M", "N", "N"]])
def test_binary_refuses_other_than_two_values(values: list[str | None]) -> None:
    with pytest.raises(ValueError, match="column 'sex' is encoded as binary.*onehot"):
        TableEncoder([ColumnSpec("sex", "binary", "F")]).fit(pd.DataFrame({"sex": values}))


def test_binary_needs_its_positive_value_named() -> None:
    with pytest.raises(ValueError, match="'sex'"):
        TableEncoder([ColumnSpec("sex", "binary")]).fit(pd.DataFrame({"sex": ["F", "M"]}))


def test_binary_of_one_value_only_still_encodes() -> None:
    encoder = TableEncoder([ColumnSpec("sex", "binary", "F")]).fit(
        pd.DataFrame({"sex": ["M", "M"]})
    )
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"sex": ["M"]})), [[0.0]])


def test_booleans_are_named_alike_with_and_without_missing_ones() -> None:
    with_missing = pd.DataFrame({"x": pd.Series([True, None, False], dtype=object)})
    encoder = TableEncoder([ColumnSpec("x", "onehot")]).fit(with_missing)
    assert encoder.categories_ == {"x": ("(missing)", "false", "true")}
    for column in (pd.Series([True, False]), pd.Series([True, False], dtype="boolean")):
        np.testing.assert_array_equal(
            encoder.transform(pd.DataFrame({"x": column})), [[0, 0, 1], [0, 1, 0]]
        )


def test_numeric_categories_keep_digits_and_names_in_any_type() -> None:
    codes = [1234567, 1234568, 10**17 + 1]
    encoder = TableEncoder([ColumnSpec("zip", "onehot")]).fit(pd.DataFrame({"zip": codes}))
    assert encoder.categories_["zip"] == ("100000000000000001", "1234567", "1234568")
    got = encoder.transform(pd.DataFrame({"zip": [1234568.0]}))
    np.testing.assert_array_equal(got, [[0, 0, 1]])
    fraction = TableEncoder([ColumnSpec("x", "onehot")]).fit(
        pd.DataFrame({"x": [0.1234567, 0.1234568, np.nan]})
    )
    assert fraction.categories_["x"] == ("(missing)", "0.1234567", "0.1234568")


@pytest.mark.parametrize(
    ("spec", "values", "message"),
    [
        (ColumnSpec("x", "standard"), [1.0, np.inf], "infinite"),
        (ColumnSpec("x", "standard"), ["1", "secret"], "no number"),
        (ColumnSpec("x", "date"), ["2020-01-01", "secret"], "no date"),
        (ColumnSpec("x", "standard"), [np.nan, np.nan], "no value"),
    ],
)
def test_bad_values_are_refused_by_column_and_never_quoted(
    spec: ColumnSpec, values: list[object], message: str
) -> None:
    with pytest.raises(
        ValueError, match=f"column 'x' has.*{message}|column 'x' has {message}"
    ) as caught:
        TableEncoder([spec]).fit(pd.DataFrame({"x": values}))
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_columns_are_needed_once(frame: pd.DataFrame) -> None:
    encoder = TableEncoder(SPECS).fit(frame)
    with pytest.raises(ValueError, match="column 'job' is missing from the table"):
        encoder.transform(frame.drop(columns="job"))
    with pytest.raises(ValueError, match="column 'age' is missing from the table"):
        TableEncoder(SPECS).fit(frame.drop(columns="age"))
    with pytest.raises(ValueError, match="column 'age' is given twice"):
        encoder.transform(pd.concat([frame, frame[["age"]]], axis=1))
    with pytest.raises(ValueError, match="at least one training row"):
        TableEncoder(SPECS).fit(frame.iloc[:0])


def test_two_matrix_columns_of_one_name_are_refused() -> None:
    frame = pd.DataFrame({"a": ["b", "c"], "a=b": [1.0, 2.0]})
    with pytest.raises(ValueError, match="two matrix columns would be named 'a=b'"):
        TableEncoder([ColumnSpec("a", "onehot"), ColumnSpec("a=b", "standard")]).fit(frame)


def test_saved_encoder_encodes_alike_and_holds_no_row(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "age": [20.123456, np.nan, 40.654321, 50.5],
            "sex": ["F", "M", "F", "F"],
            "job": ["cook", None, "cook", "diver"],
            "pay": [1012.3456, 1998.7654, np.nan, 1500.0],
            "day": pd.to_datetime(["2001-02-03", "2002-03-04", None, "2003-04-05"]),
        }
    )
    more = [ColumnSpec("day", "date"), ColumnSpec("pay", "unit", None, 1000, 2000)]
    encoder = TableEncoder([*SPECS, *more], unseen="ignore").fit(frame)
    encoder.save(tmp_path / "encoder.json")
    loaded = TableEncoder.load(tmp_path / "encoder.json")
    np.testing.assert_array_equal(loaded.transform(frame), encoder.transform(frame))
    assert loaded.feature_names_ == encoder.feature_names_
    assert loaded.groups_ == encoder.groups_
    assert loaded.kinds_ == encoder.kinds_
    assert loaded.unseen == "ignore"
    text = (tmp_path / "encoder.json").read_text()
    assert "20.123456" not in text
    assert "40.654321" not in text
    # no extreme person of a column with bounds either
    assert "1012.3456" not in text
    assert "1998.7654" not in text


def test_an_encoder_saved_before_unit_columns_still_loads(
    tmp_path: Path, frame: pd.DataFrame
) -> None:
    encoder = TableEncoder(SPECS).fit(frame)
    encoder.save(tmp_path / "encoder.json")
    content = json.loads((tmp_path / "encoder.json").read_text())
    for part in (*content["specs"], *content["fitted"]):
        for key in ("minimum", "maximum"):
            part.pop(key, None)
    (tmp_path / "encoder.json").write_text(json.dumps(content))
    loaded = TableEncoder.load(tmp_path / "encoder.json")
    np.testing.assert_array_equal(loaded.transform(frame), encoder.transform(frame))


def test_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "encoder.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(ValueError, match="no encoder of format 1"):
        TableEncoder.load(tmp_path / "encoder.json")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), st.text(max_size=4), st.booleans()), min_size=1, max_size=30))
def test_one_hot_can_be_undone(values: list[str | bool | None]) -> None:
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object)})
    encoder = TableEncoder([ColumnSpec("x", "onehot")]).fit(frame)
    matrix = encoder.transform(frame)
    np.testing.assert_array_equal(matrix.sum(axis=1), 1.0)
    back = [encoder.categories_["x"][code] for code in matrix.argmax(axis=1)]
    names = [
        "(missing)" if v is None else str(v).lower() if isinstance(v, bool) else v for v in values
    ]
    assert back == names


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-(10**6), 10**6), min_size=2, max_size=40))
def test_standardised_column_has_mean_zero_and_deviation_one(values: list[int]) -> None:
    frame = pd.DataFrame({"x": values})
    encoder = TableEncoder([ColumnSpec("x", "standard")]).fit(frame)
    got = encoder.transform(frame)[:, 0].astype(float)
    assert abs(got.mean()) < 1e-5
    assert got.std() == pytest.approx(1.0 if len(set(values)) > 1 else 0.0, abs=1e-5)


def test_ordered_categories_become_standardised_positions() -> None:
    spec = ColumnSpec("size", "ordinal", order=("S", "M", "L"), missing=("?",))
    frame = pd.DataFrame({"size": ["S", "L", "L", "?", None]})
    encoder = TableEncoder([spec]).fit(frame)
    # positions 0, 2, 2 of the rows with a value
    mean, deviation = 4 / 3, np.sqrt(8 / 9)
    expected = [[(rank - mean) / deviation, 0] for rank in (0, 2, 2)] + [[0, 1], [0, 1]]
    np.testing.assert_allclose(encoder.transform(frame), expected, atol=1e-7)
    assert encoder.feature_names_ == ["size", "size=(missing)"]
    assert encoder.kinds_ == {"size": "standard", "size=(missing)": "onehot"}
    # a value that no training row had has its place too
    assert encoder.transform(pd.DataFrame({"size": ["M"]}))[0, 0] == pytest.approx(
        (1 - mean) / deviation
    )
    with pytest.raises(ValueError, match="1 rows with a category unseen"):
        encoder.transform(pd.DataFrame({"size": ["XL", None]}))
    lenient = TableEncoder([spec], "ignore").fit(frame)
    np.testing.assert_array_equal(lenient.transform(pd.DataFrame({"size": ["XL"]})), [[0, 1]])


def test_a_calendar_date_is_age_month_and_weekday() -> None:
    frame = pd.DataFrame({"day": ["2024-01-01", "2024-12-31", None]})  # a Monday and a Tuesday
    encoder = TableEncoder([ColumnSpec("day", "calendar")]).fit(frame)
    month = np.sqrt(143 / 12)
    # 365 days apart: each half of them, which is the deviation, from the mean; the earlier date is
    # older
    expected = [[1, -5.5 / month, -1.5, 0], [-1, 5.5 / month, -1.0, 0], [0, 0, 0, 1]]
    np.testing.assert_allclose(encoder.transform(frame), expected, atol=1e-7)
    assert encoder.feature_names_ == ["day", "day=month", "day=weekday", "day=(missing)"]
    assert [encoder.kinds_[name] for name in encoder.feature_names_] == ["standard"] * 3 + [
        "onehot"
    ]
    before = dt.date(1969, 2, 28)  # a Friday before 1970
    np.testing.assert_allclose(
        encoder.transform(pd.DataFrame({"day": [before]}))[0, 1:],
        [(2 - 6.5) / month, 0.5, 0],
        atol=1e-7,
    )


def test_spellings_of_missing_values_are_missing() -> None:
    specs = [
        ColumnSpec("x", "standard", missing=("?", 999)),
        ColumnSpec("c", "onehot", missing=("-",)),
    ]
    frame = pd.DataFrame({"x": ["1", " ?", "3", "999"], "c": ["a", " - ", None, "b"]})
    got = TableEncoder(specs).fit(frame).transform(frame)
    np.testing.assert_array_equal(got[:, :2], [[-1, 0], [0, 1], [1, 0], [0, 1]])
    np.testing.assert_array_equal(got[:, 2:], [[0, 1, 0], [1, 0, 0], [1, 0, 0], [0, 0, 1]])
    numbers = TableEncoder(specs[:1]).fit(pd.DataFrame({"x": [1.0, 999.0, 3.0]}))
    np.testing.assert_array_equal(
        numbers.transform(pd.DataFrame({"x": [999, 1]})), [[0, 1], [-1, 0]]
    )


def test_new_kinds_survive_saving(tmp_path: Path) -> None:
    specs = [
        ColumnSpec("s", "ordinal", order=("S", "M"), missing=("?",)),
        ColumnSpec("d", "calendar"),
    ]
    frame = pd.DataFrame({"s": ["S", "M", "?"], "d": ["2024-01-01", None, "2020-05-05"]})
    encoder = TableEncoder(specs).fit(frame)
    encoder.save(tmp_path / "encoder.json")
    again = TableEncoder.load(tmp_path / "encoder.json")
    assert again.columns == encoder.columns
    np.testing.assert_array_equal(again.transform(frame), encoder.transform(frame))


@pytest.mark.parametrize("rows", [3, 300])
def test_categories_of_every_type_are_coded_as_one_by_one(rows: int) -> None:
    """Many rows are coded by their distinct values; mixed objects one by one, because True equals
    1.
    """
    rng = np.random.default_rng(0)
    mixed = np.array([True, 1, "1", None, 1.0, False, 0], dtype=object)
    kinds = [
        pd.Series(rng.choice(["a", "b", None], rows)),
        pd.Series(rng.choice([1.0, 2.5, np.nan, -0.0, 0.0], rows)),
        pd.Series(rng.choice([True, False], rows)),
        pd.Series(mixed[rng.integers(0, 7, rows)]),
        pd.Series(rng.choice(["a", "b"], rows)).astype("category"),
        pd.Series(pd.array(rng.choice([1, 2, None], rows).tolist(), dtype="Int64")),
        pd.Series(rng.choice(np.array([0.1, 0.2], dtype=np.float32), rows)),
        pd.Series([None] * rows),
        pd.Series(["(missing)"] * rows),
    ]
    for values in kinds:
        frame = values.rename("x").to_frame()
        encoder = TableEncoder([ColumnSpec("x", "onehot")], unseen="ignore").fit(frame)
        single = [encoder.transform(frame.iloc[[row]]) for row in range(rows)]
        assert np.array_equal(encoder.transform(frame), np.concatenate(single))
        (names,) = encoder.categories_.values()
        found = encoder.transform(frame).reshape(rows, -1).argmax(axis=1)
        wanted = ["(missing)" if pd.isna(value) else category_name(value) for value in values]
        assert [names[code] for code in found] == wanted


def test_categories_are_counted_by_their_names() -> None:
    numbers = pa.chunked_array([[3.0, None], [2.5, float("nan"), 3.0]])
    assert category_counts(numbers) == ({"3": 2, "2.5": 1}, 2)
    assert category_counts(pa.chunked_array([[True, False, True]])) == ({"true": 2, "false": 1}, 0)


@pytest.mark.parametrize("unseen", ["error", "ignore"])
def test_unlisted_categories_have_the_column_of_other(unseen: str, tmp_path: Path) -> None:
    spec = ColumnSpec("firm", "onehot", other="other")
    training = pd.DataFrame({"firm": ["Acme", "Globex", None, "Acme"]})
    encoder = TableEncoder([spec], unseen).fit(training)  # type: ignore[arg-type]
    # training rows need none of it
    assert encoder.feature_names_ == [
        "firm=(missing)",
        "firm=Acme",
        "firm=Globex",
        "firm=other",
    ]
    rows = pd.DataFrame({"firm": ["Globex", "Moe", "other", None, ""]})
    expected = [[0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 1]]
    encoder.save(tmp_path / "encoder.json")
    for item in (encoder, TableEncoder.load(tmp_path / "encoder.json")):
        assert item.transform(rows).tolist() == expected
        many = pd.DataFrame({"firm": rows["firm"].tolist() * 10})
        assert item.transform(many).tolist() == expected * 10


def test_a_missing_value_is_not_other() -> None:
    encoder = TableEncoder([ColumnSpec("firm", "onehot", other="other")])
    encoder.fit(pd.DataFrame({"firm": ["Acme", "Globex"]}))
    with pytest.raises(ValueError, match="1 rows with a category unseen"):
        encoder.transform(pd.DataFrame({"firm": ["Moe", None]}))


def test_an_encoder_without_other_is_stored_as_before(frame: pd.DataFrame, tmp_path: Path) -> None:
    TableEncoder(SPECS).fit(frame).save(tmp_path / "encoder.json")
    assert "other" not in (tmp_path / "encoder.json").read_text()
