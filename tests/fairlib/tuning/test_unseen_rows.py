"""The metric of unseen rows, drawn from the counts of the validation rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from evenhand.fairlib.evaluation.evaluate import evaluate
from evenhand.fairlib.evaluation.metrics import GROUP_METRICS
from evenhand.fairlib.evaluation.outcomes import Outcomes
from evenhand.fairlib.tuning.quantiles import LEVELS, chance_above, chance_below, quantile_of
from evenhand.fairlib.tuning.unseen_rows import HalfChoice, unseen_quantiles

GAP = "gap_max.sex"
RNG = np.random.default_rng(0)


def people(rows: int, seed: int, gap: float = 0.0) -> Outcomes:
    """Two groups, one of a fifth of the rows, whose error rates differ by `gap`."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    is_small = rng.random(rows) < 0.2
    right = rng.random(rows) < np.where(is_small, 0.7 - gap, 0.7)
    sex = np.where(is_small, "f", "m").astype(object)
    return Outcomes(y, np.where(right, y, 1 - y), np.full(rows, 0.5), {"sex": sex})


def quantiles(outcomes: Outcomes, unseen: float = 0.4, inflation: float = 1.0) -> Any:
    measured = evaluate(outcomes, draws=0).groups
    return unseen_quantiles(
        outcomes,
        measured,
        [GAP, "balanced_accuracy", "auc"],
        unseen=unseen,
        inflation=inflation,
        intersections=False,
        rng=np.random.default_rng(1),
    )


@pytest.mark.parametrize("gap", [0.0, 0.2])
def test_chances_are_not_stated_too_high(gap: float) -> None:
    """Of small tables, whose small groups make a gap of noise."""
    stated = []
    kept = []
    for seed in range(30):
        validation = quantiles(people(400, seed, gap))[GAP]
        unseen_value = evaluate(people(160, 1000 + seed, gap), draws=0).metrics[GAP].value
        assert unseen_value is not None
        stated.append(chance_below(validation, 0.2))
        kept.append(unseen_value <= 0.2)
    assert 0.1 < np.mean(stated) < np.mean(kept) + 0.05


CALIBRATION = "calibration_gap.sex"


def calibrated(rows: int, seed: int, excess: float = 0.0, small: float = 0.1) -> Outcomes:
    """Calibrated probabilities, but for an `excess` in the small group."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.1, 0.9, rows)
    is_small = rng.random(rows) < small
    y = (rng.random(rows) < p - excess * is_small).astype(np.int64)
    sex = np.where(is_small, "f", "m").astype(object)
    return Outcomes(y, (p > 0.5).astype(np.int64), p, {"sex": sex})


def calibration_quantiles(outcomes: Outcomes, unseen: float) -> list[float]:
    found = unseen_quantiles(
        outcomes,
        evaluate(outcomes, draws=0).groups,
        [CALIBRATION],
        unseen=unseen,
        intersections=False,
        min_cell=5,
        rng=np.random.default_rng(2),
    )
    return found[CALIBRATION]


@pytest.mark.parametrize("excess", [0.0, 0.1])
def test_chances_of_calibration_gaps_are_those_of_small_groups(excess: float) -> None:
    """They are not stated too high."""
    stated = []
    kept = []
    for seed in range(150):
        stated.append(chance_below(calibration_quantiles(calibrated(300, seed, excess), 0.4), 0.1))
        gap = evaluate(calibrated(120, 1000 + seed, excess), draws=0).metrics[CALIBRATION].value
        if gap is not None:
            kept.append(gap <= 0.1)
    assert 0.2 < np.mean(stated) < np.mean(kept) + 0.05


def test_calibration_gaps_of_large_groups_are_normal() -> None:
    outcomes = calibrated(40_000, 3, excess=0.1, small=0.5)
    residual = outcomes.score - outcomes.y_true
    own = [residual[outcomes.sensitive["sex"] == name] for name in "fm"]
    # 10,000 unseen rows of either group, and 20,000 on which the gap was measured
    error = np.sqrt(sum(group.var() * (1 / len(group) + 2 / len(group)) for group in own))
    found = calibration_quantiles(outcomes, 0.5)
    gap = abs(own[0].mean() - own[1].mean())
    for level in (0.1, 0.5, 0.9):
        expected = norm.ppf(level, gap, error)
        assert quantile_of(found, level) == pytest.approx(expected, abs=6e-4)


def with_tiny_group(rows: int, seed: int) -> Outcomes:
    """Three groups with the same error rates, one of 3 % of the rows."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    right = rng.random(rows) < 0.7
    sex = rng.choice(["d", "f", "m"], rows, p=[0.03, 0.48, 0.49]).astype(object)
    return Outcomes(y, np.where(right, y, 1 - y), np.full(rows, 0.5), {"sex": sex})


