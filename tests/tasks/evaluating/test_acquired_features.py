"""What is written of questions: categories read back from the matrix, no share of few people, no
row.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evenhand.fairlib.evaluation.evaluate import MetricValue
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder
from evenhand.tasks.evaluating.acquired_features import (
    FullInformation,
    acquisition_content,
    questions_of,
)
from evenhand.tasks.evaluating.decisions import asks
from evenhand.tasks.execution.dataset import Dataset

ROWS = 120


@dataclass
class Asked:
    order: np.ndarray
    probability: np.ndarray


@dataclass
class Agent:
    """Asks everybody for the job, then cooks and smiths for ownership; sex is never asked."""

    encoder: TableEncoder
    classes_: np.ndarray = field(default_factory=lambda: np.array([0, 1]))
    allowed_: np.ndarray = field(default_factory=lambda: np.array([True, True, True, False]))
    attributes_: list[str] = field(default_factory=lambda: ["sex"])
    feature_report_: dict[str, Any] = field(default_factory=dict)
    gamma: float = 0.4
    criterion: str = "equal_opportunity"

    @property
    def groups_(self) -> dict[str, list[int]]:
        return self.encoder.groups_

    def acquire(self, X: np.ndarray) -> Asked:
        order = np.full((len(X), 4), -1)
        names = list(self.groups_)
        order[:, 0] = names.index("job")
        clerk = X[:, self.encoder.feature_names_.index("job=clerk")] == 1
        order[~clerk, 1] = names.index("owner")
        return Asked(order, np.full(len(X), 0.25))

    def predict_proba_known(self, X: np.ndarray, known: np.ndarray) -> np.ndarray:
        share = known.mean(axis=1)
        return np.stack([1 - share, share], axis=1)


@pytest.fixture
def made() -> tuple[Agent, Dataset]:
    frame = pd.DataFrame(
        {
            "income": np.linspace(-1, 1, ROWS),
            "owner": np.repeat([True, False], ROWS // 2),
            "job": np.resize(["clerk", "smith", "cook"], ROWS),
            "sex": np.resize(["F", "M"], ROWS),
        }
    )
    specs = [
        ColumnSpec("income", "standard"),
        ColumnSpec("owner", "binary", "true"),
        ColumnSpec("job", "onehot"),
        ColumnSpec("sex", "onehot"),
    ]
    encoder = TableEncoder(specs, "ignore").fit(frame)
    # the first three have a job that no training row had
    frame.loc[:2, "job"] = "monk"
    sex = frame["sex"].to_numpy(dtype=object)
    sex[7] = "X"
    X = encoder.transform(frame)
    label = np.arange(ROWS) % 2
    data = Dataset(
        X, label, np.arange(ROWS), encoder.feature_names_, encoder.groups_, {"sex": sex}, {}
    )
    return Agent(encoder), data


def written(agent: Agent, data: Dataset) -> dict[str, Any]:
    content = acquisition_content(
        agent,
        questions_of(agent, agent.acquire(data.X)),
        data,
        asked=MetricValue(1.5, 1.25, 1.75),
        full_information={"auc": 0.5, "gap_max.sex": None},
        settings={"level": 0.9, "min_cell": 5},
    )
    read: dict[str, Any] = json.loads(json.dumps(content, allow_nan=False))
    return read


def test_a_group_of_few_people_has_no_share(made: tuple[Agent, Dataset]) -> None:
    (job,) = (group for group in written(*made)["groups"] if group["name"] == "job")
    assert job["by_group"]["sex"] == {
        "F": {"share": 1.0, "rows": 60},
        "M": {"share": 1.0, "rows": 59},
        "X": None,
    }


def test_the_whole_is_what_the_agent_and_the_evaluation_say(made: tuple[Agent, Dataset]) -> None:
    agent, data = made
    agent.feature_report_ = {
        "groups": {"job": {"classifier_auc": 0.7, "adversary_auc": 0.6}},
        "all": {"classifier_auc": 0.8, "adversary_auc": 0.9},
    }
    found = written(agent, data)
    assert (found["gamma"], found["criterion"], found["attributes"]) == (
        0.4,
        "equal_opportunity",
        ["sex"],
    )
    assert (found["rows"], found["level"]) == (ROWS, 0.9)
    assert found["asked"] == {
        "mean": 1.5,
        "low": 1.25,
        "high": 1.75,
        "histogram": [0, 39, 81, 0, 0],
    }
    assert found["auc"] == {
        "all": {"classifier_auc": 0.8, "adversary_auc": 0.9},
        "acquired": {"classifier_auc": None, "adversary_auc": None},
    }
    assert found["full_information"] == {"auc": 0.5, "gap_max.sex": None}
    aucs = {
        group["name"]: (group["classifier_auc"], group["adversary_auc"])
        for group in found["groups"]
    }
    assert aucs["job"] == (0.7, 0.6)
    assert aucs["income"] == (None, None)


def test_full_information_is_all_that_may_be_asked(made: tuple[Agent, Dataset]) -> None:
    agent, data = made
    informed = FullInformation(agent)
    np.testing.assert_allclose(informed.predict_proba(data.X)[:, 1], 0.75)
    assert informed.predict(data.X).tolist() == [1] * ROWS


def test_models_that_ask_are_known_by_what_they_can_do(made: tuple[Agent, Dataset]) -> None:
    from evenhand.fairlib.methods.gbdt import GBDTClassifier

    assert asks(made[0])
    assert not asks(GBDTClassifier())
