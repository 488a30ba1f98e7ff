"""DADIClassifier as an estimator: what it refuses, what it asks, and what of it is saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file
from scipy.special import logit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

from evenhand.fairlib.execution import generator
from evenhand.fairlib.methods.dadi import DADIClassifier
from evenhand.fairlib.methods.gbdt import GBDTClassifier

TINY: dict[str, Any] = {
    "gamma": 0.9,
    "hidden": (8, 8),
    "memory_size": 4,
    "processing_steps": 2,
    "pretrain_iterations": 100,
    "n_iterations": 300,
    "agents": 8,
    "learning_rate": 5e-3,
    # trees take seconds, of whatever table
    "trees_weight": 0,
}
# For what holds however long the training was.
SHORT: dict[str, Any] = {"pretrain_iterations": 20, "n_iterations": 20}
GROUPS = {"merit": [0], "pair": [2, 1], "noise": [3], "fixed": [4], "sex": [5]}
NEVER = [3, 4]


def _people(
    n: int = 200, seed: int = 0, kinds: int = 2
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    s = rng.integers(0, kinds, n)
    X = rng.normal(size=(n, 6)).astype(np.float32)
    X[:, 1] += 0.5 * s
    X[:, 2] = rng.random(n) < 0.5
    X[:, 4] = 7.0
    X[:, 5] = s
    y = (X[:, 0] + X[:, 2] + 0.5 * rng.normal(size=n) > 0.5).astype(int)
    return X, y, s


def _fit(n: int = 200, kinds: int = 2, groups: Any = GROUPS, **options: Any) -> DADIClassifier:
    X, y, s = _people(n, kinds=kinds)
    given = {"sample_weight": options.pop("sample_weight", None)}
    model = DADIClassifier(**TINY | options)
    return model.fit(X, y, sensitive_features={"sex": s}, feature_groups=groups, **given)


@pytest.fixture(scope="module")
def model() -> DADIClassifier:
    # long enough that any seed asks some people for several groups
    return _fit(n_iterations=1000, trees_weight=None)


# --- what is refused
# -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 1.1}, r"gamma must be in \[0, 1\], got 1.1\."),
        ({"gamma": -0.1}, r"gamma must be in \[0, 1\]"),
        ({"gamma": float("nan")}, r"gamma must be in \[0, 1\]"),
        ({"class_balance": 2.0}, r"class_balance must be in \[0, 1\]"),
        ({"exploration_start": 1.5}, "exploration_start"),
        ({"exploration_end": -1}, "exploration_end"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"learning_rate": float("inf")}, "learning_rate must be positive"),
        ({"final_learning_rate": -1.0}, "final_learning_rate must be positive"),
        ({"value_scale": 0.0}, "value_scale must be positive"),
        ({"value_weight": 0.0}, "value_weight must be positive"),
        ({"memory_size": 0}, "memory_size must be a whole number, at least 1"),
        ({"agents": 0}, "agents must be a whole number, at least 1"),
        ({"n_step": 0}, "n_step must be a whole number, at least 1"),
        ({"target_every": 0}, "target_every must be a whole number, at least 1"),
        ({"processing_steps": 0}, "processing_steps must be a whole number, at least 1"),
        ({"n_iterations": -1}, "n_iterations"),
        ({"pretrain_iterations": -1}, "pretrain_iterations must be a whole number, at least 0"),
        ({"hidden": (8,)}, "hidden must list the units of two layers"),
        ({"hidden": (8, 0)}, "hidden must list whole numbers of units"),
        ({"validation_share": 1.0}, r"validation_share must be in \[0, 1\)"),
        ({"margin": float("nan")}, r"margin must be"),
        ({"margin": float("inf")}, r"margin must be"),
        ({"trees_weight": 1.5}, r"trees_weight must be in \[0, 1\]"),
        ({"criterion": "parity"}, "criterion must be one of demographic_parity"),
        (
            {"attributes": ["age"]},
            "the attribute 'age' is not in sensitive_features, which has sex",
        ),
        ({"attributes": []}, "attributes is empty"),
        ({"costs": {"age": 1.0}}, "costs names 'age', which is no feature group: merit, pair"),
        ({"costs": {"merit": -1.0}}, r"costs\['merit'\] must be finite and not negative"),
        ({"costs": {"merit": float("inf")}}, r"costs\['merit'\] must be finite"),
    ],
)
def test_a_parameter_out_of_its_range_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _fit(**options)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"a": [0, 1, 2, 3, 4]}, "feature_groups misses column 5"),
        ({"a": [0, 1, 2], "b": [2, 3, 4, 5]}, "feature_groups has column 2 twice"),
        ({"a": [0, 1, 2, 3, 4, 5, 5]}, "feature_groups has column 5 twice"),
        (
            {"a": [0, 1, 2, 3, 4, 5, 6]},
            "feature_groups names column 6, and X has the columns 0 to 5",
        ),
        ({"a": [-1, 0, 1, 2, 3, 4]}, "feature_groups names column -1"),
        ({"a": [0, 1, 2, 3, 4, 5], "b": []}, "the group 'b' has no column"),
        ({"sex": [0, 1, 2, 3, 5], "fixed": [4]}, "no feature group is left to ask"),
    ],
)
def test_groups_that_are_no_partition_are_refused(
    groups: dict[str, list[int]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        _fit(groups=groups)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (None, "sensitive_features are needed"),
        ({}, "sensitive_features are needed"),
        ({"sex": np.zeros(200)}, "sex has one group only"),
        (
            {"sex": np.arange(20) % 2},
            r"'sex' must have one value per row of X, got shape \(20,\) for 200",
        ),
    ],
)
def test_an_attribute_that_nothing_can_be_told_of_is_refused(features: Any, message: str) -> None:
    X, y, _ = _people()
    with pytest.raises(ValueError, match=message):
        DADIClassifier(**TINY).fit(X, y, sensitive_features=features)


@pytest.mark.parametrize("shape", [(6,), (6, 4), (5, 5), (6, 6)])
def test_known_of_another_shape_is_refused(model: DADIClassifier, shape: tuple[int, ...]) -> None:
    X = _people()[0][:6]
    for method in (model.acquire, model.predict_proba_known, model.action_values):
        with pytest.raises(ValueError, match="known has shape"):
            method(X, np.zeros(shape))


def test_nothing_is_predicted_before_fit() -> None:
    X = _people()[0]
    with pytest.raises(NotFittedError):
        DADIClassifier().predict(X)
    with pytest.raises(NotFittedError):
        DADIClassifier().acquire(X)


# --- what is asked
# -------------------------------------------------------------------------------------


def test_constants_and_the_attribute_itself_are_never_asked(model: DADIClassifier) -> None:
    assert model.allowed_.tolist() == [True, True, True, False, False]
    assert model.attributes_ == ["sex"]
    X = _people(seed=1)[0]
    nothing = np.zeros((len(X), 5))
    assert not model.acquire(X).known[:, NEVER].any()
    assert np.isneginf(model.action_values(X, nothing)[:, NEVER]).all()
    assert np.isfinite(model.action_values(X, nothing)[:, [0, 1, 2, 5]]).all()


def test_a_known_group_is_not_asked_again(model: DADIClassifier) -> None:
    X = _people(seed=1)[0]
    known = np.random.default_rng(0).random((len(X), 5)) < 0.5
    values = model.action_values(X, known)
    np.testing.assert_array_equal(np.isneginf(values[:, :3]), known[:, :3])
    result = model.acquire(X, known)
    assert (result.known >= known).all()
    for row, order in enumerate(result.order):
        asked = order[order >= 0]
        assert not known[row, asked].any()
        assert np.unique(asked).size == asked.size == result.asked[row]
        assert (order[asked.size :] == -1).all()
    np.testing.assert_array_equal(result.known.sum(axis=1), known.sum(axis=1) + result.asked)


def next_action(model: DADIClassifier, person: np.ndarray, known: np.ndarray) -> int:
    """Position of the group to ask next, or 5 to stop, which comes first among equal values."""
    *groups, stop = model.action_values(person, known)[0]
    return int(np.argmax(groups)) if max(groups) > stop else 5


def test_acquisition_goes_on_until_stopping_is_best(
    model: DADIClassifier,
) -> None:
    """It asks one question after another."""
    X = _people(seed=1)[0]
    result = model.acquire(X)
    assert result.asked.max() > 1
    for row in range(40):
        person, known, asked = X[[row]], np.zeros((1, 5), bool), []
        while (group := next_action(model, person, known)) != 5:
            values = model.action_values(person, known)[0]
            assert values[group] == values.max()
            known[0, group] = True
            asked.append(group)
        assert asked == result.order[row, : len(asked)].tolist()
        assert len(asked) == result.asked[row]
        probability = model.predict_proba_known(person, known)[0, 1]
        assert probability == pytest.approx(result.probability[row], abs=1e-5)


def test_predictions_are_from_what_was_acquired(model: DADIClassifier) -> None:
    X, y, _ = _people(seed=1)
    result = model.acquire(X)
    np.testing.assert_array_equal(model.predict_proba(X)[:, 1], result.probability)
    np.testing.assert_allclose(
        model.predict_proba_known(X, result.known), model.predict_proba(X), atol=1e-6
    )
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.score(X, y) > 0.7


@pytest.mark.long
@pytest.mark.parametrize("margin", [0.02, -0.02])
def test_a_margin_is_the_worth_of_a_question_beyond_stopping(
    model: DADIClassifier, margin: float
) -> None:
    X = _people(seed=1)[0]
    nothing = np.zeros((len(X), 5))
    strict = _fit(n_iterations=1000, margin=margin)
    # the training is the same, and stopping at once is worth more by the margin
    assert strict.history_ == model.history_
    before, after = (each.action_values(X, nothing) for each in (model, strict))
    np.testing.assert_array_equal(after[:, :-1], before[:, :-1])
    np.testing.assert_allclose(after[:, -1], before[:, -1] + margin, atol=1e-5)
    first = strict.acquire(X).order[:, 0]
    best = before[:, :-1].argmax(axis=1)
    worth = before[np.arange(len(X)), best] - before[:, -1]
    clear = np.abs(worth - margin) > 1e-4
    np.testing.assert_array_equal(first[clear], np.where(worth > margin, best, -1)[clear])
    fewer, more = (model, strict)[:: 1 if margin < 0 else -1]
    assert fewer.acquire(X).asked.mean() < more.acquire(X).asked.mean()
    everything = 0 if margin > 0 else model.allowed_.sum()
    assert (_fit(n_iterations=100, margin=1e5 * margin).acquire(X).asked == everything).all()


@pytest.fixture(scope="module")
def both() -> tuple[DADIClassifier, DADIClassifier]:
    """The same training with and without trees; the outcome depends on two answers together."""
    rng = np.random.default_rng(0)
    X, _, s = _people(2000)
    y = ((X[:, 0] > 0) ^ (X[:, 3] > 0) ^ (rng.random(2000) < 0.1)).astype(int)
    given: dict[str, Any] = {"sensitive_features": {"sex": s}, "feature_groups": GROUPS}
    models = [
        DADIClassifier(**TINY | {"trees_weight": weight}).fit(X, y, **given) for weight in (None, 0)
    ]
    return models[0], models[1]


def test_trees_learn_what_the_network_did_not(
    both: tuple[DADIClassifier, DADIClassifier],
) -> None:
    """They change no question."""
    trees, network = both
    X = _people(1000, seed=1)[0]
    y = (X[:, 0] > 0) ^ (X[:, 3] > 0)
    np.testing.assert_array_equal(trees.acquire(X).order, network.acquire(X).order)
    known = np.tile(trees.allowed_, (1000, 1))
    np.testing.assert_array_equal(trees.action_values(X, known), network.action_values(X, known))
    assert trees.history_ == network.history_
    for name in ("all", "acquired"):
        reports = [model.feature_report_[name]["adversary_auc"] for model in both]
        assert reports[0] == reports[1]
    aucs = [roc_auc_score(y, model.predict_proba_known(X, known)[:, 1]) for model in both]
    assert aucs[0] > max(0.9, aucs[1])
    # with one of the two answers declined nothing is known of the outcome, and little is claimed
    known[:, 0] = False
    one, two = (
        trees.predict_proba_known(X, mask)[:, 1] for mask in (known, known | trees.allowed_)
    )
    assert np.abs(one - 0.5).mean() < 0.5 * np.abs(two - 0.5).mean()


def test_the_weight_of_the_trees_is_in_the_log_odds(
    both: tuple[DADIClassifier, DADIClassifier], tmp_path: Path
) -> None:
    trees, network = both
    X = _people(200, seed=1)[0]
    known = np.random.default_rng(0).random((200, 5)) < 0.5
    none, half, whole = (logit(trees._mixed(X, known, weight)[:, 1]) for weight in (0.0, 0.5, 1.0))
    np.testing.assert_allclose(none, logit(network.predict_proba_known(X, known)[:, 1]), atol=1e-6)
    np.testing.assert_allclose(half, (none + whole) / 2, atol=1e-6)
    assert np.abs(whole - none).max() > 0.5
    # a version that was published before there were trees
    network.save(tmp_path)
    more = {"allowed": [], "attributes": [], "feature_report": {}}
    network._network.save(tmp_path / "network.safetensors", more)
    old = DADIClassifier.load(tmp_path)
    np.testing.assert_array_equal(
        old.predict_proba_known(X, known), network.predict_proba_known(X, known)
    )


def test_the_weight_is_the_best_one_on_held_out_rows(
    both: tuple[DADIClassifier, DADIClassifier],
) -> None:
    trees = both[0]
    told = trees.feature_report_["acquired"]["classifier_auc"]
    X, _, _ = _people(2000)
    rng = np.random.default_rng(0)
    y = ((X[:, 0] > 0) ^ (X[:, 3] > 0) ^ (rng.random(2000) < 0.1)).astype(int)
    held = X[trees.validation_.rows], trees.acquire(X[trees.validation_.rows]).known
    y = y[trees.validation_.rows]
    aucs = [
        roc_auc_score(y, trees._mixed(*held, weight)[:, 1].round(6)) for weight in (0.0, 0.5, 1.0)
    ]
    assert told == pytest.approx(max(aucs), abs=1e-9)


def test_trees_see_what_the_agent_acquires(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They have the weights of its loss."""
    seen: list[Any] = []
    fit = GBDTClassifier.fit

    def spy(self: GBDTClassifier, X: Any, y: Any, **options: Any) -> GBDTClassifier:
        seen.extend((X, y, options["sample_weight"]))
        return fit(self, X, y, **options)

    monkeypatch.setattr(GBDTClassifier, "fit", spy)
    X, y, _ = _people()
    weights = np.arange(1.0, 201.0)
    model = _fit(random_state=5, sample_weight=weights, trees_weight=None)
    rows = generator(5, "validation").random(200) >= 0.16
    answers, labels, sums = seen
    np.testing.assert_array_equal(labels, y[rows])
    # both labels have one weight, whatever their shares, and rows weigh what they were given
    expected = weights[rows] / np.bincount(y[rows])[y[rows]]
    np.testing.assert_allclose(sums, expected / expected.mean(), rtol=1e-5)
    known = model.acquire(X[rows]).known
    asked = np.where(known[:, [0, 1, 1, 2, 3, 4]], X[rows], np.nan)
    same = (np.isnan(asked) == np.isnan(answers)).all(axis=1)
    assert same.mean() >= 0.7
    np.testing.assert_array_equal(answers[same], asked[same].astype(np.float32))
    # what may not be asked is unknown of everybody
    assert np.isnan(answers[:, [4, 5]]).all()
    assert (~same).sum() > 0


