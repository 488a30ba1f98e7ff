"""What is published: the very model that was measured, with its card, and nothing about any
person.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.flows.people import Done, make_people, predict

pytestmark = pytest.mark.usefixtures("flow_environment")

CARD = (
    "data_fingerprint",
    "contract",
    "method",
    "parameters",
    "metrics",
    "gates",
    "seed",
    "packages",
    "git_commit",
    "intended_use",
    "sensitive",
)


def aliases(store: Path) -> tuple[int, list[tuple[str, int]]]:
    with sqlite3.connect(store / "mlflow.db") as opened:
        (count,) = opened.execute(
            "select count(*) from model_versions where name not like 'evenhand.audit.%'"
        ).fetchone()
        found = opened.execute("select alias, version from registered_model_aliases").fetchall()
    opened.close()
    return count, found


@pytest.fixture
def varied(publishing: Any) -> Any:
    """A table with every kind of column, gaps, codes with zeros, large whole numbers as
    categories.
    """
    rng = np.random.default_rng(5)
    rows = len(publishing.table)
    more: dict[str, Any] = {
        "zip": rng.choice(["01234", "1234", "NA"], rows).tolist(),
        "code": rng.choice([1234567, 1234568, 3], rows),
        "smoker": [None if value == 2 else bool(value) for value in rng.integers(0, 3, rows)],
        "height": [None if value < 0.1 else float(value) for value in rng.random(rows)],
        "level": rng.choice([1.0, 2.0], rows),
    }
    for name, values in more.items():
        publishing.table = publishing.table.append_column(name, pa.array(values))
    columns = publishing.contract["schema"][0]["properties"]

    def feature(name: str, kind: str, required: bool = True, **custom: Any) -> None:
        properties = [
            {"property": key, "value": value}
            for key, value in {"role": "feature", **custom}.items()
        ]
        columns.append(
            {
                "name": name,
                "logicalType": kind,
                "required": required,
                "customProperties": properties,
            }
        )

    feature("zip", "string")
    feature("code", "integer", encoding="onehot")
    feature("smoker", "boolean", required=False)
    feature("height", "number", required=False)
    feature("level", "number", encoding="binary", positive=2)
    columns[-1]["quality"] = [{"type": "library", "rule": "validValues", "validValues": [1, 2]}]
    publishing.job["table"]["null_values"] = [""]
    return publishing


# test_predict.py has a fresh process with trees alone
@pytest.mark.parametrize("method", [pytest.param("gbdt", marks=pytest.mark.long), "budro"])
def test_a_fresh_process_predicts_what_the_flow_did(varied: Any, method: str) -> None:
    varied.job |= {"method": {"name": method, "n_steps": 5, "max_depth": 2}}
    done = varied.run("--json")
    assert done.code == 0, done.err
    predictions = pq.read_table(done.json["artifacts"]["evaluate.predictions"])
    test = varied.table.take(predictions["row"].to_pylist())
    files = [varied.folder / name for name in ("test.parquet", "test.csv", "one.parquet")]
    pq.write_table(test, files[0])
    # as other programs hand rows over: text for truth and dates, in another order, without the rest
    frame = test.to_pandas()
    frame["owner"] = frame["owner"].map({True: "yes", False: "no"})
    smokers = test["smoker"].to_pylist()
    frame["smoker"] = [None if value is None else str(value).upper() for value in smokers]
    names = [name for name in reversed(frame.columns) if name not in ("paid", "key", "sex", "age")]
    frame[names].to_csv(files[1], index=False)
    # rows without gaps have other types in pandas: each row on its own
    pq.write_table(test.slice(0, 1), files[2])
    typed, text, one = predict(varied.store, (done.json["model"]["uri"], *files))
    probability = predictions["probability"].to_pylist()
    assert typed["probability"] == probability
    assert one["probability"] == probability[:1]
    flags = ["yes" if flag else "no" for flag in predictions["prediction"].to_pylist()]
    assert typed["prediction"] == flags
    assert set(flags) == {"yes", "no"}
    assert text["prediction"] == flags
    assert text["probability"] == pytest.approx(probability)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "values", "positive", "listed"),
    [
        ("boolean", [False, True], True, False),
        ("boolean", [True, False], False, False),
        ("integer", [1, 2], 2, True),
        ("integer", [0, 1], 1, False),
        ("string", ["good", "bad"], "bad", False),
        ("number", [0.5, 1.5], 1.5, True),
    ],
)
def test_predictions_are_the_labels_own_values(
    publishing: Any, kind: str, values: list[Any], positive: Any, listed: bool
) -> None:
    publishing.set("paid", [values[text == "yes"] for text in publishing.table["paid"].to_pylist()])
    label = publishing.properties["paid"]
    label["logicalType"] = kind
    label["customProperties"][1]["value"] = positive
    del label["quality"]
    if listed:
        label["quality"] = [{"type": "library", "rule": "validValues", "validValues": values}]
    done = publishing.run("--set", "gates={accuracy: {min: 1.5}}", "--json")
    assert done.code == 1, done.err
    (record,) = (publishing.store / "steps" / "preprocess").iterdir()
    said = json.loads(record.read_text())["facts"]["label_values"]
    negative = next(value for value in values if value != positive)
    assert said == [negative, positive]
    assert [type(value) for value in said] == [type(value) for value in (negative, positive)]
    predictions = pq.read_table(done.json["artifacts"]["evaluate.predictions"])
    labels = publishing.table["paid"].take(predictions["row"]).to_pylist()
    assert [int(value == positive) for value in labels] == predictions["label"].to_pylist()


def test_bad_rows_are_refused_by_name(published: Done) -> None:
    done = published
    sys.path.insert(0, str(next(done.store.glob("mlflow-artifacts/**/code"))))
    try:
        import mlflow

        uri = f"sqlite:///{done.store / 'mlflow.db'}"
        mlflow.set_tracking_uri(uri)
        mlflow.set_registry_uri(uri)
        model = mlflow.pyfunc.load_model(done.json["model"]["uri"])
    finally:
        sys.path.pop(0)
    frame = make_people().to_pandas().head(3)
    with pytest.raises(ValueError, match="income"):
        model.predict(frame.drop(columns=["income"]))
    with pytest.raises(ValueError, match="job") as caught:
        model.predict(frame.assign(job="zzyzx"))
    assert "zzyzx" not in str(caught.value)
    with pytest.raises(ValueError, match="owner") as caught:
        model.predict(frame.assign(owner="zzyzx"))
    assert "zzyzx" not in str(caught.value)
    before = frame.copy()
    model.predict(frame)
    pd.testing.assert_frame_equal(frame, before)


def test_an_unchanged_job_makes_no_new_version(champion: Any, published: Done) -> None:
    """An older job brings its model back."""
    first = published.json["model"]
    assert aliases(champion.store) == (1, [("champion", 1)])
    second = champion.run("--json", "--set", "method.n_steps=2").json["model"]
    assert (first["version"], second["version"]) == ("1", "2")
    assert aliases(champion.store) == (2, [("champion", 2)])
    back = champion.run("--json").json
    assert back["model"] == first
    assert back["cached"] == [
        *(
            "ingest",
            "contract",
            "preprocess",
            "profile",
            "controls",
            "train",
            "decide",
            "evaluate",
            "gate",
        )
    ]
    assert aliases(champion.store) == (2, [("champion", 1)])
    # with no record of any step, the content is still known to the registry
    from evenhand.tasks.execution.store import Store

    Store(str(champion.store)).prune(0)
    assert champion.run("--json").json["model"] == first
    assert aliases(champion.store) == (2, [("champion", 1)])


def test_what_a_version_says_of_itself_is_true(champion: Any) -> None:
    """A change of the card alone is a new version too: cards are not rewritten."""
    done = champion.run("--json", "--set", "publish.intended_use=Loans only")
    assert done.json["model"]["version"] == "2"
    card = json.loads(Path(done.json["artifacts"]["model_card.json"]).read_text())
    assert card["intended_use"] == "Loans only"


def test_the_registry_has_metrics_of_the_run_and_the_model(published: Done) -> None:
    card = json.loads(Path(published.json["artifacts"]["model_card.json"]).read_text())
    tables = {"latest_metrics": "key, value", "logged_model_metrics": "metric_name, metric_value"}
    for table, columns in tables.items():
        with sqlite3.connect(published.store / "mlflow.db") as opened:
            found = dict(opened.execute(f"select {columns} from {table}").fetchall())
        for metric in ("accuracy", "auc"):
            given = card["metrics"][metric]
            assert [found[f"{metric}{end}"] for end in ("", ".low", ".high")] == pytest.approx(
                [given["value"], given["low"], given["high"]]
            )


@pytest.mark.long
def test_new_names_of_the_labels_are_a_new_version(champion: Any) -> None:
    """The parameters are the same to the byte, what the model answers is not."""
    champion.set(
        "paid", [{"yes": "JA", "no": "NEIN"}[v] for v in champion.table["paid"].to_pylist()]
    )
    champion.properties["paid"]["quality"][0]["validValues"] = ["NEIN", "JA"]
    champion.properties["paid"]["customProperties"][1]["value"] = "JA"
    assert champion.run("--json").json["model"]["version"] == "2"


@pytest.mark.long
def test_other_names_of_model_and_alias(publishing: Any) -> None:
    done = publishing.run("--set", "publish={model: loans.v2-a, alias: shadow}", "--json")
    assert done.json["model"]["uri"] == "models:/loans.v2-a@shadow"
    assert aliases(done.store) == (1, [("shadow", 1)])


def test_no_pickle_is_anywhere(published: Done) -> None:
    files = [path for path in published.store.rglob("*") if path.is_file()]
    assert len(files) > 30
    for path in files:
        content = path.read_bytes()
        assert path.suffix not in (".pkl", ".pickle", ".joblib", ".pt", ".npy", ".npz")
        assert not re.match(rb"\x80[\x02-\x05]", content), path
    model = yaml.safe_load(next(published.store.glob("mlflow-artifacts/**/MLmodel")).read_text())
    assert model["flavors"]["python_function"]["model_code_path"].endswith("model_code.py")
    assert "python_model" not in model["flavors"]["python_function"]


def test_the_card_says_what_it_must_and_nothing_of_anybody(published: Done) -> None:
    done = published
    card = json.loads(Path(done.json["artifacts"]["model_card.json"]).read_text())
    assert set(CARD) <= set(card)
    raw = Path(done.json["artifacts"]["ingest.raw"]).name.partition(".")[0]
    assert card["data_fingerprint"] == raw
    assert card["contract"]["version"] == "1.0.0"
    assert card["parameters"]["n_steps"] == 4
    assert card["metrics"]["auc"]["value"] == done.json["metrics"]["auc"]
    assert card["gates"]["verdict"] == "passed"
    assert {"numpy", "pandas"} <= set(card["packages"])
    text = Path(done.json["artifacts"]["model_card.md"]).read_text() + json.dumps(card)
    assert "p-000" not in text
    with sqlite3.connect(done.store / "mlflow.db") as opened:
        (description,) = opened.execute(
            "select description from model_versions where name not like 'evenhand.audit.%'"
        ).fetchone()
        logged = dict(opened.execute("select key, value from metrics").fetchall())
    opened.close()
    assert "## Metrics on held-out rows" in description
    assert logged["auc"] == done.json["metrics"]["auc"]
    assert logged["gap_max.sex.high"] == done.json["metrics"]["gap_max.sex.high"]


def test_the_model_holds_parameters_only(publishing: Any, people: Any) -> None:
    """Four times the rows, the same size; no id in it, nor any column but inputs outside the
    contract.
    """
    sizes = []
    for rows in (400, 1600):
        publishing.table = people(rows)
        (publishing.folder / "people.csv").unlink(missing_ok=True)
        done = publishing.run("--json", "--set", "method.max_depth=1")
        model = Path(done.json["artifacts"]["train.model"])
        sizes.append(sum(path.stat().st_size for path in model.rglob("*")))
        bundle = next(done.store.glob(f"mlflow-artifacts/**/{'bundle'}"))
        files = {
            path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file()
        }
        # what later tables are checked by and compared with: the contract's words, and counts
        described = {"evaluation.json", "reference.json"}
        model_files = {"model/model.json", "model/booster.ubj", "model/decision.json"}
        other = {"encoder.json", "inputs.json", "digests.json", "training_rows.json"}
        assert files == described | other | model_files
        contents = {name: (bundle / name).read_bytes() for name in files}
        assert not [name for name, content in contents.items() if b"p-000" in content]
        # the sealed record of training rows is random letters, which may be any short word
        described.add("training_rows.json")
        said = b"".join(content for name, content in contents.items() if name not in described)
        for word in (b"sex", b'"age"', b'"key"'):
            assert word not in said
    assert sizes[1] <= sizes[0] * 1.2


@pytest.mark.long
def test_any_name_of_a_sensitive_column_can_be_published(publishing: Any) -> None:
    names = {"sex": "Größe (cm) 100%", "age": "a//b&c/../d: e"}
    publishing.table = publishing.table.rename_columns(
        [names.get(column, column) for column in publishing.table.column_names]
    )
    for old, new in names.items():
        publishing.properties[old]["name"] = new
    done = publishing.run("--json", "--set", "evaluate.intersections=true")
    assert done.code == 0, done.err
    for name in names.values():
        assert f"gap_max.{name}" in done.json["metrics"]


def test_names_in_the_registry_stay_apart() -> None:
    from evenhand.tasks.steps.publish_step import _metric_key

    names = [
        "gap_max.sex",
        "consistency.a/b",
        "gap_max.a&b",
        "gap_max.a(b",
        "gap_max.a)b",
        "gap_max.a_b",
        "x.a//b",
    ]
    keys = [_metric_key(name) for name in names]
    assert len(set(keys)) == len(keys)
    assert keys[0] == "gap_max.sex"
    assert keys[2] == "gap_max.a/b"
