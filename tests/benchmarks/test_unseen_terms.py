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
from evenhand.tasks.execution.dataset import Dataset


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
    splits = {}
    for seed, mean in (("0", 0.05), ("1", 0.35)):
        records = [
            {"model": "clp 5", "consistency.all": 0.5, "accuracy_parity": 0.1},
            {"model": "sensei 5", "consistency.all": 0.5 + mean, "accuracy_parity": 0.1 + mean},
        ]
        splits[seed] = {"models": records, "paired": {"5": {"consistency.unseen": [mean, 0.04]}}}
    contents: dict[str, Any] = {"unseen_terms": {"splits": splits}}
    contents["unseen_terms_templates"] = {"splits": {}}
    monkeypatch.setattr(unseen_terms, "read_result", lambda name: contents[name])


def test_the_larger_standard_error_counts(two_splits: None) -> None:
    value = unseen_terms.difference("tweets", "5", "consistency.unseen")
    assert value.mean == pytest.approx(0.2)
    # of the two splits .15; of the sentences .04 / 2 ** .5
    assert value.error == pytest.approx(0.15)
    assert paper_claims.terms_consistency().holds


def test_models_are_compared_split_by_split(two_splits: None) -> None:
    value = unseen_terms.between("tweets", "sensei 5", "clp 5", "accuracy_parity")
    assert (value.mean, value.error) == pytest.approx((0.2, 0.15))
    assert unseen_terms.verdict(value, "accuracy_parity") == "worse by 0.200"
    value = unseen_terms.between("tweets", "sensei 5", "clp 5", "consistency.all")
    assert unseen_terms.verdict(value, "consistency.all") == "better by 0.200"


def test_a_table_without_a_split_is_not_measured(two_splits: None) -> None:
    with pytest.raises(KeyError):
        unseen_terms.rhos("templates")


@pytest.mark.parametrize(
    ("measure", "mean", "words"),
    [
        ("consistency.unseen", 0.2, "better by 0.200"),
        ("consistency.unseen", -0.2, "worse by 0.200"),
        ("deviation.unseen", -0.2, "better by 0.200"),
        ("deviation.unseen", 0.2, "worse by 0.200"),
        ("balanced_accuracy", 0.2, "better by 0.200"),
        ("balanced_accuracy_parity", 0.2, "worse by 0.200"),
        ("deviation.unseen", 0.1, "within one standard error"),
    ],
)
def test_a_difference_from_a_comparator_in_words(measure: str, mean: float, words: str) -> None:
    assert unseen_terms.verdict(unseen_terms.Difference(mean, 0.1), measure) == words


def test_the_answer_in_words_names_every_weight(two_splits: None) -> None:
    assert answer_in_words("tweets", "consistency").endswith("better by 0.200 at ρ = 5.")


def test_parity_by_hand() -> None:
    is_right = np.array([True, True, False, True, False, True])
    labels = np.array([0, 1, 0, 1, 1, 1])
    groups = {
        "first": np.array([True, True, True, True, False, False]),
        "second": np.array([False, False, False, False, True, True]),
        "absent": np.zeros(6, dtype=bool),
    }
    # accuracies 3/4 and 1/2; the second group has one label, so one balanced accuracy is left
    assert study.parity(is_right, labels, groups) == pytest.approx((0.125, 0.0))


def test_no_group_of_accuracy_parity_shares_a_term() -> None:
    terms = [term for group in study.GROUPS.values() for term in group]
    assert len(study.GROUPS) == 9
    assert len(terms) == len(set(terms))


def dataset(count: int) -> Dataset:
    """Rows of three columns that are alike but in the first one."""
    X = np.zeros((count, 3), dtype=np.float32)
    X[:, 0] = np.linspace(-1.0, 1.0, count)
    return Dataset(
        X=X,
        y=np.arange(count) % 2,
        rows=np.arange(count) * 2,
        names=["a", "b", "c"],
        groups={"text": [0, 1, 2]},
        sensitive={},
        numbers={},
    )


def test_a_part_has_the_rows_that_are_kept() -> None:
    data = dataset(1000)
    part = study.part_of(data, 0.1, kept=[0, 500, 501, 1998])
    assert {0, 500, 1998} <= set(part.rows.tolist()) <= set(data.rows.tolist())
    assert 60 < len(part.y) < 150
    np.testing.assert_array_equal(part.X, data.X[part.rows // 2])


def test_a_quantile_narrows_the_range_of_the_free_directions() -> None:
    data = dataset(101)
    copies = [data.X + np.array([0.5, 0.0, 0.0], dtype=np.float32)]
    split = study.Split(data, data, copies, (data.X, copies), data.rows, {}, {})
    whole = study.metric_of(split, study.Settings(directions=1))
    half = study.metric_of(split, study.Settings(directions=1, quantile=0.25))
    assert whole.feature_bounds_.free_low[0] <= -1.0
    assert whole.feature_bounds_.free_high[0] >= 1.0
    ends = [half.feature_bounds_.free_low[0], half.feature_bounds_.free_high[0]]
    assert ends == pytest.approx([-0.5, 0.5])


def test_other_weights_do_not_stand_for_missing_ones() -> None:
    records = [{"model": study.key_of(method, rho)} for method, rho in study.models()]
    weights = [f"{rho:g}" for rho in study.RHOS]
    whole = {"models": records, "paired": dict.fromkeys(weights, {})}
    assert not study.is_missing(whole)
    other = [record for record in records if record["model"] != "sensei 1"]
    assert study.is_missing(whole | {"models": [*other, {"model": "sensei 100"}]})
    assert study.is_missing({})


def test_splits_are_read_as_they_were_written(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.common.RESULTS", tmp_path)
    records = [
        {"model": "nn", "balanced_accuracy": 0.5},
        {"model": "clp 5", "balanced_accuracy": 0.4},
    ]
    study.write_splits("tweets", {"0": {"models": records, "paired": {}}}, 1)
    content = study.read_result("unseen_terms")
    assert content["splits"]["0"]["models"] == records
    assert "whole" not in content


def test_without_the_encoder_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install 'evenhand"):
        study.main([])
