"""Acceptance from raw columns equals the way through the encoder's matrix, to the last bit."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder
from evenhand.fairlib.proxies.graph import SplittingGraph
from evenhand.fairlib.proxies.raw import RawAcceptance

SPECS = [
    ColumnSpec("job", "onehot"),
    ColumnSpec("age", "standard"),
    ColumnSpec("income", "standard"),
    ColumnSpec("points", "unit", None, 0, 40),
    ColumnSpec("since", "date"),
    ColumnSpec("share", "unit", None, -1.5, 2.5),
    ColumnSpec("member", "binary", "true"),
    ColumnSpec("code", "onehot"),
    ColumnSpec("rate", "binary", "2.5"),
    ColumnSpec("flag", "onehot"),
    ColumnSpec("sex", "binary", "F"),
    ColumnSpec("height", "standard"),
    ColumnSpec("size", "ordinal", order=("S", "M", "L")),
    ColumnSpec("joined", "calendar"),
    ColumnSpec("born", "calendar"),
]


def random_rows(rows: int, seed: int, *, strange: bool = False, missing: float = 0.1) -> pa.Table:
    """Every kind of column in its contract's type; `strange` adds categories that training
    lacks.
    """
    rng = np.random.default_rng(seed)

    def gaps(values: Any, kind: pa.DataType) -> pa.Array:
        return pa.array(
            [
                None if hole else v
                for v, hole in zip(values, rng.random(rows) < missing, strict=True)
            ],
            kind,
        )

    jobs = ["cook", "diver", "Bäcker", "(missing)", *(["astronaut"] if strange else [])]
    whole = {"rate": rng.choice([2.5, 3.0], rows), "sex": rng.choice(["F", "M"], rows)}
    if strange:
        whole = {
            "rate": rng.choice([2.5, 3.0, 7.0], rows),
            "sex": rng.choice(["F", "M", "X"], rows),
        }
    return pa.table(
        {
            "age": gaps(rng.integers(-100, 127, rows).tolist(), pa.int8()),
            "income": gaps(np.exp(rng.normal(8, 3, rows)).tolist(), pa.float64()),
            "height": pa.array(rng.normal(1.7, 0.1, rows).astype(np.float32)),
            "since": gaps(
                rng.integers(-5000, 20000, rows).astype("datetime64[D]").tolist(), pa.date32()
            ),
            "job": gaps(rng.choice(jobs, rows).tolist(), pa.string()),
            "member": pa.array(rng.random(rows) < 0.5),
            "code": pa.array(rng.integers(1, 9 if strange else 5, rows), pa.int32()),
            "flag": gaps((rng.random(rows) < 0.5).tolist(), pa.bool_()),
            "rate": pa.array(whole["rate"]),
            "sex": pa.array(whole["sex"].tolist()),
            "size": gaps(
                rng.choice(["S", "M", "L", *(["XL"] if strange else [])], rows).tolist(),
                pa.string(),
            ),
            "joined": gaps(
                rng.integers(-900, 20000, rows).astype("datetime64[D]").tolist(), pa.date32()
            ),
            "born": pa.array(
                rng.integers(-9000, 9000, rows).astype("datetime64[D]").tolist(), pa.date32()
            ),
            "unused": pa.array(np.arange(rows)),
            "points": gaps(rng.integers(0, 41, rows).tolist(), pa.int16()),
            "share": pa.array(rng.uniform(-1.5, 2.5, rows)),
        }
    )


def random_graph(columns: int, rng: np.random.Generator, nodes: int) -> SplittingGraph:
    """Nodes with several parents, leaves with several parents, and mixtures that end between 0 and
    1.
    """
    leaves = nodes + 1
    one, zero = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    for node in range(nodes):
        for children in (one, zero):
            later = node + 1 < nodes and rng.random() < 0.6
            children[node] = (
                rng.integers(node + 1, nodes) if later else -1 - rng.integers(0, leaves)
            )
    sizes = rng.integers(1, 7, nodes)
    count = int(sizes.sum())
    return SplittingGraph(
        coefficients=rng.normal(size=(count, columns)) * (rng.random((count, columns)) < 0.8),
        intercepts=rng.normal(size=count),
        mixture=np.concatenate([rng.dirichlet(np.ones(size)) for size in sizes] or [np.empty(0)]),
        starts=np.append(0, np.cumsum(sizes)).astype(np.int64),
        one=one,
        zero=zero,
    )


def by_the_encoder(raw: RawAcceptance, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Acceptance and sums of shares by way of the matrix, each sum from the first group to the
    last.
    """
    shares = raw.graph.shares(raw.encoder.transform(frame))
    total = np.zeros(len(frame))
    for group, probability in enumerate(raw.acceptance):
        total += shares[:, group] * probability
    return np.minimum(total, 1.0), shares.sum(axis=0)


