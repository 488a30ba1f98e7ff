"""Worlds with known truth: regenerated people, biased labels, and hand-computed values."""

import numpy as np
import pytest

from evenhand.fairlib.datasets.planted import (
    WORLDS,
    Attribute,
    LabelBias,
    NumericFeature,
    PairedFeatures,
    PlantedWorld,
    centred,
    effect_sum,
    numeric_column,
    paired_columns,
    recorded_label,
    shift_of,
)
from evenhand.fairlib.datasets.planted_unseen import UNSEEN_WORLDS

ALL_WORLDS = WORLDS | UNSEEN_WORLDS
NAMES = sorted(ALL_WORLDS)


def draw(name, n=400, seed=0):
    return ALL_WORLDS[name].draw(n, np.random.default_rng(seed))


def test_there_are_at_least_twelve_worlds():
    assert len(WORLDS) >= 12
    assert not WORLDS.keys() & UNSEEN_WORLDS.keys()
    for name, world in ALL_WORLDS.items():
        assert world.name == name


@pytest.mark.parametrize("name", NAMES)
def test_regenerating_under_the_same_groups_changes_nothing(name):
    people = draw(name)
    assert people.regenerate(people.groups).equals(people.table)


@pytest.mark.parametrize("name", NAMES)
def test_regenerating_twice_gives_the_same_person(name):
    people = draw(name)
    attribute = people.world.attributes[0]
    changed = people.regenerate({attribute.name: 0})
    assert (changed[attribute.name] == attribute.groups[0]).all()
    member = people.groups[attribute.name] == 0
    assert changed[member].equals(people.table[member])
    for column in people.world.legitimate:
        assert changed[column].equals(people.table[column])


@pytest.mark.parametrize("name", [name for name in NAMES if name != "no-proxy"])
def test_features_depend_on_the_group(name):
    people = draw(name)
    attributes = [attribute.name for attribute in people.world.attributes]
    last = {name: len(people.world.attributes[0].groups) - 1 for name in attributes[:1]}
    first = people.regenerate({attributes[0]: 0}).drop(columns=attributes)
    other = people.regenerate(last).drop(columns=attributes)
    assert not first.equals(other)


def test_without_proxies_only_the_attribute_changes():
    people = draw("no-proxy")
    changed = people.regenerate({"sex": 1 - people.groups["sex"]})
    assert changed.drop(columns="sex").equals(people.table.drop(columns="sex"))
    assert (changed["sex"] != people.table["sex"]).all()


def test_a_shifted_column_moves_by_the_difference_of_effects():
    people = draw("linear")
    flipped = people.regenerate({"sex": 1 - people.groups["sex"]})
    moved = flipped["height"] - people.table["height"]
    expected = np.where(people.groups["sex"] == 0, -1.5, 1.5)
    np.testing.assert_allclose(moved, expected, atol=1e-12)


def test_every_group_lists_all_combinations():
    people = draw("two-attributes", n=20)
    tables = people.every_group()
    seen = [(table["sex"].iloc[0], table["origin"].iloc[0]) for table in tables]
    assert seen == [("man", "most"), ("man", "few"), ("woman", "most"), ("woman", "few")]


def test_the_same_seed_draws_the_same_people():
    assert draw("mixed", seed=3).table.equals(draw("mixed", seed=3).table)
    assert not draw("mixed", seed=3).table.equals(draw("mixed", seed=4).table)


def test_the_true_label_is_even_and_the_recorded_one_is_not():
    people = draw("linear", n=20_000)
    woman = people.groups["sex"] == 1
    true_gap = people.true_label[woman].mean() - people.true_label[~woman].mean()
    assert abs(true_gap) < 0.03
    assert people.label[woman].mean() < 0.7 * people.label[~woman].mean()


def test_merit_differs_only_where_the_difference_is_legitimate():
    earned = draw("earned-difference", n=20_000)
    woman = earned.groups["sex"] == 1
    assert earned.merit[~woman].mean() - earned.merit[woman].mean() > 0.3
    others = draw("linear", n=20_000)
    woman = others.groups["sex"] == 1
    assert abs(others.merit[~woman].mean() - others.merit[woman].mean()) < 0.05


def test_merit_has_a_standard_deviation_near_one():
    assert abs(draw("linear", n=20_000).merit.std() - 1) < 0.03


