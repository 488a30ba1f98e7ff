"""Which models other code makes anew, in which night, and what the report before an upgrade says."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from evenhand.flows import code_changes, resolved_job
from evenhand.flows.code_changes import CODE, PLAN, CodeChange, spread
from evenhand.flows.commands import upgrade_command
from evenhand.flows.engine import DirectEngine
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import inputs_digest, resolve
from evenhand.flows.unchanged import find_unchanged
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution import step
from evenhand.tasks.execution.store import Store
from tests.flows.people import Bench

TODAY = datetime.date(2026, 12, 1)
TRAIN = "evenhand.tasks.steps.train_step"


def unchanged(bench: Bench, *overrides: str) -> Any:
    """What makes a run of the bench's job unnecessary."""
    resolved = resolve(*load_job(str(bench.write()), overrides))
    store = Store(str(bench.store))
    return find_unchanged(resolved, store, DirectEngine(store))


@pytest.fixture
def other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another release, in which one step's code differs."""
    real = step.code_digest

    def digest(modules: Any) -> str:
        listed = list(modules)
        text = real(listed)
        return f"other{text}" if TRAIN in listed else text

    monkeypatch.setattr(resolved_job, "code_digest", digest)
    monkeypatch.setattr(step, "code_digest", digest)
    for module in (code_changes, upgrade_command):
        monkeypatch.setattr(module, "today", lambda: TODAY)


def report(bench: Bench, *arguments: str) -> dict[str, Any]:
    """What `evenhand upgrade-report --json` prints."""
    from evenhand.flows.cli import app

    given = ["upgrade-report", *arguments, "--store", str(bench.store), "--json"]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, (done.stderr, done.exception)
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def test_never_keeps_a_model_of_the_same_data_and_job(champion: Bench, other_code: None) -> None:
    assert unchanged(champion) is None
    never = "retrain.on_code_change=never"
    kept = unchanged(champion, never)
    assert (kept.version, kept.current) == ("1", "1")
    assert kept.other_code == "retrain.on_code_change is never"
    for change in ("seed=7", "method.n_steps=3", "gates.auc.min=0.4", "split.test=0.4"):
        assert unchanged(champion, never, change) is None, change
    table = champion.folder / "people.csv"
    table.write_bytes(table.read_bytes().replace(b"clerk", b"smith", 1))
    assert unchanged(champion, never) is None


def test_the_verdict_names_the_other_code(champion: Bench, other_code: None) -> None:
    done = champion.run("--json", "--if-changed", "--set", "retrain.on_code_change=never")
    assert done.json["status"] == "up_to_date"
    (note,) = done.json["notes"]
    assert "by other code (retrain.on_code_change is never), and is champion" in note


def test_a_listed_model_trains_in_its_night_alone(champion: Bench, other_code: None) -> None:
    listed = "retrain.on_code_change=listed"
    assert "has given it no night" in unchanged(champion, listed).other_code
    champion.job["retrain"] = {"on_code_change": "listed"}
    planned = report(champion, str(champion.write()), "--write")
    assert planned["models"][0]["night"] == "2026-12-02"
    assert unchanged(champion).other_code.endswith("its night is 2026-12-02")
    path = champion.store / PLAN
    content = json.loads(path.read_text())
    content["models"]["people-gbdt"]["night"] = "2026-12-01"
    path.write_text(json.dumps(content))
    assert unchanged(champion) is None
    # a plan of a release before is none of this one
    content["models"]["people-gbdt"]["code"] = "earlier"
    path.write_text(json.dumps(content))
    assert "has given it no night" in unchanged(champion).other_code


def test_the_report_names_steps_and_reasons(champion: Bench, other_code: None) -> None:
    model = report(champion, str(champion.write()))["models"][0]
    assert (model["change"], model["version"], model["night"]) == (CODE, "1", None)
    assert model["repeated"] == {"train": "its code has changed"}
    assert model["following"] == ["decide", "evaluate", "gate", "publish"]
    assert model["seconds"] > 0
    # nothing is written without --write
    assert not (champion.store / PLAN).exists()


def test_a_library_repeats_every_step(champion: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = step.library_versions()
    newer = real | {"numpy": "99.0"}
    for module in (resolved_job, code_changes):
        monkeypatch.setattr(module, "library_versions", lambda: newer)
    model = report(champion, str(champion.write()))["models"][0]
    assert set(model["repeated"].values()) == {f"numpy {real['numpy']} is now 99.0"}
    assert list(model["repeated"])[0] == "ingest"
    assert model["following"] == []


def test_the_report_of_unchanged_and_changed_jobs(champion: Bench, tmp_path: Path) -> None:
    job = str(champion.write())
    deployments = tmp_path / "prefect.yaml"
    retraining = {"name": "people", "entrypoint": "evenhand.flows.prefect_flows.retrain"}
    retraining["parameters"] = {"job": job, "overrides": ["seed=7"]}
    other = {"name": "drift", "entrypoint": "evenhand.flows.prefect_flows.monitor"}
    deployments.write_text(yaml.safe_dump({"deployments": [retraining, other]}))
    models = report(champion, job, "--deployments", str(deployments))["models"]
    assert [model["change"] for model in models] == ["same", "data or job"]
    retraining["parameters"] = {"job": "{{ $NO_SUCH_FOLDER }}/job.yaml"}
    deployments.write_text(yaml.safe_dump({"deployments": [retraining]}))
    from evenhand.flows.cli import app

    done = CliRunner().invoke(app, ["upgrade-report", "--deployments", str(deployments)])
    assert done.exit_code == 2
    assert "set the variable NO_SUCH_FOLDER" in done.stderr


def test_a_key_at_its_default_changes_no_digest(champion: Bench) -> None:
    """A later release may add keys: those that nobody sets are in no digest."""
    job = str(champion.write())
    plain = resolve(*load_job(job))
    stated = resolve(*load_job(job, ["calibration=auto", "retrain.on_code_change=never"]))
    other = resolve(*load_job(job, ["calibration=none"]))
    digests = [inputs_digest(item, {"people.csv": "1"}, None) for item in (plain, stated, other)]
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]


def test_nights_take_about_the_same_time() -> None:
    changes = []
    for name, seconds in (("a", 50.0), ("b", 40.0), ("c", 30.0), ("d", 20.0), ("e", None)):
        change = CodeChange(name, name, "1", "listed", CODE, seconds=seconds)
        changes.append(change)
    changes.append(CodeChange("f", "f", "1", "always", CODE, seconds=99.0))
    changes.append(CodeChange("g", "g", "1", "listed", "same"))
    spread(changes, 2, TODAY)
    nights = {change.model: change.night for change in changes}
    # a: 50; b: 40; c to b's night: 70; d to a's: 70; e, of unknown time, to the first
    first, second = "2026-12-01", "2026-12-02"
    assert nights == {
        **{"a": first, "b": second, "c": second, "d": first, "e": first},
        **{"f": None, "g": None},
    }


def test_a_broken_plan_gets_one_line(champion: Bench, other_code: None) -> None:
    (champion.store / PLAN).write_text('{"models": [1]}')
    with pytest.raises(InputError, match=r"upgrade-report --write. writes it anew"):
        unchanged(champion, "retrain.on_code_change=listed")