def make(
    seed: int, *, unseen: str = "ignore", nodes: int = 12, missing: float = 0.1
) -> RawAcceptance:
    rng = np.random.default_rng(seed)
    encoder = TableEncoder(SPECS, unseen).fit(random_rows(300, seed, missing=missing).to_pandas())  # type: ignore[arg-type]
    graph = random_graph(len(encoder.feature_names_), rng, nodes)
    return RawAcceptance(encoder, graph, rng.random(graph.groups))


@pytest.mark.parametrize("seed", range(12))
def test_it_equals_the_way_through_the_matrix_to_the_last_bit(seed: int) -> None:
    raw = make(seed, nodes=6 + 2 * seed, missing=0.0 if seed % 4 == 3 else 0.1)
    rows = random_rows(400, 1000 + seed, strange=True)
    probabilities, masses = by_the_encoder(raw, rows.to_pandas())
    found = raw.evaluate(rows)
    np.testing.assert_array_equal(found.probabilities, probabilities)
    np.testing.assert_allclose(found.masses, masses, rtol=1e-12)
    assert len(np.unique(probabilities)) > 1, "the example has to tell rows apart"


def test_unlisted_categories_are_other_as_in_the_matrix() -> None:
    specs = [replace(spec, other="rest") if spec.name == "job" else spec for spec in SPECS]
    # with missing values in training rows, and without
    for missing in (0.1, 0.0):
        training = random_rows(300, 5, missing=missing).to_pandas()
        encoder = TableEncoder(specs, "ignore").fit(training)
        rng = np.random.default_rng(5)
        graph = random_graph(len(encoder.feature_names_), rng, 12)
        raw = RawAcceptance(encoder, graph, rng.random(graph.groups))
        rows = random_rows(400, 6, strange=True)
        probabilities, _ = by_the_encoder(raw, rows.to_pandas())
        np.testing.assert_array_equal(raw.evaluate(rows).probabilities, probabilities)


def test_rows_on_a_boundary_fall_on_the_same_side() -> None:
    # a halfspace through a row: its score is 0 if summed in the matrix's order from float32
    # entries, and some multiple of 1e-16 above or below it in any other way
    rows = random_rows(60, 21)
    encoder = TableEncoder(SPECS, "ignore").fit(rows.to_pandas())
    matrix = encoder.transform(rows.to_pandas())
    rng = np.random.default_rng(2)
    above = 0
    for row, entries in enumerate(matrix):
        normal = rng.normal(size=len(entries))
        score = 0.0
        for entry, weight in zip(entries, normal, strict=True):
            score += float(entry) * weight
        above += (np.float64(entries) @ normal) > score  # another order
        for cut, inside in ((score, 0.0), (np.nextafter(score, -np.inf), 1.0)):
            graph = SplittingGraph(
                normal[None],
                np.array([-cut]),
                np.ones(1),
                np.array([0, 1]),
                np.array([-1]),
                np.array([-2]),
            )
            raw = RawAcceptance(encoder, graph, [1.0, 0.0])
            found = raw.evaluate(rows).probabilities
            assert found[row] == inside
            np.testing.assert_array_equal(found, by_the_encoder(raw, rows.to_pandas())[0])
    assert above > 0, "the order of the sum has to matter in the example"


def test_the_arrow_type_of_a_column_does_not_matter() -> None:
    raw = make(3)
    rows = random_rows(200, 5)
    expected = raw.evaluate(rows)
    other = rows
    for name, kind in (("age", pa.int64()), ("code", pa.uint16()), ("job", pa.large_string())):
        other = other.set_column(other.column_names.index(name), name, rows[name].cast(kind))
    for name in ("job", "sex", "flag", "member", "code"):
        column = other[name].combine_chunks().dictionary_encode()
        other = other.set_column(other.column_names.index(name), name, column)
    nulls_inside = pa.DictionaryArray.from_arrays(
        rows["job"].combine_chunks().dictionary_encode().indices.fill_null(4),
        [*rows["job"].combine_chunks().dictionary_encode().dictionary.to_pylist(), None],
    )
    again = other.set_column(other.column_names.index("job"), "job", nulls_inside)
    for changed in (other, again, other.select(sorted(other.column_names))):
        np.testing.assert_array_equal(raw.evaluate(changed).probabilities, expected.probabilities)


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    raw = make(4)
    rows = random_rows(300, 6)
    expected = raw.evaluate(rows).probabilities
    pieces = [raw.evaluate(rows.slice(start, 7)).probabilities for start in range(0, 300, 7)]
    np.testing.assert_array_equal(np.concatenate(pieces), expected)
    chunked = pa.concat_tables([rows.slice(100), rows.slice(0, 100)])
    np.testing.assert_array_equal(
        raw.evaluate(chunked).probabilities, np.concatenate([expected[100:], expected[:100]])
    )


