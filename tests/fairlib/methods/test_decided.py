"""Decision rules: thresholds, quotas with ties, costs, groups, curves without single people, saved
models.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from evenhand.fairlib.evaluation.group_thresholds import fit_group_thresholds
from evenhand.fairlib.methods.calibration import Calibration
from evenhand.fairlib.methods.comparators.logistic import (
    LogisticClassifier,
    ReweighedLogisticClassifier,
)
from evenhand.fairlib.methods.decided import (
    OTHER_GROUPS,
    AttributeGroups,
    DecidedModel,
    GroupRule,
    Rule,
    ThresholdRule,
    choose_threshold,
    decision_curve,
    labels_of,
    predictions_of,
)
from evenhand.fairlib.methods.registry import load_model

SIGMOID = Calibration("sigmoid", 0.4, (1.7, -0.3))


def people(n: int = 400, seed: int = 0) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.str_]]:
    """Rows, labels, and groups with different base rates."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    group = np.where(rng.random(n) < 0.4, "a", "b")
    y = (rng.random(n) < expit(1.5 * X[:, 0] - 0.8 * X[:, 1] + (group == "a"))).astype(np.int64)
    return X, y, group


@pytest.fixture(scope="module")
def base() -> LogisticClassifier:
    X, y, _ = people()
    return LogisticClassifier().fit(X, np.where(y == 1, "yes", "no"))


def group_rule(n: int = 400, **more: Any) -> GroupRule:
    X, y, group = people(n)
    p = expit(1.5 * X[:, 0] - 0.8 * X[:, 1])
    found = fit_group_thresholds(
        p, y, group, attribute="g", criterion="equalized_odds", tolerance=0.02
    )
    return GroupRule("g", found, "words", **more)


# choosing


def best_threshold(
    p: NDArray[Any], y: NDArray[Any], false_positive: float, false_negative: float
) -> float:
    """Least cost per person over all thresholds, by trying them all."""
    costs = [
        (false_positive * ((p >= t) & (y == 0)) + false_negative * ((p < t) & (y == 1))).mean()
        for t in np.linspace(0.0, 1.001, 300)
    ]
    return float(min(costs))


@pytest.mark.parametrize(("wrong", "missed"), [(1.0, 1.0), (1.0, 5.0), (10.0, 2.0)])
def test_the_threshold_of_costs_is_nearly_the_cheapest_of_all(wrong: float, missed: float) -> None:
    rng = np.random.default_rng(0)
    p = rng.random(20_000)
    y = (rng.random(20_000) < p).astype(np.int64)
    rule = choose_threshold(p, y, costs={"false_positive": wrong, "false_negative": missed})
    assert rule.threshold == wrong / (wrong + missed)
    cost = (
        wrong * ((p >= rule.threshold) & (y == 0)) + missed * ((p < rule.threshold) & (y == 1))
    ).mean()
    assert cost == pytest.approx(best_threshold(p, y, wrong, missed), rel=0.01)


def test_words_and_numbers() -> None:
    p, y = [0.1, 0.2, 0.7, 0.9], [0, 0, 0, 1]
    assert choose_threshold(p, y, threshold="balanced").threshold == 0.25
    assert choose_threshold(p, y, threshold="max_accuracy").threshold == 0.5
    assert choose_threshold(p, y, threshold="own").threshold is None
    assert choose_threshold(p, y, threshold=0.35).threshold == 0.35
    assert choose_threshold(p, y, threshold=0).threshold == 0.0


def test_the_balanced_threshold_has_nearly_the_best_accuracy() -> None:
    """The accuracy is the balanced one."""
    rng = np.random.default_rng(1)
    p = rng.beta(0.5, 4.0, 20_000)
    y = (rng.random(20_000) < p).astype(np.int64)

    def balanced(t: float) -> float:
        return float(((p >= t)[y == 1].mean() + (p < t)[y == 0].mean()) / 2)

    rule = choose_threshold(p, y, threshold="balanced")
    assert rule.threshold is not None
    assert balanced(rule.threshold) > max(map(balanced, np.linspace(0.0, 1.0, 501))) - 0.003


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5, 0.99])
def test_a_quota_is_met_to_the_nearest_person(rate: float) -> None:
    p = np.random.default_rng(2).random(200)
    rule = choose_threshold(p, np.zeros(200), rate=rate)
    assert abs((p >= rule.threshold).mean() - rate) <= 0.5 / 200 + 1e-12
    # no person stands on the threshold: it lies between two
    assert rule.threshold not in p


