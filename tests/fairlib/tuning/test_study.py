"""What follows from trials: the front, the winner, pruning, the cost of limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.fairlib.tuning.quantiles import LEVELS
from evenhand.fairlib.tuning.study import (
    UNSEEN,
    Aim,
    Limit,
    Trial,
    answer,
    best,
    check_limits,
    costs,
    front,
    is_kept,
    leading,
    nearest,
    out_of_reach,
    parse_limit,
    ranked,
    settled,
    standings,
)

# trials

AIM = Aim(("accuracy",), (Limit("gap_max.sex", "<=", 0.1),), 0.975)


def trial(
    number: int, accuracy: float | None, gap: float, kind: str = "search", half: float = 0.02
) -> Trial:
    ends = {"low": gap - half, "high": gap + half, "below": gap - half, "above": gap + half}
    metrics = {
        "accuracy": {"value": accuracy, "low": None, "high": None},
        "gap_max.sex": {"value": gap, **ends},
    }
    return Trial(number, kind, "judged", method="gbdt", metrics=metrics)


def test_a_limit_holds_on_the_unfavourable_end() -> None:
    found = trial(0, 0.8, 0.09).metrics
    assert AIM.miss(found) == pytest.approx(0.01)
    assert Aim(AIM.objectives, AIM.limits, 0.5).miss(found) == 0.0
    least = Aim(("accuracy",), (Limit("gap_max.sex", ">=", 0.08),), 0.975)
    assert least.miss(found) == pytest.approx(0.01)  # its low end is 0.07
    assert Aim(("accuracy",), (Limit("auc", ">=", 0.5),)).miss(found) == 1.0  # no number


def test_the_winner_is_the_best_within_the_limits() -> None:
    trials = [
        trial(0, 0.99, 0.0, "majority"),
        trial(1, 0.80, 0.05, "plain"),
        trial(2, 0.75, 0.0, "blind"),
        trial(3, 0.80, 0.01),
        trial(4, 0.95, 0.09),  # unseen rows may show 0.11
        trial(5, None, 0.0),
    ]
    found = best(AIM, trials)
    assert found is trials[1]
    assert best(Aim(AIM.objectives, AIM.limits, 0.5), trials) is trials[4]
    assert (
        best(AIM, trials, "gap_max.sex") is trials[2]
    )  # the control without sensitive columns may win
    assert costs(AIM, trials) == [
        {"limit": "gap_max.sex <= 0.1", "with": 0.80, "without": 0.95, "by_value": 0.95}
    ]


@given(st.permutations(["search", "blind", "plain", "job", "default"]))
def test_among_equals_a_control_wins_then_the_job_then_the_first(kinds: list[str]) -> None:
    trials = [trial(number, 0.8, 0.05, kind) for number, kind in enumerate(kinds)]
    in_order = ranked(AIM, [*trials, trial(9, 0.9, 0.5)])
    order = []
    while trials:
        found = best(AIM, trials)
        assert found is not None
        order.append(found.kind)
        trials.remove(found)
    assert [one.kind for one in in_order] == order
    assert order[:3] == ["plain", "blind", "job"]
    assert order[3:] == [kind for kind in kinds if kind in ("search", "default")]


def test_a_metric_that_most_unseen_rows_lack_has_no_chance() -> None:
    """A normal distribution about its value would state one; the value still decides at .5."""
    lacking = trial(0, 0.8, 0.01)
    lacking.metrics["gap_max.sex"][UNSEEN] = []  # type: ignore[index]
    limit = AIM.limits[0]
    assert AIM.chance(limit, lacking.metrics) is None
    assert AIM.found(limit, lacking.metrics) is None
    assert best(AIM, [lacking]) is None
    unasked = replace(AIM, confidence=None)
    assert settled(unasked, [lacking]) == unasked.by_value
    assert best(unasked, [lacking]) is lacking
    (row,) = standings(unasked, lacking.metrics)
    assert (row.kept_by, row.chance) == ("value", None)


def test_the_job_under_another_rule_is_no_simpler() -> None:
    first, job = trial(0, 0.8, 0.05), replace(trial(1, 0.8, 0.05, "job"), decision="balanced")
    assert best(AIM, [first, job]) is first


@given(st.permutations([(model, rule) for model in (2, 9, 10) for rule in (0, 2, 10)]))
def test_among_equals_the_first_model_wins_under_its_first_rule(
    places: list[tuple[int, int]],
) -> None:
    trials = [replace(trial(model, 0.8, 0.05), rule=rule) for model, rule in places]
    order = []
    while trials:
        found = best(AIM, trials)
        assert found is not None
        order.append(found.number)
        trials.remove(found)
    assert order == ["2", "2.2", "2.10", "9", "9.2", "9.10", "10", "10.2", "10.10"]


def test_the_nearest_trial_misses_least_and_then_is_best() -> None:
    trials = [trial(0, 0.9, 0.3), trial(1, 0.7, 0.2), trial(2, 0.8, 0.2)]
    assert best(AIM, trials) is None
    assert nearest(AIM, trials) is trials[2]
    assert nearest(AIM, []) is None


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12))
def test_the_front_is_what_nobody_dominates(points: list[tuple[int, int]]) -> None:
    """By brute force, within a limit that some points miss."""
    aim = Aim(("accuracy", "gap_max.sex"), (Limit("gap_max.sex", "<=", 0.4),), 0.5)
    trials = [trial(i, accuracy / 10, gap / 10) for i, (accuracy, gap) in enumerate(points)]
    within = [(i, point) for i, point in enumerate(points) if point[1] <= 4]
    expected = [
        i
        for i, (accuracy, gap) in within
        if not any(
            (a >= accuracy and g <= gap and (a, g) != (accuracy, gap)) for _, (a, g) in within
        )
    ]
    assert [item.model for item in front(aim, trials)] == expected


@given(st.lists(st.integers(0, 20), min_size=1, max_size=15), st.integers(2, 5))
def test_one_in_so_many_goes_on(values: list[int], factor: int) -> None:
    """With one objective, one rule and no limit: those of whom fewer than n / factor are better."""
    aim = Aim(("accuracy",))
    models = [[trial(i, value / 100, 0.0).metrics] for i, value in enumerate(values)]
    for i, value in enumerate(values):
        ahead = sum(other > value for other in values)
        kept = is_kept(aim, models[i], [*models[:i], *models[i + 1 :]], factor)
        assert kept == (ahead < max(1, len(values) / factor))


POINT = st.tuples(st.integers(0, 4), st.integers(0, 4))


def is_ahead(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether one result beats another: (accuracy, gap) in tenths, with gaps up to 0.2 within the
    limit.
    """
    ours, theirs = max(0, one[1] - 2), max(0, other[1] - 2)
    return ours < theirs or (ours == theirs and one[0] > other[0])