def test_strength_is_the_correlation_with_two_equal_groups():
    for strength in (0.2, 0.6, 0.95):
        half = shift_of(strength) / 2
        assert half / np.sqrt(half**2 + 1) == pytest.approx(strength)
    assert centred(0.6) == pytest.approx((0.75, -0.75))
    assert centred(0.6, 3) == pytest.approx((1.5, 0.0, -1.5))


def test_shapes_of_numbers_by_hand():
    groups = {"sex": np.array([0, 1])}
    merit = np.array([1.0, 1.0])
    noise = np.array([[0.5, 1.0], [0.5, -1.0]])

    def column(shape):
        feature = NumericFeature("x", 2.0, 2.0, {"sex": (0.0, np.log(2.0))}, shape=shape)
        return numeric_column(feature, merit, groups, noise).tolist()

    # v is 2 * 1 + 2 * 0.5 = 3
    assert column("shift") == pytest.approx([3.0, 3.0 + np.log(2.0)])
    assert column("stretch") == pytest.approx([3.0, 6.0])
    bent = 3.0 + np.log(2.0) * (np.exp(1.5) - np.exp(0.125))
    assert column("bend") == pytest.approx([3.0, bent])
    assert column("bumps") == pytest.approx([3.0, 3.0 - np.log(2.0)])
    # twice 3 and 3.69, rounded
    assert column("whole") == [6.0, 7.0]
    assert column("income") == pytest.approx([np.exp(3.0), 2 * np.exp(3.0)])


def test_pairs_look_alike_alone():
    groups = {"sex": np.array([0, 1])}
    noise = np.array([[-0.3, 1.0, 2.0], [-0.3, 1.0, 2.0]])
    signs = PairedFeatures(("a", "b"), "sign", {"sex": (1.0, -1.0)})
    first, second = paired_columns(signs, groups, noise)
    assert first.tolist() == [-1.0, -1.0]
    assert second.tolist() == [-2.0, 2.0]
    difference = PairedFeatures(("a", "b"), "difference", {"sex": (1.0, -1.0)}, noise=1.0)
    first, second = paired_columns(difference, groups, noise)
    np.testing.assert_allclose(second - first, [2.0, 0.0], atol=1e-12)


def test_recorded_labels_by_hand():
    groups = {"sex": np.array([0, 1, 1, 1])}
    score = np.array([0.1, 0.1, 2.0, -1.0])
    uniform = np.array([0.0, 0.2, 0.9, 0.9])
    flips = LabelBias("flips", {"sex": (0.0, 0.5)})
    assert recorded_label(flips, score, groups, uniform).tolist() == [1, 0, 1, 0]
    limits = LabelBias("thresholds", {"sex": (0.0, 0.5)})
    assert recorded_label(limits, score, groups, uniform).tolist() == [1, 0, 1, 0]
    # chances of the second and third person: 1 / (1 + exp(3 - .1)) = .05, 1 / (1 + e) = .27
    chances = LabelBias("selective", {"sex": (0.0, 3.0)})
    assert recorded_label(chances, score, groups, uniform).tolist() == [1, 0, 0, 0]
    assert recorded_label(LabelBias(), score, groups, uniform).tolist() == [1, 1, 1, 0]


def test_effects_of_several_attributes_add_up():
    groups = {"sex": np.array([0, 1]), "origin": np.array([1, 1])}
    effects = {"sex": (1.0, 2.0), "origin": (0.0, 10.0)}
    assert effect_sum(effects, groups).tolist() == [11.0, 12.0]


def test_refuses_unknown_attributes_groups_and_no_people():
    people = draw("linear", n=5)
    with pytest.raises(ValueError, match="age"):
        people.regenerate({"age": 0})
    with pytest.raises(ValueError, match="0 to 1"):
        people.regenerate({"sex": 2})
    with pytest.raises(ValueError, match="at least 1"):
        WORLDS["linear"].draw(0, np.random.default_rng(0))


def test_a_world_of_the_user_regenerates_categories():
    colour = Attribute("colour", ("red", "blue"), (0.5, 0.5))
    world = PlantedWorld("mine", "one column", (colour,), (NumericFeature("x"),))
    people = world.draw(3, np.random.default_rng(0))
    assert list(people.table.columns) == ["colour", "x"]
