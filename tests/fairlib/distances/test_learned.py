"""The learned metric on planted worlds: what is removed, adapted, kept; files; bad input.

Tests above two seconds learn a metric: each trains some hundred small cross-validated models.
"""

import numpy as np
import pandas as pd
import pytest

from evenhand.fairlib.datasets.planted import WORLDS
from evenhand.fairlib.distances.attribute_leak import attribute_leak
from evenhand.fairlib.distances.group_readers import group_codes_of, group_reader
from evenhand.fairlib.distances.learned import (
    LearnedMetric,
    halves_of_groups,
    rows_of_groups,
)
from evenhand.fairlib.distances.metric_evidence import units_of
from evenhand.fairlib.distances.metric_kinds import load_metric
from evenhand.fairlib.methods.preprocessed_gbdt import ProjectedGBDTClassifier
from evenhand.fairlib.preprocessing.encoder import ColumnSpec, TableEncoder


def encoded(name, n=1000, seed=0):
    people = WORLDS[name].draw(n, np.random.default_rng(seed))
    specs = []
    for column in people.table:
        kind = "standard" if people.table[column].dtype.kind == "f" else "onehot"
        specs.append(ColumnSpec(column, kind))
    encoder = TableEncoder(specs, unseen="ignore").fit(people.table)
    return people, encoder, encoder.transform(people.table)


def learn(people, encoder, X, **options):
    attributes = [attribute.name for attribute in people.world.attributes]
    metric = LearnedMetric(
        sensitive={name: encoder.groups_[name] for name in attributes},
        feature_groups=encoder.groups_,
        **options,
    )
    features = {name: people.table[name].to_numpy() for name in attributes}
    return metric.fit(X, people.label, sensitive_features=features)


@pytest.fixture(scope="module")
def linear():
    people, encoder, X = encoded("linear")
    return people, encoder, X, learn(people, encoder, X)


def verdicts(metric):
    return {item.column: item.verdict for item in metric.report_.columns}


def test_proxies_are_removed_and_merit_columns_adapted(linear):
    _, _, _, metric = linear
    assert verdicts(metric) == {
        "sex": "sensitive",
        "test": "kept",
        "interview": "kept",
        "rating": "shift",
        "height": "removed",
        "hobby": "removed",
        "style": "removed",
        "club": "removed",
    }
    assert metric.report_.before["sex"].auc > 0.9
    assert metric.report_.after["sex"].auc < 0.58


def test_adapted_rows_are_close_to_those_of_one_group(linear):
    people, encoder, X, metric = linear
    position = encoder.groups_["rating"][0]
    largest = int(np.bincount(people.groups["sex"]).argmax())
    regenerated = encoder.transform(people.regenerate({"sex": largest}))
    adapted = metric.adapted(X)
    assert np.abs(adapted[:, position] - regenerated[:, position]).max() < 0.15
    assert not adapted[:, encoder.groups_["sex"]].any()
    assert not adapted[:, encoder.groups_["height"]].any()


def test_strength_goes_from_the_person_to_the_counterpart(linear):
    _, encoder, X, metric = linear
    position = encoder.groups_["rating"][0]
    whole = metric.adapted(X)[:, position]
    half = metric.adapted(X, strength=0.5)[:, position]
    np.testing.assert_allclose(half, (whole + X[:, position]) / 2, atol=1e-5)
    np.testing.assert_allclose(metric.adapted(X, strength=0.0)[:, position], X[:, position])
    with pytest.raises(ValueError, match=r"strength must be in \[0, 1\]"):
        metric.adapted(X, strength=1.5)


def test_a_person_is_the_own_counterpart_in_the_own_group(linear):
    people, encoder, X, metric = linear
    copies = metric.counterfactuals(X)
    assert len(copies) == 2
    for group, copy in enumerate(copies):
        member = people.groups["sex"] == group
        np.testing.assert_allclose(copy[member], X[member], atol=1e-6)
        indicator = copy[:, encoder.groups_["sex"]]
        assert (indicator == indicator[0]).all()


def test_given_groups_have_the_counterparts_of_read_ones(linear):
    people, _, X, metric = linear
    sex = people.table["sex"].to_numpy().astype(object)
    for read, named in zip(
        metric.counterfactuals(X),
        metric.counterfactuals(X, sensitive_features={"sex": sex}),
        strict=True,
    ):
        np.testing.assert_array_equal(read, named)
    unknown = sex.copy()
    unknown[:3] = ["other", None, ""]
    for copy in metric.counterfactuals(X, sensitive_features={"sex": unknown}):
        np.testing.assert_array_equal(copy[:3], X[:3])
    with pytest.raises(ValueError, match="sensitive_features lacks 'sex'"):
        metric.counterfactuals(X, sensitive_features={"age": sex})