def test_a_quota_with_ties_takes_the_nearest_share_or_says_so() -> None:
    p = np.array([0.9] * 19 + [0.5] * 40 + [0.1] * 41)
    rule = choose_threshold(p, np.zeros(100), rate=0.2)
    assert (p >= rule.threshold).mean() == 0.19
    assert choose_threshold(p, np.zeros(100), rate=0.59).threshold == pytest.approx(0.3)
    with pytest.raises(ValueError, match=r"0\.4 positive.*nearest share is 0\.590"):
        choose_threshold(p, np.zeros(100), rate=0.4)
    with pytest.raises(ValueError, match=r"nearest share is 1\.000: ask for that"):
        choose_threshold(np.full(50, 0.3), np.zeros(50), rate=0.5)


def test_a_quota_between_neighbouring_floats_drops_the_lower() -> None:
    low = 0.3
    high = np.nextafter(low, 1.0)
    p = np.array([low] * 50 + [high] * 50)
    rule = choose_threshold(p, np.zeros(100), rate=0.5)
    assert (p >= rule.threshold).mean() == 0.5


# the curve


def test_the_curve_by_hand() -> None:
    p = np.repeat([0.2, 0.6, 0.8], 10)
    y = np.concatenate(
        [np.repeat([1, 0], [1, 9]), np.repeat([1, 0], [4, 6]), np.repeat([1, 0], [9, 1])]
    )
    first, second, third, last = decision_curve(p, y)
    assert first == {
        "threshold": 0.0,
        "selected": 1.0,
        "accuracy": pytest.approx(14 / 30),
        "balanced_accuracy": 0.5,
    }
    assert 0.2 < second["threshold"] <= 0.6
    assert second["selected"] == pytest.approx(20 / 30)
    assert second["accuracy"] == pytest.approx((13 + 9) / 30)
    assert second["balanced_accuracy"] == pytest.approx((13 / 14 + 9 / 16) / 2)
    assert third["accuracy"] == pytest.approx((9 + 15) / 30)
    assert last == {
        "threshold": 1.0,
        "selected": 0.0,
        "accuracy": pytest.approx(16 / 30),
        "balanced_accuracy": 0.5,
    }


@pytest.mark.parametrize("n", [2, 9, 10, 23, 60, 200, 5000])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("min_cell", [1, 5, 20])
def test_the_curve_tells_nothing_of_fewer_people_than_a_cell(
    n: int, ties: bool, min_cell: int
) -> None:
    rng = np.random.default_rng(n)
    p = rng.beta(1, 3, n)
    p = p.round(1) if ties else p
    y = np.arange(n) % 2
    found = decision_curve(p, y, min_cell=min_cell)
    counts = [round(row["selected"] * n) for row in found]
    assert counts[0] == n
    if n < min_cell:
        assert len(found) <= 2
        return
    assert all(step == 0 or step >= min_cell for step in -np.diff(counts))
    assert counts[-1] == 0 or counts[-1] >= min_cell
    if n == 5000 and not ties:
        assert len(found) > 40


# deciding


def test_own_calibrated_probabilities_decide_by_the_rule(base: LogisticClassifier) -> None:
    X = people(100, seed=5)[0]
    raw = base.predict_proba(X)[:, 1]
    for rule in (ThresholdRule(0.3), ThresholdRule(0.0), ThresholdRule(1.0)):
        model = DecidedModel(base, SIGMOID, rule)
        p = SIGMOID(raw)
        assert np.array_equal(model.predict_proba(X), np.stack([1 - p, p], axis=1))
        assert model.predict(X).tolist() == np.where(p >= rule.threshold, "yes", "no").tolist()
        assert labels_of(model, p, X).tolist() == model.predict(X).tolist()
        assert model.decides_by is None