def test_answers_that_were_not_asked_for_change_nothing(model: DADIClassifier) -> None:
    X = _people(seed=1)[0]
    result = model.acquire(X)
    other = X.copy()
    for g, columns in enumerate(GROUPS.values()):
        unasked = ~result.known[:, g]
        for column in columns:
            other[unasked, column] = 1e4
    assert (other != X).any()
    again = model.acquire(other)
    np.testing.assert_array_equal(again.order, result.order)
    np.testing.assert_array_equal(again.probability, result.probability)


def test_with_all_groups_known_the_only_action_is_to_stop(model: DADIClassifier) -> None:
    X = _people(seed=1)[0]
    everything = np.ones((len(X), 5))
    assert np.isneginf(model.action_values(X, everything)[:, :5]).all()
    assert (model.acquire(X, everything).asked == 0).all()


# --- inputs
# --------------------------------------------------------------------------------------------


def test_columns_without_groups_are_groups_of_their_own() -> None:
    model = _fit(groups=None, **SHORT)
    assert model.groups_ == {f"x{j}": [j] for j in range(6)}
    assert model.allowed_.tolist() == [True, True, True, True, False, True]


@pytest.mark.parametrize(("share", "weight"), [(0.0, None), (0.3, 0)])
def test_rows_may_be_set_aside_or_not(share: float, weight: float | None) -> None:
    model = _fit(validation_share=share, random_state=5, trees_weight=weight, **SHORT)
    held = generator(5, "validation").random(200) < share
    assert model.feature_report_["rows"] == held.sum()
    if share:
        X, y, _ = _people()
        probability = model.acquire(X[held]).probability
        told = model.feature_report_["acquired"]["classifier_auc"]
        assert told == pytest.approx(roc_auc_score(y[held], probability), abs=1e-9)


