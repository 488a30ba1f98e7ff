"""The file of metrics of one-shot runs: gauges that a failure keeps, and never half a file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from evenhand.flows import metrics_file
from evenhand.flows.engine import CacheMiss, Verdict, recorded_verdict
from evenhand.flows.metrics_file import FOLDER_VARIABLE, write_metrics
from evenhand.flows.telemetry import JOB_GAUGES
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.store import Store

ROOT = Path(__file__).resolve().parents[2]
MODEL = {"name": "people", "version": "3", "alias": "champion", "uri": "models:/people/3"}
TRAINED = Verdict(
    "20260102-030405-people-gbdt-0a1b2c",
    "published",
    0,
    gates={"results": [{"passed": True}, {"passed": True}]},
    seconds={"ingest": 0.25, "train": 4.0},
    rows=300,
    model=MODEL,
)
MONITORED = Verdict(
    "20260102-040506-people-monitor-0a1b2c",
    "monitored",
    1,
    metrics={"psi.city": 0.125, "psi.city.low": 0.1, "psi.age": None, "psi_max": 0.125},
    gates={"results": [{"passed": False}]},
    rows=40,
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The collector's folder, a clock that stands still, and a registry with one move."""
    made = tmp_path / "collector"
    made.mkdir()
    monkeypatch.setenv(FOLDER_VARIABLE, str(made))
    monkeypatch.setattr(metrics_file.time, "time", lambda: 1000.0)
    monkeypatch.setattr(metrics_file, "_since", lambda store, model: "500.0")
    return made


def samples(file: Path) -> dict[tuple[str, ...], float]:
    """Value of each sample by its name and its labels' values, as Prometheus reads the file."""
    read = {}
    for family in text_string_to_metric_families(file.read_text()):
        assert family.type == "gauge"
        assert family.documentation
        for item in family.samples:
            read[item.name.removeprefix("evenhand_"), *item.labels.values()] = item.value
    return read


def test_a_run_leaves_gauges_of_its_job(folder: Path, store: Store) -> None:
    write_metrics(TRAINED, store)
    assert samples(folder / "evenhand-people-gbdt.prom") == {
        ("job_end_timestamp_seconds", "people-gbdt"): 1000,
        ("job_success_timestamp_seconds", "people-gbdt"): 1000,
        ("job_exit_code", "people-gbdt"): 0,
        ("job_verdict", "people-gbdt", "published"): 1,
        ("job_seconds", "people-gbdt"): 4.25,
        ("job_rows", "people-gbdt"): 300,
        ("job_gates_refused", "people-gbdt"): 0,
        ("model_version", "people-gbdt", "people", "champion"): 3,
        ("model_since_timestamp_seconds", "people-gbdt", "people", "champion"): 500,
    }
    write_metrics(MONITORED, store)
    drifted = samples(folder / "evenhand-people-monitor.prom")
    assert drifted["job_drift_psi", "people-monitor", "city"] == 0.125
    assert drifted["job_gates_refused", "people-monitor"] == 1
    assert ("job_success_timestamp_seconds", "people-monitor") not in drifted
    assert sorted(path.name for path in folder.iterdir()) == [
        "evenhand-people-gbdt.prom",
        "evenhand-people-monitor.prom",
    ]


def test_a_failure_keeps_what_only_a_success_says(
    folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_metrics(TRAINED, store)
    monkeypatch.setattr(metrics_file.time, "time", lambda: 2000.0)
    write_metrics(Verdict("20260103-030405-people-gbdt-0a1b2c", "failed", 4, "no"), store)
    after = samples(folder / "evenhand-people-gbdt.prom")
    assert after["job_end_timestamp_seconds", "people-gbdt"] == 2000
    assert after["job_success_timestamp_seconds", "people-gbdt"] == 1000
    assert after["job_exit_code", "people-gbdt"] == 4
    assert after["job_rows", "people-gbdt"] == 300
    assert after["model_version", "people-gbdt", "people", "champion"] == 3
    # one verdict at a time
    assert [key for key in after if key[0] == "job_verdict"] == [
        ("job_verdict", "people-gbdt", "failed")
    ]


def test_the_registry_is_asked_only_after_a_move(
    folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def since(store: Store, model: Any) -> str | None:
        asked.append(model["version"])
        return None if model["version"] == "5" else f"{model['version']}00.0"

    monkeypatch.setattr(metrics_file, "_since", since)
    key = ("model_since_timestamp_seconds", "people-gbdt", "people", "champion")
    for version in ("3", "3", "4", "4"):
        verdict = Verdict(TRAINED.run_id, "up_to_date", 0, model={**MODEL, "version": version})
        write_metrics(verdict, store)
        assert samples(folder / "evenhand-people-gbdt.prom")[key] == int(version) * 100
    assert asked == ["3", "4"]
    # a version that another has replaced says nothing about the alias
    write_metrics(Verdict(TRAINED.run_id, "up_to_date", 0, model={**MODEL, "alias": None}), store)
    assert asked == ["3", "4"]


def test_odd_names_make_a_file_that_prometheus_reads(folder: Path, store: Store) -> None:
    metrics: dict[str, float | None] = {'psi.a "quoted"\\\n column': 0.5}
    write_metrics(Verdict("../run of mine", "monitored", 0, metrics=metrics), store)
    (file,) = folder.iterdir()
    assert file.name == "evenhand-..-run-of-mine.prom"
    assert samples(file)["job_drift_psi", "../run of mine", 'a "quoted"\\\n column'] == 0.5
    again = file.read_text()
    write_metrics(Verdict("../run of mine", "failed", 2, "no"), store)
    assert [line for line in file.read_text().splitlines() if "psi" in line] == [
        line for line in again.splitlines() if "psi" in line
    ]


def test_a_folder_that_is_gone_is_one_warning(
    folder: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.rmdir()
    write_metrics(TRAINED, store)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"evenhand: WARNING: {FOLDER_VARIABLE} is {folder}, which cannot be")
    assert not folder.exists()


def test_every_ended_run_writes_and_a_look_does_not(folder: Path, store: Store) -> None:
    file = folder / "evenhand-people.prom"
    run_id = "20260102-030405-people-0a1b2c"
    with pytest.raises(CacheMiss), recorded_verdict(store, run_id):
        raise CacheMiss
    assert not file.exists()
    with pytest.raises(InputError), recorded_verdict(store, run_id):
        raise InputError("no such column")
    assert samples(file)["job_exit_code", "people"] == 2
    # a watched input without new files leaves no verdict, and is a success all the same
    with recorded_verdict(store, run_id, keep_idle=False) as verdict:
        verdict.status = "up_to_date"
        verdict.exit_code = 0
    assert samples(file)["job_success_timestamp_seconds", "people"] == 1000


def test_the_dashboard_of_jobs_shows_every_gauge() -> None:
    board = json.loads((ROOT / "deploy" / "grafana-jobs.json").read_text())
    queried = set()
    for panel in board["panels"]:
        for target in panel["targets"]:
            query = target["expr"]
            (name,) = re.findall(r"evenhand_\w+", query)
            queried.add(name)
            labels = set(JOB_GAUGES[name][1])
            (grouped,) = re.findall(r"by \(([^)]*)\)", query)
            assert set(grouped.split(", ")) <= labels, query
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels, query
    assert queried == set(JOB_GAUGES)
    first = json.loads((ROOT / "deploy" / "grafana.json").read_text())
    assert board["uid"] != first["uid"]