@pytest.mark.parametrize(
    "calibration",
    [Calibration(), Calibration("none", 2.0), SIGMOID, Calibration("beta", -1.0, (0.5, 2.0, 1))],
)
def test_a_methods_own_decision_ignores_calibration(
    base: LogisticClassifier, calibration: Calibration
) -> None:
    X = people(300, seed=6)[0]
    model = DecidedModel(base, calibration, ThresholdRule())
    own = base.predict(X).tolist()
    assert model.predict(X).tolist() == own
    # where only the calibrated probabilities are at hand, as after questions
    assert model.decide(model.predict_proba(X)[:, 1], X).tolist() == own
    assert labels_of(base, base.predict_proba(X)[:, 1], X).tolist() == own


def test_it_has_what_the_classifier_has_and_no_more(base: LogisticClassifier) -> None:
    model = DecidedModel(base, Calibration(), ThresholdRule(0.5))
    assert model.classes_ is base.classes_
    assert model.n_features_in_ == 3
    assert not hasattr(model, "acquire")
    assert not hasattr(model, "network_")


def test_decisions_by_group_are_those_of_each_persons_own_number(base: LogisticClassifier) -> None:
    X, _, group = people(300, seed=7)
    model = DecidedModel(base, Calibration(), group_rule(seed=3))
    assert model.decides_by == "g"
    decided = model.predict(X, group)
    assert model.predict(X, group).tolist() == decided.tolist()
    order = np.random.default_rng(0).permutation(300)
    assert model.predict(X[order], group[order]).tolist() == decided[order].tolist()
    alone = [model.predict(X[i : i + 1], group[i : i + 1])[0] for i in range(40)]
    assert alone == decided[:40].tolist()
    # a Fortran-ordered or float64 copy is the same people
    assert (
        model.predict(np.asfortranarray(X.astype(np.float64)), group).tolist() == decided.tolist()
    )
    for given in (None, np.full(300, "c")):
        with pytest.raises(ValueError, match="'g'"):
            model.predict(X, given)


def test_the_random_numbers_are_uniform_and_of_the_seed() -> None:
    X = people(4000, seed=8)[0]
    one, other = group_rule(seed=1).uniforms(X), group_rule(seed=2).uniforms(X)
    assert np.histogram(one, bins=10, range=(0, 1))[0] == pytest.approx(np.full(10, 400), abs=80)
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.06
    assert abs(np.corrcoef(one, X[:, 0])[0, 1]) < 0.06


def test_the_rates_of_new_people_are_those_that_were_promised() -> None:
    rule = group_rule(10_000)
    X, y, group = people(40_000, seed=9)
    p = expit(1.5 * X[:, 0] - 0.8 * X[:, 1])
    decided = rule.decide(p, group, rule.uniforms(X))
    for label in (0, 1):
        rates = [decided[(group == name) & (y == label)].mean() for name in "ab"]
        # 10,000 people chose the thresholds, with a tolerance of 0.02
        assert abs(rates[0] - rates[1]) < 0.06
    promised = rule.thresholds.rates
    for name, (key, label) in itertools.product("ab", [("fpr", 0), ("tpr", 1)]):
        assert decided[(group == name) & (y == label)].mean() == pytest.approx(
            promised[name][key], abs=0.05
        )