def results_of(points: list[tuple[int, int]]) -> list[Any]:
    return [trial(0, accuracy / 10, gap / 10).metrics for accuracy, gap in points]


@given(st.lists(st.lists(POINT, min_size=1, max_size=4), min_size=1, max_size=8))
def test_a_model_counts_by_the_rule_with_the_fewest_models_ahead(
    models: list[list[tuple[int, int]]],
) -> None:
    """By brute force; rules that another one of the model beats may be left out."""
    aim = Aim(("accuracy",), (Limit("gap_max.sex", "<=", 0.2),), 0.5)
    for i, own in enumerate(models):
        others = models[:i] + models[i + 1 :]
        ahead = min(
            sum(any(is_ahead(one, rule) for one in other) for other in others) for rule in own
        )
        expected = ahead < max(1, len(models) / 3)
        every = [results_of(other) for other in others]
        assert is_kept(aim, results_of(own), every, 3.0) == expected
        few = leading(aim, results_of(own))
        assert few == results_of(
            [rule for rule in own if not any(is_ahead(one, rule) for one in own)]
        )
        assert is_kept(aim, few, [leading(aim, other) for other in every], 3.0) == expected


def test_a_model_that_no_rule_could_be_judged_of_does_not_go_on() -> None:
    assert not is_kept(AIM, [], [], 4.0)