def test_a_group_with_few_unseen_rows_is_left_out() -> None:
    """Of 16 rows of a group about six are among the unseen ones: some draws have too few."""
    stated = []
    kept = []
    for seed in range(40):
        outcomes = with_tiny_group(540, seed)
        groups = evaluate(outcomes, draws=0).groups
        drawn = unseen_quantiles(
            outcomes,
            groups,
            [GAP],
            unseen=0.4,
            intersections=False,
            min_cell=5,
            rng=np.random.default_rng(1),
        )
        unseen_value = evaluate(with_tiny_group(216, 1000 + seed), draws=0).metrics[GAP].value
        assert unseen_value is not None
        stated.append(chance_below(drawn[GAP], 0.2))
        kept.append(unseen_value <= 0.2)
    assert np.mean(stated) == pytest.approx(np.mean(kept), abs=0.15)


def test_a_metric_that_most_draws_lack_has_no_quantiles() -> None:
    outcomes = people(400, 5)
    drawn = unseen_quantiles(
        outcomes,
        evaluate(outcomes, draws=0).groups,
        [GAP, "balanced_accuracy"],
        unseen=0.05,
        intersections=False,
        min_cell=5,
        rng=np.random.default_rng(1),
    )
    assert drawn[GAP] == []
    assert len(drawn["balanced_accuracy"]) == len(LEVELS)


@pytest.mark.parametrize("name", GROUP_METRICS)
def test_a_copy_of_a_group_changes_no_metric(name: str) -> None:
    """Copies stand for the groups that a draw leaves out."""
    metric = GROUP_METRICS[name].function
    counts = np.array([[[40.0, 10.0], [10.0, 40.0]], [[45.0, 5.0], [25.0, 25.0]]])
    with_copy = np.concatenate([counts, counts[:1]])
    assert metric(with_copy) == pytest.approx(metric(counts))


def test_many_rows_leave_the_value() -> None:
    outcomes = people(200_000, 3, gap=0.1)
    value = evaluate(outcomes, draws=0).metrics[GAP].value
    drawn = quantiles(outcomes)
    assert quantile_of(drawn[GAP], 0.5) == pytest.approx(value, abs=0.01)
    assert list(drawn) == [GAP, "balanced_accuracy"]


def test_choices_made_anew_and_fewer_rows_spread_wider() -> None:
    outcomes = people(2000, 4, gap=0.1)

    def width(**settings: float) -> float:
        drawn = quantiles(outcomes, **settings)[GAP]
        return quantile_of(drawn, 0.95) - quantile_of(drawn, 0.05)

    assert width(inflation=9.0) > 1.3 * width()
    assert width(unseen=0.1) > 1.2 * width()


def halves(rows: int, seed: int, divisions: int = 10) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    sides = []
    for _ in range(divisions):
        is_half = rng.permutation(rows) < rows // 2
        sides += [is_half, ~is_half]
    return sides


def test_a_rule_equal_on_each_half_spreads_like_a_fixed_one() -> None:
    """The differences of halves then have the variance of the validation rows."""
    outcomes = people(2000, 7, gap=0.1)
    choices = [HalfChoice(is_half, outcomes.y_pred) for is_half in halves(2000, 8)]

    def width(choices: list[HalfChoice]) -> float:
        drawn = unseen_quantiles(
            outcomes,
            evaluate(outcomes, draws=0).groups,
            [GAP],
            unseen=5.0,
            choices=choices,
            intersections=False,
            rng=np.random.default_rng(1),
        )[GAP]
        return quantile_of(drawn, 0.95) - quantile_of(drawn, 0.05)

    assert width(choices) == pytest.approx(width([]), rel=0.3)


