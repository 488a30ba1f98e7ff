"""Paired comparison: by hand, against resampling whole rows, and its false alarms."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from evenhand.fairlib.evaluation import bootstrap
from evenhand.fairlib.evaluation.bootstrap import JointTable
from evenhand.fairlib.evaluation.evaluate import MetricValue, evaluate
from evenhand.fairlib.evaluation.metrics import GROUP_METRICS
from evenhand.fairlib.evaluation.outcomes import Outcomes, encode_groups
from evenhand.fairlib.evaluation.paired import Comparison, compare

Pair = tuple[Outcomes, Outcomes]


def take(outcomes: Outcomes, rows: np.ndarray) -> Outcomes:
    return Outcomes(
        outcomes.y_true[rows],
        outcomes.y_pred[rows],
        outcomes.score[rows],
        {name: column[rows] for name, column in outcomes.sensitive.items()},
        {name: flags[rows] for name, flags in outcomes.consistent.items()},
        outcomes.groups,
    )


def another_model(outcomes: Outcomes, seed: int, noise: float = 0.15) -> Outcomes:
    """A model on the same rows whose scores, predictions and consistency are related to the given
    ones.
    """
    rng = np.random.default_rng(seed)
    score = np.clip(np.round(outcomes.score + noise * rng.standard_normal(outcomes.n), 3), 0, 1)
    flags = {
        name: column ^ (rng.random(outcomes.n) < 0.06)
        for name, column in outcomes.consistent.items()
    }
    return replace(outcomes, y_pred=(score >= 0.55).astype(int), score=score, consistent=flags)


@pytest.fixture(scope="module")
def pair(random_outcomes: Callable[..., Outcomes]) -> Pair:
    baseline = random_outcomes(400, 21)
    return another_model(baseline, 22), baseline


def ends(difference: MetricValue) -> tuple[float, float]:
    assert difference.low is not None
    assert difference.high is not None
    return difference.low, difference.high


def test_by_hand() -> None:
    # ten women and ten men, half of each with label 1
    label = [1] * 5 + [0] * 5
    sex = ["F"] * 10 + ["M"] * 10
    perfect, late = [1] * 5 + [0] * 5, [1, 1, 1, 0, 0] + [0] * 5
    model = Outcomes(label * 2, perfect + late, [0.5] * 20, {"sex": sex}, {"w": [True] * 20})
    baseline = Outcomes(
        label * 2, late + late, [0.5] * 20, {"sex": sex}, {"w": [True] * 15 + [False] * 5}
    )
    found = {name: d.value for name, d in compare(model, baseline, draws=50).differences.items()}
    assert found == {
        "accuracy": pytest.approx(18 / 20 - 16 / 20),
        "balanced_accuracy": pytest.approx((0.8 + 1) / 2 - (0.6 + 1) / 2),
        "auc": 0.0,
        # both models' scores are equal
        **dict.fromkeys(("log_loss", "log_loss_gain", "brier", "ece"), 0.0),
        "consistency.w": pytest.approx(0.25),
        "gap_max.sex": pytest.approx(0.4),
        "gap_rms.sex": pytest.approx(0.4 / np.sqrt(2)),
        # selected: 5 and 3 of 10 by the model, 3 and 3 by the baseline
        "demographic_parity_difference.sex": pytest.approx(0.2),
        "impact_ratio.sex": pytest.approx(3 / 5 - 3 / 3),
        "equal_opportunity_difference.sex": pytest.approx(0.4),
        "average_odds_difference.sex": pytest.approx(0.2),
        "balanced_accuracy_difference.sex": pytest.approx(0.2),
        "calibration_gap.sex": 0.0,
        # benefits: two (four) zeros among ones, so the index is ln(1 / 0.9) less ln(1 / 0.8)
        "theil_index": pytest.approx(np.log(0.8 / 0.9)),
    }


def test_the_interval_of_a_difference_is_of_the_changed_rows() -> None:
    # accuracy differs by (gained - lost) / n, whose variance McNemar gives: only changed rows count
    n, gained, lost = 2000, 100, 60
    model, baseline = np.ones(n, dtype=int), np.ones(n, dtype=int)
    baseline[:gained], model[gained : gained + lost] = 0, 0
    sides = [Outcomes(np.ones(n, dtype=int), y_pred, [0.5] * n, {}) for y_pred in (model, baseline)]
    difference = compare(*sides, draws=4000).differences["accuracy"]
    delta = (gained - lost) / n
    half = 1.96 * np.sqrt(((gained + lost) / n - delta**2) / n)
    assert difference.value == pytest.approx(delta)
    assert ends(difference) == pytest.approx((delta - half, delta + half), abs=0.08 * half)
    wide = compare(*sides, draws=4000, level=0.99).differences["accuracy"]
    assert ends(wide)[1] - delta == pytest.approx(half / 1.96 * 2.576, rel=0.08)


@pytest.mark.parametrize("intersections", [False, True])
def test_point_is_the_difference_of_two_evaluations(pair: Pair, intersections: bool) -> None:
    found = compare(*pair, draws=50, intersections=intersections)
    model, baseline = (evaluate(side, draws=0, intersections=intersections) for side in pair)
    assert list(found.differences) == list(model.metrics) == list(baseline.metrics)
    assert found.n == 400
    assert len(found.differences) == 10 + (len(GROUP_METRICS) + 1) * (3 if intersections else 2)
    for name, difference in found.differences.items():
        expected = model.metrics[name].value - baseline.metrics[name].value
        assert difference.value == expected, name
        assert difference.low <= difference.value <= difference.high, name
        assert difference.low < difference.high, name


@pytest.mark.long
def test_same_distribution_as_resampling_rows(pair: Pair) -> None:
    draws = 800
    rng = np.random.default_rng(1)
    naive: dict[str, list[float]] = {}
    for _ in range(draws):
        rows = rng.integers(0, 400, 400)
        model, baseline = (evaluate(take(side, rows), draws=0, min_cell=1) for side in pair)
        for name, metric in model.metrics.items():
            # the bins of the calibration error are those of all rows: see test_probabilities
            if name != "ece":
                naive.setdefault(name, []).append(metric.value - baseline.metrics[name].value)
    comparisons = {
        level: compare(*pair, draws=4000, seed=2, level=level) for level in (0.5, 0.8, 0.95)
    }
    for name, values in naive.items():
        spread = np.std(values)
        assert spread > 0.004, name
        for level, comparison in comparisons.items():
            expected = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
            low, high = ends(comparison.differences[name])
            # a quantile of 800 draws has a standard error below 0.1 spreads at these levels, and
            # metrics that count rows move in steps of 1 / n
            assert (low, high) == pytest.approx(tuple(expected), abs=0.3 * spread + 1.01 / 400), (
                name,
                level,
            )
            assert high - low == pytest.approx(
                expected[1] - expected[0], rel=0.15, abs=2.02 / 400
            ), name


def test_pairing_narrows_the_interval(pair: Pair) -> None:
    # as if the two evaluations were of different people, variances would add up
    found = compare(*pair, draws=2000).differences
    model, baseline = (evaluate(side, draws=2000).metrics for side in pair)
    for name in ("accuracy", "balanced_accuracy", "auc", "consistency.spouse"):
        low, high = ends(found[name])
        apart = np.hypot(*(side[name].high - side[name].low for side in (model, baseline)))
        assert high - low < 0.9 * apart, name


def test_a_draw_resamples_both_models_alike(pair: Pair) -> None:
    model, baseline = pair
    codes = {}
    for name, column in model.sensitive.items():
        groups, code = encode_groups(column)
        codes[name] = (code, len(groups))
    table = JointTable(
        model.y_true, [side.y_pred for side in pair], codes, [side.consistent for side in pair]
    )
    for side, counts in zip(pair, table.counts(table.weights), strict=True):
        alone = JointTable(side.y_true, [side.y_pred], codes, [side.consistent])
        (expected,) = alone.counts(alone.weights)
        assert_array_equal(counts.overall, expected.overall)
        for name in codes:
            assert_array_equal(counts.groups[name], expected.groups[name])
        for name in side.consistent:
            assert counts.agreeing[name] == expected.agreeing[name]
    ((first, second),) = table.draws(30, np.random.default_rng(0))
    assert len(np.unique(first.groups["race"].sum(axis=-1), axis=0)) > 20, "draws differ"
    for name in codes:  # the same people: as many of every group and label
        assert_array_equal(first.groups[name].sum(axis=-1), second.groups[name].sum(axis=-1))
    assert (first.overall != second.overall).any()


def test_chunks_do_not_change_the_draws(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    model, baseline = pair
    table = JointTable(model.y_true, [model.y_pred, baseline.y_pred], {}, [{}, {}])
    (whole,) = table.draws(50, np.random.default_rng(3))
    monkeypatch.setattr(bootstrap, "CHUNK_BYTES", 8 * len(table.weights) * 7)
    parts = list(table.draws(50, np.random.default_rng(3)))
    assert len(parts) == 8
    for side in (0, 1):
        assert_array_equal(
            np.concatenate([part[side].overall for part in parts]), whole[side].overall
        )


def test_order_of_rows_does_not_matter(pair: Pair) -> None:
    order = np.random.default_rng(0).permutation(400)
    shuffled = [take(side, order) for side in pair]
    assert compare(*shuffled, draws=100, intersections=True) == compare(
        *pair, draws=100, intersections=True
    )


def test_order_of_rows_does_not_matter_beyond_exact_resampling(large_pair: Pair) -> None:
    order = np.random.default_rng(0).permutation(large_pair[0].n)
    shuffled = [take(side, order) for side in large_pair]
    assert compare(*shuffled, draws=50) == compare(*large_pair, draws=50)


@pytest.fixture(scope="module")
def large_pair() -> Pair:
    """Continuous scores on too many rows for the AUC's rows to be resampled one by one."""
    rng = np.random.default_rng(4)
    y_true = rng.integers(0, 2, 8000)
    common = 0.3 * y_true + 0.5 * rng.random(8000)
    sides = []
    for _ in range(2):
        score = common + 0.2 * rng.random(8000)
        sides.append(Outcomes(y_true, (score > 0.5).astype(int), score, {}))
    return sides[0], sides[1]