def test_a_trial_nearer_to_the_limits_is_ahead() -> None:
    """The objective does not matter."""
    far, near = trial(0, 0.9, 0.5).metrics, trial(1, 0.6, 0.2).metrics
    assert is_kept(AIM, [near], [[far]] * 9, 4.0)
    assert not is_kept(AIM, [far], [[near]] * 9, 4.0)
    assert is_kept(AIM, [far, near], [[near]] * 9, 4.0)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ([("auc", ">=", 0.9), ("auc", "<=", 0.8)], "auc >= 0.9 contradicts auc <= 0.8"),
        ([("auc", "<=", 0.8), ("auc", ">=", 0.9)], "auc >= 0.9 contradicts auc <= 0.8"),
        ([("gap_max.sex", "<=", -0.1)], "cannot be met: the metric is between 0 and 1"),
        ([("log_loss", "<=", -1.0)], "log_loss <= -1 cannot be met: the metric is at least 0"),
        ([("log_loss_gain", ">=", 2.0)], "cannot be met: the metric is at most"),
        ([("gap_max.sex", ">=", 0.1)], "of gap_max.sex lower is better, so write <="),
        ([("auc", "<=", 0.8)], "of auc higher is better, so write >="),
    ],
)
def test_limits_that_cannot_hold_are_refused(limits: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_limits([Limit(*limit) for limit in limits])
    check_limits([Limit("auc", ">=", 0.8), Limit("auc", ">=", 0.9), Limit("log_loss", "<=", 5.0)])


NAMES = st.sampled_from(["accuracy", "consistency.a b", "gap_max.sex&race", "certificate.drf"])
EIGHTHS = st.integers(-8, 8).map(lambda k: k / 8)


@given(st.builds(Limit, NAMES, st.sampled_from([">=", "<="]), EIGHTHS))
def test_a_limit_written_out_reads_back(limit: Limit) -> None:
    assert parse_limit(str(limit)) == limit
    assert parse_limit(f"  {limit.metric}{limit.sign}{limit.value:e} ") == limit


@pytest.mark.parametrize(
    "rest", ["", " < 0.1", " == 0.1", " <= x", " <= nan", " <= inf", " <= 0.1 and", " >= 0 >= 1"]
)
def test_a_limit_of_another_form_is_refused_in_one_line(rest: str) -> None:
    with pytest.raises(ValueError, match="is not of the form METRIC >= NUMBER") as caught:
        parse_limit(f"gap_max.sex{rest}")
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="is not of the form"):
        parse_limit("<= 0.1")


def test_a_limit_is_held_against_the_end_of_the_confidence() -> None:
    metric = {"value": 0.5, "low": 0.4, "high": 0.6, "below": 0.3, "above": 0.7}
    upper = parse_limit("accuracy <= 0.5")
    lower = parse_limit("accuracy >= 0.5")
    # quantiles of the normal distribution from a table: 1.2816 at .9, 1.96 at .975
    for confidence, reach in ((0.5, 0.0), (0.9, 0.2 * 1.2816 / 1.96), (0.975, 0.2)):
        aim = Aim(("auc",), (upper, lower), confidence)
        assert aim.found(upper, {"accuracy": metric}) == pytest.approx(0.5 + reach, abs=1e-5)
        assert aim.found(lower, {"accuracy": metric}) == pytest.approx(0.5 - reach, abs=1e-5)
        # without intervals the value counts
        assert aim.found(upper, {"accuracy": {"value": 0.5}}) == 0.5