def test_groups_of_raw_rows_are_named_as_in_training() -> None:
    import pyarrow as pa

    from evenhand.data_contracts.arrow import bin_names, group_labels
    from evenhand.data_contracts.column import Column

    rule = GroupRule("g", None, "")
    for raw in (pd.Series([3, 4]), pd.Series([3.0, 4.0]), pd.Series(["3", "4"])):
        assert rule.groups_of(pd.DataFrame({"g": raw})).tolist() == ["3", "4"]
    for missing in (
        pd.Series([3, None, 4]),
        pd.Series(["3", None, "4"]),
        pd.Series(["3", np.nan, "4"]),
    ):
        assert rule.groups_of(pd.DataFrame({"g": missing})).tolist() == ["3", "missing", "4"]
    for dtype in (bool, object):
        assert rule.groups_of(
            pd.DataFrame({"g": pd.Series([True, False], dtype=dtype)})
        ).tolist() == [
            "true",
            "false",
        ]
    column = Column("g", "number", False, "", role="sensitive", bins=(25.0, 60.5))
    values = [24.9, 25.0, None, 60.4, 60.5, 90.0]
    expected = group_labels(pa.chunked_array([pa.array(values)]), column).tolist()
    cut = GroupRule("g", None, "", 0, column.bins, bin_names(column))
    assert cut.groups_of(pd.DataFrame({"g": values})).tolist() == expected
    assert expected[2] == "missing"
    assert cut.groups_of(pd.DataFrame({"g": ["24.9", "70"]})).tolist() == [expected[0], expected[5]]


def crossed_rule(**more: Any) -> GroupRule:
    """Thresholds for two large crossed groups, and for all others."""
    X, y, group = people()
    joint = np.where(X[:, 2] > 0, np.char.add(group, " & old"), OTHER_GROUPS)
    p = expit(1.5 * X[:, 0] - 0.8 * X[:, 1])
    found = fit_group_thresholds(p, y, joint, attribute="g&age", tolerance=0.02)
    parts = (
        AttributeGroups("g", known=("a", "b", "c", "missing")),
        AttributeGroups("age", (40.0,), ("young", "old"), known=("missing", "old", "young")),
    )
    return GroupRule("g&age", found, "words", crossed=parts, **more)


def test_crossed_groups_are_read_from_their_columns() -> None:
    rule = crossed_rule()
    raw = pd.DataFrame({"g": ["a", None, "b", "c"], "age": [39.9, 40.0, None, 70]})
    groups = rule.groups_of(raw)
    assert groups.tolist() == ["a & young", "missing & old", "b & missing", "c & old"]
    assert rule.columns == ("g", "age")
    assert rule.unknown_groups(groups) == set()
    with pytest.raises(ValueError, match="lacks the column 'age'"):
        rule.groups_of(raw[["g"]])


def test_small_crossed_groups_share_thresholds() -> None:
    rule = crossed_rule()
    X = people(60, seed=4)[0]
    p, uniform = expit(X[:, 0]), rule.uniforms(X)
    by_others = rule.decide(p, np.full(60, OTHER_GROUPS), uniform)
    assert rule.decide(p, np.full(60, "c & young"), uniform).tolist() == by_others.tolist()
    by_own = rule.decide(p, np.full(60, "a & old"), uniform)
    assert by_own.tolist() != by_others.tolist()
    # a value that no training row has is unknown, as it is of a rule by one attribute
    assert rule.unknown_groups(["a & old", "c & young", "B & young"]) == {"B & young"}
    with pytest.raises(ValueError, match="1 of 60 rows have no group with thresholds"):
        rule.decide(p, ["B & young"] + ["c & old"] * 59, uniform)
    assert group_rule().unknown_groups(["a", "zz", OTHER_GROUPS]) == {"zz", OTHER_GROUPS}


def test_raw_rows_without_usable_groups_are_not_quoted() -> None:
    """They are refused."""
    rule = GroupRule("g", None, "", 0, (10.0,), ("<10", ">=10"))
    with pytest.raises(ValueError, match="lacks the column 'g'"):
        rule.groups_of(pd.DataFrame({"h": [1]}))
    with pytest.raises(ValueError, match="must hold numbers") as caught:
        rule.groups_of(pd.DataFrame({"g": ["zzyzx"]}))
    assert "zzyzx" not in str(caught.value)


# saving