def test_layers_may_have_different_widths() -> None:
    model = _fit(hidden=(7, 9), **SHORT)
    assert model.predict_proba(_people()[0]).shape == (200, 2)


@pytest.mark.long
@pytest.mark.parametrize(
    "criterion",
    [
        pytest.param("demographic_parity", marks=pytest.mark.long),
        pytest.param("equal_opportunity", marks=pytest.mark.long),
        "equalized_odds",
    ],
)
def test_attributes_of_three_groups_under_every_criterion(criterion: str) -> None:
    options = TINY | {"gamma": 0.3, "pretrain_iterations": 1500, "agents": 16}
    X, y, s = _people(400, kinds=3)
    model = DADIClassifier(**options, criterion=criterion)
    # under another name its column may be asked
    model.fit(X, y, sensitive_features={"gender": s}, feature_groups=GROUPS)
    assert np.isfinite(model.predict_proba(_people(seed=1, kinds=3)[0])).all()
    # the attribute itself gives it away, and noise does not
    report = model.feature_report_["groups"]
    assert report["sex"]["adversary_auc"] > 0.9
    assert report["noise"]["adversary_auc"] < 0.75


@pytest.mark.long
@pytest.mark.parametrize("spread", [0.0, 0.1], ids=["two-valued", "continuous"])
def test_a_column_that_may_not_be_asked_has_no_part_in_training(
    tmp_path: Path, spread: float
) -> None:
    X, y, s = _people()
    rng = np.random.default_rng(2)
    X[:, 5] += spread * rng.normal(size=200)
    other = X.copy()
    # the ends stay, so that a column of two values has the same two
    inner = np.setdiff1d(np.arange(200), [X[:, 5].argmin(), X[:, 5].argmax()])
    other[inner, 5] = rng.permutation(X[inner, 5])
    assert (other != X).any()
    models = []
    for name, table in (("as it is", X), ("shuffled", other)):
        model = DADIClassifier(**TINY).fit(
            table, y, sensitive_features={"sex": s}, feature_groups=GROUPS
        )
        assert not model.allowed_[4]
        model.save(tmp_path / name)
        models.append(model)
    files = [
        (tmp_path / name / "network.safetensors").read_bytes() for name in ("as it is", "shuffled")
    ]
    assert files[0] == files[1]
    # the adversary's losses, too
    assert models[0].history_ == models[1].history_
    report = models[0].feature_report_
    unknown = {"classifier_auc": None, "adversary_auc": None}
    assert [name for name, aucs in report["groups"].items() if aucs == unknown] == ["fixed", "sex"]
    assert report["all"] == models[1].feature_report_["all"]