def test_the_chance_of_a_limit_by_hand() -> None:
    """The room is one standard deviation, none, and minus two: .841, .5 and .023."""
    aim = Aim(("auc",), (), level=0.95)
    width = 1.959964 * 0.02
    metrics = {"gap_max.sex": {"value": 0.08, "below": 0.08 - width, "above": 0.08 + width}}
    for value, chance in ((0.10, 0.8413), (0.08, 0.5), (0.04, 0.0228)):
        upper = Limit("gap_max.sex", "<=", value)
        lower = Limit("gap_max.sex", ">=", value)
        assert aim.chance(upper, metrics) == pytest.approx(chance, abs=1e-4)
        assert aim.chance(lower, metrics) == pytest.approx(1 - chance, abs=1e-4)
    flat = {"gap_max.sex": {"value": 0.08, "below": 0.08, "above": 0.08}}
    assert aim.chance(Limit("gap_max.sex", "<=", 0.08), flat) == 1.0
    assert aim.chance(Limit("gap_max.sex", "<=", 0.07), flat) == 0.0
    assert aim.chance(Limit("gap_max.sex", "<=", 0.1), {"gap_max.sex": {"value": 0.0}}) is None
    assert aim.chance(Limit("gap_max.sex", "<=", 0.1), {}) is None


def test_a_value_that_misses_a_limit_is_never_within() -> None:
    """Unseen rows may be too few of the small group that the gap of these rows comes from."""
    quantiles = [0.01 * (number + 1) / len(LEVELS) for number in range(len(LEVELS))]
    gap = {"value": 0.3, "low": 0.1, "high": 0.5, UNSEEN: quantiles}
    trial = Trial(0, "search", "judged", metrics={"auc": {"value": 0.7}, "gap_max.sex": gap})
    for confidence in (0.2, 0.5, 0.9):
        aim = Aim(("auc",), (parse_limit("gap_max.sex <= 0.1"),), confidence)
        assert best(aim, [trial]) is None
        wide = Aim(("auc",), (parse_limit("gap_max.sex <= 0.31"),), confidence)
        assert best(wide, [trial]) == trial


SHARE = st.floats(0.0, 1.0)


@given(SHARE, SHARE, SHARE, st.sampled_from([0.5, 0.8, 0.9, 0.975]), st.sampled_from(["<=", ">="]))
def test_a_chance_reaches_the_confidence_where_the_end_keeps(
    value: float, width: float, bound: float, confidence: float, sign: Any
) -> None:
    limit = Limit("gap_max.sex", sign, bound)
    aim = Aim(("auc",), (limit,), confidence)
    metric = {"value": value, "below": value - width, "above": value + width}
    end = aim.found(limit, {"gap_max.sex": metric})
    chance = aim.chance(limit, {"gap_max.sex": metric})
    assert end is not None
    assert chance is not None
    shortfall = limit.shortfall(end)
    if abs(shortfall) > 1e-9:
        assert (chance >= confidence) == (shortfall < 0)