def test_seeds(pair: Pair) -> None:
    first, again, other = (compare(*pair, draws=200, seed=seed) for seed in (7, 7, 8))
    assert first == again
    for name, difference in first.differences.items():
        assert difference.value == other.differences[name].value
        assert ends(difference) != ends(other.differences[name]), name


@pytest.mark.parametrize("n", [300, 8000])
def test_identical_models_differ_in_nothing(
    random_outcomes: Callable[..., Outcomes], n: int
) -> None:
    rng = np.random.default_rng(3)
    outcomes = replace(random_outcomes(n, 3), score=rng.random(n))
    found = compare(outcomes, replace(outcomes), draws=60, intersections=True)
    assert {d.value for d in found.differences.values()} == {0.0}
    for name, difference in found.differences.items():
        low, high = ends(difference)
        # as far as n equal answers allow: about four of n rows, of the smallest group
        assert -0.5 < low < 0 < high < 0.5, name
        if name == "accuracy":
            assert 2 / n < high <= 4.1 / n


def test_swapped_arguments_negate(pair: Pair) -> None:
    forth, back = (
        compare(*pair, draws=6000).differences,
        compare(*pair[::-1], draws=6000).differences,
    )
    assert list(forth) == list(back)
    for name, difference in forth.items():
        assert back[name].value == -difference.value
        low, high = ends(difference)
        # other draws: the ends agree to Monte-Carlo error, and metrics that count rows move in
        # steps
        tolerance = 0.05 * (high - low) + 1.01 / 400
        assert ends(back[name]) == pytest.approx((-high, -low), abs=tolerance), name


