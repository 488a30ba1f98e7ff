"""Adapted copies: quantiles by hand, transition probabilities, conditioning, round trips."""

import json

import numpy as np
import pytest

from evenhand.fairlib.distances.adaptation import (
    Adaptation,
    GroupModel,
    grid_of_uniforms,
    level_logits,
    level_shares,
    levels_of,
    map_residual,
    map_steps,
    move_levels,
    steps_of,
    without_small_cells,
    write_levels,
)
from evenhand.fairlib.distances.number_fits import knots_of, with_intercept

NO_DRAWS = np.empty((1, 0))


def two_groups(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    return rng, np.repeat([0, 1], [n * 3 // 5, n - n * 3 // 5])


def test_a_shift_moves_everybody_by_the_difference_of_means():
    # the spreads of seed 0 differ by chance at the level .05
    rng, codes = two_groups(seed=1)
    x = rng.normal(size=len(codes)) + 2.0 * codes
    adaptation = Adaptation([[0]]).fit(x[:, None], codes)
    assert adaptation.reference_ == 0
    assert adaptation.columns_[0].kind == "shift"
    mapped = adaptation.counterparts(x[:, None], codes, 0, NO_DRAWS)[:, 0]
    difference = x[codes == 1].mean() - x[codes == 0].mean()
    np.testing.assert_allclose(mapped[codes == 1], x[codes == 1] - difference, atol=1e-9)
    assert (mapped[codes == 0] == x[codes == 0]).all()


def test_there_and_back_is_the_same_person():
    rng, codes = two_groups()
    x = (rng.normal(size=len(codes)) * (1 + 2 * codes) + codes)[:, None]
    adaptation = Adaptation([[0]]).fit(x, codes)
    assert adaptation.columns_[0].kind == "scale"
    there = adaptation.counterparts(x, codes, 0, NO_DRAWS)
    back = adaptation.counterparts(there, np.zeros_like(codes), 1, NO_DRAWS)
    np.testing.assert_allclose(back[codes == 1], x[codes == 1], atol=1e-9)


def test_an_unequal_spread_is_not_taken_for_a_shift():
    # deviations 1, 1.35 and .75, which the test of whole distributions does not tell from a shift
    rng = np.random.default_rng(1)
    codes = np.repeat([0, 1, 2], [800, 240, 240])
    x = rng.normal(size=len(codes)) * np.array([1.0, 1.35, 0.75])[codes] + 0.5 * (codes > 0)
    columns = np.column_stack([x, *rng.normal(size=(6, len(codes)))])
    adaptation = Adaptation([[j] for j in range(7)]).fit(columns, codes)
    assert adaptation.kinds_[0] == "scale"
    assert set(adaptation.kinds_.values()) == {"keep", "scale"}


def test_a_column_that_differs_in_spread_alone_is_scaled():
    codes = np.repeat([0, 1, 2], [800, 240, 240])
    kinds = []
    for seed in range(3):
        columns = np.random.default_rng(seed).normal(size=(len(codes), 7))
        columns[:, 0] *= np.array([1.0, 1.35, 0.75])[codes]
        kinds.append(Adaptation([[j] for j in range(7)]).fit(columns, codes).kinds_)
    assert [of_sample[0] for of_sample in kinds] == ["scale"] * 3
    others = [of_sample[j] for of_sample in kinds for j in range(1, 7)]
    assert others.count("keep") >= 17


def test_kinds_that_more_rows_have_shown_are_kept():
    rng, codes = two_groups(200)
    x = rng.normal(size=(len(codes), 2)) + 0.2 * codes[:, None]
    assert set(Adaptation([[0], [1]]).fit(x, codes).kinds_.values()) == {"keep"}
    shown = {0: "shift", 1: "keep"}
    adaptation = Adaptation([[0], [1]]).fit(x, codes, kinds=shown)
    assert adaptation.kinds_ == shown
    mapped = adaptation.counterparts(x, codes, 0, NO_DRAWS)
    assert (mapped[codes == 1, 0] != x[codes == 1, 0]).all()
    assert (mapped[:, 1] == x[:, 1]).all()


def test_another_shape_is_mapped_by_quantiles():
    rng, codes = two_groups(4000)
    x = np.where(codes == 1, rng.exponential(size=len(codes)), rng.normal(size=len(codes)))
    adaptation = Adaptation([[0]]).fit(x[:, None], codes)
    assert adaptation.columns_[0].kind == "quantiles"
    mapped = adaptation.counterparts(x[:, None], codes, 0, NO_DRAWS)[codes == 1, 0]
    for probability in (0.1, 0.5, 0.9):
        expected = np.quantile(x[codes == 0], probability)
        assert np.quantile(mapped, probability) == pytest.approx(expected, abs=0.1)
    # a quantile map keeps the order of people
    assert (np.argsort(mapped) == np.argsort(x[codes == 1])).mean() > 0.99


def test_columns_that_do_not_differ_stay():
    rng, codes = two_groups()
    x = rng.normal(size=(len(codes), 2))
    level = (rng.random(len(codes)) < 0.3).astype(float)
    rows = np.column_stack([x, level])
    adaptation = Adaptation([[0], [1], [2]]).fit(rows, codes)
    assert [column.kind for column in adaptation.columns_] == ["keep"] * 3
    assert adaptation.n_drawn_ == 0
    assert (adaptation.counterparts(rows, codes, 0, NO_DRAWS) == rows).all()


def test_differences_that_a_given_column_explains_stay():
    rng, codes = two_groups()
    cause = rng.normal(size=len(codes)) + codes
    rows = np.column_stack([cause, cause + 0.5 * rng.normal(size=len(codes))])
    alone = Adaptation([[1]]).fit(rows, codes)
    assert alone.columns_[0].kind != "keep"
    explained = Adaptation([[1]], given=[0]).fit(rows, codes)
    assert explained.columns_[0].kind == "keep"


def test_a_sequential_adaptation_finds_what_two_columns_tell():
    rng, codes = two_groups()
    common = 40 * rng.normal(size=len(codes))
    rows = np.column_stack([common, common + codes + 0.3 * rng.normal(size=len(codes))])
    marginal = Adaptation([[0], [1]]).fit(rows, codes)
    assert [column.kind for column in marginal.columns_] == ["keep", "keep"]
    sequential = Adaptation([[0], [1]], sequential=True).fit(rows, codes)
    mapped = sequential.counterparts(rows, codes, 0, NO_DRAWS)
    gap = mapped[:, 1] - mapped[:, 0]
    assert abs(gap[codes == 1].mean() - gap[codes == 0].mean()) < 0.05


def test_a_category_gets_the_shares_of_the_other_group():
    rng, codes = two_groups(6000)
    shares = np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]])
    levels = np.array([rng.choice(3, p=shares[code]) for code in codes])
    rows = np.eye(3)[levels]
    adaptation = Adaptation([[0, 1, 2]]).fit(rows, codes)
    mapped = adaptation.counterparts(rows, codes, 0, rng.random((len(codes), 1)))
    after = levels_of(mapped, [0, 1, 2])
    np.testing.assert_allclose(np.bincount(after[codes == 1]) / 2400, shares[0], atol=0.04)
    # nobody leaves a level that is rarer than in the other group
    rare = (codes == 1) & (levels == 0)
    assert (after[rare] == 0).all()