@pytest.mark.long
def test_several_attributes_are_crossed_unless_one_is_named() -> None:
    X, y, s = _people()
    features = {"sex": s, "noise": np.where(X[:, 3] > 0, "high", "low")}
    both = DADIClassifier(**TINY).fit(X, y, sensitive_features=features, feature_groups=GROUPS)
    assert both.attributes_ == ["sex", "noise"]
    assert both.allowed_.tolist() == [True, True, False, False, False]
    named = DADIClassifier(**TINY, attributes=["sex"])
    named.fit(X, y, sensitive_features=features, feature_groups=GROUPS)
    assert named.attributes_ == ["sex"]
    assert named.allowed_.tolist() == [True, True, True, False, False]
    np.testing.assert_array_equal(named.predict_proba(X), _fit().predict_proba(X))


@pytest.mark.long
def test_numbers_of_any_type_and_labels_of_any_kind() -> None:
    X, y, s = _people()
    whole = np.round(X * 4).astype(int)
    words = np.where(y == 1, "yes", "no")
    given: dict[str, Any] = {
        "sensitive_features": {"sex": np.where(s, "f", "m")},
        "feature_groups": GROUPS,
    }
    expected = DADIClassifier(**TINY).fit(whole.astype(np.float32), y, **given)
    for table in (whole, whole.astype(np.float64), pd.DataFrame(whole).to_numpy()):
        model = DADIClassifier(**TINY).fit(table, words, **given)
        assert model.classes_.tolist() == ["no", "yes"]
        np.testing.assert_array_equal(model.predict_proba(table), expected.predict_proba(whole))
        np.testing.assert_array_equal(model.predict(table) == "yes", expected.predict(whole) == 1)


