"""Selection rates are of the favourable outcome: a label and its negation give the same finding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fairlearn.metrics import demographic_parity_ratio

from evenhand.fairlib.evaluation.evaluate import evaluate
from evenhand.fairlib.evaluation.group_thresholds import fit_group_thresholds
from evenhand.fairlib.evaluation.outcomes import Outcomes, group_rates
from evenhand.fairlib.evaluation.paired import compare
from evenhand.fairlib.evaluation.predictions import audit_predictions


def denials(seed: int = 0, n: int = 400) -> Outcomes:
    """Half of one group denied, a fifth of the other; label 1 is the denial."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["f", "m"], n).astype(object)
    rate = np.where(group == "f", 0.5, 0.2)
    denied = (rng.random(n) < rate).astype(int)
    predicted = (rng.random(n) < rate).astype(int)
    score = np.clip(predicted * 0.6 + 0.3 * rng.random(n), 0, 1)
    return Outcomes(denied, predicted, score, {"sex": group}, favourable=0)


def as_granted(rows: Outcomes) -> Outcomes:
    """The same decisions, written as grants."""
    return replace(
        rows, y_true=1 - rows.y_true, y_pred=1 - rows.y_pred, score=1.0 - rows.score, favourable=1
    )


def test_a_label_and_its_negation_give_the_same_metrics() -> None:
    adverse, favourable = (evaluate(rows, draws=200) for rows in (denials(), as_granted(denials())))
    assert list(adverse.metrics) == list(favourable.metrics)
    for name, metric in adverse.metrics.items():
        assert metric.value == pytest.approx(favourable.metrics[name].value, abs=1e-9), name
    assert adverse.settings["favourable"] == 0
    assert favourable.settings["favourable"] == 1


def test_the_impact_ratio_is_of_grants_as_fairlearn_has_it() -> None:
    rows = denials()
    granted = 1 - rows.y_pred
    value = evaluate(rows, draws=0).metrics["impact_ratio.sex"].value
    expected = demographic_parity_ratio(
        1 - rows.y_true, granted, sensitive_features=rows.sensitive["sex"]
    )
    assert value == pytest.approx(expected)
    inverted = evaluate(replace(rows, favourable=1), draws=0).metrics["impact_ratio.sex"].value
    assert inverted is not None
    assert inverted < value


def test_gaps_of_error_rates_do_not_depend_on_it() -> None:
    rows = denials()
    both = [evaluate(replace(rows, favourable=code), draws=0).metrics for code in (0, 1)]
    moved = {name for name in both[0] if abs(both[0][name].value - both[1][name].value) > 1e-12}
    assert moved == {"impact_ratio.sex", "equal_opportunity_difference.sex", "theil_index"}


def test_equal_opportunity_is_among_people_who_should_be_granted() -> None:
    rows = denials()
    women, men = (rows.sensitive["sex"] == group for group in "fm")
    deserving = rows.y_true == 0
    granted = [float((rows.y_pred[deserving & who] == 0).mean()) for who in (women, men)]
    value = evaluate(rows, draws=0).metrics["equal_opportunity_difference.sex"].value
    assert value == pytest.approx(abs(granted[0] - granted[1]))


def test_few_people_of_the_favourable_label_are_no_evidence() -> None:
    group = np.array(["f"] * 30 + ["m"] * 30, dtype=object)
    y_true = np.array([1] * 27 + [0] * 3 + [1] * 10 + [0] * 20)  # three women should be granted
    rows = Outcomes(y_true, y_true, y_true.astype(float), {"sex": group}, favourable=0)
    reason = evaluate(rows, draws=0).metrics["equal_opportunity_difference.sex"].reason
    assert "1 of 2 cells (group and favourable label)" in reason
    other = evaluate(replace(rows, favourable=1), draws=0)
    assert other.metrics["equal_opportunity_difference.sex"].value == 0


def test_group_rates_are_of_the_favourable_outcome() -> None:
    rows = denials()
    cells = evaluate(rows, draws=0).counts["sex"]
    women, men = group_rates(cells, 5, favourable=0)
    granted = [float((rows.y_pred[rows.sensitive["sex"] == group] == 0).mean()) for group in "fm"]
    assert [women.selected.value, men.selected.value] == pytest.approx(granted)
    assert women.impact.value == pytest.approx(granted[0] / granted[1])
    assert men.impact.value == 1.0
    deserving = float((rows.y_true[rows.sensitive["sex"] == "f"] == 0).mean())
    assert women.positive.value == pytest.approx(deserving)
    # true positives stay those of label 1
    assert women.tpr == group_rates(cells, 5, favourable=1)[0].tpr


def test_both_sides_of_a_comparison_speak_of_one_outcome() -> None:
    rows = denials()
    with pytest.raises(ValueError, match="got the favourable label 1, expected 0"):
        compare(rows, replace(rows, favourable=1), draws=20)
    other = replace(rows, y_pred=1 - rows.y_pred)
    found = compare(rows, other, draws=20).differences["impact_ratio.sex"].value
    each = [evaluate(side, draws=0).metrics["impact_ratio.sex"].value for side in (rows, other)]
    assert found == pytest.approx(each[0] - each[1])


@pytest.mark.parametrize(("favourable", "classes"), [(2, ()), (0, ("a", "b", "c"))])
def test_other_labels_are_refused(favourable: int, classes: tuple[str, ...]) -> None:
    y = np.array([0, 1])
    score = np.full((2, 3), 1 / 3) if classes else y.astype(float)
    with pytest.raises(ValueError, match="favourable"):
        Outcomes(y, y, score, {}, classes=classes, favourable=favourable)


def test_an_audit_takes_the_value() -> None:
    rows = denials()
    words = np.where(rows.y_true == 1, "denied", "granted")
    found = audit_predictions(
        rows.score, rows.sensitive, words, positive="denied", favourable="granted", draws=0
    )
    granted = rows.score < 0.5
    rates = [granted[rows.sensitive["sex"] == group].mean() for group in "fm"]
    assert found.evaluation.metrics["impact_ratio.sex"].value == pytest.approx(rates[0] / rates[1])
    assert found.rates("sex")["selected"].tolist() == pytest.approx(rates)


def test_equal_opportunity_equalises_the_favourable_label() -> None:
    rng = np.random.default_rng(1)
    n = 4000
    group = rng.choice(["f", "m"], n)
    p = np.clip(rng.beta(2, 2, n) + np.where(group == "f", 0.15, 0.0), 0, 1)
    label = (rng.random(n) < p).astype(int)
    fitted = {
        code: fit_group_thresholds(
            p, label, group, attribute="sex", criterion="equal_opportunity", favourable=code
        ).rates
        for code in (0, 1)
    }
    assert fitted[0]["f"]["fpr"] == pytest.approx(fitted[0]["m"]["fpr"], abs=1e-6)
    assert abs(fitted[0]["f"]["tpr"] - fitted[0]["m"]["tpr"]) > 0.01
    assert fitted[1]["f"]["tpr"] == pytest.approx(fitted[1]["m"]["tpr"], abs=1e-6)