def test_transition_probabilities_by_hand():
    source = np.tile([0.5, 0.5], (4, 1))
    target = np.tile([0.2, 0.8], (4, 1))
    levels = np.array([0, 0, 0, 1])
    # level 0 stays with probability .4, and else moves to level 1
    moved = move_levels(levels, source, target, np.array([0.39, 0.41, 0.99, 0.99]))
    assert moved.tolist() == [0, 1, 1, 1]


def test_quantiles_by_hand():
    source = GroupModel([[0.0]], 1.0, [0.0, 1.0, 2.0])
    target = GroupModel([[0.0]], 1.0, [10.0, 20.0, 40.0])
    mapped = map_residual(np.array([0.0, 0.5, 2.0, 3.0, -1.0]), "quantiles", source, target)
    assert mapped.tolist() == [10.0, 15.0, 40.0, 41.0, 9.0]


def test_knots_are_means_of_at_least_ten_people():
    values = np.arange(100.0)
    knots = knots_of(values)
    assert len(knots) == 10
    assert knots[0] == np.mean(values[:10])
    assert not set(knots) & set(values)


def test_levels_round_trip_with_and_without_a_one():
    rows = np.array([[0.0, 1.0, 9.0], [0.0, 0.0, 9.0], [1.0, 0.0, 9.0]])
    levels = levels_of(rows, [0, 1])
    assert levels.tolist() == [1, 2, 0]
    changed = np.full_like(rows, 9.0)
    write_levels(changed, np.arange(3), [0, 1], levels)
    assert (changed == rows).all()


