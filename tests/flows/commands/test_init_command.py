"""`evenhand init`: from a table that nobody described to a published model, with no code."""

from __future__ import annotations

import json
import shutil
import sqlite3
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from evenhand.fairlib.evaluation.evaluate import evaluate
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.methods.registry import METHODS, PROXIES, installed
from evenhand.flows.cli import app
from evenhand.flows.job import DecisionRule
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.tasks.execution.store import Store

COLUMNS = ("--label", "paid", "--sensitive", "sex", "--sensitive", "age", "--id", "key")


def command(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_new_table_is_described_and_run(
    tmp_path: Path, people: Any, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "_-Leute, 2026 (1).csv"
    pyarrow.csv.write_csv(people(300), table)
    done = command("init", table, *COLUMNS, "--into", "new folder")
    assert done.exit_code == 0, done.stderr
    job = tmp_path / "new folder" / "Leute-2026-1.yaml"
    assert f"evenhand run {Path('new folder') / job.name}" in done.stdout
    store = tmp_path / "store"
    store.mkdir()
    shutil.copyfile(registry, store / "mlflow.db")
    quick = ("--set", "method.n_steps=3", "--set", "evaluate.draws=20", "--json", "--store", store)
    ran = command("run", job, "--direct", *quick)
    assert ran.exit_code == 0, ran.stderr
    verdict = json.loads(ran.stdout)
    assert verdict["status"] == "published"
    assert {"gap_max.sex", "gap_max.age"} <= set(verdict["metrics"])


@pytest.mark.parametrize("told", [(), ("--id", "nr")])
def test_rows_of_one_person_stay_together(
    told: tuple[str, ...], tmp_path: Path, people: Any, registry: Path
) -> None:
    person = np.repeat(np.arange(120), 3)
    table = people(120).take(pa.array(person)).drop_columns(["key"])
    table = table.set_column(
        table.column_names.index("income"), "income", pa.array(np.arange(360) % 97 * 11.5)
    )
    pyarrow.csv.write_csv(
        table.append_column("nr", pa.array(person * 3 + 7)), tmp_path / "people.csv"
    )
    columns = ("--label", "paid", "--sensitive", "sex", *told)
    done = command("init", tmp_path / "people.csv", *columns, "--into", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert (
        "note: rows with the same nr stay together in training or test rows (split.by)"
        in done.stdout
    )
    assert yaml.safe_load((tmp_path / "people.yaml").read_text())["split"] == {"by": "nr"}
    if told:
        return
    (tmp_path / "store").mkdir()
    shutil.copyfile(registry, tmp_path / "store/mlflow.db")
    quick = (
        "--set",
        "method.n_steps=3",
        "--set",
        "evaluate.draws=20",
        "--store",
        tmp_path / "store",
    )
    verdict = json.loads(
        command("run", tmp_path / "people.yaml", "--direct", "--json", *quick).stdout
    )
    rows = [
        set(
            pq.read_table(Path(verdict["artifacts"][f"preprocess.{part}"]) / "y.parquet")[
                "row"
            ].to_pylist()
        )
        for part in ("train", "test")
    ]
    assert not {person[row] for row in rows[0]} & {person[row] for row in rows[1]}
    # the intervals draw people, too
    predicted = pq.read_table(verdict["artifacts"]["evaluate.predictions"]).to_pydict()
    metrics = json.loads(Path(verdict["artifacts"]["evaluate.metrics"]).read_text())
    outcomes = Outcomes(predicted["label"], predicted["prediction"], predicted["probability"], {})
    outcomes = replace(outcomes, people=person[predicted["row"]])
    drawn = evaluate(outcomes, draws=20, seed=metrics["settings"]["seed"]).metrics["accuracy"]
    assert metrics["metrics"]["accuracy"] == asdict(drawn)
    assert "those with an equal nr" in Path(verdict["artifacts"]["report"]).read_text()


def test_a_parquet_table_gets_the_contract_of_the_same_csv(tmp_path: Path, people: Any) -> None:
    found = {}
    for ending, write in (("csv", pyarrow.csv.write_csv), ("parquet", pq.write_table)):
        write(people(300), tmp_path / f"people.{ending}")
        done = command("init", tmp_path / f"people.{ending}", *COLUMNS, "--into", tmp_path / ending)
        assert done.exit_code == 0, done.stderr
        found[ending] = resolve(*load_job(str(tmp_path / ending / "people.yaml")))
    assert found["parquet"].contract == found["csv"].contract
    assert found["parquet"].source()["path"] == str(tmp_path / "people.parquet")


def test_inputs_that_look_sensitive_are_named(tmp_path: Path, people: Any) -> None:
    pyarrow.csv.write_csv(people(300), tmp_path / "people.csv")
    told = ("init", tmp_path / "people.csv", "--label", "paid", "--id", "key", "--json")
    without = json.loads(command(*told, "--into", tmp_path / "a").stdout)
    assert [w for w in without["warnings"] if w.startswith("model inputs that look sensitive: ")]
    both = ("--sensitive", "sex, age")
    named = json.loads(command(*told, *both, "--into", tmp_path / "b").stdout)
    assert not [w for w in named["warnings"] if "look sensitive" in w]


def test_all_that_the_comments_offer_is_a_job(tmp_path: Path, people: Any) -> None:
    """With every comment taken away, what stands below it is valid."""
    pyarrow.csv.write_csv(people(300), tmp_path / "people.csv")
    command("init", tmp_path / "people.csv", *COLUMNS, "--into", tmp_path)
    job = tmp_path / "people.yaml"
    lines = job.read_text().splitlines()
    shown = [line[2:] for line in lines if line.startswith("# ") and not line[2].isupper()]
    content = yaml.safe_load(
        "\n".join([line for line in lines if not line.startswith("#")] + shown)
    )
    assert {"evaluate", "gates"} <= set(content)
    job.write_text(yaml.safe_dump(content))
    assert resolve(*load_job(str(job))).job.gates


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.csv", *COLUMNS), ("nowhere.csv",)),
        (
            ("people.csv", "--label", "payd", "--sensitive", "sex"),
            ("'payd'", "did you mean 'paid'?"),
        ),
        (("people.csv", "--label", "paid", "--sensitive", "sax"), ("'sax'", "did you mean 'sex'?")),
        (
            ("people.csv", "--label", "job", "--sensitive", "sex", "--positive", "clerk"),
            ("'job'", "two"),
        ),
        (
            ("people.csv", "--label", "job", "--sensitive", "sex", "--method", "logistic"),
            ("'job' has", "gbdt"),
        ),
        (("people.csv", "--label", "paid", "--sensitive", "key"), ("'key'", "too many groups")),
        (("people.csv", "--label", "paid", "--sensitive", "paid"), ("'paid'", "choose one")),
        (("people.csv", *COLUMNS, "--method", "gbtd"), ("'gbtd'", "known: gbdt")),
        (("people.csv", *COLUMNS, "--positive", "maybe"), ("'maybe'", "'paid'")),
        (("people.csv", *COLUMNS, "--name", "a b"), ("'a b'", "use letters")),
        (("people.csv", *COLUMNS, "--name", "../x"), ("'../x'", "use letters")),
        (("people.csv", *COLUMNS, "--into", "people.csv/x"), ("cannot be written", "--output")),
        (("empty.csv", *COLUMNS), ("empty.csv is empty",)),
    ],
)
def test_what_cannot_be_described_is_refused(
    tmp_path: Path,
    people: Any,
    arguments: tuple[str, ...],
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    pyarrow.csv.write_csv(people(100), tmp_path / "people.csv")
    (tmp_path / "empty.csv").touch()
    done = command("init", *arguments)
    assert done.exit_code == 2, (done.exit_code, done.stdout, done.stderr)
    assert len(done.stderr.splitlines()) == 1
    for word in words:
        assert word in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"people.csv", "empty.csv"}


def test_files_are_not_overwritten_unless_told(tmp_path: Path, people: Any) -> None:
    pyarrow.csv.write_csv(people(100), tmp_path / "people.csv")
    arguments = ("init", tmp_path / "people.csv", *COLUMNS, "--into", tmp_path)
    assert command(*arguments).exit_code == 0
    (tmp_path / "people.yaml").write_text("mine")
    done = command(*arguments)
    assert done.exit_code == 2
    assert "--force" in done.stderr
    assert (tmp_path / "people.yaml").read_text() == "mine"
    assert command(*arguments, "--force").exit_code == 0
    assert (tmp_path / "people.yaml").read_text() != "mine"


def make_applicants(rows: int = 400) -> pa.Table:
    """Codes, dates, an id, a leak, an age cut into bands, a stand-in, and two sensitive columns."""
    rng = np.random.default_rng(4)
    age, sex = rng.integers(18, 75, rows), rng.choice(["f", "m"], rows)
    skill = rng.normal(size=rows)
    hired = skill + 0.4 * (sex == "m") > 0
    return pa.table(
        {
            "person_id": np.arange(rows) + 500,
            "age": age,
            "gender": sex,
            "age_band": np.array(["young", "mid", "late"])[
                np.searchsorted([30, 50], age, side="right")
            ],
            "title": np.where(rng.random(rows) < 0.95, np.where(sex == "f", "Ms", "Mr"), "Dr"),
            "skill": np.round(skill + rng.normal(size=rows), 2),
            "job_code": rng.choice([3, 7, 11, 19], rows),
            "school": rng.choice(["primary", "secondary", "tertiary", "?"], rows),
            "applied": pa.array(
                19000 + rng.integers(0, 500, rows).astype(np.int32), pa.int32()
            ).cast(pa.date32()),
            "salary_agreed": np.where(hired, rng.integers(20, 90, rows) * 1000, 0),
            "hired": np.where(hired, "yes", "no"),
        }
    )


ASKED = ("--label", "hired", "--sensitive", "gender", "--sensitive", "age")


@pytest.fixture
def applicants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pq.write_table(make_applicants(), tmp_path / "applicants.parquet")
    return tmp_path / "applicants.parquet"


def test_a_table_with_everything_is_understood(applicants: Path) -> None:
    done = command("init", applicants, *ASKED, "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    roles = {item["name"]: (item["role"], item["encoding"]) for item in found["columns"]}
    assert roles == {
        "person_id": ("ignore", None),
        "age": ("sensitive", None),
        "gender": ("sensitive", None),
        "age_band": ("ignore", None),
        "title": ("feature", "onehot"),
        "skill": ("feature", "standard"),
        "job_code": ("feature", "onehot"),
        "school": ("feature", "ordinal"),
        "applied": ("feature", "calendar"),
        "salary_agreed": ("ignore", None),
        "hired": ("label", None),
    }
    assert found["positive"] == "positive means hired = yes"
    assert found["groups"]["age"] == ["<25", "25-39", "40-59", ">=60"]
    assert {item["name"]: (item["kind"], item["attribute"]) for item in found["leaks"]} == {
        "age_band": ("sensitive", "age"),
        "salary_agreed": ("alone", None),
    }
    assert [item["name"] for item in found["stand_ins"]["gender"]] == ["title"]
    contract = Path(found["contract"]).read_text()
    assert "# column salary_agreed is ignored: LEAK" in contract
    assert "# proxy features of gender" in contract
    assert found["next"] == "evenhand run applicants.yaml"
    job = load_job("applicants.yaml")[0]
    assert (job.calibration, job.decision) == ("auto", DecisionRule(threshold="observed"))
    assert all(
        gate in Path("applicants.yaml").read_text() for gate in ("gap_max.gender", "gap_max.age")
    )


def test_the_terminal_shows_leaks_loudly(applicants: Path) -> None:
    shown = command("init", applicants, *ASKED).stdout
    assert (
        "WARNING  column salary_agreed is ignored: LEAK, it predicts 'hired' almost perfectly"
        in shown
    )
    assert "set its role to feature in the contract" in shown
    assert "positive means hired = yes" in shown
    assert "read as missing: school '?'" in shown


def test_sensitive_inputs_get_counterfactuals_that_flip_them(applicants: Path) -> None:
    done = command("init", applicants, *ASKED, "--use-sensitive")
    assert done.exit_code == 0, done.stderr
    resolved = resolve(*load_job("applicants.yaml"))
    flips = resolved.job.evaluate.counterfactuals
    assert flips["gender"] == {"gender": "all"}
    ages = flips["age"]["age"]
    assert [sum(age >= cut for cut in (25, 40, 60)) for age in ages] == [0, 1, 2, 3]
    assert "consistency.gender" in resolved.known_metrics


# one of each kind: trees, two groups, a fair metric, counterfactuals, questions, a proxy
KINDS = ("gbdt", "logistic", "sensei", "clp", "dadi", "proxy")


@pytest.mark.parametrize(
    "method",
    [
        name if name in KINDS else pytest.param(name, marks=pytest.mark.long)
        for name in [*METHODS, *PROXIES]
    ],
)
def test_every_method_gets_a_job_that_passes_the_checks(applicants: Path, method: str) -> None:
    if method in METHODS and not installed(METHODS[method]):
        pytest.skip("its extra is not installed")
    done = command("init", applicants, *ASKED, "--method", method)
    assert done.exit_code == 0, done.stderr
    resolved = resolve(*load_job("applicants.yaml"))
    assert resolved.method == method
    assert resolved.is_proxy == ("decision" not in resolved.job.model_fields_set)
    if method in ("proxy", "relaxed-proxy"):
        assert resolved.arguments["support"] == 0.03
        assert "support" in resolved.job.gates
    if method in PROXIES:
        assert set(resolved.job.gates) >= {
            "imbalance_reduction",
            "imbalance_reduction.of_possible",
            "imbalance.excess",
            "kept",
        }
    alone = command("init", applicants, "--label", "hired", "--method", method, "--name", "alone")
    spec = {**METHODS, **PROXIES}[method]
    needs = (
        spec.needs_groups or spec.needs_metric or spec.needs_counterfactuals or method in PROXIES
    )
    assert alone.exit_code == (2 if needs else 0)
    assert ("needs a sensitive column: name one with --sensitive" in alone.stderr) == needs


@pytest.mark.long
def test_a_proxy_and_a_method_of_two_groups_run(applicants: Path, tmp_path: Path) -> None:
    # the proxy of these few rows makes the imbalance larger: its own gate refuses it
    allowed = ("--set", "gates={kept: {min: 0}}")
    for method, quick in (("proxy", allowed), ("logistic", ("--set", "evaluate.draws=20"))):
        assert (
            command("init", applicants, *ASKED, "--method", method, "--name", method).exit_code == 0
        )
        ran = command(
            "run", f"{method}.yaml", "--direct", "--json", "--store", tmp_path / "store", *quick
        )
        assert ran.exit_code == 0, ran.stderr
        assert json.loads(ran.stdout)["status"] == "published"
    refused = command("run", "proxy.yaml", "--direct", "--json", "--store", tmp_path / "store")
    assert refused.exit_code == 1
    results = json.loads(refused.stdout)["gates"]["results"]
    values = {gate["metric"]: gate["value"] for gate in results if not gate["passed"]}
    assert values["imbalance_reduction"] < 0
    assert values["imbalance_reduction.of_possible"] < values["imbalance_reduction"]


def test_every_source_gives_the_same_contract(applicants: Path, tmp_path: Path) -> None:
    table = pq.read_table(applicants).drop_columns(["applied"])
    whole, folder = tmp_path / "t.parquet", tmp_path / "parts"
    pq.write_table(table, whole)
    folder.mkdir()
    pq.write_table(table.slice(0, 150), folder / "a.parquet")
    pq.write_table(table.slice(150), folder / "b.parquet")
    pyarrow.feather.write_feather(table, tmp_path / "t.feather")
    with pa.ipc.new_stream(tmp_path / "t.arrow", table.schema) as stream:
        stream.write_table(table)
    database = sqlite3.connect(tmp_path / "people.db")
    table.to_pandas().to_sql("people", database, index=False)
    database.close()
    query = ("--sql", "select * from people", "--connection", f"sqlite:///{tmp_path}/people.db")
    sources = (
        (whole,),
        (folder,),
        (whole.as_uri(),),
        ("t.feather",),
        ("t.arrow",),
        ("people", *query),
    )
    found = []
    for number, source in enumerate(sources):
        done = command(
            "init",
            source[0],
            *source[1:],
            *ASKED,
            "--name",
            "same",
            "--into",
            tmp_path / str(number),
        )
        assert done.exit_code == 0, done.stderr
        resolved = resolve(*load_job(str(tmp_path / str(number) / "same.yaml")))
        found.append(resolved.contract)
    assert all(contract == found[0] for contract in found)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("x", "--sql", "select 1"), "--sql needs --connection"),
        (("x", "--connection", "sqlite://"), "--connection is for --sql"),
        (
            ("x", "--sql", "select 1", "--connection", "postgresql://me:pass@host/db"),
            "has a password",
        ),
        (("t.xlsx",), "Excel"),
        (("broken.arrow",), "no Arrow or Feather file"),
    ],
)
def test_sources_that_cannot_be_read(
    applicants: Path, arguments: tuple[str, ...], words: str
) -> None:
    Path("t.xlsx").write_bytes(b"PK\x03\x04 no sheet")
    Path("broken.arrow").write_bytes(b"ARROW1 and nothing")
    done = command("init", *arguments, *ASKED)
    assert done.exit_code == 2
    assert words in done.stderr
    assert "pass@" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(Path().glob("*.yaml"))