def test_thresholds_by_group_spread_as_choosing_them_anew_does() -> None:
    """Each group's threshold selects a half of it in the rows that it is chosen on, where the gap
    is therefore 0: with other rows it is not.
    """
    rows = 400
    rng = np.random.default_rng(9)
    widths = []
    for number in range(12):
        sex = np.where(np.arange(rows) < 80, "f", "m").astype(object)
        score = rng.random(rows)
        y = rng.integers(0, 2, rows)

        def rule_of(chosen: np.ndarray, score: np.ndarray = score, sex: Any = sex) -> np.ndarray:
            selected = np.zeros(rows, dtype=np.int64)
            for group in ("f", "m"):
                cut = np.median(score[chosen & (sex == group)])
                selected[sex == group] = score[sex == group] > cut
            return selected

        choices = [HalfChoice(half, rule_of(half)) for half in halves(rows, number)]
        everybody = np.ones(rows, dtype=bool)
        outcomes = Outcomes(y, rule_of(everybody), np.full(rows, 0.5), {"sex": sex})
        name = "demographic_parity_difference.sex"
        drawn = unseen_quantiles(
            outcomes,
            evaluate(outcomes, draws=0).groups,
            [name],
            unseen=100.0,
            choices=choices,
            intersections=False,
            rng=rng,
        )[name]
        widths.append(quantile_of(drawn, 0.9))
    # medians of 80 and of 320: a standard deviation of .0625, times 1.81 of ten degrees of freedom
    assert np.mean(widths) == pytest.approx(0.1133, rel=0.2)


def test_a_group_too_small_to_compare_has_no_quantiles() -> None:
    outcomes = people(400, 5)
    outcomes.sensitive["sex"][:] = "m"
    assert GAP not in quantiles(outcomes)


def test_the_favourable_label_decides_what_is_selected() -> None:
    rng = np.random.default_rng(6)
    y = rng.integers(0, 2, 300)
    sex = np.where(rng.random(300) < 0.5, "f", "m").astype(object)
    selected = np.where(sex == "f", 0, 1)
    name = "impact_ratio.sex"

    def drawn(favourable: int) -> float:
        outcomes = Outcomes(y, selected, np.full(300, 0.5), {"sex": sex}, favourable=favourable)
        measured = evaluate(outcomes, draws=0).groups
        found = unseen_quantiles(
            outcomes,
            measured,
            [name],
            unseen=0.4,
            inflation=1.0,
            intersections=False,
            rng=np.random.default_rng(1),
        )
        return quantile_of(found[name], 0.5)

    assert drawn(1) < 0.02
    assert drawn(0) < 0.02


def test_a_share_of_few_rows_may_be_the_limit_itself() -> None:
    """Of 40 rows, an accuracy of at least .9 is one of 36 right ones or more."""
    rng = np.random.default_rng(7)
    shares = rng.binomial(40, 0.9, 200_000) / 40
    quantiles = [float(value) for value in np.quantile(shares, LEVELS)]
    assert chance_above(quantiles, 0.9) == pytest.approx(np.mean(shares >= 0.9), abs=0.05)
    assert chance_below(quantiles, 0.9) == pytest.approx(np.mean(shares <= 0.9), abs=0.05)


def test_chances_and_quantiles_are_inverse() -> None:
    values = [level**2 for level in LEVELS]
    assert chance_below(values, quantile_of(values, 0.42)) == pytest.approx(0.42)
    assert chance_below(values, -1.0) == 0.0
    assert chance_below(values, 1.0) == 1.0
    assert chance_above(values, quantile_of(values, 0.42)) == pytest.approx(0.58)
    assert chance_above(values, 1.0) == 0.0
    assert chance_above(values, 0.0) == 1.0
    flat = [0.0] * 10 + [1.0] * (len(LEVELS) - 10)
    assert LEVELS[9] <= chance_below(flat, 0.0) <= LEVELS[10]


# people with several rows, and places


def ranges(outcomes: Outcomes, names: list[str], min_cell: int = 5, **settings: Any) -> Any:
    """Ends of the range from 5 to 95 % of metrics on unseen rows, by name."""
    drawn = unseen_quantiles(
        outcomes,
        evaluate(outcomes, draws=0, min_cell=min_cell).groups,
        names,
        **{"unseen": 0.25, "intersections": False, "min_cell": min_cell} | settings,
        rng=np.random.default_rng(1),
    )
    ends = {}
    for name, values in drawn.items():
        if values:
            ends[name] = np.array([quantile_of(values, 0.05), quantile_of(values, 0.95)])
    return ends


def as_rows(outcomes: Outcomes) -> Outcomes:
    return replace(outcomes, people=None)


