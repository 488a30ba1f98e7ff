"""What is written of a measured proxy: nothing of groups with few rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenhand.tasks.execution.dataset import Dataset
from evenhand.tasks.execution.step import StepContext
from evenhand.tasks.steps.learn_proxy_step import learn_proxy
from evenhand.tasks.steps.measure_proxy_step import measure_proxy
from tests.tasks.steps_of_rows import write_dataset

ROWS = 400


def dataset(
    folder: Path, *, group: Any = None, names: tuple[str, ...] = ("a", "b"), seed: int = 0
) -> Path:
    """Rows of two features: the first is high in group x, the second in group z."""
    rng = np.random.default_rng(seed)
    member = rng.choice(["x", "y", "z"], ROWS, p=[0.2, 0.65, 0.15]) if group is None else group
    X = rng.normal(size=(ROWS, 2)).astype(np.float32)
    X[:, 0] += 1.2 * (member == "x")
    X[:, 1] += 1.2 * (member == "z")
    data = Dataset(
        X=X,
        y=rng.integers(0, 2, ROWS),
        rows=np.arange(ROWS),
        names=names,
        groups={name: [position] for position, name in enumerate(names)},
        sensitive={"g": member},
        numbers={"v": rng.normal(size=ROWS)},
    )
    write_dataset(folder, data, dict.fromkeys(names, "standard"))
    return folder


def context(
    folder: Path, inputs: dict[str, Path], parameters: dict[str, Any], seen: list[Any]
) -> StepContext:
    folder.mkdir()
    return StepContext(parameters, inputs, folder, lambda *given: seen.append(given))


def measured(
    folder: Path, min_cell: int, *, group: Any = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    train, test = dataset(folder / "train"), dataset(folder / "test", seed=1, group=group)
    parameters: dict[str, Any] = {
        "method": "proxy",
        "arguments": {"alpha": 0.2, "progress": 0.02, "min_leaf": 5.0},
        "seed": 0,
    }
    proxy = learn_proxy(context(folder / "learn", {"train": train}, parameters, [])).outputs[
        "proxy"
    ][0]
    parameters = {
        "evaluate": {"draws": 20, "level": 0.9, "min_cell": min_cell},
        "method": "proxy",
        "seed": 0,
    }
    inputs = {"proxy": proxy, "train": train, "test": test}
    done = measure_proxy(context(folder / "measure", inputs, parameters, []))
    metrics, balance = (
        json.loads(done.outputs[name][0].read_text()) for name in ("metrics", "balance")
    )
    return metrics, balance


def test_proxy_groups_with_few_rows_have_no_composition(tmp_path: Path) -> None:
    _, balance = measured(tmp_path, 45)
    rows = np.array(balance["rows"])
    assert (rows < 45).any()
    assert (rows >= 45).any()
    for count, composition in zip(rows, balance["compositions"], strict=True):
        assert (composition is None) == (count < 45)
        assert composition is None or sum(composition) == pytest.approx(1)
    train = np.array(balance["masses"]) * ROWS
    for count, composition in zip(train, balance["compositions_train"], strict=True):
        assert (composition is None) == (count < 45)


def test_a_group_with_few_rows_has_no_share_anywhere(tmp_path: Path) -> None:
    group = np.where(np.arange(ROWS) < 4, "x", np.where(np.arange(ROWS) < 100, "z", "y"))
    metrics, balance = measured(tmp_path, 5, group=group)
    for name in ("base_rates", "shares_before", "shares_after"):
        assert balance[name][0] is None
        assert balance[name][1] is not None
    assert {composition[0] for composition in balance["compositions"] if composition} == {None}
    # of the training rows there are enough
    assert None not in balance["shares_after_train"] + balance["base_rates_train"]
    assert metrics["metrics"]["imbalance"]["value"] is not None


def test_metrics_have_the_form_of_every_evaluation(tmp_path: Path) -> None:
    from evenhand.fairlib.evaluation.evaluate import Evaluation

    metrics, balance = measured(tmp_path, 5)
    evaluation = Evaluation.from_json(metrics)
    assert evaluation.n == ROWS
    assert evaluation.settings["level"] == 0.9
    assert list(evaluation.metrics)[0] == "disclosivity"
    for name in ("disclosivity", "imbalance", "kept"):
        assert evaluation.metrics[name].low is not None
    train = evaluation.metrics["disclosivity.train"]
    assert (train.low, train.status) == (None, "ok")
