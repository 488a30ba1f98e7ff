"""Labels of more than two values: every metric by hand, and two labels as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evenhand.fairlib.catalogue import ANY_CLASSES, group_metrics, names_of
from evenhand.fairlib.evaluation.evaluate import Evaluation, evaluate
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.evaluation.paired import compare

CLASSES = ("nurse", "poet", "surgeon")
# per group a row a true label, a column a prediction
COUNTS = {
    "f": np.array([[8, 1, 1], [2, 6, 0], [3, 1, 6]]),
    "m": np.array([[5, 1, 4], [1, 9, 0], [1, 0, 19]]),
}


def people(
    counts: dict[str, Any] = COUNTS, classes: tuple[str, ...] = CLASSES, **more: Any
) -> Outcomes:
    rows = [
        (y, p, group)
        for group, table in counts.items()
        for (y, p), n in np.ndenumerate(table)
        for _ in range(n)
    ]
    y, predicted, group = zip(*rows, strict=True)
    chosen = np.array(predicted)
    score = np.full((len(rows), len(CLASSES)), 0.2)
    score[np.arange(len(rows)), chosen] = 0.6
    if not classes:
        score = score[:, 1]
    return Outcomes(np.array(y), chosen, score, {"sex": np.array(group)}, classes=classes, **more)


def values(outcomes: Outcomes, **settings: Any) -> dict[str, float | None]:
    found = evaluate(outcomes, **{"draws": 0, **settings}).metrics
    return {name: metric.value for name, metric in found.items()}


def test_recalls_and_gaps_by_hand() -> None:
    found = values(people())
    recalls = [13 / 20, 15 / 18, 25 / 30]
    gaps = [0.8 - 0.5, 0.9 - 0.75, 0.95 - 0.6]
    assert [found[f"recall.{name}"] for name in CLASSES] == pytest.approx(recalls)
    assert found["accuracy"] == pytest.approx(53 / 68)
    assert found["balanced_accuracy"] == pytest.approx(np.mean(recalls))
    assert found["gap_max.sex"] == pytest.approx(0.35)
    assert found["gap_rms.sex"] == pytest.approx(np.sqrt(np.mean(np.square(gaps))))
    assert found["average_odds_difference.sex"] == pytest.approx(np.mean(gaps))
    assert found["balanced_accuracy_difference.sex"] == pytest.approx(
        np.mean([0.5, 0.9, 0.95]) - np.mean([0.8, 0.75, 0.6])
    )
    assert found["log_loss"] == pytest.approx(-(53 * np.log(0.6) + 15 * np.log(0.2)) / 68)


def test_the_metrics_are_those_of_the_catalogue() -> None:
    found = {name.partition(".")[0] for name in values(people())}
    beside = {"token_gap", "token_gap_p95", "leak_suspected", "consistency"}
    assert found | beside == set(ANY_CLASSES)
    assert "gap_rms" in group_metrics(any_classes=True)
    assert "impact_ratio" not in group_metrics(any_classes=True)
    assert "recall.<class>" in names_of("classifier", any_classes=True)
    assert "auc" not in names_of("classifier", any_classes=True)


def test_two_labels_have_the_gaps_that_they_had() -> None:
    counts = {group: table[:2, :2] for group, table in COUNTS.items()}
    found = values(people(counts, ()))
    tpr, fpr = abs(6 / 8 - 9 / 10), abs(1 / 9 - 1 / 6)
    assert found["gap_max.sex"] == pytest.approx(max(tpr, fpr))
    assert found["gap_rms.sex"] == pytest.approx(np.sqrt((tpr**2 + fpr**2) / 2))
    assert found["average_odds_difference.sex"] == pytest.approx((tpr + fpr) / 2)
    assert "recall.nurse" not in found


def test_intervals_contain_estimates_in_any_order_of_classes() -> None:
    outcomes = people()
    found = evaluate(outcomes, draws=200)
    for name, metric in found.metrics.items():
        assert metric.low is not None, name
        assert metric.low <= metric.value <= metric.high, name
    rows = np.random.default_rng(0).permutation(outcomes.n)
    mixed = Outcomes(
        outcomes.y_true[rows],
        outcomes.y_pred[rows],
        outcomes.score[rows],
        {"sex": outcomes.sensitive["sex"][rows]},
        classes=CLASSES,
    )
    assert evaluate(mixed, draws=200).metrics == found.metrics
    assert found.settings["classes"] == list(CLASSES)
    assert Evaluation.from_json(found.to_json()) == found


def test_a_small_cell_hides_what_needs_it() -> None:
    found = evaluate(people(), draws=0, min_cell=9).metrics
    assert found["gap_rms.sex"].reason == (
        "sex: 1 of 6 cells (group and label) have fewer than 9 rows, the smallest has 8; "
        "left out: f (28 rows, 8 of one label)"
    )
    assert found["recall.poet"].value == pytest.approx(15 / 18)
    few = evaluate(people(), draws=0, min_cell=19).metrics
    assert few["recall.poet"].status == few["balanced_accuracy"].status == "insufficient_evidence"
    assert few["recall.nurse"].value == pytest.approx(0.65)


def test_cells_name_what_others_get_only_where_they_are_enough() -> None:
    cells = {
        (c["group"], c["label"]): c for c in evaluate(people(), draws=0, min_cell=4).counts["sex"]
    }
    assert len(cells) == 6
    surgeon = cells["f", "surgeon"]
    assert (surgeon["n"], surgeon["right"], surgeon["rate"]) == (10, 6, 0.6)
    assert surgeon["taken_for"] == ["nurse", "poet"]
    assert cells["m", "nurse"]["taken_for"] == ["surgeon", "poet"]
    # one other alone would be told of
    assert cells["m", "surgeon"]["taken_for"] == []


def test_differences_are_paired() -> None:
    model = people()
    other = Outcomes(
        model.y_true,
        np.zeros(68, int),
        np.tile([0.6, 0.2, 0.2], (68, 1)),
        model.sensitive,
        classes=CLASSES,
    )
    found = compare(model, other, draws=100).differences
    assert found["recall.nurse"].value == pytest.approx(0.65 - 1.0)
    assert found["balanced_accuracy"].value == pytest.approx(
        np.mean([13 / 20, 15 / 18, 25 / 30]) - 1 / 3
    )
    assert found["gap_max.sex"].value == pytest.approx(0.35)
    same = compare(model, model, draws=100).differences
    assert {d.value for d in same.values()} == {0.0}
    # the answers agree in 68 rows, and may not in others
    assert all(d.low < 0 < d.high for d in same.values())  # type: ignore[operator]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y_true": [0, 3]}, "1 of 2 values are not whole numbers from 0 to 2"),
        ({"y_pred": [0.0, 1.0]}, "2 of 2 values are not whole numbers"),
        ({"score": [0.5, 0.5]}, "got 1 dimensions, expected 2, the second of 3 columns"),
        ({"score": [[0.5, 0.5, 1.2], [0.1, 0.1, 0.8]]}, "1 of 6 values lie outside"),
    ],
)
def test_columns_of_another_form_are_refused(changed: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {
        "y_true": [0, 1],
        "y_pred": [1, 2],
        "score": [[0.2, 0.3, 0.5]] * 2,
    } | changed
    with pytest.raises(ValueError, match=message):
        Outcomes(**given, sensitive={}, classes=CLASSES)
