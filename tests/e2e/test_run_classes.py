"""Jobs of a label with more than two values: the stand-in of occupations from raw rows to
predictions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.odcs import load_contract, parse_contract
from evenhand.fairlib.datasets.generated import OCCUPATIONS, make_bios
from evenhand.flows.cli import app
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.flows.tune_plan import make_plan
from evenhand.tasks.errors import InputError

SMALL = ("table.rows=900", "evaluate.draws=50", "method.n_steps=300")


def command(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def options(*overrides: str) -> list[str]:
    return [word for override in overrides for word in ("--set", override)]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A store with bios-sensei, trained on 900 biographies, and the run's verdict."""
    folder = tmp_path_factory.mktemp("bios")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVENHAND_STORE", str(folder / "store"))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        gates = "gates={balanced_accuracy: {min: 0.3}, recall.nurse: {min: 0.0}, consistency.gender: {min: 0.8}}"
        done = command("run", "bios-sensei", "--direct", "--json", *options(*SMALL, gates))
        assert done.exit_code == 0, done.output
        yield folder, json.loads(done.output)


def test_the_stand_in_becomes_a_published_model(published: tuple[Path, dict[str, Any]]) -> None:
    folder, verdict = published
    metrics = verdict["metrics"]
    assert verdict["status"] == "published"
    assert sum(name.startswith("recall.") and name.count(".") == 1 for name in metrics) == 28
    assert (
        metrics["balanced_accuracy.low"]
        <= metrics["balanced_accuracy"]
        <= metrics["balanced_accuracy.high"]
    )
    assert metrics["token_gap.gender"] < 0.05
    assert "impact_ratio.gender" not in metrics
    run = folder / "store" / "runs" / verdict["run_id"]
    page = (run / "report.html").read_text()
    assert "Label by label" in page
    assert (
        "Compared with blind and plain: <strong>better</strong> in counterfactual consistency"
        in page
    )
    card = (run / "model_card.md").read_text()
    assert "| recall.software_engineer |" in card
    # what a model does about a few people is not told
    for cell in json.loads((run / "metrics.json").read_text())["counts"]["gender"]:
        assert not cell["taken_for"] or cell["n"] - cell["right"] >= 5


def test_metrics_follow_from_the_predictions(published: tuple[Path, dict[str, Any]]) -> None:
    _, verdict = published
    found = pq.read_table(
        verdict["artifacts"]["evaluate.predictions"].removeprefix("file://")
    ).to_pandas()
    rates = (found["prediction"] == found["label"]).groupby(found["label"]).mean()
    assert verdict["metrics"]["balanced_accuracy"] == pytest.approx(rates.mean())
    assert verdict["metrics"]["recall.accountant"] == pytest.approx(rates[0])
    assert set(found["label"]) == set(range(28))