def test_limits_hold_with_the_highest_confidence_reached() -> None:
    """It is .9 unless no trial reaches it."""

    def trial(model: int, auc: float, value: float) -> Trial:
        gap = {"value": value, "below": value - 0.1, "above": value + 0.1}
        return Trial(model, "search", "judged", metrics={"auc": {"value": auc}, "gap_max.sex": gap})

    # chances by hand, with a standard deviation of .051: .975, .835, .5 and .163
    aim = Aim(("auc",), (parse_limit("gap_max.sex <= 0.2"),))
    strict = trial(4, 0.81, 0.1)
    lax = trial(3, 0.83, 0.15)
    edge = trial(2, 0.85, 0.2)
    outside = trial(5, 0.9, 0.25)
    trials = [lax, strict, edge, outside]
    assert settled(aim, trials).confidence == 0.9
    assert best(aim, trials) == strict
    assert front(aim, trials) == [strict]
    assert costs(aim, trials)[0] == {
        "limit": "gap_max.sex <= 0.2",
        "with": 0.81,
        "without": 0.9,
        "by_value": 0.85,
    }
    # unless that costs too much, as a nearly constant model would
    useless = trial(4, 0.55, 0.1)
    assert settled(aim, [lax, useless, edge]).confidence == 0.8
    assert best(aim, [useless, outside]) == useless
    assert best(replace(aim, confidence=0.9), [lax, useless, edge]) == useless
    assert settled(aim, [lax, edge, outside]).confidence == 0.8
    assert best(aim, [lax, edge, outside]) == lax
    assert settled(aim, [edge, outside]).confidence == 0.5
    assert best(aim, [edge, outside]) == edge
    asked = replace(aim, confidence=0.9)
    assert settled(asked, [lax, outside]) == asked
    assert best(asked, [lax, outside]) is None
    assert nearest(asked, [outside, lax]) == lax
    assert best(aim, [outside]) is None


def gap_of(
    value: float | None, high: float | None, above: float | None
) -> dict[str, dict[str, float | None]]:
    return {"gap_max.sex": {"value": value, "low": 0.0, "high": high, "below": 0.0, "above": above}}


def test_a_limit_is_kept_by_the_value_and_shown_by_the_chance() -> None:
    aim = Aim(("auc",), (parse_limit("gap_max.sex <= 0.15"),))
    rows = {
        "chance": gap_of(0.03, 0.1, 0.14),
        "value": gap_of(0.03, 0.171, 0.33),
        None: gap_of(0.16, 0.2, 0.3),
    }
    for kept_by, metrics in rows.items():
        (standing,) = standings(aim, metrics)
        assert standing.kept_by == kept_by
    (shown,) = standings(aim, rows["chance"])
    assert str(shown) == (
        "gap_max.sex <= 0.15: kept (value 0.03, P(gap_max.sex <= 0.15) = .98 on unseen rows)"
    )
    (kept,) = standings(aim, rows["value"])
    assert str(kept) == (
        "gap_max.sex <= 0.15: kept by the value, not shown to hold (value 0.03, "
        "P(gap_max.sex <= 0.15) = .78 on unseen rows)"
    )
    (missed,) = standings(aim, rows[None])
    assert missed.missed_by == pytest.approx(0.01)
    assert str(missed) == (
        "gap_max.sex <= 0.15: missed by 0.01 (value 0.16, P(gap_max.sex <= 0.15) = .44 on unseen "
        "rows)"
    )
    (unknown,) = standings(aim, {})
    assert str(unknown) == "gap_max.sex <= 0.15: not enough evidence for the metric"
    lower = Aim(("auc",), (parse_limit("gap_max.sex >= 0.02"),))
    (upper,) = standings(lower, rows["value"])
    assert upper.kept_by == "value"
    assert upper.end == 0.0


def test_the_answer_is_the_best_compromise_beyond_the_limits() -> None:
    """Nothing is within the limits."""
    aim = Aim(("auc",), (parse_limit("gap_max.sex <= 0.1"),))
    near = Trial(3, "search", "judged", metrics={"auc": {"value": 0.7}, **gap_of(0.12, 0.2, 0.3)})
    far = Trial(4, "search", "judged", metrics={"auc": {"value": 0.9}, **gap_of(0.2, 0.3, 0.4)})
    inside = Trial(5, "search", "judged", metrics={"auc": {"value": 0.6}, **gap_of(0.09, 0.2, 0.3)})
    assert answer(aim, [far, near]) == near
    assert answer(aim, [far, near, inside]) == inside
    assert answer(aim, []) is None


