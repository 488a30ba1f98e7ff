"""Estimators on tables: every kind of column, every library, columns by name, saved models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import cross_validate

import evenhand
from evenhand.fairlib.distances import LearnedMetric
from evenhand.fairlib.methods.method_base import check_feature_groups
from evenhand.fairlib.methods.registry import load_model
from evenhand.fairlib.preprocessing import input_tables
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder

METRIC = evenhand.SensitiveSubspace(indicators=["sex"])
NETWORK: dict[str, Any] = {"n_steps": 10, "hidden": (8,)}
ASKING: dict[str, Any] = {
    "hidden": (8, 8),
    "memory_size": 4,
    "agents": 8,
    "n_iterations": 3,
    "pretrain_iterations": 3,
}


def people(n: int = 200) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, n).astype(float)
    frame = pd.DataFrame(
        {
            "age": age,
            "hours": rng.normal(40, 10, n),
            "sex": rng.choice(["female", "male"], n),
            "job": pd.Categorical(rng.choice(list("abc"), n)),
            "owner": rng.random(n) < 0.5,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 2000, n), "D"),
        }
    )
    frame.loc[::9, "hours"] = np.nan
    label = np.where((age > 45) & (rng.random(n) < 0.8), "yes", "no")
    return frame, label


def swapped(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(sex=np.where(frame["sex"] == "male", "female", "male"))


TABLE, LABEL = people()
GROUPS = {"sex": TABLE["sex"].to_numpy()}
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "gbdt": (evenhand.GBDTClassifier(n_steps=5), {}),
    "reweigh": (evenhand.ReweighedGBDTClassifier(n_steps=5), {"sensitive_features": GROUPS}),
    "budro": (evenhand.BudroClassifier(METRIC, n_steps=5), {"sensitive_features": GROUPS}),
    "project": (
        evenhand.ProjectedGBDTClassifier(METRIC, n_steps=5),
        {"sensitive_features": GROUPS},
    ),
    "nn": (evenhand.NeuralNetworkClassifier(**NETWORK), {}),
    "sensei": (evenhand.SenSeIClassifier(METRIC, **NETWORK), {"sensitive_features": GROUPS}),
    "sensr": (evenhand.SenSRClassifier(METRIC, **NETWORK), {"sensitive_features": GROUPS}),
    "clp": (evenhand.CLPClassifier(**NETWORK), {"counterfactuals": [swapped(TABLE)]}),
    "faias": (
        evenhand.FAIASClassifier(hidden=(8, 8), n_epochs=2, batch_size=32),
        {"sensitive_features": ["sex"]},
    ),
    "dadi": (evenhand.DADIClassifier(**ASKING), {"sensitive_features": GROUPS}),
    "logistic": (evenhand.LogisticClassifier(), {}),
    "reweigh-logistic": (
        evenhand.ReweighedLogisticClassifier(),
        {"sensitive_features": GROUPS},
    ),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_table_of_any_library_in_any_order(name: str, tmp_path: Any) -> None:
    model, arguments = CASES[name]
    model = model.set_params(random_state=0).fit(TABLE, LABEL, **arguments)
    expected = model.predict_proba(TABLE)
    backwards = TABLE[TABLE.columns[::-1]]
    for rows in (backwards, pl.from_pandas(backwards), pa.Table.from_pandas(backwards)):
        np.testing.assert_array_equal(model.predict_proba(rows), expected)
    model.save(tmp_path)
    np.testing.assert_array_equal(load_model(tmp_path).predict_proba(backwards), expected)
    # a value that was not seen, and a missing one, are no error
    unseen = TABLE.head(3).assign(job=["z", None, "a"], owner=[None, True, False])
    assert np.isfinite(model.predict_proba(unseen)).all()
    with pytest.raises(ValueError, match="now missing:\n- sex"):
        model.predict(TABLE.drop(columns="sex"))


@pytest.mark.parametrize("library", [pl.from_pandas, pa.Table.from_pandas])
def test_training_tables_of_any_library_give_one_model(library: Any) -> None:
    expected = evenhand.BudroClassifier(METRIC, n_steps=5, random_state=0)
    expected.fit(TABLE, LABEL, sensitive_features=TABLE[["sex"]])
    model = evenhand.BudroClassifier(METRIC, n_steps=5, random_state=0)
    model.fit(library(TABLE), LABEL, sensitive_features=library(TABLE[["sex"]]))
    np.testing.assert_array_equal(model.predict_proba(TABLE), expected.predict_proba(TABLE))
    assert list(model.feature_names_in_) == list(TABLE.columns)


def test_the_encoder_is_that_of_jobs() -> None:
    model = evenhand.NeuralNetworkClassifier(**NETWORK).fit(TABLE, LABEL)
    specs = [
        ColumnSpec("age", "standard"),
        ColumnSpec("hours", "standard"),
        ColumnSpec("sex", "onehot"),
        ColumnSpec("job", "onehot"),
        ColumnSpec("owner", "unit", minimum=0.0, maximum=1.0),
        ColumnSpec("since", "calendar"),
    ]
    encoder = TableEncoder(specs).fit(TABLE)
    assert model.encoder_ is not None
    assert model.encoder_.fitted_ == encoder.fitted_
    matrix = encoder.transform(TABLE)
    assert set(matrix[:, encoder.groups_["owner"][0]]) == {0.0, 1.0}
    # the encoded rows are taken too
    np.testing.assert_array_equal(model.predict_proba(matrix), model.predict_proba(TABLE))
    with pytest.raises(ValueError, match="table with the columns age, hours, sex.*12 columns"):
        model.predict(matrix[:, :3])


@pytest.mark.parametrize("library", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas])
def test_a_table_of_plain_numbers_is_not_encoded(library: Any) -> None:
    numbers = TABLE[["age", "owner"]].assign(score=np.arange(len(TABLE)))
    expected = evenhand.NeuralNetworkClassifier(**NETWORK, random_state=0)
    expected.fit(numbers.to_numpy(dtype=np.float64), LABEL)
    model = evenhand.NeuralNetworkClassifier(**NETWORK, random_state=0)
    model.fit(library(numbers), LABEL)
    assert model.encoder_ is None
    np.testing.assert_array_equal(
        model.predict_proba(library(numbers[["score", "age", "owner"]])),
        expected.predict_proba(numbers.to_numpy(dtype=np.float64)),
    )


def test_a_second_fit_forgets_the_table() -> None:
    model = evenhand.LogisticClassifier().fit(TABLE, LABEL)
    rows = TABLE[["age", "owner"]].to_numpy(dtype=np.float64)
    model.fit(rows, LABEL)
    assert model.encoder_ is None
    assert model.predict(rows).shape == (len(rows),)


def test_every_column_type_has_a_kind() -> None:
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, None, 3], dtype="Int64"),
            "truth": pd.array([True, None, False], dtype="boolean"),
            "thin": pd.arrays.SparseArray([0.0, 0.0, 2.0]),
            "objects": pd.Series([1, 2.5, None], dtype=object),
            "flags": pd.Series([True, None, False], dtype=object),
            "days": pd.Series([pd.Timestamp("2020-01-01").date()] * 3, dtype=object),
            "words": pd.Series(["a", 1, None], dtype=object),
            "order": pd.Categorical(["low", "high", None], ["low", "high"], ordered=True),
        }
    )
    table = input_tables.read_table(frame)
    assert table is not None
    assert table.kinds == (
        *("number", "boolean", "number", "number", "boolean", "date", "category", "ordered"),
    )
    assert table.frame["whole"].to_list()[::2] == [1.0, 3.0]
    assert table.frame["thin"].to_list() == [0.0, 0.0, 2.0]
    assert table.frame["flags"].isna().to_list() == [False, True, False]
    encoder = input_tables.fit_encoder(table)
    # low is 0 and high is 1, of which the mean is one half and the deviation too
    ordered = input_tables.encode(encoder, table)[:, encoder.groups_["order"]]
    np.testing.assert_allclose(ordered, [[-1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert input_tables.read_table([[1, 2]]) is None
    assert input_tables.read_table(np.eye(2)) is None


def test_dates_are_days_for_trees() -> None:
    table = input_tables.read_table(TABLE[["since"]])
    assert table is not None
    days = table.days()["since"].to_numpy()
    expected = (TABLE["since"] - pd.Timestamp("1970-01-01")).dt.days
    np.testing.assert_array_equal(days, expected)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.Series(pd.to_timedelta(np.arange(200), "D")), "'new' of X has the type timedelta64"),
        (pd.Series([f"name {i}" for i in range(1200)]), "1,200 distinct values"),
        (pd.Series([None] * 200, dtype="category"), None),
    ],
)
def test_columns_that_cannot_be_encoded(column: pd.Series, message: str | None) -> None:
    rows = np.arange(len(column)) % len(TABLE)
    frame = TABLE.iloc[rows].reset_index(drop=True).assign(new=column)
    model = evenhand.LogisticClassifier()
    if message is None:
        model.fit(frame, LABEL[rows])
        return
    with pytest.raises(ValueError, match=message) as caught:
        model.fit(frame, LABEL[rows])
    assert "\n" not in str(caught.value)


def test_a_lazy_table_is_refused() -> None:
    with pytest.raises(ValueError, match="collect it first"):
        evenhand.GBDTClassifier(n_steps=2).fit(pl.from_pandas(TABLE).lazy(), LABEL)


def test_sparse_matrices_and_columns_are_the_same_numbers() -> None:
    rng = np.random.default_rng(1)
    X = rng.poisson(0.3, (120, 4)).astype(float)
    y = (X.sum(axis=1) > 1).astype(int)
    expected = evenhand.LogisticClassifier().fit(X, y).predict_proba(X)
    matrix = sparse.csr_matrix(X)
    found = evenhand.LogisticClassifier().fit(matrix, y).predict_proba(matrix)
    np.testing.assert_array_equal(found, expected)
    # `from_spmatrix` of pandas 3.0.1 reads the zeros as missing
    columns = pd.DataFrame(
        {name: pd.arrays.SparseArray(X[:, j], fill_value=0.0) for j, name in enumerate("abcd")}
    )
    found = evenhand.LogisticClassifier().fit(columns, y).predict_proba(columns)
    np.testing.assert_array_equal(found, expected)
    metric = evenhand.SensitiveSubspace(indicators=[0]).fit(matrix)
    np.testing.assert_array_equal(metric.project(matrix), metric.project(X))


# --- columns by name ---


def test_a_metric_of_named_columns_measures_tables(tmp_path: Any) -> None:
    metric = evenhand.SensitiveSubspace(
        indicators=["sex"], learned=[evenhand.LearnedDirection("sex", ("sex", "since"))]
    )
    metric.fit(pl.from_pandas(TABLE), sensitive_features=GROUPS)
    assert metric.encoder_ is not None
    places = metric.encoder_.groups_["sex"]
    # a person at another sex is at distance 0, and so is one's own row of encoded numbers
    np.testing.assert_array_equal(metric.distance(TABLE, swapped(TABLE)), 0.0)
    np.testing.assert_array_equal(metric.project(TABLE)[:, places], 0.0)
    matrix = input_tables.encode(metric.encoder_, input_tables.read_table(TABLE))  # type: ignore[arg-type]
    backwards = TABLE[TABLE.columns[::-1]]
    np.testing.assert_array_equal(metric.pairwise(backwards), metric.pairwise(matrix))
    metric.save(tmp_path)
    np.testing.assert_array_equal(
        evenhand.load_metric(tmp_path).pairwise(backwards), metric.pairwise(matrix)
    )
    with pytest.raises(ValueError, match="X lacks the columns sex"):
        metric.project(TABLE.drop(columns="sex"))


def test_a_fitted_metrics_encoder_is_the_models() -> None:
    metric = evenhand.SensitiveSubspace(indicators=["sex"], learned=[]).fit(TABLE)
    model = evenhand.BudroClassifier(metric, n_steps=10, random_state=0)
    model.fit(TABLE[TABLE.columns[::-1]].head(150), LABEL[:150])
    assert model.encoder_ is metric.encoder_
    assert list(model.feature_names_in_) == list(TABLE.columns)
    same = model.predict(TABLE) == model.predict(swapped(TABLE))
    assert same.mean() > 0.95
    audited = evenhand.transport_audit(model, TABLE, LABEL, metric, budget=0.0, draws=0)
    assert audited.spent == 0.0
    with pytest.raises(ValueError, match="metric was fitted on the columns age, .* but X has age"):
        model.fit(TABLE.drop(columns="job"), LABEL)


def test_comparable_rows_and_copies_may_be_tables() -> None:
    face = evenhand.FACE(n_directions=1).fit(TABLE, counterfactuals=[swapped(TABLE)])
    np.testing.assert_allclose(face.distance(TABLE, swapped(TABLE)), 0.0, atol=1e-12)
    first = TABLE.iloc[:50]
    explore = evenhand.EXPLORE().fit(
        TABLE,
        comparable=(first, swapped(first)),
        incomparable=(TABLE.iloc[:50], TABLE.iloc[50:100]),
    )
    near = explore.distance(first, swapped(first))
    assert near.mean() < explore.distance(first, TABLE.iloc[50:100]).mean()


def test_constraints_by_name_hold_for_the_numbers_of_the_column() -> None:
    constraints = {"age": 1, "hours": -1}
    model = evenhand.BudroClassifier(METRIC, n_steps=20, monotone_constraints=constraints)
    model.fit(TABLE, LABEL, sensitive_features=GROUPS)
    grid = [model.predict_proba(TABLE.assign(age=age))[:, 1] for age in (20.0, 40.0, 60.0, 80.0)]
    assert (np.diff(grid, axis=0) >= -1e-6).all()
    with pytest.raises(ValueError, match="'sex', which is no column of numbers or of ordered"):
        model.set_params(monotone_constraints={"sex": 1}).fit(
            TABLE, LABEL, sensitive_features=GROUPS
        )


def test_feature_groups_by_name() -> None:
    columns = {"age": [0], "sex": [1, 2]}
    assert check_feature_groups(None, 3, columns) == columns
    assert check_feature_groups({"all": ["sex", 0]}, 3, columns) == {"all": [1, 2, 0]}
    assert check_feature_groups(None, 2) == {"x0": [0], "x1": [1]}
    with pytest.raises(ValueError, match="names 'sx', which is no column.*Did you mean 'sex'"):
        check_feature_groups({"all": ["sx"]}, 3, columns)
    model = evenhand.DADIClassifier(**ASKING, random_state=0)
    model.fit(TABLE, LABEL, sensitive_features=GROUPS)
    assert list(model.groups_) == list(TABLE.columns)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (TABLE, "indicators names 'sx', which is no column of X.*Did you mean 'sex'"),
        (np.eye(3), "names the column 'sx', but X has no names: give a table .*, or positions"),
    ],
)
def test_a_name_that_no_column_has(X: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evenhand.SensitiveSubspace(indicators=["sx"], learned=[]).fit(X)


def test_two_attributes_on_five_columns_leave_differences() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    groups = {"sex": rng.choice(["f", "m"], 200), "race": rng.choice(list("wxyz"), 200)}
    metric = evenhand.SensitiveSubspace().fit(X, sensitive_features=groups)
    # one direction of sex and four of race would span all five dimensions
    assert metric.basis_.shape == (5, 2)
    model = evenhand.BudroClassifier(metric, n_steps=3, random_state=0)
    assert model.fit(X, (X[:, 0] > 0).astype(int)).perturbation_budget_ > 0
    fixed = evenhand.SensitiveSubspace(indicators=[0, 1]).fit(X, sensitive_features=groups)
    assert fixed.basis_.shape == (5, 3)
    # four directions leave one dimension, as before
    race = {"race": groups["race"]}
    assert evenhand.SensitiveSubspace().fit(X, sensitive_features=race).basis_.shape == (5, 4)


# --- proxies ---


def test_proxies_take_tables(tmp_path: Any) -> None:
    proxy = evenhand.ProxyTree(alpha=0.3).fit(TABLE, sensitive_features=TABLE[["sex"]])
    backwards = pl.from_pandas(TABLE[TABLE.columns[::-1]])
    np.testing.assert_array_equal(proxy.acceptance(backwards), proxy.acceptance(TABLE))
    proxy.save(tmp_path)
    again = evenhand.load_proxy(tmp_path)
    np.testing.assert_array_equal(again.acceptance(backwards), proxy.acceptance(TABLE))


@pytest.mark.parametrize(
    "estimator",
    [
        evenhand.ReweighedGBDTClassifier(),
        evenhand.SenSeIClassifier(),
        evenhand.ProjectedGBDTClassifier(),
        evenhand.DADIClassifier(),
        evenhand.FAIASClassifier(),
        evenhand.ReweighedLogisticClassifier(),
        evenhand.ProxyTree(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_an_error_says_what_to_pass(estimator: Any) -> None:
    with pytest.raises(ValueError, match=r"sensitive_features=(\{'sex': sex\}|\['sex'\])"):
        estimator.fit(TABLE, LABEL)


def test_the_learned_metric_reads_tables() -> None:
    frame, label = people(400)
    groups = {"sex": frame["sex"].to_numpy()}
    by_name = LearnedMetric(sensitive={"sex": ["sex"]}, legitimate=["age"])
    by_name.fit(frame, label, sensitive_features=groups)
    assert by_name.encoder_ is not None
    matrix = by_name.encoder_.transform(frame)
    columns = by_name.encoder_.groups_
    by_position = LearnedMetric(
        sensitive={"sex": columns["sex"]}, legitimate=columns["age"], feature_groups=columns
    )
    by_position.fit(matrix, label, sensitive_features=groups)
    np.testing.assert_array_equal(by_name.basis_, by_position.basis_)
    np.testing.assert_array_equal(by_name.adapted(frame, 0), by_position.adapted(matrix, 0))


# --- sensitive features by the names of columns ---


@pytest.mark.parametrize("name", ["reweigh", "project", "sensei", "sensr", "budro"])
def test_sensitive_features_by_name(name: str) -> None:
    estimator, _ = CASES[name]
    if name == "project":
        estimator = evenhand.ProjectedGBDTClassifier(n_steps=5)
    by_name = clone(estimator).set_params(random_state=0)
    by_name.fit(TABLE, LABEL, sensitive_features="sex")
    by_value = clone(by_name).fit(TABLE, LABEL, sensitive_features=TABLE["sex"])
    np.testing.assert_array_equal(by_name.predict_proba(TABLE), by_value.predict_proba(TABLE))


def test_several_names_and_metrics_and_proxies() -> None:
    table = pl.from_pandas(TABLE)
    both = input_tables.with_columns_of(table, ["sex", "owner"])
    assert both["sex"].tolist() == TABLE["sex"].tolist()
    assert list(both) == ["sex", "owner"]
    metric = evenhand.SensitiveSubspace().fit(TABLE, sensitive_features=["sex"])
    same = evenhand.SensitiveSubspace().fit(TABLE, sensitive_features=GROUPS)
    np.testing.assert_array_equal(metric.basis_, same.basis_)
    proxy = evenhand.ProxyTree(alpha=0.3).fit(TABLE, sensitive_features="sex")
    assert list(proxy.group_names_) == ["sex"]
    folds = cross_validate(
        evenhand.ReweighedGBDTClassifier(n_steps=5),
        TABLE,
        LABEL,
        cv=2,
        params={"sensitive_features": "sex"},
        error_score="raise",
    )
    assert len(folds["test_score"]) == 2


def test_rows_in_another_order_are_refused() -> None:
    """They would be matched by position, and mix people up."""
    X = pd.DataFrame({"age": [30.0, 40.0, 50.0, 60.0]}, index=[7, 3, 9, 1])
    y = pd.Series([0, 1, 0, 1], index=X.index)
    sex = pd.Series(["f", "m", "f", "m"], index=X.index)
    estimator = evenhand.ReweighedGBDTClassifier(n_steps=2)
    for arguments in (
        {"y": y.sort_index(), "sensitive_features": sex},
        {"y": y, "sensitive_features": sex.sort_index()},
        {"y": y, "sensitive_features": {"sex": sex.sort_index()}},
        {"y": y, "sensitive_features": sex, "sample_weight": y.sort_index() + 1.0},
    ):
        with pytest.raises(ValueError, match=r"in another order; .*\.loc\[X\.index\]"):
            clone(estimator).fit(X, **arguments)
    # an index of other labels says nothing about the order
    estimator.fit(X, y.reset_index(drop=True), sensitive_features=sex.to_numpy())


def test_a_list_of_values_is_none_of_names() -> None:
    two = TABLE.iloc[:2]
    listed = ["sex", "age"]
    assert input_tables.with_columns_of(two, listed) is listed
    assert input_tables.with_columns_of(two.to_numpy(), listed) is listed
    assert input_tables.with_columns_of(TABLE, GROUPS) is GROUPS


@pytest.mark.parametrize(
    ("X", "names", "message"),
    [
        (TABLE, "sexx", "sensitive_features names 'sexx', .* Did you mean 'sex'"),
        (TABLE, ["sex", "race"], "sensitive_features names 'race', which is no column"),
        (np.ones((4, 2)), "sex", "X has no names: give a table .* or values"),
    ],
)
def test_a_sensitive_feature_that_no_column_has(X: Any, names: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        input_tables.with_columns_of(X, names)


@pytest.mark.parametrize("name", ["gbdt", "nn", "budro"])
def test_a_column_that_is_missing_at_predict_is_named(name: str) -> None:
    estimator, arguments = CASES[name]
    model = clone(estimator).fit(TABLE, LABEL, **arguments)
    for column in ("job", "since", "age"):
        with pytest.raises(ValueError, match=f"yet now missing:\n- {column}"):
            model.predict(TABLE.drop(columns=column))


def test_lists_in_a_column_are_named() -> None:
    with pytest.raises(ValueError, match="column 'tags' of X holds values of the type list"):
        evenhand.GBDTClassifier().fit(TABLE.assign(tags=[["a"]] * len(TABLE)), LABEL)