def places(count: int, seed: int, kind: str = "accuracy", rows: int = 50) -> Outcomes:
    """Rows of places that differ in `kind`; two groups with the same rates over all places."""
    rng = np.random.default_rng(seed)
    place = np.repeat(np.arange(count), rows)
    right = np.full(count, 0.75)
    right_of_small = right
    shift = np.zeros(count)
    small = np.full(count, 0.3)
    favourable = np.full(count, 0.5)
    if kind == "accuracy":
        right = right_of_small = rng.choice([0.55, 0.95], count)
    elif kind == "gap":
        right = rng.choice([0.45, 0.95], count)
        right_of_small = rng.choice([0.45, 0.95], count)
    elif kind == "groups and labels":
        small = rng.choice([0.1, 0.9], count)
        favourable = rng.choice([0.1, 0.9], count)
    elif kind == "calibration":
        small = rng.choice([0.1, 0.9], count)
        shift = rng.choice([-0.2, 0.2], count)
    is_small = rng.random(len(place)) < small[place]
    y = (rng.random(len(place)) < favourable[place]).astype(np.int64)
    is_right = rng.random(len(place)) < np.where(is_small, right_of_small[place], right[place])
    y_pred = np.where(is_right, y, 1 - y)
    sex = np.where(is_small, "f", "m").astype(object)
    return Outcomes(y, y_pred, 0.5 + shift[place], {"sex": sex}, people=place, counts_people=False)


@pytest.mark.parametrize(
    ("kind", "name", "count", "of_rows"),
    [
        ("accuracy", "accuracy", 60, 0.5),
        ("accuracy", "accuracy", 10, 0.5),
        ("gap", GAP, 60, 0.82),
        ("groups and labels", "demographic_parity_difference.sex", 60, 0.82),
        ("calibration", CALIBRATION, 60, 0.82),
    ],
)
def test_ranges_cover_what_unseen_places_show(
    kind: str, name: str, count: int, of_rows: float
) -> None:
    """By 90 %; taken as independent rows they cover less than `of_rows`."""
    covered = []
    covered_by_rows = []
    unseen = max(1, round(count * 0.4))
    for seed in range(10):
        outcomes = places(count, seed, kind)
        low, high = ranges(outcomes, [name], unseen=0.4)[name]
        low_of_rows, high_of_rows = ranges(as_rows(outcomes), [name], unseen=0.4)[name]
        for number in range(10):
            shown = places(unseen, 1000 + 10 * seed + number, kind)
            value = evaluate(shown, draws=0).metrics[name].value
            covered.append(low <= value <= high)
            covered_by_rows.append(low_of_rows <= value <= high_of_rows)
    assert 0.82 < np.mean(covered) < 0.98
    assert np.mean(covered_by_rows) < of_rows


def test_what_a_place_does_to_all_groups_leaves_gaps() -> None:
    own = np.zeros(2)
    of_rows = np.zeros(2)
    for seed in range(5):
        outcomes = places(60, seed)
        found = ranges(outcomes, ["accuracy", GAP])
        found_of_rows = ranges(as_rows(outcomes), ["accuracy", GAP])
        own += [np.ptp(found["accuracy"]), np.ptp(found[GAP])]
        of_rows += [np.ptp(found_of_rows["accuracy"]), np.ptp(found_of_rows[GAP])]
    assert own[0] > 2.5 * of_rows[0]
    assert own[1] == pytest.approx(of_rows[1], rel=0.15)


def test_groups_and_labels_of_places_leave_error_rates() -> None:
    name = "demographic_parity_difference.sex"
    own = np.zeros(2)
    of_rows = np.zeros(2)
    for seed in range(5):
        outcomes = places(60, seed, "groups and labels")
        found = ranges(outcomes, [GAP, name])
        found_of_rows = ranges(as_rows(outcomes), [GAP, name])
        own += [np.ptp(found[GAP]), np.ptp(found[name])]
        of_rows += [np.ptp(found_of_rows[GAP]), np.ptp(found_of_rows[name])]
    assert own[0] == pytest.approx(of_rows[0], rel=0.15)
    assert own[1] > 1.3 * of_rows[1]


ALL = ["accuracy", "balanced_accuracy", GAP, "demographic_parity_difference.sex", CALIBRATION]


