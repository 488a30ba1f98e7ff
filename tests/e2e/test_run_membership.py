"""A job that asks how well its training rows can be inferred: metric, gate, page, and wrong
keys.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evenhand.flows import classifier_jobs as classifier
from evenhand.flows.job import ONCE
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.tasks.errors import InputError
from tests.flows.people import Bench

MEMORISING = {
    "name": "gbdt",
    "n_steps": 60,
    "max_depth": 8,
    "reg_lambda": 0,
    "eta": 0.5,
    "n_jobs": 1,
}
MEMORISING["n_iter_no_change"] = None


def test_a_gate_refuses_a_model_that_discloses_training_rows(
    bench: Bench,
) -> None:
    """The page says so."""
    bench.job["method"] = MEMORISING
    bench.job["gates"] = {"auc": {"min": 0.3}, "membership_auc": {"max": 0.55, "bound": "interval"}}
    bench.job["evaluate"]["membership"] = {"shadows": 4}
    done = bench.run("--json")
    assert done.code == 1, done.err
    verdict = done.json
    found = verdict["metrics"]["membership_auc"]
    assert (
        verdict["metrics"]["membership_auc.low"] < found < verdict["metrics"]["membership_auc.high"]
    )
    assert found > 0.6
    content = json.loads(Path(verdict["artifacts"]["membership.membership"]).read_text())
    assert max(content["attacks"][name]["auc"]["value"] for name in ("online", "offline")) == found
    # 80 test rows, of each label as many training rows; nothing of a single row
    assert (content["members"], content["shadows"]) == (80, 4)
    assert len(json.dumps(content)) < 3000
    assert not any(
        "membership_auc" in control["metrics"] for control in verdict["controls"].values()
    )
    assert any("can be inferred from the model with an AUC of" in note for note in verdict["notes"])
    page = Path(verdict["artifacts"]["report"]).read_text()
    for text in (
        "What outputs disclose",
        f"<strong>{found:.3f}</strong>",
        "outputs of the model disclose",
    ):
        assert text in page
    assert "The score and the true label" in page
    again = bench.run("--json", "--set", "gates={membership_auc: {max: 0.5}}")
    assert again.code == 1, again.err
    assert "membership" in again.json["cached"]


def test_other_tables_are_measured_without_the_attack(bench: Bench) -> None:
    job, _ = load_job(str(bench.write()), ["evaluate.membership.shadows=8"])
    settings = job.evaluate.model_dump(exclude=ONCE)
    assert set(type(job.evaluate).model_fields) - set(settings) == {
        "certificate",
        "membership",
        "reasons",
    }


def test_shadow_models_have_the_strength_of_the_model(bench: Bench) -> None:
    bench.job |= {
        "method": {"name": "budro"},
        "evaluate": {"membership": {"shadows": 6}, "draws": 20},
    }
    resolved = resolve(*load_job(str(bench.write())))
    seen: dict[str, Any] = {}

    class Steps(SimpleNamespace):
        def __call__(
            self, name: str, parameters: dict[str, Any], inputs: dict[str, Any], **rest: Any
        ) -> None:
            seen.update(name=name, parameters=parameters, inputs=inputs, **rest)

    steps = Steps(
        finished={"fair_metric": None},
        facts=lambda name: (
            {"strength": {"parameter": "budget_share", "used": 0.01}} if name == "train" else {}
        ),
        output=lambda step, name: f"{step}.{name}",
    )
    classifier._attack(resolved, steps, "rows")  # type: ignore[arg-type]
    assert seen["parameters"]["arguments"] == {"budget_share": 0.01}
    assert seen["parameters"]["shadows"] == 6
    assert seen["inputs"] == {
        "train": "rows", "test": "preprocess.test", "model": "train.model", "metric": "fair_metric.metric"
    }  # fmt: skip
    assert seen["modules"] == resolved.modules


WRONG = {
    "evaluate.membership={shadows: 2}": "evaluate.membership.shadows: .*at least 4",
    "evaluate.membership={shadows: 7}": "evaluate.membership.shadows: .*multiple of 2",
    "evaluate.membership={shadow: 8}": "unknown key 'evaluate.membership.shadow' .did you mean 'shadows'",
    "gates={membership_auc: {max: 0.55}}": "is measured with evaluate.membership: {shadows: 16}",
}


@pytest.mark.parametrize("override", WRONG)
def test_a_wrong_key_is_one_line(bench: Bench, override: str) -> None:
    with pytest.raises(InputError, match=WRONG[override]) as caught:
        resolve(*load_job(str(bench.write()), [override]))
    assert "\n" not in str(caught.value)


def test_a_proxy_has_no_such_metric(proxies: Bench) -> None:
    with pytest.raises(InputError, match="evaluate.membership is not for a proxy"):
        resolve(*load_job(str(proxies.write()), ["evaluate.membership.shadows=4"]))


def test_a_gate_beside_a_control_is_refused(bench: Bench) -> None:
    asked = ["evaluate.membership.shadows=4", "gates={membership_auc: {better_than_blind: 0}}"]
    with pytest.raises(InputError, match="the controls have no such metric"):
        resolve(*load_job(str(bench.write()), asked))