def test_logits_given_numbers_give_the_shares():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(3000, 1))
    levels = (rng.random(3000) < 1 / (1 + np.exp(-2 * inputs[:, 0]))).astype(int)
    shares = np.array([[np.log(0.5), 0.0], [np.log(0.5), 0.0]])
    logits = level_logits(inputs, levels, shares, np.array([0, 1]))
    model = GroupModel(logits.tolist(), 1.0, [])
    shares = level_shares(with_intercept(np.array([[0.0], [1.0]])), model)
    assert shares[0, 1] == pytest.approx(0.5, abs=0.05)
    assert shares[1, 1] == pytest.approx(1 / (1 + np.exp(-2)), abs=0.05)


def test_a_saved_adaptation_gives_the_same_counterparts():
    rng, codes = two_groups()
    rows = np.column_stack([rng.normal(size=len(codes)) + codes, rng.random(len(codes)) < 0.2])
    rows[codes == 1, 1] = rng.random((codes == 1).sum()) < 0.7
    adaptation = Adaptation([[0], [1]]).fit(rows, codes)
    loaded = Adaptation.from_dict(json.loads(json.dumps(adaptation.to_dict())))
    draws = rng.random((len(codes), 1))
    first = adaptation.counterparts(rows, codes, 0, draws)
    assert (loaded.counterparts(rows, codes, 0, draws) == first).all()


def test_unknown_groups_stay_and_small_groups_are_refused():
    rng, codes = two_groups(100)
    rows = rng.normal(size=(100, 1)) + 3 * codes[:, None]
    adaptation = Adaptation([[0]]).fit(rows, codes)
    unknown = np.full(100, -1)
    assert (adaptation.counterparts(rows, unknown, 0, NO_DRAWS) == rows).all()
    with pytest.raises(ValueError, match="a group has 5 rows: at least 30"):
        Adaptation([[0]]).fit(rows, np.repeat([0, 1], [95, 5]))


def test_the_grid_spreads_evenly_in_each_column():
    grid = grid_of_uniforms(8, 3)
    for column in grid.T:
        assert sorted(column) == [(k + 0.5) / 8 for k in range(8)]
    assert not (grid[:, 0] == grid[:, 1]).all()


def test_whole_numbers_stay_whole_and_get_the_other_distribution():
    rng, codes = two_groups(4000)
    x = rng.poisson(3 + 3 * codes).astype(float)
    adaptation = Adaptation([[0]]).fit(x[:, None], codes)
    assert adaptation.columns_[0].kind == "steps"
    mapped = adaptation.counterparts(x[:, None], codes, 0, rng.random((len(codes), 1)))[:, 0]
    assert (mapped == np.round(mapped)).mean() > 0.98
    shares = np.bincount(mapped[codes == 1].round().astype(int), minlength=9)[:9] / 1600
    expected = np.bincount(x[codes == 0].astype(int), minlength=9)[:9] / 2400
    np.testing.assert_allclose(shares, expected, atol=0.04)


def test_many_zeros_stay_zeros():
    rng, codes = two_groups(4000)
    positive = rng.random(len(codes)) < 0.2 + 0.4 * codes
    x = np.where(positive, rng.exponential(size=len(codes)), 0.0)
    adaptation = Adaptation([[0]]).fit(x[:, None], codes)
    mapped = adaptation.counterparts(x[:, None], codes, 0, rng.random((len(codes), 1)))[:, 0]
    assert (mapped[codes == 1] == 0).mean() == pytest.approx((x[codes == 0] == 0).mean(), abs=0.03)


def test_steps_by_hand():
    values = np.array([0.0] * 20 + [1.0] * 20)
    assert steps_of(values) == [[0.0, 0.0, 0.5], [1.0, 0.5, 1.0]]
    # three people between two jumps join the lower one
    assert steps_of(np.r_[values, 0.5, 0.6, 0.7])[0] == pytest.approx([0.0, 0.0, 23 / 43])
    target = [[10.0, 0.0, 0.25], [20.0, 0.25, 1.0]]
    mapped = map_steps(
        np.array([0.0, 0.0, 1.0]), steps_of(values), target, np.array([0.4, 0.6, 0.1])
    )
    assert mapped.tolist() == [10.0, 20.0, 20.0]


