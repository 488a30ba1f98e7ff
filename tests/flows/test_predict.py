"""`evenhand predict`: the published model's own predictions for files of any kind, and nothing
half-done.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from evenhand.fairlib.methods.registry import load_model
from evenhand.flows import file_runs
from evenhand.flows.cli import app
from evenhand.flows.engine import CacheMiss
from evenhand.flows.predict import plan_prediction
from evenhand.tasks.execution.store import Store
from evenhand.tasks.filtering import predicting
from evenhand.tasks.filtering.filter_engine import process_files
from evenhand.tasks.filtering.predicting import PredictSettings, RowPredictor
from tests.flows.people import Bench, Done, make_people, predict

ADDED = ["prediction", "probability", "model_version"]
EQUAL = "decision={equal: {criterion: equalized_odds, attribute: age}}"


def put(path: Path, rows: int = 300, seed: int = 1, **columns: Any) -> pa.Table:
    """Write people as Parquet or CSV; `columns` are added or, None, left out."""
    table = make_people(rows, seed)
    for name, values in columns.items():
        table = table.drop_columns([name] if name in table.column_names else [])
        table = table if values is None else table.append_column(name, pa.array(values))
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pq.write_table(table, path, row_group_size=100)
    return table


def run(store: Path, model: str, source: Path, output: Path, *arguments: str) -> Result:
    given = [
        "predict",
        model,
        str(source),
        "--output",
        str(output),
        "--store",
        str(store),
    ]
    done = CliRunner().invoke(app, [*given, "--direct", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    return done


def predicted(folder: Path) -> pa.Table:
    """Rows of the output by their key."""
    parts = [pq.read_table(part) for part in sorted(folder.glob("part-*.parquet"))]
    return pa.concat_tables(parts).sort_by("key")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def refused(done: Result, *words: str) -> None:
    """One line on stderr, exit code 2."""
    assert done.exit_code == 2, (done.exit_code, done.stdout, done.stderr)
    (line,) = done.stderr.splitlines()
    assert all(word in line for word in words), line


@pytest.mark.parametrize("form", ["parquet", pytest.param("csv", marks=pytest.mark.long)])
def test_every_row_gets_what_the_published_model_says(
    published: Done, tmp_path: Path, form: str
) -> None:
    source, out = tmp_path / "in" / f"a.{form}", tmp_path / "out"
    table = put(source, note=[f"note {i}" for i in range(300)])
    done = run(published.store, "people-gbdt", source.parent, out, "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    verdict = json.loads(done.stdout)
    (wanted,) = predict(published.store, ("models:/people-gbdt@champion", source))
    found = predicted(out)
    assert found.column_names == [*table.column_names, *ADDED]
    assert found["prediction"].to_pylist() == wanted["prediction"]
    assert found["probability"].to_pylist() == wanted["probability"]
    assert set(found["model_version"].to_pylist()) == {"people-gbdt/1"}
    assert found.schema.field("prediction").type == pa.string()
    for name in ("key", "sex", "income", "note"):  # sensitive ones too
        assert found[name].to_pylist() == table[name].to_pylist()
    positive = wanted["prediction"].count("yes")
    assert verdict["metrics"]["positive"] == positive / 300
    assert verdict["rates"] == {"positive": "paid = yes", "predicted": positive / 300}
    assert (verdict["status"], verdict["metrics"]["rows_out"]) == ("predicted", 300)
    report = Path(verdict["artifacts"]["report"]).read_text()
    assert "people-gbdt: predictions" in report
    assert "p-00001" not in report


def test_a_run_that_ends_early_goes_on_to_the_same_bytes(published: Done, tmp_path: Path) -> None:
    bundle = next(published.store.glob("mlflow-artifacts/**/bundle"))
    put(tmp_path / "in" / "a.parquet", 500)
    put(tmp_path / "in" / "b.csv", 500, 2)
    settings = PredictSettings(rows_per_unit=100, workers=1)
    judge = RowPredictor.load(bundle, settings, "people/1")
    process_files(judge, str(tmp_path / "in"), str(tmp_path / "whole"))

    def stop(done: int, total: int, _: Any) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        process_files(judge, str(tmp_path / "in"), str(tmp_path / "out"), stop)
    assert 0 < len(list((tmp_path / "out" / "_evenhand" / "records").iterdir())) < 10
    process_files(judge, str(tmp_path / "in"), str(tmp_path / "out"))
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.long
def test_decisions_by_group_follow_the_rows_groups(publishing: Bench, tmp_path: Path) -> None:
    assert publishing.run("--set", EQUAL, "--set", "gates={}").code == 0
    source = tmp_path / "in" / "a.parquet"
    put(source)
    assert run(publishing.store, "people-gbdt", source, tmp_path / "out").exit_code == 0
    (wanted,) = predict(publishing.store, ("models:/people-gbdt@champion", source))
    assert predicted(tmp_path / "out")["prediction"].to_pylist() == wanted["prediction"]
    put(tmp_path / "in" / "b.parquet", age=None)
    refused(
        run(publishing.store, "people-gbdt", tmp_path / "in", tmp_path / "out"),
        "'age'",
        "b.parquet",
    )


@pytest.mark.long
def test_a_model_that_asks_says_what_it_asked(agent_store: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.parquet"
    put(source, 60)
    assert run(agent_store, "people-dadi", source, tmp_path / "out").exit_code == 0
    (wanted,) = predict(agent_store, ("models:/people-dadi@champion", source))
    assert predicted(tmp_path / "out")["asked"].to_pylist() == wanted["asked"]


@pytest.mark.long
def test_rows_that_break_the_contract_are_refused_or_set_aside(
    publishing: Bench, tmp_path: Path
) -> None:
    assert publishing.run().code == 0
    table = put(tmp_path / "in" / "a.parquet", job=["clerk"] * 297 + ["pilot"] * 3)
    done = run(publishing.store, "people-gbdt", tmp_path / "in", tmp_path / "out")
    refused(done, "a.parquet", "'job'", "3 of 100 rows")
    assert not list((tmp_path / "out").glob("part-*"))
    publishing.contract["customProperties"] = [{"property": "onViolation", "value": "quarantine"}]
    assert publishing.run().code == 0
    done = run(publishing.store, "people-gbdt", tmp_path / "in", tmp_path / "set-aside")
    assert done.exit_code == 0, done.stderr
    assert "3 set aside" in done.stdout
    assert predicted(tmp_path / "set-aside")["key"].to_pylist() == table["key"].to_pylist()[:297]
    (aside,) = (tmp_path / "set-aside" / "_evenhand" / "quarantine").iterdir()
    assert pq.read_table(aside)["key"].to_pylist() == table["key"].to_pylist()[297:]


OBSERVED = {"rules": "observed"}
OLDER = {
    "rules": None,
    "description": "Inferred from a table of 300 rows and 8 columns; review before use.",
}


def judge_with_bounds(published: Done, **contract: Any) -> RowPredictor:
    """The published model, whose contract has bounds on the income that all made-up people keep."""
    judge = RowPredictor.load(
        next(published.store.glob("mlflow-artifacts/**/bundle")),
        PredictSettings(workers=1),
        "people/1",
    )
    columns = [
        replace(column, minimum=0.0) if column.name == "income" else column
        for column in judge.model.contract.columns
    ]
    changed = replace(judge.model.contract, columns=tuple(columns), **contract)
    judge.model = replace(judge.model, contract=changed)
    return judge


@pytest.mark.parametrize("contract", [OBSERVED, OLDER], ids=["observed", "of an older init"])
def test_one_row_outside_observed_bounds_is_counted(
    published: Done, tmp_path: Path, contract: dict[str, Any]
) -> None:
    """It is predicted, too."""
    table = put(tmp_path / "in" / "a.parquet")
    income = [abs(value or 0.0) for value in table["income"].to_pylist()]
    put(tmp_path / "in" / "a.parquet", income=[-5.0, *income[1:]])
    summary = process_files(
        judge_with_bounds(published, **contract), str(tmp_path / "in"), str(tmp_path / "o")
    )
    (file,) = summary.files
    assert (file.status, file.rows_out, file.quarantined, file.outside) == ("done", 300, 0, 1)
    assert summary.outside == 1
    assert len(predicted(tmp_path / "o")) == 300


def test_a_row_outside_stated_bounds_still_refuses_its_file(
    published: Done, tmp_path: Path
) -> None:
    table = put(tmp_path / "in" / "a.parquet")
    income = [abs(value or 0.0) for value in table["income"].to_pylist()]
    put(tmp_path / "in" / "a.parquet", income=[-5.0, *income[1:]])
    for contract in ({}, {"rules": "stated", "description": OLDER["description"]}):
        judge = judge_with_bounds(published, **contract)
        (file,) = process_files(judge, str(tmp_path / "in"), str(tmp_path / "o")).files
        assert file.status == "failed"
        assert "values of at least 0" in str(file.reason)


def test_few_rows_outside_observed_values_are_set_aside(published: Done, tmp_path: Path) -> None:
    table = put(tmp_path / "in" / "a.parquet")
    jobs = ["pilot", *table["job"].to_pylist()[1:]]
    put(tmp_path / "in" / "a.parquet", job=jobs, income=[1.0, None, float("nan"), *[2.0] * 297])
    judge = judge_with_bounds(published, **OBSERVED)
    (file,) = process_files(judge, str(tmp_path / "in"), str(tmp_path / "o")).files
    assert (file.status, file.rows_out + file.quarantined, file.outside) == ("done", 300, 0)
    assert 1 <= file.quarantined <= 3
    put(tmp_path / "few" / "a.parquet", 10, job=["pilot", *["cook"] * 9])  # one row of few
    (file,) = process_files(judge, str(tmp_path / "few"), str(tmp_path / "p")).files
    assert (file.status, file.rows_out, file.quarantined) == ("done", 9, 1)
    put(tmp_path / "many" / "a.parquet", job=["pilot"] * 150 + ["cook"] * 150)
    (file,) = process_files(judge, str(tmp_path / "many"), str(tmp_path / "q")).files
    assert file.status == "failed"
    assert "150 of 300 rows break the contract, more than the 5.0%" in str(file.reason)
    put(tmp_path / "type" / "a.parquet", income=["much"] * 300)
    (file,) = process_files(judge, str(tmp_path / "type"), str(tmp_path / "r")).files
    assert file.status == "failed"


# Over 2 s: init, a training and a publication come first.
def test_a_batch_survives_one_row_that_init_never_saw(tmp_path: Path) -> None:
    table = make_people(400, 3)
    income = [abs(value or 0.0) + 1.0 for value in table["income"].to_pylist()]
    table = table.set_column(table.column_names.index("income"), "income", pa.array(income))
    pyarrow.csv.write_csv(table, tmp_path / "people.csv")
    given = [
        str(tmp_path / "people.csv"),
        "--label",
        "paid",
        "--sensitive",
        "sex",
        "--into",
        str(tmp_path),
    ]
    started = CliRunner().invoke(app, ["init", *given])
    assert started.exit_code == 0, started.stderr
    assert "{property: rules, value: observed}" in (tmp_path / "people.contract.yaml").read_text()
    steps = [
        "--set",
        "method.n_steps=4",
        "--set",
        "gates={}",
        "--set",
        "publish.without_policy=true",
    ]
    steps += ["--set", "evaluate.draws=20"]
    trained = CliRunner().invoke(
        app,
        [
            "run",
            str(tmp_path / "people.yaml"),
            "--direct",
            "--store",
            str(tmp_path / "store"),
            *steps,
        ],
    )
    assert trained.exit_code == 0, trained.stderr
    new = table.set_column(
        table.column_names.index("income"), "income", pa.array([-7.0, *income[1:]])
    )
    pyarrow.csv.write_csv(new, tmp_path / "new.csv")
    done = run(tmp_path / "store", "people", tmp_path / "new.csv", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    assert "rows      399 of 400 predicted" in done.stdout
    assert "WARNING   1 set aside: outside the bounds" in done.stdout
    assert "in income (1) were set aside" in done.stdout
    (aside,) = (tmp_path / "out" / "_evenhand" / "quarantine").glob("*.parquet")
    assert pq.read_table(aside)["income"].to_pylist() == [-7.0]
    used = run(
        tmp_path / "store", "people", tmp_path / "new.csv", tmp_path / "used",
        "--set", "predict.outside=use",
    )  # fmt: skip
    assert used.exit_code == 0, used.stderr
    assert "rows      400 of 400 predicted" in used.stdout
    assert "WARNING   1 predicted with values outside the bounds" in used.stdout
    judged = CliRunner().invoke(
        app,
        ["evaluate", "people", "--data", str(tmp_path / "new.csv"), "--direct",
         "--store", str(tmp_path / "store"), "--set", "evaluate.draws=20", "--json"],
    )  # fmt: skip
    assert judged.exit_code == 0, judged.stderr


@pytest.mark.parametrize(
    ("columns", "arguments", "words"),
    [
        ({"probability": [0.5] * 300}, [], ["'probability'", "rename it"]),
        ({"income": None}, [], ["'income'", "the column to be there"]),
        ({}, ["--set", "predict.sensitve=drop"], ["did you mean", "predict.sensitive"]),
        ({}, ["--set", "predict.workers=0"], ["predict.workers"]),
        ({}, ["--set", "predict.sensitive=refuse"], ["'age'", "predict.sensitive: drop"]),
        ({}, ["--set", "predict.delimiter"], ["KEY=VALUE"]),
    ],
)
def test_bad_input_is_one_line(
    published: Done, tmp_path: Path, columns: dict[str, Any], arguments: list[str], words: list[str]
) -> None:
    put(tmp_path / "in" / "a.parquet", **columns)
    refused(
        run(published.store, "people-gbdt", tmp_path / "in", tmp_path / "out", *arguments), *words
    )
    assert not list((tmp_path / "out").glob("part-*"))


def test_the_name_of_a_file_is_no_output(published: Done, tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.parquet")
    output = tmp_path / "scored.csv"
    done = run(published.store, "people-gbdt", tmp_path / "in", output)
    refused(done, "scored.csv is the name of a file", f"such as {tmp_path / 'scored'}")
    assert not output.exists()


def test_what_is_no_classifier_and_an_output_in_use_are_refused(
    published: Done, published_proxy: Done, tmp_path: Path
) -> None:
    put(tmp_path / "in" / "a.parquet")
    call: Callable[..., Result] = lambda store, model: run(  # noqa: E731
        store, model, tmp_path / "in", tmp_path / "out"
    )
    refused(call(published_proxy.store, "people-proxy"), "balancing proxy", "evenhand filter")
    refused(call(published.store, "people-gbtd"), "not published")
    refused(call(published.store, "people-gbdt/7"), "version 7")
    assert not (tmp_path / "out").exists()
    state = tmp_path / "out" / "_evenhand"
    state.mkdir(parents=True)
    (state / "input.json").write_text(json.dumps({"root": (tmp_path / "in").as_uri()}))
    refused(call(published.store, "people-gbdt"), "holds the output of `evenhand filter`")


def test_a_watched_input_without_new_files_is_up_to_date(published: Done, tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.parquet")
    watch = ["--set", "predict.settle_seconds=0"]
    assert (
        run(published.store, "people-gbdt", tmp_path / "in", tmp_path / "out", *watch).exit_code
        == 0
    )
    done = run(published.store, "people-gbdt", tmp_path / "in", tmp_path / "out", *watch)
    assert done.stdout == "up to date: 1 files were predicted before, none is new.\n"


def test_a_repeat_without_new_files_loads_no_model(
    published: Done, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "in" / "a.parquet")
    folders = (tmp_path / "in", tmp_path / "out")
    assert run(published.store, "people-gbdt", *folders).exit_code == 0
    before = contents(tmp_path / "out")
    loaded: list[Path] = []

    def load(folder: Path) -> Any:
        loaded.append(folder)
        return load_model(folder)

    monkeypatch.setattr(predicting, "load_model", load)
    for watch in ([], ["--set", "predict.settle_seconds=0"]):
        assert run(published.store, "people-gbdt", *folders, *watch).exit_code == 0
    assert (loaded, contents(tmp_path / "out")) == ([], before)
    # what only looks judges nothing, and says that there is work
    put(tmp_path / "in" / "b.parquet", seed=2)
    plan = plan_prediction("people-gbdt", *map(str, folders))
    store = Store(str(published.store))
    with pytest.raises(CacheMiss):
        file_runs.execute(plan, store, "looked", lambda *_: None, only_look=True)
    assert contents(tmp_path / "out") == before
    assert "looked" not in store.runs()
    assert run(published.store, "people-gbdt", *folders).exit_code == 0
    assert len(loaded) == 1
    assert predicted(tmp_path / "out").num_rows == 600


def test_reasons_name_model_inputs_and_never_a_sensitive_value(
    published: Done, tmp_path: Path
) -> None:
    put(tmp_path / "in" / "a.parquet")
    plain, three = (
        run(published.store, "people-gbdt", tmp_path / "in", tmp_path / name, *more)
        for name, more in (("plain", []), ("three", ["--reasons", "3"]))
    )
    assert (plain.exit_code, three.exit_code) == (0, 0), three.stderr
    found = predicted(tmp_path / "three")
    assert found.drop_columns("reasons").equals(predicted(tmp_path / "plain"))
    said = [text.split("; ") for text in found["reasons"].to_pylist()]
    assert {len(reasons) for reasons in said} <= {1, 2, 3}
    names = {reason.partition(":")[0] for reasons in said for reason in reasons}
    assert {"income", "owner"} <= names <= {"income", "job", "owner", "since"}
    first = [reason for reasons in said for reason in reasons if reason.startswith("owner: true")]
    assert first
    assert all("(+" in reason for reason in first)  # owners pay more often
    done = run(published.store, "people-gbdt", tmp_path / "in", tmp_path / "adverse", "--adverse")
    assert done.exit_code == 0
    adverse = predicted(tmp_path / "adverse")
    for decision, text in zip(
        *(adverse[name].to_pylist() for name in ("prediction", "reasons")), strict=True
    ):
        assert text is None if decision == "yes" else text.startswith("principal reasons: ")


def test_reasons_that_cannot_be_given_are_refused(
    published: Done, agent_store: Path, tmp_path: Path
) -> None:
    put(tmp_path / "in" / "a.parquet")
    places = tmp_path / "in", tmp_path / "out"
    refused(run(published.store, "people-gbdt", *places, "--reasons", "0"), "--reasons is 0")
    refused(
        run(agent_store, "people-dadi", *places, "--reasons", "2"), "dadi gives no reasons", "gbdt"
    )
    put(tmp_path / "in" / "a.parquet", reasons=["x"] * 300)
    refused(run(published.store, "people-gbdt", *places, "--adverse"), "'reasons'", "rename it")
    assert not list((tmp_path / "out").glob("part-*"))
