"""AUCs of sentences that mention a term: by hand, against scikit-learn, and on degenerate input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from evenhand.fairlib.evaluation.tokens import mention_aucs


def test_by_hand() -> None:
    # term 0: a negative at .6 and a positive at .5; others: negatives at .1 and .4, positives at .5
    # and .9
    label = np.array([0, 1, 0, 0, 1, 1])
    score = np.array([0.6, 0.5, 0.1, 0.4, 0.5, 0.9])
    term = np.array([0, 0, -1, -1, -1, -1])
    metrics, by_term = mention_aucs(label, score, term, names=["gay"], draws=0, min_cell=1)
    assert by_term == {"gay": {"subgroup_auc": 0.0, "bpsn_auc": 0.5, "bnsp_auc": 1.0}}
    assert {name: value.value for name, value in metrics.items()} == {
        "subgroup_auc_min": 0.0, "bpsn_auc_min": 0.5, "bnsp_auc_min": 1.0,
    }  # fmt: skip
    assert metrics["bpsn_auc_min"].low is None


@pytest.mark.parametrize("seed", range(5))
def test_as_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, names = 400, ["a", "b", "c"]
    label, term = rng.integers(0, 2, n), rng.integers(-1, 3, n)
    score = rng.normal(size=n).round(1) + label  # with ties
    metrics, by_term = mention_aucs(label, score, term, names=names, draws=200, seed=seed)
    for t, name in enumerate(names):
        own = term == t
        parts = {
            "subgroup_auc": own,
            "bpsn_auc": (own & (label == 0)) | (~own & (label == 1)),
            "bnsp_auc": (own & (label == 1)) | (~own & (label == 0)),
        }
        for kind, rows in parts.items():
            assert by_term[name][kind] == pytest.approx(roc_auc_score(label[rows], score[rows]))
    for kind in ("subgroup_auc", "bpsn_auc", "bnsp_auc"):
        found = metrics[f"{kind}_min"]
        assert found.value == min(each[kind] for each in by_term.values())
        assert found.low is not None
        assert found.high is not None
        assert found.low <= found.value <= found.high
        assert found.high - found.low < 0.25


def test_a_term_of_few_sentences_is_left_out() -> None:
    label = np.tile([0, 1], 50)
    term = np.full(100, -1)
    term[:8], term[8:18] = 0, 1
    score = label + np.linspace(0, 0.1, 100)
    metrics, by_term = mention_aucs(label, score, term, names=["few", "enough"], draws=50)
    assert list(by_term) == ["enough"]
    assert metrics["subgroup_auc_min"].value == 1.0
    metrics, by_term = mention_aucs(label, score, np.full(100, -1), names=["few", "enough"])
    assert by_term == {}
    assert {value.status for value in metrics.values()} == {"insufficient_evidence"}
    # all sentences have the term: there are no others
    assert mention_aucs(label, score, np.zeros(100, dtype=int), names=["all"])[1] == {}


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="draws"):
        mention_aucs(np.array([0, 1]), np.zeros(2), np.zeros(2, dtype=int), names=["a"], draws=-1)