def test_new_people_get_a_label_and_its_probability(
    published: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder, _ = published
    monkeypatch.setenv("EVENHAND_STORE", str(folder / "store"))
    people = make_bios(200, seed=7)
    people.to_csv(tmp_path / "new.csv", index=False)
    done = command("predict", "models:/bios-sensei@champion", "--input", tmp_path / "new.csv",
                   "--output", tmp_path / "out", "--direct")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "positive" not in done.output
    (part,) = (tmp_path / "out").glob("*.parquet")
    found = pd.read_parquet(part)
    assert set(found["prediction"]) <= set(OCCUPATIONS)
    assert (found["prediction"].astype(str) == people["title"]).mean() > 0.4
    assert found["probability"].between(1 / 28, 1).all()

    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{folder / 'store' / 'mlflow.db'}")
    model = mlflow.pyfunc.load_model("models:/bios-sensei@champion")
    answers = model.predict(people[["bio"]])
    assert answers["prediction"].tolist() == found["prediction"].astype(str).tolist()
    assert np.allclose(answers["probability"], found["probability"])


def test_a_published_model_is_evaluated_on_other_people(
    published: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder, _ = published
    monkeypatch.setenv("EVENHAND_STORE", str(folder / "store"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    people = make_bios(600, seed=3)
    people[people["title"] != "poet"].to_csv(tmp_path / "new.csv", index=False)
    model = "models:/bios-sensei@champion"
    beside = ("--data", tmp_path / "new.csv", "--baseline", model)
    done = command("evaluate", model, *beside, "--direct", "--json", *options("evaluate.draws=50"))
    assert done.exit_code == 0, done.output
    metrics = json.loads(done.output)["metrics"]
    assert {"gap_rms.gender", "token_gap.gender", "recall.poet"} <= set(metrics)
    assert metrics["accuracy"] > 0.3
    # a class without rows: nothing is said of it, nor of the mean over the classes
    assert (
        metrics["recall.poet"] is metrics["balanced_accuracy"] is metrics["gap_rms.gender"] is None
    )
    for refused, told in (
        (("export", model, "--to", "sql"), "`evenhand export` takes models of two"),
        (("predict", model, "--input", tmp_path / "new.csv", "--output", tmp_path / "o", "--reasons", 2,
          "--direct"), "--reasons takes models of two"),
    ):  # fmt: skip
        done = command(*refused)
        assert done.exit_code == 2
        assert told in done.output
        assert len(done.output.strip().splitlines()) == 1


def test_new_people_are_compared_with_training_label_by_label(
    published: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder, verdict = published
    monkeypatch.setenv("EVENHAND_STORE", str(folder / "store"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    people = make_bios(1200, seed=5)
    people[people["title"].isin(["nurse", "poet", "surgeon", "dj"])].to_csv(
        tmp_path / "new.csv", index=False
    )
    gates = {
        "psi.bio": {"max": 2},
        "label_rate_change": {"min": 0.1},
        "token_gap.gender": {"max": 0.05},
    }
    (tmp_path / "gates.yaml").write_text(json.dumps(gates))
    asked = ("monitor", "bios-sensei", "--data", tmp_path / "new.csv", "--direct", "--json")
    done = command(*asked, "--gates", tmp_path / "gates.yaml")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    metrics = found["metrics"]
    drift = json.loads(Path(found["artifacts"]["drift"].removeprefix("file://")).read_text())
    for key, name in (("label", "label_rate_change"), ("prediction", "prediction_rate_change")):
        shares = drift[key]["classes"]
        assert sum(row["then"] for row in shares) == pytest.approx(1)
        assert sum(row["now"] for row in shares) == pytest.approx(1)
        assert metrics[name] == pytest.approx(max(abs(row["now"] - row["then"]) for row in shares))
    then = {row["name"]: row["then"] for row in drift["prediction"]["classes"]}
    before = pq.read_table(verdict["artifacts"]["evaluate.predictions"].removeprefix("file://"))
    nurses = (before["prediction"].to_numpy() == sorted(OCCUPATIONS).index("nurse")).mean()
    assert then["nurse"] == pytest.approx(nurses)
    gap = drift["tokens"]["gender"]["metrics"][0]
    assert gap["then"]["value"] == pytest.approx(verdict["metrics"]["token_gap.gender"])
    assert gap["now"]["value"] == metrics["token_gap.gender"]
    assert "prediction_rate" not in metrics
    assert (
        "Counterfactual tokens of gender"
        in Path(found["artifacts"]["report"].removeprefix("file://")).read_text()
    )
    (tmp_path / "gates.yaml").write_text("token_gap.gender: {max: 0.0}")
    done = command(*asked[:-1], "--gates", tmp_path / "gates.yaml")
    assert done.exit_code == 1
    assert "token_gap.gender" in done.output


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (
            "method=logistic",
            "logistic is for labels of two values, and the label 'title' has 28 classes: use",
        ),
        ("method=dadi", "dadi is for labels of two values"),
        ("decision.equal.criterion=equalized_odds", "decision.equal is for labels of two values"),
        (
            "decision={costs: {false_positive: 1, false_negative: 2}}",
            "decision.costs is for labels of two",
        ),
        ("decision.rate=0.2", "decision.rate is for labels of two values"),
        ("decision.threshold=0.3", "decision.threshold is for labels of two values"),
        ("decision.folds=3", "decision.folds is for labels of two values"),
        ("calibration=sigmoid", "calibration is for labels of two values"),
        ("evaluate.certificate.budget=0.1", "evaluate.certificate is for labels of two values"),
        ("evaluate.membership.shadows=4", "evaluate.membership is for labels of two values"),
        ("gates={auc: {min: 0.5}}", "'auc' names no metric of this job"),
        ("gates={impact_ratio.gender: {min: 0.8}}", "names no metric of this job"),
        ("gates={recall.clown: {min: 0.8}}", "names no metric of this job"),
    ],
)
def test_what_is_for_two_labels_is_refused(override: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        resolve(*load_job("bios-nn", [override]))


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (
            "tune.space={decision: [job]}",
            "space.decision is for labels of two values: leave it out",
        ),
        ("tune.space={tolerance: 0.1}", "space.tolerance is for labels of two values"),
        ("tune.where=['auc >= 0.7']", "names 'auc', no metric of this job"),
        ("tune.maximize=[recall.clown]", "names 'recall.clown', no metric of this job"),
    ],
)
def test_what_a_search_refuses(override: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make_plan("bios-nn", [override])


@pytest.mark.long
def test_a_search_finds_a_network_that_keeps_its_answers(
    registry: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    asked = ("--trials", 5, "--folds", 2, "--workers", 1, "--bound", "point", "--direct", "--json")
    limits = ("--where", "consistency.gender >= 0.8", "--where", "recall.nurse >= 0.05")
    space = "tune.space={nn: {n_steps: 200}, clp: {n_steps: 200}}"
    sets = options(*SMALL, space, "gates={balanced_accuracy: {min: 0.2}}", "text.size=40")
    done = command("tune", "bios-nn", *asked, *limits, *sets)
    assert done.exit_code == 0, done.output
    verdict = json.loads(done.output)
    study = json.loads(Path(verdict["artifacts"]["tuning"].removeprefix("file://")).read_text())
    assert [trial["kind"] for trial in study["trials"]] == [
        "majority",
        "plain",
        "blind",
        "default",
        "default",
    ]
    assert study["methods"] == ["nn", "clp"]
    majority, plain = study["trials"][:2]
    assert majority["metrics"]["balanced_accuracy"]["value"] == pytest.approx(1 / 28, abs=0.01)
    assert plain["metrics"]["consistency.gender"]["value"] < 0.8
    assert study["winner"] == "4"
    assert (
        study["test"]["consistency.gender"]["value"]
        > plain["metrics"]["consistency.gender"]["value"]
    )
    tuned = yaml.safe_load(Path("bios-nn.tuned.yaml").read_text())
    assert (tuned["method"]["name"], tuned["tuned"]["study"]) == ("clp", study["study"])
    assert resolve(*load_job("bios-nn.tuned.yaml")).method == "clp"


CONTRACT = """
apiVersion: v3.0.2
kind: DataContract
status: active
id: jobs
name: jobs
version: 1.0.0
schema:
- name: jobs
  properties:
  - name: skill
    logicalType: number
    required: true
    description: Skill.
    customProperties: [{property: role, value: feature}]
  - name: job
    logicalType: string
    required: true
    description: Job.
    quality: [{rule: validValues, validValues: [dj, nurse, poet]}]
    customProperties: [{property: role, value: label}EXTRA]
"""


def test_contracts_of_classes() -> None:
    assert parse_contract(CONTRACT.replace("EXTRA", "")).label.classes == ("dj", "nurse", "poet")
    with pytest.raises(
        ContractError, match="has positive and lists 3 values, expected two: remove positive"
    ):
        parse_contract(CONTRACT.replace("EXTRA", ", {property: positive, value: dj}"))
    with pytest.raises(ContractError, match="needs positive.*or validValues with three classes"):
        parse_contract(CONTRACT.replace("EXTRA", "").replace("[dj, nurse, poet]", "[dj, nurse]"))
    assert len(load_contract("bios").label.classes) == len(OCCUPATIONS) == 28


@pytest.mark.long
def test_pages_show_the_names_of_coded_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    code, sex = rng.integers(1, 4, 400), rng.choice(["F", "M"], 400)
    rows = pd.DataFrame({"skill": code + rng.normal(size=400), "sex": sex, "job": code})
    rows.to_csv("jobs.csv", index=False)
    names = ", {property: valueNames, value: {1: disc jockey, 2: nurse, 3: poet}}"
    content = CONTRACT.replace("EXTRA", names).replace("[dj, nurse, poet]", "[1, 2, 3]")
    content = content.replace(
        "name: job\n    logicalType: string", "name: job\n    logicalType: integer"
    )
    content += """  - name: sex
    logicalType: string
    required: true
    description: Sex.
    quality: [{rule: validValues, validValues: [F, M]}]
    customProperties: [{property: role, value: sensitive}]
"""
    Path("jobs.contract.yaml").write_text(content)
    Path("jobs.yaml").write_text(
        "name: jobs\ntable: {name: jobs, path: jobs.csv}\ncontract: jobs.contract.yaml\n"
        "method: {name: gbdt, n_steps: 20, n_jobs: 1}\npublish: {without_policy: true}\n"
        "evaluate: {draws: 50}\ngates: {recall.3: {min: 0.0}}\n"
    )
    for words, metric in (
        (["run", "jobs.yaml"], "recall.3"),
        (["evaluate", "jobs"], "recall.3"),
        (["monitor", "jobs"], "label_rate_change"),
    ):
        asked = [] if words[0] == "run" else ["--data", "jobs.csv"]
        done = command(*words, *asked, "--direct", "--json")
        assert done.exit_code == 0, done.output
        verdict = json.loads(done.output)
        page = Path(verdict["artifacts"]["report"].removeprefix("file://")).read_text()
        assert ">disc jockey<" in page, words
        assert ">poet<" in page
        assert not re.search("“[123]”", page), words
        assert metric in verdict["metrics"], words


@pytest.mark.parametrize(
    ("dropped", "words"),
    [
        (lambda rows: rows["job"] == "poet", "one class in every row"),
        (lambda rows: rows["job"] != "poet", "the class poet of the label 'job' has no training rows"),
        (lambda rows: (rows["job"] != "poet") | (rows.index == rows.index[rows["job"] == "poet"][0]),
         "the class poet of the label 'job' has no (training|test) rows|least populated class"),
    ],
)  # fmt: skip
def test_a_class_with_too_few_rows_ends_the_run(
    dropped: Any, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {"skill": rng.normal(size=200), "job": rng.choice(["dj", "nurse", "poet"], 200)}
    )
    rows[dropped(rows)].to_csv("jobs.csv", index=False)
    Path("jobs.contract.yaml").write_text(CONTRACT.replace("EXTRA", ""))
    Path("jobs.yaml").write_text(
        "name: jobs\ntable: {name: jobs, path: jobs.csv}\ncontract: jobs.contract.yaml\n"
        "method: {name: gbdt}\npublish: {without_policy: true}\n"
    )
    done = command("run", "jobs.yaml", "--direct")
    assert done.exit_code == 2
    assert re.search(words, done.output), done.output


def test_the_owners_file_is_looked_up_and_its_columns_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: Path
) -> None:
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path))
    own = options("table=bios", *SMALL[1:])
    done = command("run", "bios-nn", "--direct", *own)
    assert done.exit_code == 2
    assert "bios.csv is its owner's, and cannot be fetched" in done.output
    make_bios(600).rename(columns={"title": "job"}).to_csv(tmp_path / "bios.csv", index=False)
    done = command("run", "bios-nn", "--direct", *own)
    assert done.exit_code == 2
    assert "bios.csv lacks the column title" in done.output