def test_a_partial_trial_keeps_limits_by_its_value_only() -> None:
    """It is a trial of a part of the rows."""
    aim = Aim(("auc",), (parse_limit("gap_max.sex <= 0.1"),))
    metrics = {"auc": {"value": 0.7}, **gap_of(0.05, None, None)}
    partial = Trial(0, "default", "partial", metrics=metrics)
    assert settled(aim, [partial]).confidence == 0.5
    assert best(aim, [partial]) == partial
    assert best(replace(aim, confidence=0.9), [partial]) is None
    assert standings(aim, metrics)[0].kept_by == "value"


def with_values(state: str, **values: float) -> Trial:
    metrics = {name.replace("__", "."): {"value": value} for name, value in values.items()}
    return Trial(0, "default", state, method="gbdt", metrics=metrics)  # type: ignore[arg-type]


def test_a_limit_on_performance_may_be_out_of_reach() -> None:
    """The best has .8: half of its distance to 1 is .1."""
    trials = [
        with_values("judged", balanced_accuracy=0.7, gap_max__sex=0.05),
        with_values("judged", balanced_accuracy=0.8, gap_max__sex=0.3),
    ]

    def unreachable(*texts: str) -> str | None:
        aim = Aim(("auc",), tuple(map(parse_limit, texts)))
        result = out_of_reach(aim, trials)
        # not of limits that nobody asks about
        assert out_of_reach(aim, trials, []) is None
        return None if result is None else str(result)

    assert unreachable("balanced_accuracy >= 0.89") is None
    assert unreachable("gap_max.sex <= 0.001") is None
    assert unreachable("balanced_accuracy >= 0.91") == (
        "balanced_accuracy >= 0.91 is out of reach: the nearest of the first models has "
        "balanced_accuracy 0.8; give a limit up to that"
    )
    # each alone can be met, and both together cannot
    assert unreachable("balanced_accuracy >= 0.88", "gap_max.sex <= 0.1") == (
        "balanced_accuracy >= 0.88 is out of reach: the nearest of the first models has "
        "balanced_accuracy 0.7, among those that keep gap_max.sex <= 0.1; give a limit up to that"
    )
    assert "0.8; give" in str(unreachable("balanced_accuracy >= 0.91", "gap_max.sex <= 0.01"))


def test_a_part_of_the_rows_shows_less() -> None:
    aim = Aim(("auc",), (Limit("auc", ">=", 0.91),))
    assert out_of_reach(aim, [with_values("judged", auc=0.8)]) is not None
    assert out_of_reach(aim, [with_values("partial", auc=0.8)]) is None
    assert out_of_reach(aim, [with_values("partial", auc=0.7)]) is not None
    assert out_of_reach(aim, []) is None
    lower = Aim(("auc",), (Limit("log_loss", "<=", 0.1),))
    assert "down to" in str(out_of_reach(lower, [with_values("judged", log_loss=0.5)]))


def test_the_chance_follows_from_quantiles_on_unseen_rows() -> None:
    """Their distribution is not around the value: a value that keeps the limit has a small
    chance.
    """
    shifted = [0.1 + 0.2 * level for level in LEVELS]
    metrics = {"gap_max.sex": {"value": 0.12, "low": 0.0, "high": 0.3, "unseen": shifted}}
    limit = parse_limit("gap_max.sex <= 0.16")
    aim = Aim(("auc",), (limit,))
    assert aim.chance(limit, metrics) == pytest.approx(0.3)
    assert aim.chance(parse_limit("gap_max.sex >= 0.16"), metrics) == pytest.approx(0.7)
    assert replace(aim, confidence=0.9).found(limit, metrics) == pytest.approx(0.28)
    assert replace(aim, confidence=0.5).found(limit, metrics) == 0.12
    # below one half the value counts too
    assert replace(aim, confidence=0.2).found(limit, metrics) == pytest.approx(0.14)
    assert replace(aim, confidence=0.05).found(limit, metrics) == 0.12
    trial_of_few_rows = Trial(0, "default", "judged", metrics={**metrics, "auc": {"value": 0.7}})
    assert settled(aim, [trial_of_few_rows]).confidence == 0.3