def test_a_legitimate_cause_of_whole_numbers_explains_them():
    rng, codes = two_groups(6000)
    cause = rng.normal(size=len(codes)) + codes
    rows = np.column_stack([cause, np.round(2 * cause + codes)])
    adaptation = Adaptation([[1]], given=[0]).fit(rows, codes)
    assert adaptation.columns_[0].kind == "steps"
    mapped = adaptation.counterparts(rows, codes, 0, rng.random((len(codes), 1)))
    left = mapped[:, 1] - 2 * cause
    before = rows[codes == 1, 1].mean() - 2 * cause[codes == 1].mean()
    assert abs(left[codes == 1].mean() - left[codes == 0].mean()) < 0.35 * before


def test_rare_levels_by_hand():
    counts = np.array([[40.0, 30.0, 20.0, 10.0], [30.0, 12.0, 4.0, 3.0], [20.0, 5.0, 7.0, 0.0]])
    masses, is_pooled = without_small_cells(counts, counts, 10)
    assert masses[0].tolist() == counts[0].tolist()
    assert is_pooled.tolist() == [[False] * 4, [False, True, True, True], [False, True, True, True]]
    # seven people are too few: the twelve join them, and the seven get the share of five
    assert masses[1, :2] == pytest.approx([30.0, 14.0])
    # divided as in the first group, but at most ten people each: 20 and 10 of 181, of 49 people
    assert masses[1, 2:] == pytest.approx([5 * 20 / 30, 5 * 10 / 30])
    # twelve people at three levels are enough
    assert masses[2, 1:].sum() == pytest.approx(12.0)
    assert masses.sum(axis=1).tolist() == counts.sum(axis=1).tolist()


def test_few_people_below_all_jumps_join_the_first_one():
    values = np.array([-5.0, -4.0] + [0.0] * 20 + [1.0] * 18)
    assert steps_of(values) == [[0.0, 0.0, 22 / 40], [1.0, 22 / 40, 1.0]]
    # of 20 people who are asked for, the 18 join the jump, too
    assert steps_of(values, least=20) == [[0.0, 0.0, 1.0]]


def people_with_rare_values():
    """A town of six levels, a whole number and a skewed one, which differ between groups."""
    rng = np.random.default_rng(3)
    codes = np.repeat([0, 1, 2], [500, 90, 60])
    shares = ([0.6, 0.3, 0.08, 0.01, 0.01], [0.2, 0.5, 0.1, 0.1, 0.1], [0.1, 0.1, 0.78, 0.01, 0.01])
    towns = np.concatenate([rng.choice(5, size=(codes == g).sum(), p=shares[g]) for g in range(3)])
    rows = np.zeros((len(codes), 7))
    rows[np.arange(len(codes)), towns] = 1.0
    rows[:, 5] = rng.poisson(2 + 2 * codes)
    rows[:, 6] = np.where(
        codes > 0, rng.normal(size=len(codes)), rng.exponential(size=len(codes)) ** 2
    )
    return rows, codes


@pytest.mark.parametrize("least", [10, 25])
def test_every_saved_number_rests_on_enough_people(least):
    rows, codes = people_with_rare_values()
    adaptation = Adaptation([[0, 1, 2, 3, 4], [5], [6]], min_cell=least).fit(rows, codes)
    content = json.loads(json.dumps(adaptation.to_dict()))
    assert [column["kind"] for column in content["columns"]] == ["levels", "steps", "quantiles"]
    for group, size in enumerate(np.bincount(codes)):
        for value, below, up_to in content["columns"][1]["models"][group]["steps"][0]:
            people = rows[codes == group, 5]
            if up_to > below:
                assert (people == value).sum() >= least
                assert (up_to - below) * size >= least - 1e-9
        assert len(content["columns"][2]["models"][group]["knots"]) <= size // least


def test_which_rare_level_a_person_has_is_not_saved():
    rows, codes = people_with_rare_values()
    units = [[0, 1, 2, 3, 4], [5], [6]]
    saved = Adaptation(units, min_cell=25).fit(rows, codes).to_dict()
    counts = np.stack([rows[codes == group, :5].sum(axis=0) for group in range(3)])
    rare = np.flatnonzero(counts[1] < 25)
    assert len(rare) >= 2
    person = np.flatnonzero((codes == 1) & (rows[:, rare[0]] == 1))[0]
    rows[person, rare[:2]] = rows[person, rare[1::-1]]
    assert Adaptation(units, min_cell=25).fit(rows, codes).to_dict() == saved
    # a level of enough people is
    frequent = int(counts[1].argmax())
    rows[person, [frequent, rare[1]]] = [1.0, 0.0]
    assert Adaptation(units, min_cell=25).fit(rows, codes).to_dict() != saved