def test_a_graph_without_nodes_accepts_all_rows_alike() -> None:
    rows = random_rows(20, 1)
    encoder = TableEncoder(SPECS, "ignore").fit(rows.to_pandas())
    graph = random_graph(len(encoder.feature_names_), np.random.default_rng(0), 0)
    found = RawAcceptance(encoder, graph, [0.25]).evaluate(rows)
    np.testing.assert_array_equal(found.probabilities, 0.25)
    assert found.masses.tolist() == [20.0]


def test_no_rows_have_no_mass() -> None:
    found = make(0).evaluate(random_rows(0, 0))
    assert found.probabilities.shape == (0,)
    assert found.masses.sum() == 0.0


def test_probabilities_never_exceed_one() -> None:
    # 20,000 rows whose shares are divided often: sums of shares are 1 up to rounding on either side
    raw = make(8, nodes=40)
    certain = RawAcceptance(raw.encoder, raw.graph, np.ones(raw.graph.groups))
    rows = random_rows(20_000, 9)
    found = certain.evaluate(rows).probabilities
    assert found.max() <= 1.0
    np.testing.assert_allclose(found, 1.0, rtol=1e-12)
    assert raw.graph.shares(raw.encoder.transform(rows.to_pandas())).sum(axis=1).max() > 1.0


@pytest.mark.parametrize("name", ["job", "code", "sex", "rate"])
def test_an_unseen_category_is_refused_by_name_and_count_alone(name: str) -> None:
    raw = make(2, unseen="error")
    rows = random_rows(50, 3, missing=0.0)
    strange = {"job": "astronaut", "code": 77, "sex": "X", "rate": 9.25}[name]
    column = [strange if i in (4, 17) else v for i, v in enumerate(rows[name].to_pylist())]
    bad = rows.set_column(rows.column_names.index(name), name, pa.array(column, rows[name].type))
    with pytest.raises(ValueError, match=f"'{name}' has 2 rows with a category unseen") as caught:
        raw.evaluate(bad)
    assert str(strange) not in str(caught.value)
    with pytest.raises(ValueError, match="2 rows"):
        raw.encoder.transform(bad.to_pandas())


def changed(rows: pa.Table, name: str, values: Any) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), name, values)


def test_what_the_encoder_refuses_is_refused_here() -> None:
    raw = make(2)
    rows = random_rows(3, 3, missing=0.0)
    with pytest.raises(ValueError, match="'income' has infinite values"):
        raw.evaluate(changed(rows, "income", pa.array([1.0, np.inf, 2.0])))
    with pytest.raises(ValueError, match="'age' is of type string"):
        raw.evaluate(changed(rows, "age", pa.array(["1", "2", "3"])))
    with pytest.raises(ValueError, match=r"'since' is of type timestamp\[us\]: cast it to date32"):
        raw.evaluate(changed(rows, "since", pa.array([dt.datetime(2020, 1, 1, 6)] * 3)))
    with pytest.raises(ValueError, match="'job' is missing"):
        raw.evaluate(rows.drop_columns("job"))
    with pytest.raises(ValueError, match="'job' is given twice"):
        raw.evaluate(rows.append_column("job", rows["job"]))


def test_a_number_that_is_nan_counts_as_missing() -> None:
    raw = make(2)
    rows = random_rows(40, 3)
    nan = changed(rows, "income", pa.array(rows["income"].fill_null(np.nan).combine_chunks()))
    np.testing.assert_array_equal(raw.evaluate(nan).probabilities, raw.evaluate(rows).probabilities)
    empty = changed(rows, "income", pa.nulls(40))
    expected, _ = by_the_encoder(raw, empty.to_pandas().astype({"income": float}))
    np.testing.assert_array_equal(raw.evaluate(empty).probabilities, expected)


def test_parts_of_different_proxies_are_refused() -> None:
    raw = make(1)
    with pytest.raises(ValueError, match="acceptance probabilities for"):
        RawAcceptance(raw.encoder, raw.graph, [0.5])
    with pytest.raises(ValueError, match="between 0 and 1"):
        RawAcceptance(raw.encoder, raw.graph, np.full(raw.graph.groups, 1.5))
    narrow = random_graph(3, np.random.default_rng(0), 4)
    with pytest.raises(ValueError, match="the graph splits on 3 columns"):
        RawAcceptance(raw.encoder, narrow, np.ones(narrow.groups))
    raw.graph.coefficients[0, 0] = np.nan
    with pytest.raises(ValueError, match="must be finite"):
        RawAcceptance(raw.encoder, raw.graph, raw.acceptance)