def test_a_model_that_is_worse_is_found_to_be(pair: Pair) -> None:
    baseline = pair[1]
    inverted = replace(baseline, y_pred=1 - baseline.y_pred, score=1 - baseline.score)
    found = compare(inverted, baseline, draws=200).differences
    assert ends(found["accuracy"])[1] < -0.2
    assert ends(found["auc"])[1] < -0.2
    # the benefit of a wrong refusal is none, so the index rises
    assert ends(found["theil_index"])[0] > 0


def test_only_what_both_have_is_compared(pair: Pair) -> None:
    model, baseline = pair
    less = replace(
        baseline, consistent={"status": baseline.consistent["status"], "job": model.y_true == 1}
    )
    names = {
        name
        for name in compare(model, less, draws=20).differences
        if name.startswith("consistency")
    }
    assert names == {"consistency.status"}
    # copies that only one side has are no part of the draws
    alone = replace(model, consistent={"status": model.consistent["status"]})
    assert (
        compare(alone, replace(less, consistent=alone.consistent), draws=50).differences["accuracy"]
        == compare(model, replace(less, consistent=alone.consistent), draws=50).differences[
            "accuracy"
        ]
    )


def test_insufficient_on_either_side_is_insufficient(pair: Pair) -> None:
    model, baseline = pair
    for first, second in ((model, baseline), (baseline, model)):
        known = replace(second, groups={"sex": ["F", "M", "X"]})
        for sides in ((first, known), (known, first)):
            found = compare(*sides, draws=50).differences
            short = {name for name, difference in found.items() if difference.status != "ok"}
            assert not short
    for first, second in ((model, baseline), (baseline, model)):
        found = compare(first, second, draws=50, min_cell=150).differences
        short = {name for name, difference in found.items() if difference.status != "ok"}
        assert {f"{name}.race" for name in (*GROUP_METRICS, "calibration_gap")} <= short
        assert "left out: " in found["gap_max.race"].reason
        assert found["gap_max.race"].value is None
    # a Theil index that only one of two models has: nobody benefits of the baseline
    label = np.ones(10, dtype=int)
    some, none = (Outcomes(label, label * y, [0.5] * 10, {}) for y in (1, 0))
    for sides in ((some, none), (none, some)):
        found = compare(*sides, draws=50).differences
        assert found["theil_index"].reason == "undefined on these rows: it would divide by zero"
        assert found["accuracy"].status == "ok"
        assert found["auc"].reason.startswith("the table: 1 of 2 cells (label)")


