"""What is written of a measured proxy: nothing of groups with few rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tasks.proxy_steps import ROWS, measured


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
