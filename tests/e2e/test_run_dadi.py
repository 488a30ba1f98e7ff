"""Jobs of an agent: what a run measures of its questions, what it publishes, and what is
refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

from evenhand.fairlib.evaluation.acquisition import adversary_auc, answers_matrix
from evenhand.fairlib.execution import derive_seed
from evenhand.fairlib.methods.dadi import DADIClassifier
from evenhand.fairlib.methods.dadi.questionnaire import Questionnaire
from evenhand.fairlib.methods.registry import load_model
from evenhand.flows.cli import app
from evenhand.flows.job_file import load_job, shipped_jobs
from evenhand.flows.resolved_job import resolve
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.dataset import read_dataset
from tests.flows.people import DADI_JOB, Bench, Done, make_people, run_all

TINY = {
    "method.hidden": "[8, 8]",
    "method.memory_size": "4",
    "method.agents": "16",
    "method.pretrain_iterations": "30",
    "method.n_iterations": "60",
    "evaluate.draws": "20",
    # so small an agent is no better than the commonest answer
    "gates": "{auc: {min: 0.01}}",
    # and calibrated, it gives everybody the same probability, which no gate lets pass
    "calibration": "none",
}
FEATURES = ["income", "job", "owner", "since"]
# nothing is published: what is measured comes before
REFUSE = ("--set", "gates={accuracy: {min: 1.5}}")


def acquisition(done: Any) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        Path(done.json["artifacts"]["evaluate.acquisition"]).read_text()
    )
    return content


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory, registry: Path) -> Done:
    """A finished run of the job of an agent."""
    return run_all(Bench(tmp_path_factory.mktemp("asked"), database=registry), DADI_JOB)


def model_of(done: Any) -> Any:
    """The published model, in this process."""
    import mlflow

    uri = f"sqlite:///{done.store / 'mlflow.db'}"
    mlflow.set_tracking_uri(uri)
    mlflow.set_registry_uri(uri)
    return mlflow.pyfunc.load_model(done.json["model"]["uri"])


def test_reported_questions_are_those_asked_on_test_rows(asked: Done) -> None:
    done = asked
    found, artifacts = acquisition(done), done.json["artifacts"]
    model = load_model(artifacts["decide.model"])
    data = read_dataset(Path(artifacts["preprocess.test"]))
    acquired = model.acquire(data.X)
    # in the order of the matrix: numbers first
    assert sorted(model.groups_) == FEATURES
    firsts = [columns[0] for columns in model.groups_.values()]
    assert firsts == sorted(firsts)
    assert [group["name"] for group in found["groups"]] == list(model.groups_)
    np.testing.assert_allclose([g["share"] for g in found["groups"]], acquired.known.mean(axis=0))
    assert found["asked"]["histogram"] == np.bincount(acquired.asked, minlength=5).tolist()
    metrics = done.json["metrics"]
    assert (
        metrics["features_asked"] == pytest.approx(acquired.asked.mean()) == found["asked"]["mean"]
    )
    assert (
        metrics["features_asked.low"] <= metrics["features_asked"] <= metrics["features_asked.high"]
    )
    assert metrics["auc"] == pytest.approx(roc_auc_score(data.y, acquired.probability))
    informed = model.predict_proba_known(data.X, np.ones((len(data.X), 4), bool))[:, 1]
    assert "Which features it asks for" in Path(artifacts["report"]).read_text()
    assert found["full_information"]["auc"] == pytest.approx(roc_auc_score(data.y, informed))
    assert found["full_information"]["accuracy"] == pytest.approx(
        ((informed >= model.rule.threshold) == data.y).mean()
    )
    assert set(found["full_information"]) == set(metrics_of(metrics)) - {
        "features_asked",
        "adversary_auc.age",
        "adversary_auc.sex",
        "probability_spread",
    }
    assert (found["gamma"], found["criterion"], found["attributes"]) == (
        1.0,
        "demographic_parity",
        ["sex"],
    )
    for group in found["groups"]:
        for name in ("classifier_auc", "adversary_auc"):
            assert group[name] == model.feature_report_["groups"][group["name"]][name]
        for sex in ("F", "M"):
            rows = data.sensitive["sex"] == sex
            share = acquired.known[rows, list(model.groups_).index(group["name"])].mean()
            assert group["by_group"]["sex"][sex] == {
                "share": pytest.approx(share),
                "rows": int(rows.sum()),
            }


def metrics_of(flat: dict[str, Any]) -> list[str]:
    return [name for name in flat if not name.endswith((".low", ".high"))]


@pytest.mark.long
def test_people_are_asked_once_to_be_evaluated(
    agents: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    ask = DADIClassifier.acquire

    def counted(self: DADIClassifier, X: Any, known: Any = None, **more: Any) -> Any:
        asked.append(len(X))
        return ask(self, X, known, **more)

    monkeypatch.setattr(DADIClassifier, "acquire", counted)
    done = agents.run("--json", *REFUSE)
    assert done.code == 1, done.err
    assert asked == [80]


def test_questions_one_by_one_lead_where_the_whole_row_does(asked: Done) -> None:
    done = asked
    predictions = pq.read_table(done.json["artifacts"]["evaluate.predictions"])
    rows = make_people().take(predictions["row"].to_pylist()[:25])
    model = model_of(done)
    said = model.predict(rows.to_pandas())
    assert list(said) == ["prediction", "probability", "asked"]
    np.testing.assert_allclose(
        said["probability"], predictions["probability"].to_pylist()[:25], atol=1e-6
    )
    assert said["asked"].str.len().max() > 0
    bundle = next(done.store.glob("mlflow-artifacts/**/bundle"))
    asking = Questionnaire.load(bundle)
    for person, whole in zip(rows.to_pylist(), said.to_dict("records"), strict=True):
        known: dict[str, Any] = {}
        while (name := asking.next_feature(known)) is not None:
            known[name] = person[name]
        assert ",".join(known) == whole["asked"]
        found = asking.predict(known)
        assert found["prediction"] == whole["prediction"]
        assert found["probability"] == pytest.approx(whole["probability"], abs=1e-6)
    # the same from the model that MLflow loads
    loaded = model.unwrap_python_model().questionnaire()
    assert loaded.predict({"income": 3000}) == asking.predict({"income": 3000})


def test_a_bundle_says_what_to_ask_and_holds_no_value_of_a_row(asked: Done) -> None:
    done = asked
    bundle = next(done.store.glob("mlflow-artifacts/**/bundle"))
    files = {path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file()}
    described = {"evaluation.json", "reference.json", "training_rows.json"}
    assert files == described | {
        "digests.json",
        "encoder.json",
        "inputs.json",
        "model/model.json",
        "model/network.safetensors",
        "model/decision.json",
    }
    inputs = json.loads((bundle / "inputs.json").read_text())
    assert set(inputs["questions"]) == set(FEATURES)
    assert inputs["questions"]["job"] == {
        "description": "",
        "type": "string",
        "allowed": ["clerk", "smith", "cook"],
        "minimum": None,
        "maximum": None,
    }
    assert inputs["questions"]["income"]["allowed"] is None
    said = b"".join(path.read_bytes() for path in bundle.rglob("*") if path.is_file())
    assert b"p-000" not in said
    for value in make_people()["income"].to_pylist()[:50]:
        assert str(value).encode() not in said


def test_a_sensitive_input_is_never_asked(agents: Any) -> None:
    agents.properties["sex"]["customProperties"].append({"property": "use", "value": "feature"})
    del agents.job["method"]["attributes"]
    done = agents.run("--json", *REFUSE)
    assert done.code == 1, done.err
    found = acquisition(done)
    assert found["attributes"] == ["age", "sex"]
    (sex,) = (group for group in found["groups"] if group["name"] == "sex")
    assert (sex["allowed"], sex["share"], sex["high"]) == (False, 0.0, 0.0)
    assert (sex["classifier_auc"], sex["adversary_auc"]) == (None, None)
    assert sum(group["allowed"] for group in found["groups"]) == 4


def refused(bench: Any, *words: str, arguments: tuple[str, ...] = ()) -> None:
    done = bench.run(*arguments)
    assert done.code == 2, (done.code, done.out, done.err)
    (line,) = done.err.splitlines()
    for word in words:
        assert word in line, (word, line)
    assert not (bench.store / "steps").exists()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("method.gamma=1.5", ["method dadi: gamma must be in [0, 1], got 1.5"]),
        ("method.gamma=-0.1", ["gamma must be in [0, 1], got -0.1"]),
        ("method.gamma=much", ["method.gamma", "must be a number"]),
        ("method.criterion=parity", ["method.criterion is 'parity'", "'demographic_parity'"]),
        ("method.criterion=equalised_odds", ["did you mean 'equalized_odds'"]),
        (
            "method.attributes=[sexx]",
            ["method.attributes names 'sexx'", "did you mean 'sex'", "age, sex"],
        ),
        (
            "method.attributes=[income]",
            ["method.attributes names 'income'", "sensitive columns are age, sex"],
        ),
        ("method.attributes=[]", ["method.attributes is empty"]),
        ("method.attributes=sex", ["method.attributes is 'sex'", "must be a list"]),
        ("method.costs={jobb: 1}", ["method.costs names 'jobb'", "did you mean 'job'"]),
        ("method.costs={sex: 1}", ["method.costs names 'sex'", "the model inputs are income"]),
        ("method.costs={job: -1}", ["method.costs.job is -1", "not negative"]),
        ("method.costs={job: .nan}", ["method.costs.job is nan"]),
        ("method.costs={job: dear}", ["method.costs", "must be a number"]),
        ("method.costs=[job]", ["method.costs", "must be a mapping"]),
        ("method.hidden=8", ["method.hidden"]),
        ("method.hidden=[8]", ["hidden must list the units of two layers"]),
        ("method.agents=0", ["agents must be a whole number, at least 1"]),
        ("method.exploration_end=2", ["exploration_end must be in [0, 1]"]),
        ("gates={feature_asked: {max: 3}}", ["did you mean 'features_asked'"]),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(
    agents: Any, setting: str, words: list[str]
) -> None:
    refused(agents, *words, arguments=("--set", setting))


def test_without_sensitive_columns_nothing_is_left_to_guess(
    agents: Any,
) -> None:
    for name in ("age", "sex"):
        agents.properties[name]["customProperties"] = [{"property": "role", "value": "ignore"}]
    del agents.job["method"]["attributes"]
    refused(agents, "no sensitive column", "role sensitive")


@pytest.mark.long
def test_lists_and_maps_reach_the_method_as_such(agents: Any) -> None:
    agents.job["method"] |= {"costs": {"income": 1, "job": "1e-3"}, "attributes": ["sex", "age"]}
    resolved = resolve(*load_job(str(agents.write()), ["method.hidden=[16, 4]"]))
    assert resolved.arguments["costs"] == {"income": 1.0, "job": 0.001}
    assert (resolved.arguments["hidden"], resolved.arguments["attributes"]) == (
        [16, 4],
        ["sex", "age"],
    )
    done = agents.run("--json", *REFUSE)
    assert done.code == 1, done.err
    assert acquisition(done)["attributes"] == ["sex", "age"]


def test_only_a_method_that_asks_has_the_metric_of_questions(bench: Any, agents: Any) -> None:
    done = agents.run("--json", "--set", "gates={features_asked: {min: 4.5}}")
    assert done.code == 1, "there are four features"
    assert [result["metric"] for result in done.json["gates"]["results"]] == ["features_asked"]
    for name in ("features_asked", "adversary_auc.sex"):
        with pytest.raises(InputError, match=f"'{name}' names no metric of this job"):
            resolve(*load_job("adult-gbdt", [f"gates={{{name}: {{max: 3}}}}"]))


def test_a_gate_on_what_the_questions_reveal_refuses_a_model(agents: Any) -> None:
    limits = "gates={adversary_auc.sex: {max: 0.01}, adversary_auc.age: {max: 1}}"
    done = agents.run("--json", "--set", limits)
    assert done.code == 1, done.err
    results = done.json["gates"]["results"]
    assert [(result["metric"], result["passed"]) for result in results] == [
        ("adversary_auc.sex", False),
        ("adversary_auc.age", True),
    ]
    assert done.json["model"] is None
    # no adversary of the training knows age, which is measured all the same
    metrics, artifacts = done.json["metrics"], done.json["artifacts"]
    model, data = (
        load_model(artifacts["decide.model"]),
        read_dataset(Path(artifacts["preprocess.test"])),
    )
    assert model.attributes_ == ["sex"]
    answers = answers_matrix(data.X, model.acquire(data.X).known, list(model.groups_.values()))
    job = load_job(str(agents.write()))[0]
    settings = {"draws": 20, "level": job.evaluate.level, "min_cell": job.evaluate.min_cell}
    for name in ("age", "sex"):
        seed = derive_seed(job.seed, "bootstrap")
        found = adversary_auc(answers, data.sensitive[name].astype(str), seed=seed, **settings)
        assert found.value == metrics[f"adversary_auc.{name}"]
        assert found.low == metrics[f"adversary_auc.{name}.low"]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (
            "gates={adversary_auc.job: {max: 0.6}}",
            ["'adversary_auc.job' names no metric of this job"],
        ),
        ("gates={adversary_auc.sex: {better_than_plain: 0}}", ["the controls have no such metric"]),
    ],
)
def test_a_gate_on_no_adversary_is_refused(agents: Any, setting: str, words: list[str]) -> None:
    refused(agents, *words, arguments=("--set", setting))


@pytest.mark.long
def test_a_sweep_measures_how_much_every_point_asks(agents: Any, points_here: None) -> None:
    path = agents.write()
    over = ("--over", "method.gamma=0.3,1", "--direct", "--workers", "1")
    done = CliRunner().invoke(
        app, ["sweep", str(path), *over, "--store", str(agents.store), "--json"]
    )
    assert done.exit_code == 0, done.stderr
    content = json.loads(done.stdout)
    kept = json.loads(Path(content["artifacts"]["tradeoff"]).read_text())
    assert [point["settings"] for point in kept["points"]] == [
        {"method.gamma": 0.3},
        {"method.gamma": 1.0},
    ]
    assert kept["metrics"]["features_asked"] == "lower"
    # fewer questions are no measure of fairness
    assert "features_asked" not in kept["fronts"]
    alone = agents.run("--json", "--set", "method.gamma=0.3", *REFUSE)
    measured = kept["points"][0]["metrics"]["features_asked"]["value"]
    assert acquisition(alone)["asked"]["mean"] == measured


def test_shipped_agents_are_right_as_written() -> None:
    found = [name for name in shipped_jobs() if name.endswith("-dadi")]
    assert found == ["adult-dadi", "bank-dadi", "german-dadi", "loans-dadi"]
    for name in found:
        resolved = resolve(*load_job(name))
        (attribute,) = resolved.arguments["attributes"]
        expected = {"auc", f"demographic_parity_difference.{attribute}"}
        expected |= set() if name == "loans-dadi" else {f"adversary_auc.{attribute}"}
        assert set(resolved.job.gates) == expected
        # probabilities are calibrated, decisions are the method's own
        assert resolved.job.calibration == "auto"
        assert resolved.job.decision.is_own
        assert "features_asked" in resolved.known_metrics
    assert resolve(*load_job("adult-dadi")).job.leave_out == ["fnlwgt"]


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "never"),
    [("german-dadi", "age"), pytest.param("bank-dadi", "age", marks=pytest.mark.long)],
)
def test_shipped_agents_run_on_the_real_tables(
    publishing: Any, data_folder: Path, name: str, never: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENHAND_DATA", str(data_folder))
    settings = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}")]
    done = publishing.run(*settings, "--json", job=name)
    assert done.code == 0, done.err
    found = acquisition(done)
    shares = {group["name"]: group["share"] for group in found["groups"]}
    assert shares[never] == 0.0
    assert found["attributes"] == [never]
    assert sum(found["asked"]["histogram"]) == found["rows"]