def test_cells_that_most_draws_lack_do_not_void_a_difference() -> None:
    # three groups with one positive each: all three are drawn in only a quarter of the draws
    rows = [(group, 1) for group in "ABC"] + [(group, 0) for group in "ABC"] * 30
    group, label = (list(part) for part in zip(*rows, strict=True))
    model, baseline = (Outcomes(label, label, [0.5] * 93, {"g": group}) for _ in range(2))
    found = compare(model, baseline, min_cell=1, draws=400).differences
    low, high = ends(found["equal_opportunity_difference.g"])
    assert low < -0.3
    assert high > 0.3
    assert found["demographic_parity_difference.g"].status == "ok"


def test_without_draws_there_is_no_interval(pair: Pair) -> None:
    found = compare(*pair, draws=0)
    assert all(
        d.low is None and d.high is None and d.value is not None for d in found.differences.values()
    )
    assert found.settings == {
        "draws": 0,
        "level": 0.95,
        "min_cell": 5,
        "seed": 0,
        "intersections": False,
    }


def test_json_round_trip_without_nan(pair: Pair) -> None:
    model, baseline = pair
    for sides in (pair, (model, replace(baseline, groups={"sex": ["F", "M", "X"]}))):
        comparison = compare(*sides, draws=50, intersections=True, seed=3)
        text = json.dumps(comparison.to_json(), allow_nan=False)
        again = Comparison.from_json(json.loads(text))
        assert again == comparison
        assert isinstance(again.differences["auc"], MetricValue)
        assert again.settings["intersections"] is True


@pytest.mark.parametrize(
    "data",
    [{}, {"n": 3}, {"n": 3, "differences": []}, {"n": 3, "differences": {"auc": {"valeu": 1.0}}}],
)
def test_malformed_json_is_named(data: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="comparison: got malformed JSON"):
        Comparison.from_json(data)