def test_counterparts_also_have_the_removed_columns(linear):
    people, encoder, X, metric = linear
    height = encoder.groups_["height"][0]
    for group, copy in enumerate(metric.counterfactuals(X)):
        true = encoder.transform(people.regenerate({"sex": group}))
        assert np.abs(copy[:, height] - true[:, height]).max() < 0.2
    assert metric.n_draws == 1


def test_counterparts_are_comparable(linear):
    _, _, X, metric = linear
    copies = metric.counterfactuals(X)
    between_people = metric.squared(X, X[::-1].copy()).mean()
    assert metric.squared(copies[0], copies[1]).mean() < 0.02 * between_people


def test_a_saved_metric_measures_and_adapts_the_same(linear, tmp_path):
    _, _, X, metric = linear
    metric.save(tmp_path)
    loaded = load_metric(tmp_path)
    assert (loaded.adapted(X) == metric.adapted(X)).all()
    assert (loaded.project(X) == metric.project(X)).all()
    assert loaded.adapts


def test_the_same_rows_give_the_same_metric(linear):
    people, encoder, X, metric = linear
    again = learn(people, encoder, X)
    assert (again.basis_ == metric.basis_).all()
    assert again.removed_ == metric.removed_


def test_nothing_is_adapted_without_proxies():
    people, encoder, X = encoded("no-proxy")
    metric = learn(people, encoder, X)
    assert set(verdicts(metric).values()) == {"sensitive", "kept"}
    kept = [j for j in range(X.shape[1]) if j not in encoder.groups_["sex"]]
    assert (metric.adapted(X)[:, kept] == X[:, kept]).all()


def test_a_legitimate_column_stays_and_explains_others():
    people, encoder, X = encoded("earned-difference")
    plain = learn(people, encoder, X)
    legitimate = learn(people, encoder, X, legitimate=encoder.groups_["training"])
    assert verdicts(plain)["training"] != "kept"
    assert verdicts(legitimate)["training"] == "legitimate"
    assert verdicts(legitimate)["test"] == "kept"
    position = encoder.groups_["training"][0]
    assert (legitimate.adapted(X)[:, position] == X[:, position]).all()


def test_pairs_that_tell_the_group_together_are_found():
    people, encoder, X = encoded("harmless-pairs", n=2500)
    metric = learn(people, encoder, X)
    assert metric.report_.before["sex"].auc > 0.85
    assert not metric.report_.after["sex"].above_chance


def test_two_attributes_are_adapted_together():
    people, encoder, X = encoded("two-attributes")
    metric = learn(people, encoder, X)
    assert [stage.attributes for stage in metric.stages_] == [["sex", "origin"]]
    assert len(metric.counterfactuals(X)) == 4
    assert set(metric.report_.after) == {"sex", "origin"}


def test_an_attribute_outside_x_frees_directions_only():
    people, encoder, X = encoded("linear")
    hidden = [j for j in range(X.shape[1]) if j not in encoder.groups_["sex"]]
    metric = LearnedMetric().fit(
        X[:, hidden], people.label, sensitive_features={"sex": people.table["sex"]}
    )
    assert metric.basis_.shape[1] > 0
    assert not metric.adapts
    # the report is of the projected rows, which models read
    assert not metric.report_.adapts
    before, after = metric.report_.label_auc
    assert attribute_leak(metric.project(X[:, hidden]), people.label).auc == pytest.approx(
        after, abs=0.02
    )
    assert metric.report_.after["sex"].auc < 0.6 < 0.9 < metric.report_.before["sex"].auc
    with pytest.raises(ValueError, match="'sex' cannot be read from X"):
        metric.adapted(X[:, hidden])


def test_projected_trees_on_adapted_columns_decide_alike(linear, tmp_path):
    people, encoder, X, metric = linear
    model = ProjectedGBDTClassifier(metric, n_steps=60, n_iter_no_change=None, random_state=0)
    model.fit(X, people.label)
    assert model.adapts_inputs
    flipped = encoder.transform(people.regenerate({"sex": 1 - people.groups["sex"]}))
    assert (model.predict(X) == model.predict(flipped)).mean() > 0.95
    contributions = model.log_odds_by_column(X[:50]).sum(axis=1)
    probabilities = model.predict_proba(X[:50])
    log_odds = np.log(probabilities[:, 1] / probabilities[:, 0])
    np.testing.assert_allclose(contributions, log_odds, atol=1e-3)
    model.save(tmp_path)
    loaded = ProjectedGBDTClassifier.load(tmp_path)
    assert (loaded.predict_proba(X) == model.predict_proba(X)).all()


def test_a_strength_needs_the_learned_metric():
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = (X[:, 0] > 0).astype(int)
    sex = np.repeat([0, 1], 100)
    with pytest.raises(ValueError, match="only the learned metric has one"):
        ProjectedGBDTClassifier(strength=0.5).fit(X, y, sensitive_features={"sex": sex})