def test_both_files_are_written_or_none(applicants: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A contract that was there before is there again if the job cannot be written."""
    Path("applicants.contract.yaml").write_text("mine")
    Path("applicants.yaml").mkdir()
    done = command("init", applicants, *ASKED, "--force")
    assert done.exit_code == 2
    assert "cannot be written" in done.stderr
    assert Path("applicants.contract.yaml").read_text() == "mine"
    assert {path.name for path in Path().iterdir()} == {
        "applicants.parquet", "applicants.contract.yaml", "applicants.yaml",
    }  # fmt: skip


def test_nothing_but_leaks_is_refused_in_one_line(applicants: Path) -> None:
    table = pq.read_table(applicants).select(
        ["person_id", "salary_agreed", "age", "age_band", "hired"]
    )
    pq.write_table(table, "leaks.parquet")
    done = command("init", "leaks.parquet", "--label", "hired", "--sensitive", "age")
    assert done.exit_code == 2
    assert "no column is left as a model input: salary_agreed, age_band" in done.stderr
    assert not Path("leaks.yaml").exists()


@pytest.mark.long
def test_a_run_checks_its_training_rows_for_leaks(applicants: Path, tmp_path: Path) -> None:
    assert command("init", applicants, *ASKED, "--method", "logistic").exit_code == 0
    text = Path("applicants.contract.yaml").read_text()
    before, after = text.split("- name: salary_agreed")
    Path("applicants.contract.yaml").write_text(
        before + "- name: salary_agreed" + after.replace("value: ignore", "value: feature", 1)
    )
    store = Store(str(tmp_path / "store"))
    ran = command(
        "run",
        "applicants.yaml",
        "--direct",
        "--json",
        "--store",
        store.url,
        "--set",
        "evaluate.draws=20",
    )
    assert ran.exit_code == 0, ran.stderr
    (record,) = [
        json.loads(path.read_text()) for path in (tmp_path / "store").rglob("profile*/*.json")
    ]
    assert record["facts"]["leak_suspected"] == 1
    report = json.loads(Path(record["outputs"]["leaks"]["uri"].removeprefix("file://")).read_text())
    assert [(item["name"], item["kind"]) for item in report["columns"]] == [
        ("salary_agreed", "alone")
    ]
    assert report["columns"][0]["auc"] >= report["threshold"]
    assert report["joint_auc"] < 0.98
    assert [item["name"] for item in report["stand_ins"]["gender"]] == ["title"]