def test_other_rows_are_refused(pair: Pair) -> None:
    model, baseline = pair
    renamed = {"gender": baseline.sensitive["sex"], "race": baseline.sensitive["race"]}
    swapped = baseline.sensitive["sex"].copy()
    swapped[:2] = np.where(swapped[:2] == "F", "M", "F")
    label = baseline.y_true.copy()
    label[7] = 1 - label[7]
    cases = [
        (take(baseline, np.arange(399)), r"^baseline: got 399 rows, expected 400"),
        (replace(baseline, y_true=label), r"^baseline: 1 of 400 labels differ"),
        (
            replace(baseline, sensitive=renamed),
            r"^baseline: got the sensitive columns \['gender', 'race'\]",
        ),
        (replace(baseline, sensitive={}), r"^baseline: got the sensitive columns \[\]"),
        (
            replace(baseline, sensitive=baseline.sensitive | {"sex": swapped}),
            r"^baseline: 2 of 400 groups of 'sex' differ",
        ),
    ]
    for other, message in cases:
        with pytest.raises(ValueError, match=message) as caught:
            compare(model, other, draws=20)
        assert "\n" not in str(caught.value)
    # the order in which columns are listed is no difference of rows
    turned = replace(baseline, sensitive=dict(reversed(baseline.sensitive.items())))
    assert compare(model, turned, draws=20) == compare(model, baseline, draws=20)


@pytest.mark.parametrize(
    "arguments", [{"draws": 5}, {"draws": -1}, {"level": 1.0}, {"level": 95}, {"min_cell": 0}]
)
def test_settings_are_checked(pair: Pair, arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        compare(*pair, **arguments)


ROW = st.tuples(
    *(st.integers(0, 1) for _ in range(3)),
    *(st.sampled_from([0.0, 0.2, 0.5, 1.0]) for _ in range(2)),
    st.sampled_from("FM"),
    st.sampled_from("ABC"),
    *(st.booleans() for _ in range(2)),
)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=50), min_cell=st.integers(1, 4), data=st.data())
def test_any_two_models(rows: list, min_cell: int, data: st.DataObject) -> None:
    def sides(table: list) -> Pair:
        label, first, second, s, t, sex, race, one, other = (
            list(c) for c in zip(*table, strict=True)
        )
        groups = {"sex": sex, "race": race}
        return (
            Outcomes(label, first, s, groups, {"copies": one}),
            Outcomes(label, second, t, groups, {"copies": other}),
        )

    found = compare(*sides(rows), draws=20, min_cell=min_cell)
    assert found == compare(*sides(data.draw(st.permutations(rows))), draws=20, min_cell=min_cell)
    model, baseline = (evaluate(side, draws=0, min_cell=min_cell).metrics for side in sides(rows))
    for name, difference in found.differences.items():
        values = (model[name].value, baseline[name].value)
        if None in values:
            assert difference.status == "insufficient_evidence"
        if difference.value is not None:
            assert difference.value == values[0] - values[1]
            assert difference.low <= difference.value <= difference.high
            # a loss is at most that of the smallest probability that is told from 0
            assert abs(difference.low) <= (
                37 if name.startswith("log_loss") else max(2, np.log(len(rows)))
            )


@pytest.mark.long
def test_equally_good_models_are_rarely_told_apart() -> None:
    """A/A: both models see the truth through noise of one law, so that no metric differs but by
    chance.
    """
    rng = np.random.default_rng(11)
    tables, n = 250, 400
    excluded = dict.fromkeys(["accuracy", "balanced_accuracy", "auc", "consistency.c"], 0)
    for seed in range(tables):
        sex = rng.integers(0, 2, n)
        y_true = (rng.random(n) < 0.4 + 0.1 * sex).astype(int)
        common = y_true + 0.8 * rng.standard_normal(n)
        sides = []
        for _ in range(2):
            score = 1 / (1 + np.exp(-(common + 0.5 * rng.standard_normal(n) - 0.5)))
            flags = {"c": rng.random(n) < 0.85}
            groups = {"sex": np.where(sex == 1, "M", "F")}
            sides.append(Outcomes(y_true, (score > 0.5).astype(int), score, groups, flags))
        found = compare(sides[0], sides[1], draws=250, seed=seed).differences
        for name in excluded:
            low, high = ends(found[name])
            excluded[name] += not low <= 0 <= high
    for name, times in excluded.items():
        assert 0.02 <= times / tables <= 0.09, (name, times / tables)
