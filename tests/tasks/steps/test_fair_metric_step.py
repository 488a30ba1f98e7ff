"""The default fair metric of a table whose directions span most of its inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evenhand.fairlib.distances.metric_evidence import MetricReport
from evenhand.fairlib.distances.metric_kinds import load_metric
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.dataset import Dataset
from evenhand.tasks.steps.fair_metric_step import _check_signal, fair_metric
from tests.tasks.steps_of_rows import context, encoded

N = 3000


def few_inputs(told: float) -> Dataset:
    """Three inputs; they tell the group by a shift of the first one, and the number not at all."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N, 3)).astype(np.float32)
    group = rng.choice(["f", "m", "x"], N)
    X[:, 0] += told * (group == "m")
    age = rng.normal(40, 10, N)
    names = ["income", "debt", "years"]
    sensitive: dict[str, Any] = {"gender": group, "age": np.where(age > 40, "over 40", "up to 40")}
    groups = {name: [j] for j, name in enumerate(names)}
    return Dataset(
        X, (X[:, 1] > 0).astype(np.int64), np.arange(N), names, groups, sensitive, {"age": age}
    )


def learned(folder: Path, data: Dataset, **changed: Any) -> tuple[Any, dict[str, Any]]:
    section = {
        "kind": "sensitive-subspace",
        "indicators": None,
        "learned": None,
        "strength": 0.1,
    } | changed
    result = fair_metric(context(folder, {"fair_metric": section, "seed": 0}, data))
    return load_metric(result.outputs["metric"][0]), result.facts


def test_what_tells_a_group_is_ignored_and_the_rest_counts(tmp_path: Path) -> None:
    metric, facts = learned(tmp_path, few_inputs(told=1.5))
    assert (facts["rank"], facts["unlearned"]) == (1, ["age"])
    assert np.linalg.norm(metric.project([[1.0, 0.0, 0.0]])) < 0.1
    assert np.linalg.norm(metric.project([[0.0, 1.0, 0.0]])) > 0.99


def test_if_nothing_is_told_nothing_is_ignored(tmp_path: Path) -> None:
    metric, facts = learned(tmp_path, few_inputs(told=0.0))
    assert (facts["rank"], facts["unlearned"]) == (0, ["gender", "age"])
    assert metric.distance([[0.0, 0.0, 0.0]], [[1.0, 2.0, 2.0]]) == pytest.approx([3.0])


def test_what_the_job_names_is_kept(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="subspace is everything"):
        learned(tmp_path, few_inputs(told=0.0), learned=["gender", "age"])


def test_a_learned_metric_names_what_it_removes(tmp_path: Path) -> None:
    data = encoded(600)
    section = {"kind": "learned", "legitimate": [], "explained_variance": 0.99}
    result = fair_metric(context(tmp_path, {"fair_metric": section, "seed": 0}, data))
    metric = load_metric(result.outputs["metric"][0])
    facts = result.facts["learned"]
    verdicts = {item["column"]: item["verdict"] for item in facts["columns"]}
    assert verdicts == {"sex": "sensitive", "skill": "kept", "noise": "kept"}
    assert set(facts["leaks"]["sex"]) == {"before", "after", "low", "high"}
    assert metric.distance([[0.0, 1.0, 0.0]], [[1.0, 1.0, 0.0]]) == pytest.approx([0.0])


def test_a_learned_metric_refuses_a_small_group(tmp_path: Path) -> None:
    groups = np.array(["a"] * 590 + ["b"] * 10)
    data = encoded(600, groups=groups)
    section = {"kind": "learned", "legitimate": [], "explained_variance": 0.99}
    with pytest.raises(InputError, match="'b' of 'sex' has 10 training rows"):
        fair_metric(context(tmp_path, {"fair_metric": section, "seed": 0}, data))
    # rates of fewer than 400 people are not shown: no number of the metric may rest on fewer
    parameters = {"fair_metric": section, "seed": 0, "min_cell": 400}
    with pytest.raises(InputError, match="needs at least 810"):
        fair_metric(context(tmp_path, parameters, encoded(600)))


LEARNED = {"kind": "learned", "legitimate": [], "explained_variance": 0.99}


def workers(folder: Path) -> tuple[Dataset, Path]:
    """Women work some 30 hours, men some 40; the label follows hours of the own group, and skill."""
    rng = np.random.default_rng(0)
    man = rng.random(N) < 0.5
    effort = rng.normal(size=N)
    frame = pd.DataFrame({"hours": 30 + 10 * man + 3 * effort, "skill": rng.normal(size=N)})
    encoder = TableEncoder([ColumnSpec("hours", "standard"), ColumnSpec("skill", "standard")])
    X = encoder.fit(frame).transform(frame)
    encoder.save(folder / "encoder.json")
    sensitive: dict[str, Any] = {"sex": np.where(man, "m", "f")}
    y = (effort + frame["skill"].to_numpy() + rng.normal(size=N) > 0).astype(np.int64)
    data = Dataset(X, y, np.arange(N), list(frame), encoder.groups_, sensitive, {})
    return data, folder / "encoder.json"


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ({"hours": [0, 80]}, None),
        ({"hours": [None, 80], "skill": [-0.1, 0.1]}, None),
        ({"hours": [0, 41]}, "people have a 'hours' outside the contract's range 0 to 41"),
        ({"hours": [29, None]}, "the contract's range from 29: list it in fair_metric.legitimate"),
    ],
)
def test_copies_outside_the_contract_are_refused(
    tmp_path: Path, ranges: dict[str, Any], message: str | None
) -> None:
    data, encoder = workers(tmp_path)
    parameters = {"fair_metric": LEARNED, "seed": 0, "ranges": ranges}
    step = context(tmp_path, parameters, data, encoder=encoder)
    if message is None:
        # skill is not adapted beyond what it was
        parameters["ranges"] = {"hours": ranges["hours"]}
        assert fair_metric(step).facts["rank"] > 0
        return
    with pytest.raises(InputError, match=message):
        fair_metric(step)


def test_a_metric_that_leaves_no_signal_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], N)
    X = np.column_stack([group == "b", (group == "b") + rng.normal(size=N)])
    # the label is the group's and nobody's own
    y = (rng.random(N) < np.where(group == "b", 0.95, 0.05)).astype(np.int64)
    groups = {"group": [0], "proxy": [1]}
    data = Dataset(
        X.astype(np.float32), y, np.arange(N), list(groups), groups, {"group": group}, {}
    )
    with pytest.raises(InputError, match="all people would be comparable. List columns"):
        fair_metric(context(tmp_path, {"fair_metric": LEARNED, "seed": 0}, data))


@pytest.mark.parametrize(("adapts", "cure"), [(True, "List columns"), (False, "model inputs")])
def test_a_metric_that_leaves_no_signal_names_the_cure(adapts: bool, cure: str) -> None:
    report = MetricReport([], {}, {}, (0.8, 0.52), sequential=False, adapts=adapts)
    with pytest.raises(InputError, match=f"AUC 0.80 before, 0.52 after.*{cure}"):
        _check_signal(report)
    _check_signal(report._replace(label_auc=(0.8, 0.54)))
