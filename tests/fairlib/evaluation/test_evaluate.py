from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from evenhand.fairlib.evaluation.evaluate import Evaluation, MetricValue, estimates, evaluate
from evenhand.fairlib.evaluation.metric_intervals import percentiles
from evenhand.fairlib.evaluation.outcomes import Outcomes, score_histograms

GROUPED = (
    "gap_max",
    "gap_rms",
    "demographic_parity_difference",
    "impact_ratio",
    "equal_opportunity_difference",
    "average_odds_difference",
    "balanced_accuracy_difference",
    "calibration_gap",
)
PROBABILITIES = ("log_loss", "log_loss_gain", "brier", "ece")
ENOUGH = {(g, y, p): 20 for g in "FM" for y in (0, 1) for p in (0, 1)}


def short(evaluation: Evaluation) -> set[str]:
    return {name for name, metric in evaluation.metrics.items() if metric.status != "ok"}


def test_reading_order(random_outcomes: Callable[..., Outcomes]) -> None:
    evaluation = evaluate(random_outcomes(300, 0), draws=0)
    assert list(evaluation.metrics) == [
        *(
            "accuracy",
            "balanced_accuracy",
            "auc",
            *PROBABILITIES,
            "consistency.spouse",
            "consistency.status",
        ),
        *(f"{name}.sex" for name in GROUPED),
        *(f"{name}.race" for name in GROUPED),
        "theil_index",
    ]
    assert evaluation.n == 300


def test_intervals_hold_their_estimate(random_outcomes: Callable[..., Outcomes]) -> None:
    evaluation = evaluate(random_outcomes(400, 1), intersections=True)
    assert not short(evaluation)
    for name, metric in evaluation.metrics.items():
        assert metric.low is not None
        assert metric.high is not None
        assert metric.low <= metric.value <= metric.high, name
        assert 0 < metric.high - metric.low < 0.8, name


def test_without_draws_there_is_no_interval(random_outcomes: Callable[..., Outcomes]) -> None:
    evaluation = evaluate(random_outcomes(400, 1), draws=0)
    assert all(metric.low is None and metric.high is None for metric in evaluation.metrics.values())


def test_small_cell_stops_only_what_needs_it(from_cells: Callable[..., Outcomes]) -> None:
    # four women with label 1 are too few for TPR, though there are 44 women
    positives = evaluate(from_cells(ENOUGH | {("F", 1, 0): 2, ("F", 1, 1): 2}), draws=50)
    rows = {"demographic_parity_difference.sex", "impact_ratio.sex", "calibration_gap.sex"}
    assert short(positives) == {f"{name}.sex" for name in GROUPED} - rows
    reason = positives.metrics["equal_opportunity_difference.sex"].reason
    expected = (
        "sex: 1 of 2 cells (group and favourable label) have fewer than 5 rows, the smallest has "
        "4; "
        "left out: F (44 rows, 4 of one label)"
    )
    assert reason == expected
    assert "1 of 4 cells (group and label)" in positives.metrics["gap_max.sex"].reason
    # few with label 0: the TPR needs them not
    negatives = evaluate(from_cells(ENOUGH | {("F", 0, 0): 2, ("F", 0, 1): 2}), draws=50)
    cells = ("gap_max", "gap_rms", "average_odds_difference", "balanced_accuracy_difference")
    assert short(negatives) == {f"{name}.sex" for name in cells}
    assert not short(
        evaluate(from_cells(ENOUGH | {("F", 0, 0): 2, ("F", 0, 1): 2}), draws=50, min_cell=4)
    )


def test_group_without_positives_is_neither_fair_nor_unfair(
    from_cells: Callable[..., Outcomes],
) -> None:
    evaluation = evaluate(from_cells(ENOUGH | {("F", 1, 0): 0, ("F", 1, 1): 0}), draws=50)
    metric = evaluation.metrics["equal_opportunity_difference.sex"]
    assert (metric.value, metric.low, metric.high) == (None, None, None)
    assert metric.status == "insufficient_evidence"
    assert [(row["group"], row["label"], row["n"]) for row in evaluation.counts["sex"]] == [
        ("F", 0, 40),
        ("F", 1, 0),
        ("M", 0, 40),
        ("M", 1, 40),
    ]