def test_predictions_do_not_depend_on_the_batch(model: DADIClassifier) -> None:
    X = _people(60, seed=1)[0]
    together = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict_proba(X), together)
    alone = np.vstack([model.predict_proba(row[None]) for row in X])
    np.testing.assert_allclose(alone, together, atol=1e-5)
    # more rows than are read at a time
    many = model.predict_proba(np.tile(X, (40, 1)))
    np.testing.assert_allclose(many, np.tile(together, (40, 1)), atol=1e-5)
    order = np.random.default_rng(0).permutation(60)
    np.testing.assert_allclose(model.predict_proba(X[order]), together[order], atol=1e-5)


@pytest.mark.long
def test_progress_comes_every_hundred_iterations() -> None:
    X, y, s = _people()
    seen = []
    model = DADIClassifier(**TINY | {"n_iterations": 250})
    model.fit(
        X,
        y,
        sensitive_features={"sex": s},
        callback=lambda *given: seen.append((*given[:2], dict(given[2]))),
    )
    assert [entry[:2] for entry in seen] == [(100, 250), (200, 250), (250, 250)]
    assert model.history_["step"] == [100.0, 200.0, 250.0]
    for name in ("classification_loss", "adversary_loss", "value_error", "reward", "asked"):
        assert model.history_[name] == [entry[2][name] for entry in seen]
        assert np.isfinite(model.history_[name]).all()


