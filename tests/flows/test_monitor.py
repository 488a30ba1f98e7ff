"""Looks at drift in this process: what they find, decide, write and answer, and what they cause."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import yaml
from prefect.exceptions import ObjectNotFound
from typer.testing import CliRunner

from evenhand.flows.cli import app
from evenhand.flows.engine import DirectEngine
from evenhand.flows.monitor import execute, plan_monitoring
from evenhand.tasks.errors import GateRefused, InputError, NotCarriedOut
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry.client import EVALUATION_TAG, registry_client
from tests.flows.people import JOB, PROXY_JOB, Answer, Bench, make_people, run_all

SECRET_GROUP = "zzyzx-group"
MODEL = "people-gbdt"


@dataclass
class Watch:
    """A store with a published classifier and a proxy, and a folder of batches."""

    bench: Any
    people: Callable[..., pa.Table]

    @property
    def store(self) -> Path:
        return Path(self.bench.store)

    def batch(self, name: str = "batch.csv", rows: int = 500, seed: int = 5, **columns: Any) -> str:
        """Write new people; a column given as a function of the old one replaces it, None leaves it
        out.
        """
        table = self.people(rows, seed)
        for column, change in columns.items():
            index = table.column_names.index(column)
            if change is None:
                table = table.remove_column(index)
            else:
                values = change(table[column].to_pylist())
                table = table.set_column(index, column, pa.array(values))
        path = Path(self.bench.folder) / name
        pyarrow.csv.write_csv(table, path)
        return str(path)

    def gates(self, gates: Any, name: str = "gates.yaml") -> str:
        path = Path(self.bench.folder) / name
        path.write_text(yaml.safe_dump(gates))
        return str(path)

    def __call__(self, data: str, *arguments: str, model: str = MODEL) -> Answer:
        done = CliRunner().invoke(
            app,
            ["monitor", model, "--data", data, "--direct", "--store", str(self.store), *arguments],
        )
        assert done.exception is None or isinstance(done.exception, SystemExit), repr(
            done.exception
        )
        return Answer(done.exit_code, done.stdout, done.stderr)

    def files(self, answer: dict[str, Any]) -> str:
        """All that the run wrote."""
        folder = self.store / "runs" / answer["run_id"]
        return "".join(path.read_text() for path in sorted(folder.iterdir()))


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory, registry: Path) -> Bench:
    """A folder and a store with the models, made once."""
    bench = Bench(tmp_path_factory.mktemp("monitored"), make_people(800), database=registry)
    run_all(bench, PROXY_JOB | {"gates": {}}, JOB)
    return bench


@pytest.fixture
def watch(monitored: Bench) -> Iterator[Watch]:
    with contextlib.chdir(monitored.folder):
        yield Watch(monitored, make_people)


def test_a_fresh_sample_has_not_drifted(watch: Watch) -> None:
    done = watch(watch.batch(), "--json")
    verdict = done.json
    assert done.code == verdict["exit_code"] == 0, done.err
    assert verdict["status"] == "monitored"
    assert verdict["gates"]["verdict"] == "passed"
    assert verdict["gates"]["note"] == "default gates"
    assert verdict["notes"] == ["default gates: no gates were given"]
    assert verdict["metrics"]["psi_max"] < 0.2
    assert verdict["metrics"]["unseen_max"] == 0.0
    assert verdict["model"]["name"] == MODEL
    assert list(verdict["seconds"]) == ["ingest", "measure_drift", "gate"]
    for name in ("report", "drift", "metrics", "decision"):
        assert Path(verdict["artifacts"][name]).is_file()


def test_a_shifted_number_refuses(watch: Watch) -> None:
    data = watch.batch("shifted.csv", income=lambda old: [value + 1500 for value in old])
    done = watch(data, "--json")
    assert done.code == 1
    failed = [result["metric"] for result in done.json["gates"]["results"] if not result["passed"]]
    assert failed == ["psi.income"]
    assert done.json["metrics"]["p_value.income"] < 0.001
    assert done.json["metrics"]["prediction_rate_change"] > 0.1
    report = Path(done.json["artifacts"]["report"]).read_text()
    assert "The people have changed" in report
    assert "“income”" in report


def test_the_rate_of_predictions_is_compared_with_training(watch: Watch) -> None:
    done = watch(watch.batch(), "--json").json
    drift = json.loads(Path(done["artifacts"]["drift"]).read_text())["prediction"]
    newest = max(
        (watch.store / "runs").glob("*people-gbdt-[0-9a-f]*/metrics.json"), key=lambda p: p.name
    )
    cells = json.loads(newest.read_text())["counts"]["sex"]
    share = sum(c["predicted_positive"] for c in cells) / sum(c["n"] for c in cells)
    assert drift["then"] == pytest.approx(share)
    assert drift["rows"] == 500
    assert done["metrics"]["prediction_rate_change"] == pytest.approx(abs(drift["now"] - share))


def test_an_evaluation_since_does_not_hide_what_the_run_said(watch: Watch) -> None:
    data = watch.batch("again.csv", seed=8)
    with registry_client(f"sqlite:///{watch.store.resolve()}/mlflow.db") as client:
        tag = client.get_model_version(MODEL, "1").tags[EVALUATION_TAG]
        client.set_model_version_tag(MODEL, "1", EVALUATION_TAG, json.dumps({"kind": "evaluate"}))
        try:
            assert watch(data, "--json").json["metrics"]["prediction_rate_change"] is not None
        finally:
            client.set_model_version_tag(MODEL, "1", EVALUATION_TAG, tag)


def test_a_new_category_refuses_and_is_not_named(watch: Watch) -> None:
    data = watch.batch("new.csv", job=lambda old: ["brand-new-job"] * 60 + old[60:])
    done = watch(data, "--json")
    assert done.code == 1, done.err
    assert done.json["metrics"]["unseen.job"] == 0.12
    drift = json.loads(Path(done.json["artifacts"]["drift"]).read_text())
    assert drift["prediction"]["unanswered"] == 60
    assert "brand-new-job" not in watch.files(done.json) + done.out + done.err


def test_a_changed_share_of_a_group_is_told_and_may_be_gated(watch: Watch) -> None:
    data = watch.batch("women.csv", sex=lambda old: ["F"] * 400 + old[400:])
    assert (
        watch(data).code == 0
    )  # the sex is no input of the model, and the default gates are about those
    gates = watch.gates({"gates": {"group_share_change.sex": {"max": 0.1, "bound": "interval"}}})
    done = watch(data, "--gates", gates, "--json")
    assert done.code == 1
    assert done.json["metrics"]["group_share_change.sex"] == pytest.approx(0.4, abs=0.06)
    assert done.json["notes"] == []


def test_a_batch_without_label_and_sensitive_columns(watch: Watch) -> None:
    data = watch.batch("bare.csv", sex=None, age=None, paid=None, key=None)
    done = watch(data, "--json")
    assert done.code == 0, done.err
    assert done.json["metrics"]["label_rate_change"] is None
    assert done.json["metrics"]["group_share_change.sex"] is None
    gates = watch.gates({"group_share_change.sex": {"max": 0.1}})
    lacking = watch(data, "--gates", gates)
    assert lacking.code == 3
    assert "the batch has no values of this attribute" in lacking.out


def test_columns_that_the_contract_lacks_are_named(watch: Watch) -> None:
    batch = Path(watch.batch())
    head, *lines = batch.read_text().splitlines()
    rows = [f'{head},"note"', *(f'{line},"x"' for line in lines)]
    (batch.parent / "more.csv").write_text("\n".join(rows))
    verdict = watch(str(batch.parent / "more.csv"), "--json").json
    assert "ignored 1 column that the contract does not know: 'note'" in verdict["notes"]


def test_too_few_rows_are_no_evidence(watch: Watch) -> None:
    done = watch(watch.batch("few.csv", rows=25))
    assert done.code == 3
    assert "not enough evidence" in done.out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"income": None}, "column 'income'"),
        ({"income": lambda old: ["much"] * len(old)}, "type number"),
        ({"rows": 0}, "at least 1 row"),
    ],
)
def test_what_cannot_be_compared_is_exit_2(
    watch: Watch, change: dict[str, Any], message: str
) -> None:
    done = watch(watch.batch("wrong.csv", **change), "--json")
    assert done.code == 2
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert done.json["status"] == "failed"
    assert "much" not in done.err


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        ({"psi.incme": {"max": 1}}, "did you mean 'psi.income'"),
        ({"auc": {"min": 0.5}}, "names no metric of drift"),
        ({"psi_max": {"mox": 1}}, "unknown key"),
        ({"psi_max": {"no_worse_than_baseline": 0.1}}, "give --baseline"),
        ([1], "holds no gates"),
    ],
)
def test_wrong_gates_are_exit_2(watch: Watch, gates: Any, message: str) -> None:
    done = watch(
        "/no/such/table.csv" if "mox" in str(gates) else watch.batch(),
        "--gates",
        watch.gates(gates),
    )
    assert done.code == 2
    assert message in done.err


def test_a_wrong_model_or_table_is_exit_2(watch: Watch) -> None:
    assert "is not published" in watch(watch.batch(), model="nobody").err
    assert watch(watch.batch(), model="nobody").code == 2
    done = watch("no-such-file.csv")
    assert done.code == 2
    assert "there is no file" in done.err


def test_a_model_without_counts_of_training_rows_is_refused(watch: Watch, tmp_path: Path) -> None:
    from evenhand.tasks.registry.bundle import open_bundle

    bundle = open_bundle(MODEL, Store(str(watch.store)), tmp_path)
    old = tmp_path / "old"
    shutil.copytree(bundle.folder, old)
    assert watch(watch.batch(), model=str(old)).code == 0
    (old / "reference.json").unlink()
    done = watch(watch.batch(), model=str(old))
    assert done.code == 2
    assert "publish it again" in done.err


def test_a_proxy_is_watched_too(watch: Watch) -> None:
    data = watch.batch("proxy.csv", income=lambda old: [value + 1500 for value in old])
    done = watch(data, "--json", model="people-proxy")
    assert done.code == 1, done.err
    assert not [name for name in done.json["metrics"] if name.startswith("prediction")]


def test_the_same_again_is_cached_and_equal(watch: Watch) -> None:
    data = watch.batch("twice.csv", seed=6)
    first, again = watch(data, "--json").json, watch(data, "--json").json
    assert again["cached"] == ["ingest", "measure_drift", "gate"]
    assert again["metrics"] == first["metrics"]
    assert again["gates"] == first["gates"]
    other = watch(data, "--set", "seed=3", "--json").json
    assert other["metrics"]["psi_max"] == first["metrics"]["psi_max"]
    assert other["metrics"]["psi.income.high"] != first["metrics"]["psi.income.high"]
    finer = watch(data, "--set", "evaluate.level=0.5", "--json").json
    assert finer["metrics"]["psi.income.high"] < first["metrics"]["psi.income.high"]


def test_the_very_table_of_training_is_said_to_be_that(watch: Watch) -> None:
    done = watch(str(watch.bench.folder / "people.csv"))
    assert done.code == 0
    assert "rows of this table" in done.out


def test_the_output_names_the_default_gates_and_what_failed(watch: Watch) -> None:
    data = watch.batch("told.csv", income=lambda old: [value + 1500 for value in old])
    out = watch(data).out
    assert "FAIL  psi.income" in out
    assert "5 of 6 default gates passed" in out
    assert "note      default gates" in out
    assert "verdict   drifted" in out


def test_nothing_tells_of_single_people(watch: Watch) -> None:
    def planted(old: list[str]) -> list[str]:
        return [SECRET_GROUP, *old[1:]]

    data = watch.batch("secret.csv", sex=planted, job=lambda old: ["ID-77-SECRET", *old[1:]])
    done = watch(data, "--json")
    text = done.out + done.err + watch.files(done.json)
    assert SECRET_GROUP not in text
    assert "ID-77-SECRET" not in text


def test_gates_may_come_as_a_mapping(watch: Watch) -> None:
    job = plan_monitoring(MODEL, watch.batch(), {"psi_max": {"max": 0.00001}}, ())
    store = Store(str(watch.store))
    verdict = execute(job, store, "as-a-mapping", DirectEngine(store))
    assert verdict.exit_code == 1
    with pytest.raises(InputError, match="expected a finite number"):
        plan_monitoring(MODEL, watch.batch(), {"psi_max": {"max": "much"}}, ())


def test_a_generated_sample_of_dates_and_truths_counts_as_such(watch: Watch) -> None:
    """Columns of every type are compared by their own bins."""
    done = watch(watch.batch(seed=9), "--json").json
    drift = json.loads(Path(done["artifacts"]["drift"]).read_text())["columns"]
    assert {name: column["kind"] for name, column in drift.items()} == {
        "income": "number",
        "job": "category",
        "owner": "category",
        "since": "date",
    }
    for column in drift.values():
        assert sum(item["then"] for item in column["bins"]) == pytest.approx(1.0)
        assert np.isclose(sum(item["now"] for item in column["bins"]), 1.0)


# the flow, up to where Prefect begins


@dataclass
class Started:
    """A flow run of a deployment."""

    id: str = "1234"


@pytest.fixture
def flow(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[str, Any]]]:
    """Run the flow's own function; what it would have Prefect retrain is listed."""
    import evenhand.flows.other_flows as module

    calls: list[tuple[str, Any]] = []

    def deployment(name: str, **options: Any) -> Started:
        calls.append((name, options))
        return Started()

    monkeypatch.setattr(module, "PrefectEngine", DirectEngine)
    logger = logging.getLogger("test")
    monkeypatch.setattr("evenhand.flows.flow_records.get_run_logger", lambda: logger)
    monkeypatch.setattr(module, "add_artifacts", lambda *shown: None)
    monkeypatch.setattr(module, "run_deployment", deployment)
    # Prefect would start a server for the event
    monkeypatch.setattr("prefect.events.emit_event", lambda **content: None)

    def run(data: str, **parameters: Any) -> list[tuple[str, Any]]:
        calls.clear()
        try:
            module.monitor.fn(MODEL, data, store=str(watch.store), **parameters)
        except GateRefused as refused:
            calls.append((f"refused {refused.exit_code}", str(refused)))
        return list(calls)

    return run