def test_known_group_without_rows_does_not_vanish(from_cells: Callable[..., Outcomes]) -> None:
    evaluation = evaluate(from_cells(ENOUGH, groups={"sex": ["F", "M", "X"]}), draws=50)
    assert not short(evaluation)
    assert [row["n"] for row in evaluation.counts["sex"] if row["group"] == "X"] == [0, 0]
    left_out = [{"group": "X", "n": 0, "fewest": 0, "reason": "too_few"}]
    expected = {"measured": ["F", "M"], "left_out": left_out}
    assert evaluation.groups == {f"{name}.sex": expected for name in GROUPED}


def test_one_group(from_cells: Callable[..., Outcomes]) -> None:
    evaluation = evaluate(
        from_cells({cell: n for cell, n in ENOUGH.items() if cell[0] == "F"}), draws=50
    )
    assert short(evaluation) == {f"{name}.sex" for name in GROUPED}
    assert "only 1 group" in evaluation.metrics["gap_max.sex"].reason


@pytest.mark.parametrize("label", [0, 1])
def test_one_label_class(from_cells: Callable[..., Outcomes], label: int) -> None:
    evaluation = evaluate(
        from_cells({cell: n for cell, n in ENOUGH.items() if cell[1] == label}), draws=50
    )
    assert {"auc", "balanced_accuracy", "gap_max.sex"} <= short(evaluation)
    assert ("equal_opportunity_difference.sex" in short(evaluation)) == (label == 0)
    assert evaluation.metrics["accuracy"].value == 0.5
    assert evaluation.metrics["auc"].reason.startswith("the table: 1 of 2 cells (label)")


@pytest.mark.parametrize("prediction", [0, 1])
def test_all_predictions_equal(from_cells: Callable[..., Outcomes], prediction: int) -> None:
    evaluation = evaluate(
        from_cells({cell: n for cell, n in ENOUGH.items() if cell[2] == prediction}), draws=50
    )
    assert short(evaluation) == ({"impact_ratio.sex"} if prediction == 0 else set())
    assert evaluation.metrics["auc"].value == 0.5
    assert evaluation.metrics["balanced_accuracy"].value == 0.5
    assert evaluation.metrics["impact_ratio.sex"].value == (None if prediction == 0 else 1.0)
    others = [name for name in GROUPED if name != "impact_ratio"]
    assert all(evaluation.metrics[f"{name}.sex"].value == 0.0 for name in others)


def test_theil_index_without_any_benefit() -> None:
    rows = np.ones(10, dtype=int)
    evaluation = evaluate(Outcomes(rows, 0 * rows, 0.2 * rows, {}), draws=50)
    assert (
        evaluation.metrics["theil_index"].reason
        == "undefined on these rows: it would divide by zero"
    )


def test_too_few_rows_for_anything() -> None:
    evaluation = evaluate(
        Outcomes([1, 0], [1, 0], [1.0, 0.0], {"sex": ["F", "M"]}, {"spouse": [True, True]})
    )
    assert short(evaluation) == set(evaluation.metrics)
    assert "(whole) have fewer than 5 rows" in evaluation.metrics["consistency.spouse"].reason


def test_cells_that_most_draws_lack_do_not_void_a_metric(
    from_cells: Callable[..., Outcomes],
) -> None:
    # three cells of one row each: all three are drawn in only a quarter of the draws
    cells = {
        ("A", 1, 1): 1,
        ("B", 1, 0): 1,
        ("C", 1, 1): 1,
        ("A", 0, 0): 30,
        ("B", 0, 0): 30,
        ("C", 0, 0): 30,
    }
    evaluation = evaluate(from_cells(cells), min_cell=1, draws=400)
    metric = evaluation.metrics["equal_opportunity_difference.sex"]
    # of one row each the rates may be anything
    assert (metric.value, metric.low, metric.high) == (1.0, 0.0, 1.0)
    assert evaluation.metrics["demographic_parity_difference.sex"].status == "ok"


def test_mostly_undefined_draws_are_no_evidence() -> None:
    draws = np.array([np.nan, np.nan, np.nan, 0.5])
    reason = percentiles(draws, 0.95, 0.5)
    assert reason == "undefined in 3 of 4 bootstrap draws"
    value = estimates({"auc": np.array(0.5)}, {"auc": ""}, {"auc": reason})["auc"]
    assert value == MetricValue.insufficient(reason)
    assert percentiles(draws[2:], 0.95, 0.5) == (0.5, 0.5)