# with 600 people of whom several are drawn together, and with 150
@pytest.mark.parametrize("count", [150, 600])
# one row each, and four alike ones
@pytest.mark.parametrize("rows", [1, 4])
def test_alike_rows_of_people_count_once(count: int, rows: int) -> None:
    first = np.zeros((len(ALL), 2))
    found = np.zeros((len(ALL), 2))
    for seed in range(4):
        once = people(count, seed, 0.1)
        once = replace(once, score=np.random.default_rng(seed).random(count))
        person = np.repeat(np.arange(count), rows)
        repeated = Outcomes(
            once.y_true[person],
            once.y_pred[person],
            once.score[person],
            {"sex": once.sensitive["sex"][person]},
            people=person,
        )
        ranges_once = ranges(once, ALL, min_cell=1, unseen=0.4)
        ranges_of_people = ranges(repeated, ALL, min_cell=1, unseen=0.4)
        for place, name in enumerate(ALL):
            first[place] += ranges_once[name] / 4
            found[place] += ranges_of_people[name] / 4
    assert np.ptp(found, axis=1) == pytest.approx(np.ptp(first, axis=1), rel=0.12)
    assert found == pytest.approx(first, abs=0.03)


@pytest.mark.parametrize(("counts_people", "is_stated"), [(True, False), (False, True)])
def test_people_or_rows_make_a_group_large_enough(counts_people: bool, is_stated: bool) -> None:
    """Of 12 people of a group, with ten rows each, three are among the unseen ones."""
    rng = np.random.default_rng(3)
    person = np.repeat(np.arange(60), 10)
    sex = np.where(person < 12, "f", "m").astype(object)
    y = rng.integers(0, 2, 600)
    y_pred = np.where(rng.random(600) < 0.7, y, 1 - y)
    score = rng.random(600)
    outcomes = Outcomes(y, y_pred, score, {"sex": sex}, people=person, counts_people=counts_people)
    found = ranges(outcomes, [GAP, CALIBRATION], min_cell=6)
    assert sorted(found) == ([CALIBRATION, GAP] if is_stated else [])


def test_a_group_of_a_single_place_is_hardly_known() -> None:
    outcomes = places(30, 4)
    sex = np.where(outcomes.people == 0, "f", "m").astype(object)
    found = ranges(replace(outcomes, sensitive={"sex": sex}), [GAP, CALIBRATION], unseen=3.0)
    assert np.ptp(found[GAP]) > 0.4
    assert np.ptp(found[CALIBRATION]) > 0.4


def test_too_few_places_state_no_chance() -> None:
    """How much others differ is not known of them: the interval of the metric decides then."""
    assert unseen_quantiles(places(7, 4), {}, ALL, unseen=1.0, intersections=False, rng=RNG) == {}
    assert "accuracy" in ranges(places(8, 4), ALL, unseen=1.0)


def test_thresholds_by_group_are_stated_for_unseen_places() -> None:
    """Scores are shifted by place and group. Taken as independent rows, ranges are too narrow."""
    name = "demographic_parity_difference.sex"
    count = 60
    rows = 20
    covered = []
    covered_by_rows = []

    def scores(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        place = np.repeat(np.arange(count), rows)
        is_small = rng.random(len(place)) < 0.3
        shift = rng.normal(size=(2, count))[is_small.astype(int), place]
        return rng.normal(size=len(place)) + shift, is_small

    for seed in range(12):
        rng = np.random.default_rng(seed)
        score, is_small = scores(count, rng)
        place = np.repeat(np.arange(count), rows)

        def rule_of(
            chosen: np.ndarray,
            to: tuple[np.ndarray, np.ndarray],
            score: np.ndarray = score,
            is_small: np.ndarray = is_small,
        ) -> np.ndarray:
            cut = [np.median(score[chosen & (is_small == group)]) for group in (False, True)]
            return (to[0] > np.array(cut)[to[1].astype(int)]).astype(np.int64)

        choices = []
        for half in halves(count, seed):
            y_pred = rule_of(half[place], (score, is_small))
            choices.append(HalfChoice(half[place], y_pred))
        everybody = np.ones(len(score), dtype=bool)
        outcomes = Outcomes(
            rng.integers(0, 2, len(score)),
            rule_of(everybody, (score, is_small)),
            np.full(len(score), 0.5),
            {"sex": np.where(is_small, "f", "m").astype(object)},
            people=place,
            counts_people=False,
        )
        low, high = ranges(outcomes, [name], choices=choices)[name]
        low_of_rows, high_of_rows = ranges(as_rows(outcomes), [name], choices=choices)[name]
        for _ in range(20):
            shown = scores(count // 4, rng)
            selected = rule_of(everybody, shown)
            value = abs(selected[shown[1]].mean() - selected[~shown[1]].mean())
            covered.append(low <= value <= high)
            covered_by_rows.append(low_of_rows <= value <= high_of_rows)
    assert 0.84 < np.mean(covered) < 0.98
    assert np.mean(covered_by_rows) < 0.84