def test_the_flow_starts_a_deployment_without_waiting(watch: Watch, flow: Any) -> None:
    data = watch.batch("moved.csv", income=lambda old: [value + 1500 for value in old])
    (name, options), (end, text) = flow(
        data, retrain_deployment="retrain/people", run_id="by-deployment"
    )
    assert (name, options) == (
        "retrain/people",
        {"parameters": {"only_if_changed": True}, "timeout": 0},
    )
    assert end == "refused 1"
    assert "psi.income" in text
    left = json.loads((watch.store / "runs" / "by-deployment" / "verdict.json").read_text())
    assert left["artifacts"]["retrained"] == "retrain/people: flow run 1234"
    assert left["exit_code"] == 1


def test_the_flow_retrains_nothing_without_drift(watch: Watch, flow: Any) -> None:
    assert flow(watch.batch(), retrain_deployment="retrain/people") == []


def test_a_deployment_that_is_not_there_is_named(
    watch: Watch, flow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import evenhand.flows.other_flows as module

    def absent(name: str, **options: Any) -> None:
        raise ObjectNotFound(ValueError("no"))

    monkeypatch.setattr(module, "run_deployment", absent)
    data = watch.batch("moved.csv", income=lambda old: [value + 1500 for value in old])
    with pytest.raises(NotCarriedOut, match="'retrain/nobody' could not be started"):
        flow(data, retrain_deployment="retrain/nobody")