def test_json_round_trip_without_nan(
    random_outcomes: Callable[..., Outcomes], from_cells: Callable[..., Outcomes]
) -> None:
    for outcomes in (
        random_outcomes(200, 3),
        from_cells(ENOUGH | {("F", 1, 0): 0, ("F", 1, 1): 0}),
        Outcomes([1], [0], [0.5], {"sex": ["F"]}),
    ):
        evaluation = evaluate(outcomes, draws=50, intersections=True)
        text = json.dumps(evaluation.to_json(), allow_nan=False)
        assert "NaN" not in text
        assert Evaluation.from_json(json.loads(text)) == evaluation


def test_malformed_json_is_named() -> None:
    with pytest.raises(ValueError, match="malformed JSON"):
        Evaluation.from_json({"metrics": {}})
    with pytest.raises(ValueError, match="malformed JSON"):
        Evaluation.from_json({"metrics": {"auc": {"valeu": 1.0}}, "counts": {}, "n": 3})


@pytest.mark.parametrize(
    "arguments",
    [
        {"value": float("nan")},
        {"value": 0.5, "low": float("-inf"), "high": 1.0},
        {"value": None},
        {"value": 0.0, "status": "insufficient_evidence"},
        {"value": 0.5, "low": 0.4},
        {"value": 0.5, "status": "fine"},
    ],
)
def test_metric_value_refuses_what_misleads(arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"MetricValue|status"):
        MetricValue(**arguments)


@pytest.mark.parametrize(
    "arguments", [{"draws": 5}, {"draws": -1}, {"level": 1.0}, {"level": 95}, {"min_cell": 0}]
)
def test_settings_are_checked(
    random_outcomes: Callable[..., Outcomes], arguments: dict[str, float]
) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        evaluate(random_outcomes(50, 0), **arguments)


def test_draws_of_counts_and_of_the_auc_are_counted_together() -> None:
    calls: list[tuple[int, int]] = []
    rows = Outcomes([0, 1] * 10, [0, 1] * 10, np.linspace(0, 1, 20), {"sex": ["F", "M"] * 10})
    evaluate(rows, draws=30, callback=lambda *call: calls.append(call))
    assert calls == [(30, 60), (60, 60)]
    calls.clear()
    # of one label there is no AUC
    rows = Outcomes([1] * 20, [0, 1] * 10, np.linspace(0, 1, 20), {"sex": ["F", "M"] * 10})
    evaluate(rows, draws=30, callback=lambda *call: calls.append(call))
    assert calls == [(30, 30)]


def test_histograms_suppress_small_groups() -> None:
    sex = ["F"] * 4 + ["M"] * 6
    score = [0.0, 0.1, 0.2, 0.3, 0.0, 0.25, 0.25, 0.5, 0.99, 1.0]
    outcomes = Outcomes(
        [0, 1] * 5, [0, 1] * 5, score, {"sex": sex}, groups={"sex": ["F", "M", "X"]}
    )
    histogram = score_histograms(outcomes)["sex"]
    assert histogram["edges"] == pytest.approx([k / 20 for k in range(21)])
    # an edge belongs to the bin above it, and 1 to the last
    assert np.flatnonzero(histogram["groups"]["M"]).tolist() == [0, 5, 10, 19]
    assert [histogram["groups"]["M"][k] for k in (0, 5, 10, 19)] == [1, 2, 1, 2]
    assert (histogram["groups"]["F"], histogram["groups"]["X"]) == (None, None)
    assert sum(score_histograms(outcomes, min_cell=4)["sex"]["groups"]["F"]) == 4
    json.dumps(histogram, allow_nan=False)


def test_intersections_add_attributes(random_outcomes: Callable[..., Outcomes]) -> None:
    outcomes = random_outcomes(500, 5)
    evaluation = evaluate(outcomes, draws=0, intersections=True)
    joint = np.array([f"{a} & {b}" for a, b in zip(*outcomes.sensitive.values(), strict=True)])
    by_hand = evaluate(replace(outcomes, sensitive={"sex&race": joint}), draws=0)
    assert evaluation.counts["sex&race"] == by_hand.counts["sex&race"]
    assert len(evaluation.counts["sex&race"]) == 2 * 6
    for name in GROUPED:
        assert evaluation.metrics[f"{name}.sex&race"] == by_hand.metrics[f"{name}.sex&race"]
