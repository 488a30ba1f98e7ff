"""Queries decide about every row as the published model does, in DuckDB and in PostgreSQL."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import sqlglot

from evenhand.tasks.errors import InputError
from evenhand.tasks.exporting.score import read_classifier
from evenhand.tasks.exporting.sql import DIALECTS, classifier_query
from tests.tasks.exporting.conftest import at_the_cuts, make_rows

TREES = {"n_steps": 60, "n_iter_no_change": None, "max_depth": 4}
MODELS: list[tuple[str, str, float | None, dict[str, Any]]] = [
    ("gbdt", "none", None, TREES),
    ("gbdt", "shift", 0.5, TREES),
    ("gbdt", "beta", 0.4, TREES),
    ("gbdt", "falling", 0.5, TREES),
    ("reweigh", "isotonic", 0.55, TREES | {"max_depth": 2, "n_steps": 210}),
    ("gbdt", "none", None, TREES | {"born": "calendar"}),
    ("logistic", "isotonic", 0.6, {}),
    ("logistic", "sigmoid", None, {"born": "calendar"}),
    ("reweigh-logistic", "none", None, {}),
    ("lightgbm", "beta", 0.4, {"n_estimators": 8, "n_jobs": 1}),
]


def ask_duckdb(query: str, rows: pa.Table) -> dict[str, np.ndarray]:
    with duckdb.connect() as database:
        database.register("people", rows)
        return database.execute(query).fetchnumpy()


def check(found: Any, model: Any) -> None:
    np.testing.assert_allclose(
        np.asarray(found["probability"]), model.probability, rtol=0, atol=1e-6
    )
    np.testing.assert_array_equal(np.asarray(found["prediction"]) == "yes", model.positive)


@pytest.mark.long
@pytest.mark.parametrize(("method", "calibration", "threshold", "parameters"), MODELS)
def test_duckdb_decides_as_the_model(
    publish: Any,
    people: Any,
    method: str,
    calibration: str,
    threshold: float | None,
    parameters: dict[str, Any],
) -> None:
    model = publish(method, calibration, threshold, **parameters)
    found = ask_duckdb(classifier_query(model.bundle, "duckdb", "people"), people.rows)
    assert [*found] == [*people.rows.column_names, "prediction", "probability"]
    check(found, model)


@contextlib.contextmanager
def loaded(address: str, rows: pa.Table, types: dict[str, str]) -> Any:
    """A PostgreSQL connection to the table ``people``."""
    import psycopg2

    text = io.BytesIO()
    pyarrow.csv.write_csv(rows, text)
    text.seek(0)
    columns = ", ".join(f'"{name}" {types.get(name, "text")}' for name in rows.column_names)
    with contextlib.closing(psycopg2.connect(address)) as connection, connection.cursor() as cursor:
        cursor.execute(f"create table people ({columns})")
        cursor.copy_expert("copy people from stdin (format csv, header)", text)
        yield cursor


TYPES = {
    "number": "int", "income": "double precision", "Home share": "double precision", "age": "smallint",
    "since": "date", "born": "date", "level": "numeric", "owner": "boolean", "code": "bigint",
    "smoker": "boolean",
}  # fmt: skip


def test_postgresql_decides_as_the_model(publish: Any, people: Any, postgres: str) -> None:
    count = 5000
    rows = people.rows.slice(0, count).append_column("number", pa.array(np.arange(count)))
    with loaded(postgres, rows, TYPES) as cursor:
        for method, calibration, threshold, parameters in MODELS:
            model = publish(method, calibration, threshold, **parameters)
            query = classifier_query(model.bundle, "postgres", "people").rstrip().rstrip(";")
            cursor.execute(
                f"select number, prediction, probability from ({query}) as found order by number"
            )
            number, prediction, probability = zip(*cursor.fetchall(), strict=True)
            assert number == tuple(range(count))
            part = model._replace(
                probability=model.probability[:count], positive=model.positive[:count]
            )
            check({"prediction": prediction, "probability": probability}, part)


@pytest.mark.long
def test_a_million_rows(publish: Any, postgres: str) -> None:
    model = publish("gbdt", "beta", 0.4, **TREES)
    encoder, _ = read_classifier(model.bundle, "sql")
    rows = make_rows(1_000_000, 9).append_column("number", pa.array(np.arange(1_000_000)))
    from evenhand.fairlib.methods.registry import load_model

    loaded_model = load_model(model.bundle.folder / "model")
    X = encoder.transform(rows.to_pandas())
    whole = model._replace(
        probability=loaded_model.predict_proba(X)[:, 1], positive=loaded_model.predict(X) == 1
    )
    check(ask_duckdb(classifier_query(model.bundle, "duckdb", "people"), rows), whole)
    with loaded(postgres, rows, TYPES) as cursor:
        query = classifier_query(model.bundle, "postgres", "people").rstrip().rstrip(";")
        cursor.execute(f"select prediction, probability from ({query}) as found order by number")
        prediction, probability = zip(*cursor.fetchall(), strict=True)
        check({"prediction": prediction, "probability": probability}, whole)


@pytest.mark.long
@pytest.mark.parametrize("dialect", ["bigquery", "snowflake", "spark"])
@pytest.mark.parametrize("method", ["gbdt", "logistic"])
def test_other_dialects_say_the_same(publish: Any, people: Any, dialect: str, method: str) -> None:
    """Their text is parsed by sqlglot, and what it means is run by DuckDB."""
    model = publish(
        method, "beta", 0.4, **({**TREES, "born": "calendar"} if method == "gbdt" else {})
    )
    query = classifier_query(model.bundle, dialect, "people")
    parsed = sqlglot.parse_one(query, read=dialect)
    if dialect == "spark":  # DuckDB has no STRUCT(*)
        parsed = sqlglot.parse_one(
            query.replace("STRUCT(*) AS evenhand_row", "*").replace("evenhand_row.*", "*"),
            read=dialect,
        )
    rows = people.rows.rename_columns(
        [
            name.upper() if dialect == "snowflake" and name.islower() else name
            for name in people.rows.column_names
        ]
    )
    found = ask_duckdb(parsed.sql(dialect="duckdb"), rows)
    check(found, model)
    assert ("may be decided otherwise" in query) == (dialect != "spark")


def test_unseen_categories_and_infinite_numbers_have_no_answer(publish: Any, people: Any) -> None:
    rows = people.rows.slice(0, 4).to_pandas().astype({"job": object})
    rows.loc[0, "job"], rows.loc[1, "income"], rows.loc[2, "code"] = "pilot", np.inf, 4
    table = pa.Table.from_pandas(rows, schema=people.rows.schema)
    for unseen, expected in (
        ("error", [True, True, True, False]),
        ("ignore", [False, True, False, False]),
    ):
        query = classifier_query(publish("gbdt", unseen=unseen, **TREES).bundle, "duckdb", "people")
        found = ask_duckdb(query, table)
        for name in ("prediction", "probability"):
            assert np.ma.getmaskarray(found[name]).tolist() == expected


def test_rows_at_the_very_cuts_of_a_split(publish: Any) -> None:
    model, rows, probability = at_the_cuts(publish("gbdt", **TREES))
    found = ask_duckdb(classifier_query(model.bundle, "duckdb", "people"), rows)
    np.testing.assert_allclose(found["probability"], probability, rtol=0, atol=2e-7)


def test_a_category_alone_of_which_none_is_refused(publish: Any, people: Any) -> None:
    model = publish("logistic", only="smoker", unseen="ignore")
    check(ask_duckdb(classifier_query(model.bundle, "duckdb", "people"), people.rows), model)


def test_truth_and_numbers_in_text(publish: Any, people: Any) -> None:
    """As other programs hand a table over: the model reads such values too."""
    rows = people.rows
    index = {name: place for place, name in enumerate(rows.column_names)}
    owner = pa.array([" Yes" if value else "0" for value in rows["owner"].to_pylist()])
    rows = rows.set_column(index["owner"], "owner", owner)
    rows = rows.set_column(index["code"], "code", rows["code"].cast(pa.float64()))
    rows = rows.set_column(index["age"], "age", rows["age"].cast(pa.string()))
    model = publish("gbdt", **TREES)
    check(ask_duckdb(classifier_query(model.bundle, "duckdb", "people"), rows), model)


def test_the_name_of_the_table(publish: Any) -> None:
    bundle = publish("logistic", "isotonic", 0.6).bundle
    assert "FROM shop.customers AS t" in classifier_query(bundle, "bigquery", "shop.customers")
    with pytest.raises(InputError, match="is no table's name"):
        classifier_query(bundle, "duckdb", "a b; drop table c")


def test_a_label_of_any_type(publish: Any, people: Any) -> None:
    for labels in ((0, 1), (False, True), (0.5, 1.5), ("it's", "so")):
        model = publish("logistic", "isotonic", 0.6, labels=labels)
        found = ask_duckdb(
            classifier_query(model.bundle, "duckdb", "people"), people.rows.slice(0, 50)
        )
        expected = [labels[int(positive)] for positive in model.positive[:50]]
        assert np.asarray(found["prediction"]).tolist() == expected


def test_every_dialect_has_its_own_words() -> None:
    assert [*DIALECTS] == ["duckdb", "postgres", "bigquery", "snowflake", "spark"]
