"""Theorem 1 of DADI by enumeration: policies, rewards and objectives of small examples, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.reproductions import dadi_pretrained, dadi_theory
from benchmarks.reproductions.dadi_theory import Example, Question, policies
from benchmarks.reproductions.paper_claims import answer

NOTHING = frozenset[int]()
ASKED = frozenset({0})


def two_people() -> Example:
    """One question: the answer 1 helps the classifier, the answer 0 helps the adversary alone."""
    return Example(
        answers=np.array([[0], [1]]),
        label={NOTHING: np.array([0.7, 0.7]), ASKED: np.array([0.7, 0.2])},
        attribute={NOTHING: np.array([0.6, 0.6]), ASKED: np.array([0.1, 0.6])},
    )


@pytest.mark.parametrize(("count", "expected"), [(0, 1), (1, 2), (2, 9), (3, 244)])
def test_all_policies_are_tried(count: int, expected: int) -> None:
    every = list(policies(frozenset(), count))
    assert len(every) == len(set(every)) == expected


def test_rewards_and_objective_by_hand() -> None:
    example = two_people()
    # stopping at once: R = -.5 * .7 + .5 * .6 of either person
    assert example.reward(None, 0.5) == pytest.approx(-0.05)
    assert example.objective(None, 0.5) == pytest.approx(0.05)
    # asking: -.35 + .05 of the first person and -.1 + .3 of the second
    asking = Question(0, (None, None))
    assert example.reward(asking, 0.5) == pytest.approx((-0.3 + 0.2) / 2)
    assert example.objective(asking, 0.5) == pytest.approx(0.05)


def test_the_best_policy_is_found_backwards() -> None:
    example = two_people()
    # with gamma .9 the question earns .45 of the second person and costs .05 of the first
    policy, value = example.optimal(0.9)
    assert policy == Question(0, (None, None))
    assert value == pytest.approx((-0.63 + 0.01 - 0.18 + 0.06) / 2)
    # with gamma .1 it costs the first .45 and earns .05 of the second
    policy, value = example.optimal(0.1)
    assert policy is None
    assert value == pytest.approx(-0.07 + 0.54)


def test_a_policy_goes_on_by_the_answer() -> None:
    example = dadi_theory.make_example(0)
    policy = Question(0, (None, Question(2, (None, None))))
    first = example.answers[:, 0]
    expected = [ASKED if answer == 0 else frozenset({0, 2}) for answer in first]
    assert example.reached(policy) == expected
    assert 0 < first.mean() < 1


def test_the_theorem_fails_for_another_reward() -> None:
    example = two_people()
    values = dadi_theory.measure(example, 0.5)
    assert max(values[name] for name in ("sum_error", "value_error", "excess")) < 1e-12
    assert dadi_theory.is_equal({name: [value] for name, value in values.items()})
    # an agent that is paid for the classifier alone asks, though the objective says to stop
    paid = Example(example.answers, example.label, dict.fromkeys(example.label, np.zeros(2)))
    policy, _ = paid.optimal(0.1)
    assert policy == Question(0, (None, None))
    assert example.objective(policy, 0.1) > example.objective(None, 0.1) + 0.1


def test_kept_examples_are_those_of_the_code() -> None:
    for gamma in dadi_theory.GAMMAS:
        columns = dadi_theory.examples_of(gamma)
        assert all(len(column) == dadi_theory.EXAMPLES for column in columns.values())
    found = dadi_theory.measure(dadi_theory.make_example(0), 0.5)
    kept = dadi_theory.examples_of(0.5)
    assert kept["policies"][0] == found["policies"] == 244
    assert kept["questions"][0] == pytest.approx(found["questions"], abs=1e-3)
    assert found["excess"] <= dadi_theory.EQUAL
    result = answer("theorem 1 policies")
    assert result is not None
    assert result.holds


def test_kept_networks_are_of_all_splits() -> None:
    for name, count in dadi_pretrained.SPLITS.items():
        splits = dadi_pretrained.splits_of(name)
        assert len(splits) == count
        for split in splits:
            # all features tell more of the group than any of them alone
            alone = [pair["adversary_auc"] for pair in split["alone"].values()]
            assert max(alone) < split["all"]["adversary_auc"] < 1
            assert split["auc"] == pytest.approx(split["all"]["classifier_auc"], abs=1e-3)