@pytest.mark.parametrize(
    "rule",
    [
        ThresholdRule(),
        ThresholdRule(0.1 + 0.2, "costs 1 and 5"),
        group_rule(seed=2**40 + 1),
        group_rule(seed=5, bins=(25.0, 60.5), names=("a", "b", "c")),
        crossed_rule(seed=7),
    ],
)
def test_saved_and_loaded_it_decides_the_same(
    tmp_path: Path, base: LogisticClassifier, rule: Rule
) -> None:
    X, _, group = people(200, seed=11)
    model = DecidedModel(base, SIGMOID, rule)
    model.save(tmp_path)
    again = load_model(tmp_path)
    assert isinstance(again, DecidedModel)
    assert again.rule == rule
    assert again.calibration == SIGMOID
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    given = group if isinstance(rule, GroupRule) else None
    if given is not None and rule.crossed:
        given = np.char.add(group, " & old")
    assert again.predict(X, given).tolist() == model.predict(X, given).tolist()
    again.save(tmp_path / "again")
    for path in tmp_path.glob("*.*"):
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()


def test_a_model_without_a_rule_is_loaded_as_it_was(
    tmp_path: Path, base: LogisticClassifier
) -> None:
    base.save(tmp_path)
    assert type(load_model(tmp_path)) is LogisticClassifier


def test_a_rule_of_another_format_is_refused(tmp_path: Path, base: LogisticClassifier) -> None:
    DecidedModel(base, Calibration(), ThresholdRule()).save(tmp_path)
    content = json.loads((tmp_path / "decision.json").read_text())
    (tmp_path / "decision.json").write_text(json.dumps(content | {"format": 3}))
    with pytest.raises(ValueError, match="format 1 or 2"):
        load_model(tmp_path)
    (tmp_path / "model.json").write_text(json.dumps({"class": "os.system"}))
    with pytest.raises(ValueError, match="not a method"):
        load_model(tmp_path)


@pytest.mark.parametrize("threshold", [None, 0.3])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("wrapped", [False, True])
def test_one_pass_predicts_what_two_do(
    base: LogisticClassifier, threshold: float | None, own: bool, wrapped: bool
) -> None:
    X, y, group = people()
    model: Any = base
    if own:  # a classifier with a threshold of its own
        model = ReweighedLogisticClassifier(threshold=0.7, random_state=0)
        model.fit(X, np.where(y == 1, "yes", "no"), sensitive_features={"g": group})
    model = DecidedModel(model, SIGMOID, ThresholdRule(threshold)) if wrapped else model
    positive, probability, asked = predictions_of(model, X)
    assert np.array_equal(positive, model.predict(X) == "yes")
    assert np.array_equal(probability, model.predict_proba(X)[:, 1])
    assert asked is None
    assert 0 < positive.sum() < len(X)


def test_one_pass_decides_by_group(base: LogisticClassifier) -> None:
    X, _, group = people()
    model = DecidedModel(base, SIGMOID, group_rule())
    positive, _, _ = predictions_of(model, X, group)
    assert np.array_equal(positive, model.predict(X, group) == "yes")


def test_observed_keeps_the_share_of_a_rare_label() -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(1.0, 12.0, 5000)
    y = (rng.random(5000) < p).astype(int)
    threshold = choose_threshold(p, y, threshold="observed").threshold
    assert threshold is not None
    assert (p >= threshold).mean() == pytest.approx(y.mean(), abs=1 / 5000)
    # the largest balanced accuracy decides positively about many more
    balanced = choose_threshold(p, y, threshold="balanced").threshold
    assert balanced is not None
    assert (p >= balanced).mean() > 2 * y.mean()


def test_observed_takes_the_nearest_share_where_people_tie() -> None:
    p = np.array([0.2] * 60 + [0.4] * 40)
    y = np.array([0] * 70 + [1] * 30)
    assert choose_threshold(p, y, threshold="observed").threshold == pytest.approx(0.3)
    with pytest.raises(ValueError, match="nearest share is 0.400"):
        choose_threshold(p, y, rate=0.3)


def test_observed_without_discrimination_decides_one_way_for_all() -> None:
    rule = choose_threshold(np.full(8, 0.1), [1] + [0] * 7, threshold="observed")
    assert rule.threshold == pytest.approx(0.1)