# --- what is saved
# -------------------------------------------------------------------------------------


def test_a_loaded_model_answers_the_same(model: DADIClassifier, tmp_path: Path) -> None:
    model.save(tmp_path)
    loaded = DADIClassifier.load(tmp_path)
    X = _people(seed=1)[0]
    known = np.random.default_rng(0).random((len(X), 5)) < 0.5
    for table, mask in ((X, known), (X[:1], known[:1])):
        np.testing.assert_array_equal(loaded.predict_proba(table), model.predict_proba(table))
        np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
        for mine, theirs in zip(
            vars(loaded.acquire(table, mask)).values(),
            vars(model.acquire(table, mask)).values(),
            strict=True,
        ):
            np.testing.assert_array_equal(mine, theirs)
        np.testing.assert_array_equal(
            loaded.action_values(table, mask), model.action_values(table, mask)
        )
        np.testing.assert_array_equal(
            loaded.predict_proba_known(table, mask), model.predict_proba_known(table, mask)
        )
    # a third value of a column of two is read as before
    X[:, 2] = 0.7
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert list(loaded.groups_.items()) == list(model.groups_.items())
    assert loaded.attributes_ == model.attributes_
    assert loaded.feature_report_ == model.feature_report_


@pytest.mark.long
def test_parameters_survive_saving(tmp_path: Path) -> None:
    model = _fit(costs={"noise": 0.25}, attributes=["sex"])
    model.save(tmp_path)
    loaded = DADIClassifier.load(tmp_path)
    given, found = model.get_params(), loaded.get_params()
    assert tuple(found.pop("hidden")) == given.pop("hidden")
    assert found == given


def test_a_saved_model_holds_no_adversary(tmp_path: Path) -> None:
    # three groups: the adversary has three outputs, the classifier two
    model = _fit(kinds=3, **SHORT)
    model.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "network.safetensors"]
    tensors = load_file(tmp_path / "network.safetensors")
    assert {name.split(".")[0] for name in tensors} == {"encoder", "classify", "policy"}
    assert tensors["classify.weight3"].shape == (8, 2)
    assert tensors["policy.weight3"].shape == (8, 6)
    numbers = sum(tensor.size for tensor in tensors.values())
    assert (tmp_path / "network.safetensors").stat().st_size < 4 * numbers + 6000


def test_a_clone_is_unfitted_and_has_the_same_parameters(model: DADIClassifier) -> None:
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(_people()[0])