def test_groups_of_a_binned_number_are_read_back():
    age = np.random.default_rng(0).normal(size=300)
    names, codes = group_codes_of("age", np.where(age < 0.3, "<50", "50+"))
    reader = group_reader(age[:, None], [0], names, codes)
    assert (reader.read(age[:, None]) == codes).all()
    assert group_reader(np.zeros((300, 1)), [0], names, codes) is None


def test_missing_groups_have_no_counterpart():
    names, codes = group_codes_of("sex", ["f"] * 70 + ["m"] * 70 + ["missing"] * 2)
    assert names == ["f", "m"]
    assert codes.tolist() == [0] * 70 + [1] * 70 + [-1] * 2


def test_units_are_numbers_and_whole_categories():
    rows = np.array([[0.5, 1.0, 0.0, 1.0], [1.5, 0.0, 0.0, 0.0]])
    assert units_of(rows, [[0], [1, 2], [3]], blocked=[3], given=[]) == [[0], [1, 2]]


def test_bad_input_is_refused_in_one_line(linear):
    people, encoder, X, _ = linear
    sex = {"sex": people.table["sex"].to_numpy()}
    position = encoder.groups_["sex"][0]
    cases = [
        (LearnedMetric(), None, "sensitive_features are needed"),
        (LearnedMetric(), {"sex": ["a"] * len(X)}, "has one group"),
        (
            LearnedMetric(),
            {"sex": ["a"] * 5 + ["b"] * (len(X) - 5)},
            "'a' of 'sex' has 5 training rows: a learned metric needs at least 70",
        ),
        (
            LearnedMetric(sensitive={"sex": [position]}, legitimate=[position]),
            sex,
            "legitimate has column",
        ),
        (LearnedMetric(sensitive={"age": [0]}), sex, "which sensitive_features lacks"),
        (LearnedMetric(legitimate=[99]), sex, "legitimate must be columns of X"),
        (LearnedMetric(explained_variance=0.0), sex, "explained_variance"),
        (LearnedMetric(feature_groups={"a": [0]}), sex, "feature_groups must have each column"),
    ]
    for metric, features, message in cases:
        with pytest.raises(ValueError, match=message):
            metric.fit(X, people.label, sensitive_features=features)


def test_what_legitimate_columns_explain_is_no_leak(tmp_path):
    people, encoder, X = encoded("earned-difference")
    table = pd.DataFrame(X, columns=encoder.feature_names_)
    indicators = [encoder.feature_names_[j] for j in encoder.groups_["sex"]]
    metric = LearnedMetric(sensitive={"sex": indicators}, legitimate=["training"])
    metric.fit(table, people.label, sensitive_features={"sex": people.table["sex"]})
    left = metric.what_is_left(X, adapted=True)
    assert left.shape == (len(X), X.shape[1] - 1)
    metric.save(tmp_path)
    loaded = load_metric(tmp_path)
    np.testing.assert_array_equal(loaded.what_is_left(X, adapted=True), left)


def test_small_groups_are_among_the_evidence_and_in_both_halves():
    rng = np.random.default_rng(0)
    sex = (rng.random(20_000) < 0.004).astype(int)
    region = np.where(rng.random(20_000) < 0.005, 2, rng.integers(0, 2, 20_000))
    rows = rows_of_groups([sex, region], 6000, 60, np.random.default_rng(1))
    assert 6000 <= len(rows) <= 6100
    assert len(np.unique(rows)) == len(rows)
    assert (sex[rows] == 1).sum() == 60
    assert (region[rows] == 2).sum() >= 60
    # of a group with fewer rows all are taken
    everyone = rows_of_groups([sex], 6000, 1000, np.random.default_rng(1))
    assert (sex[everyone] == 1).sum() == (sex == 1).sum()
    half = halves_of_groups([sex[rows], region[rows]], np.random.default_rng(2))
    assert abs(int(half.sum()) - len(rows) / 2) <= 1
    assert abs((sex[rows][half] == 1).sum() - 30) <= 1
    assert abs((region[rows][half] == 2).sum() - (region[rows] == 2).sum() / 2) <= 2
    few = np.arange(50) % 2
    np.testing.assert_array_equal(rows_of_groups([few], 100, 10, rng), np.arange(50))


def test_groups_of_seventy_rows_suffice():
    rng = np.random.default_rng(0)
    sex = np.repeat([0, 1], [930, 70])
    merit = rng.normal(size=1000)
    X = np.column_stack([sex, merit + 2 * sex, rng.normal(size=1000)])
    y = (merit + rng.normal(size=1000) > 0).astype(int)
    metric = LearnedMetric(sensitive={"sex": [0]}).fit(X, y, sensitive_features={"sex": sex})
    assert verdicts(metric)["x1"] != "kept"
    with pytest.raises(ValueError, match="has 69 training rows"):
        metric.fit(X[:-1], y[:-1], sensitive_features={"sex": sex[:-1]})
