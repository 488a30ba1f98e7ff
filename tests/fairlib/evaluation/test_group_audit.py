"""`audit`: equal to Fairlearn's MetricFrame, exact by hand, and free of surprises with any input."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from fairlearn.metrics import (
    MetricFrame,
    count,
    false_positive_rate,
    mean_prediction,
    selection_rate,
    true_positive_rate,
)
from pandas.testing import assert_frame_equal, assert_series_equal
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    fbeta_score,
    mean_absolute_error,
    precision_score,
    r2_score,
    recall_score,
    roc_auc_score,
)

from evenhand.fairlib.evaluation.closed_intervals import exact_interval
from evenhand.fairlib.evaluation.evaluate import evaluate
from evenhand.fairlib.evaluation.group_audit import GroupAudit, audit
from evenhand.fairlib.evaluation.outcomes import Outcomes

FUNCTIONS = {
    "accuracy": accuracy_score,
    "selection": selection_rate,
    "tpr": true_positive_rate,
    "fpr": false_positive_rate,
    "precision": partial(precision_score, zero_division=0),
    "count": count,
}


def people(n: int = 600, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["women", "men"], n),
            "race": rng.choice(["a", "b", "c"], n),
            "site": rng.choice([1, 2], n),
            "hired": rng.integers(0, 2, n),
        }
    )
    chance = np.where(frame["sex"] == "men", 0.6, 0.4)
    frame["picked"] = (rng.random(n) < chance).astype(int)
    frame["score"] = rng.random(n).round(3)
    return frame


def both(frame: pd.DataFrame, sensitive: Any, **more: Any) -> tuple[GroupAudit, MetricFrame]:
    ours = audit(
        frame["hired"], frame["picked"], sensitive_features=sensitive, min_cell=1, draws=0, **more
    )
    theirs = MetricFrame(
        y_true=frame["hired"], y_pred=frame["picked"], sensitive_features=sensitive, **more
    )
    return ours, theirs


def assert_equal(ours: Any, theirs: Any) -> None:
    """Equal numbers under equal names, whatever the dtypes of counts and of the index."""
    if isinstance(theirs, pd.DataFrame):
        assert_frame_equal(ours, theirs, check_dtype=False, check_index_type=False)
    elif isinstance(theirs, pd.Series):
        assert_series_equal(
            ours, theirs, check_dtype=False, check_index_type=False, check_names=False
        )
    else:
        assert ours == pytest.approx(theirs, nan_ok=True)


@pytest.mark.parametrize("metrics", [FUNCTIONS, accuracy_score])
@pytest.mark.parametrize("sensitive", [["sex"], ["sex", "race"]])
@pytest.mark.parametrize("controls", [None, ["site"]])
def test_all_members_equal_those_of_a_metric_frame(
    metrics: Any, sensitive: list[str], controls: list[str] | None
) -> None:
    frame = people()
    more: dict[str, Any] = {"metrics": metrics}
    if controls:
        more["control_features"] = frame[controls]
    ours, theirs = both(frame, frame[sensitive], **more)
    assert_equal(ours.overall, theirs.overall)
    assert_equal(ours.by_group, theirs.by_group)
    for method in ("between_groups", "to_overall"):
        assert_equal(ours.difference(method=method), theirs.difference(method=method))
        assert_equal(ours.ratio(method=method), theirs.ratio(method=method))
    assert_equal(ours.group_min(), theirs.group_min())
    assert_equal(ours.group_max(), theirs.group_max())


def test_the_examples_of_a_metric_frame() -> None:
    y_true = [1, 1, 1, 1, 1, 0, 0, 1, 1, 0]
    y_pred = [0, 1, 1, 1, 1, 0, 0, 0, 1, 1]
    sex = ["Female"] * 5 + ["Male"] * 5
    metrics = {"accuracy": accuracy_score, "selection_rate": selection_rate}
    ours = audit(y_true, y_pred, sensitive_features=sex, metrics=metrics)
    theirs = MetricFrame(metrics=metrics, y_true=y_true, y_pred=y_pred, sensitive_features=sex)
    assert_equal(ours.by_group, theirs.by_group)
    assert ours.difference()["selection_rate"] == pytest.approx(0.4)
    assert ours.ratio()["accuracy"] == pytest.approx(0.75)


def test_weights_equal_the_sample_params_of_a_metric_frame() -> None:
    frame = people()
    weights = np.random.default_rng(1).integers(1, 5, len(frame))
    metrics = {"accuracy": accuracy_score, "recall": recall_score, "rate": selection_rate}
    ours = audit(
        frame["hired"],
        frame["picked"],
        sensitive_features=frame["race"],
        metrics=metrics,
        sample_weight=weights,
        draws=0,
    )
    theirs = MetricFrame(
        metrics=metrics,
        y_true=frame["hired"],
        y_pred=frame["picked"],
        sensitive_features=frame["race"],
        sample_params={name: {"sample_weight": weights} for name in metrics},
    )
    assert_equal(ours.by_group, theirs.by_group)
    names = ["accuracy", "true_positive_rate", "selection_rate"]
    by_name = audit(
        frame["hired"],
        frame["picked"],
        sensitive_features=frame["race"],
        metrics=names,
        sample_weight=weights,
    )
    assert np.allclose(by_name.by_group, theirs.by_group)


def test_intervals_are_the_closed_ones_and_functions_share_them() -> None:
    frame = people()
    result = audit(
        frame["hired"], frame["picked"], sensitive_features=frame["sex"], metrics=FUNCTIONS
    )
    rows = result.to_frame().query("metric == 'selection' and group == 'women'").iloc[0]
    women = frame[frame["sex"] == "women"]["picked"]
    exact = exact_interval(women.sum(), len(women), 0.95)
    assert (rows["lower"], rows["upper"]) == (pytest.approx(exact.low), pytest.approx(exact.high))
    # a function of no catalogue is resampled
    other = audit(
        frame["hired"],
        frame["picked"],
        sensitive_features=frame["sex"],
        metrics=partial(fbeta_score, beta=2),
    ).to_frame()
    assert ((other["lower"] < other["value"]) & (other["value"] < other["upper"])).all()


def test_gaps_equal_those_of_an_evaluation() -> None:
    frame = people()
    names = ["impact_ratio", "gap_max", "gap_rms", "average_odds_difference"]
    result = audit(
        frame["hired"], frame["picked"], sensitive_features=frame[["sex", "race"]], metrics=names
    )
    gaps = result.gaps()
    outcomes = Outcomes(
        frame["hired"].to_numpy(),
        frame["picked"].to_numpy(),
        frame["picked"].to_numpy(float),
        {name: frame[name].to_numpy(dtype=object) for name in ("sex", "race")},
    )
    evaluation = evaluate(outcomes, draws=20, intersections=True, score_intervals=False)
    for row in gaps[gaps["kind"] == "gap"].to_dict("records"):
        metric = evaluation.metrics[f"{row['metric']}.{row['attribute']}"]
        assert row["value"] == pytest.approx(metric.value)
        assert (row["lower"], row["upper"]) == (
            pytest.approx(metric.low),
            pytest.approx(metric.high),
        )
    of_rates = gaps[(gaps["metric"] == "selection_rate") & (gaps["kind"] == "ratio")]
    listed = gaps[gaps["metric"] == "impact_ratio"]
    assert np.allclose(of_rates[["value", "lower", "upper"]], listed[["value", "lower", "upper"]])


def hand() -> dict[str, Any]:
    """Women: 45 of 100 approved; men: 75 of 100."""
    approved = [1] * 45 + [0] * 55 + [1] * 75 + [0] * 25
    sex = ["women"] * 100 + ["men"] * 100
    return {"y_true": None, "y_pred": approved, "sensitive_features": {"sex": sex}}


def test_the_verdict_names_the_group_that_fares_worse() -> None:
    result = audit(
        pd.Series([0, 1] * 100, name="approved"),
        hand()["y_pred"],
        sensitive_features=hand()["sensitive_features"],
    )
    assert result.verdict[0] == (
        "Women are approved 60 % as often as men (45.0 % against 75.0 %): below four fifths; "
        "interval .46 to .77."
    )
    adverse = audit(
        pd.Series([0, 1] * 100, name="denied"),
        hand()["y_pred"],
        sensitive_features=hand()["sensitive_features"],
        favourable=0,
    )
    assert adverse.verdict[0].startswith("Men are not denied 45 % as often as women (25.0 % ")


def test_words_as_labels_need_the_good_outcome() -> None:
    labels = ["A", "B"] * 20
    given = {"y_true": labels, "y_pred": labels, "sensitive_features": ["f"] * 20 + ["m"] * 20}
    with pytest.raises(ValueError, match="as in favourable='A' or favourable='B'"):
        audit(**given)
    result = audit(**given, favourable="A", metrics="selection_rate")
    assert result.by_group.to_dict() == {"f": 0.5, "m": 0.5}
    assert "get “A” equally often (50.0 %)" in result.verdict[0]


@pytest.mark.parametrize(
    ("name", "labels", "favourable"),
    [
        ("decision", ["denied", "approved"], "approved"),
        ("Entscheidung", ["bewilligt", "abgelehnt"], "bewilligt"),
        ("default", [0, 1], 0),
        ("hired", [0, 1], 1),
    ],
)
def test_words_say_which_outcome_is_good(name: str, labels: list[Any], favourable: Any) -> None:
    adverse = [label for label in labels if label != favourable][0]
    decided = pd.Series([favourable, favourable, adverse, adverse, adverse] * 20, name=name)
    groups = ["f", "f", "f", "f", "m"] * 20
    result = audit(decided, decided, sensitive_features=groups, metrics="selection_rate")
    assert result.favourable == favourable
    assert result.by_group.to_dict() == {"f": 0.5, "m": 0.0}
    assert " reads as a" in result.verdict[-1]
    assert audit(decided, decided, sensitive_features=groups, favourable=adverse).favourable == (
        adverse
    )


def test_a_function_keeps_its_result_under_any_name() -> None:
    people_frame = people(300)
    metrics = {"selection_rate": lambda y_true, y_pred: 7.0, "accuracy": accuracy_score}
    result = audit(
        people_frame["hired"],
        people_frame["picked"],
        sensitive_features=people_frame["sex"],
        metrics=metrics,
    )
    assert result.by_group["selection_rate"].tolist() == [7.0, 7.0]
    # the verdict is about rates all the same
    assert " % as often as " in result.verdict[0]


@pytest.mark.parametrize("metrics", [["accuracy", "recall"], "recall", {"tpr": "recall"}])
def test_other_names_of_metrics(metrics: Any) -> None:
    frame = people(300)
    result = audit(
        frame["hired"], frame["picked"], sensitive_features=frame["sex"], metrics=metrics
    )
    tested = frame[(frame["sex"] == "men") & (frame["hired"] == 1)]
    by_group = result.by_group
    recall = by_group if isinstance(by_group, pd.Series) else by_group.iloc[:, -1]
    assert recall["men"] == pytest.approx(tested["picked"].mean())
    assert result.verdict


def test_print_shows_the_metrics_that_were_asked_for() -> None:
    frame = people(300)
    columns = {"y_true": frame["hired"], "y_pred": frame["picked"]}
    asked = repr(audit(**columns, sensitive_features=frame["sex"], metrics=accuracy_score))
    rate = accuracy_score(frame["hired"], frame["picked"])
    assert f"accuracy_score   {rate:.3f}" in asked
    assert "accuracy_score" not in repr(audit(**columns, sensitive_features=frame["sex"]))
    many = [f"group {row % 30}" for row in range(300)]
    text = repr(audit(**columns, sensitive_features=many, metrics=accuracy_score))
    assert "... 10 more groups: by_group has them all" in text


def test_a_page_may_be_written_to_a_path_or_a_file(tmp_path: Path) -> None:
    result = audit(**hand())
    page = result.to_html()
    path = tmp_path / "audit.html"
    assert result.to_html(path) is None
    assert path.read_text(encoding="utf-8") == page
    written = io.StringIO()
    assert result.to_html(written, full_page=False, title="") is None
    assert written.getvalue() == result._repr_html_()


def test_what_predict_proba_gives_are_probabilities() -> None:
    frame = people(300)
    score = frame["score"].to_numpy()
    sex = frame["sex"]
    both = np.column_stack([1 - score, score])
    of_label_1 = audit(frame["hired"], y_score=score, sensitive_features=sex)
    result = audit(frame["hired"], both, sensitive_features=sex)
    assert result.by_group.equals(of_label_1.by_group)
    grades = np.array(["A", "B", "C"])[np.arange(300) % 3]
    of_grades = np.random.default_rng(0).dirichlet([1, 1, 1], 300)
    classes = audit(grades, of_grades, sensitive_features=sex)
    decided = np.array(["A", "B", "C"])[of_grades.argmax(axis=1)]
    assert classes.overall["accuracy"] == pytest.approx(accuracy_score(grades, decided))


def test_one_of_several_labels_may_be_the_good_outcome() -> None:
    grades = ["A"] * 30 + ["B"] * 40 + ["C"] * 30
    sex = (["f"] * 10 + ["m"] * 20) + (["f"] * 25 + ["m"] * 15) + (["f"] * 15 + ["m"] * 15)
    result = audit(grades, grades, sensitive_features={"sex": sex}, favourable="A")
    assert result.verdict[0].startswith("Sex f get “A” 50 % as often as sex m (20.0 % against 40.0")
    models = {"old": grades, "new": list(reversed(grades))}
    compared = audit(grades, models, sensitive_features={"sex": sex}, favourable="A").compare()
    assert "selection_rate.A" in set(compared["metric"])
    with pytest.raises(ValueError, match="favourable: got 'D', expected one of 'A', 'B', 'C'"):
        audit(grades, grades, sensitive_features=sex, favourable="D")
    with pytest.raises(ValueError, match="positive: got 'A', but there are 3 labels"):
        audit(grades, grades, sensitive_features=sex, positive="A")


def test_small_and_missing_groups_are_shown_and_not_compared() -> None:
    given = hand()
    sex = [*given["sensitive_features"]["sex"], "diverse", "diverse", None, float("nan")]
    picked = [*given["y_pred"], 0, 0, 1, 1]
    result = audit(None, picked, sensitive_features={"sex": sex}, metrics="selection_rate")
    assert result.by_group.to_dict() == {"diverse": 0, "men": 0.75, "women": 0.45, "missing": 1}
    assert result.difference() == pytest.approx(0.3)
    assert result.group_min() == pytest.approx(0.45)
    frame = result.to_frame().set_index("group")
    assert frame["status"].to_dict() == {
        "overall": "ok",
        "diverse": "too_few",
        "men": "ok",
        "women": "ok",
        "missing": "missing",
    }
    left_out = "diverse (2 rows), missing (2 rows)"
    assert result.gaps()["left_out"].tolist() == [left_out, left_out]
    assert f"Not compared by sex: {left_out}." in result.verdict
    page = result.to_html()
    assert "too few" in page
    assert "1.000" not in page


def test_a_missing_value_is_a_group_where_that_is_asked_for() -> None:
    given = hand()
    sex = [*given["sensitive_features"]["sex"], *[None] * 20]
    picked = [*given["y_pred"], *[0] * 20]
    asked = audit(None, picked, sensitive_features=sex, metrics="selection_rate", missing="group")
    assert asked.difference() == pytest.approx(0.75)
    shown = audit(None, picked, sensitive_features=sex, metrics="selection_rate")
    assert shown.difference() == pytest.approx(0.3)


def test_a_group_may_be_demanded() -> None:
    given = hand()
    sex = [*given["sensitive_features"]["sex"], "diverse"]
    picked = [*given["y_pred"], 1]
    result = audit(
        None, picked, sensitive_features={"sex": sex}, required={"sex": ["diverse", "women"]}
    )
    assert result.verdict[0] == (
        "By sex: not enough evidence: “diverse” has 1 rows, which must be measured."
    )
    assert set(result.gaps()["status"]) == {"insufficient_evidence"}


def test_too_few_people_give_no_gap_and_a_warning() -> None:
    result = audit([1, 0, 1], [1, 1, 0], sensitive_features=["a", "b", "b"], metrics="accuracy")
    with pytest.warns(UserWarning, match="fewer than two groups have the 5 rows"):
        assert np.isnan(result.difference())
    assert result.by_group.to_dict() == {"a": 1.0, "b": 0.0}


def test_nobody_selected_is_no_evidence_of_a_ratio() -> None:
    result = audit(None, [0] * 40, sensitive_features=["a"] * 20 + ["b"] * 20)
    ratio = result.gaps().query("kind == 'ratio'").iloc[0]
    assert ratio["status"] == "insufficient_evidence"
    rates = result.to_frame().query("metric == 'selection_rate' and group == 'a'").iloc[0]
    assert rates["lower"] == 0.0
    assert rates["upper"] == pytest.approx(0.168, abs=0.001)


def test_people_with_several_rows_count_once() -> None:
    given = hand()
    several = audit(
        None,
        np.repeat(given["y_pred"], 4),
        sensitive_features=np.repeat(given["sensitive_features"]["sex"], 4),
        people=np.repeat(np.arange(200), 4),
        metrics="selection_rate",
    ).to_frame()
    single = audit(**given, metrics="selection_rate").to_frame()
    assert several["n"].tolist() == single["n"].tolist()
    ends = ["value", "lower", "upper"]
    assert np.allclose(several[ends], single[ends], atol=0.01)
    assert (several["upper"] - several["lower"] > single["upper"] - single["lower"] - 1e-9).all()


@pytest.mark.parametrize("shuffled", ["y_pred", "sensitive_features"])
def test_another_order_of_an_index_is_refused(shuffled: str) -> None:
    frame = people(40)
    given = {
        "y_true": frame["hired"],
        "y_pred": frame["picked"],
        "sensitive_features": frame["sex"],
    }
    given[shuffled] = given[shuffled].sample(frac=1, random_state=0)
    with pytest.raises(ValueError, match=f"{shuffled}: its index has the labels of y_true's"):
        audit(**given)
    given[shuffled] = given[shuffled].set_axis(frame.index + 100)
    frame_of_labels = frame["hired"].set_axis(frame.index + 7)
    with pytest.raises(ValueError, match=f"{shuffled}: its index has other labels"):
        audit(**{**given, "y_true": frame_of_labels})


def test_an_index_that_only_counts_rows_says_nothing() -> None:
    frame = people(60)
    test_rows = frame.sample(30, random_state=0)
    predicted = pd.Series(test_rows["picked"].to_numpy())
    result = audit(test_rows["hired"], predicted, sensitive_features=test_rows["sex"])
    same = audit(
        test_rows["hired"].to_numpy(),
        predicted.to_numpy(),
        sensitive_features=test_rows["sex"].to_numpy(),
    )
    assert np.allclose(result.by_group, same.by_group)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"y_pred": [1, 0, 1]}, "y_pred: got 3 rows, expected 4 as in y_true"),
        ({"y_true": [1, 0, None, 1]}, "y_true: 1 of 4 values are missing"),
        ({"y_pred": None}, "y_pred: got none"),
        ({"y_pred": [np.ones(4), np.ones(4)]}, "y_pred: got a list of 2 columns; .* by name"),
        ({"y_pred": np.ones((4, 2))}, "y_pred: got 2 columns, expected one value per row"),
        ({"sensitive_features": None}, "sensitive_features: got None"),
        ({"metrics": "accuracys"}, "metrics: got 'accuracys', .* expected a function, or one of"),
        ({"metrics": "auc"}, "probabilities are passed as y_score"),
        ({"metrics": []}, "metrics: got none"),
        ({"metrics": {"x": 3}}, "metrics: x is 3, expected a name or a function"),
        ({"y_score": [0.1, 1.2, 0.3, 0.4]}, "y_score: 1 of 4 values are missing or outside"),
        ({"sensitive_features": {}}, "sensitive_features: got no column"),
        ({"control_features": {"sex": [1, 1, 2, 2]}}, "'sex' is a sensitive feature too"),
        ({"sample_weight": [1, 1, -1, 1]}, "sample_weight must be finite, not negative"),
        ({"people": [1, 1, None, 2]}, "people: 1 of 4 values are missing"),
        ({"favourable": 3}, "favourable: got 3, expected one of 0, 1"),
        ({"y_true": ["yes", "no", "yes", "no"]}, "give both in the same values"),
        ({"required": {"sx": ["f"]}}, "required: 'sx' is no sensitive feature"),
        ({"metrics": "ece"}, "probabilities are passed as y_score"),
        ({"missing": "drop"}, "missing: got 'drop', expected 'shown' or 'group'"),
        ({"level": 95}, "level: got 95"),
        ({"sample_weight": [1, 1, 1, 1], "metrics": lambda t, p: 0.5}, "not take sample_weight"),
    ],
)
def test_bad_input(changes: dict[str, Any], says: str) -> None:
    given: dict[str, Any] = {
        "y_true": [1, 0, 1, 0],
        "y_pred": [1, 1, 0, 0],
        "sensitive_features": {"sex": ["f", "f", "m", "m"]},
    }
    with pytest.raises(ValueError, match=says):
        audit(**given | changes)


def test_several_models_are_compared_on_the_same_rows() -> None:
    frame = people(900)
    models = pd.DataFrame({"old": frame["picked"], "new": 1 - frame["picked"]})
    result = audit(frame["hired"], models, sensitive_features=frame["sex"])
    assert list(result.by_group.columns.get_level_values(0).unique()) == ["old", "new"]
    assert result["old"].by_group.equals(result.by_group["old"])
    table = result.compare().set_index(["metric", "attribute", "group"])
    rates = frame.groupby("sex")["picked"].mean()
    for sex in ("women", "men"):
        row = table.loc[("selection_rate", "sex", sex)]
        assert row["difference"] == pytest.approx(1 - 2 * rates[sex])
        assert row["lower"] < row["difference"] < row["upper"]
    assert ("gap_max", "sex", "") in table.index
    assert result.compare("old", "new")["model"].unique().tolist() == ["old"]


def test_equal_models_differ_by_0_with_an_interval() -> None:
    frame = people(200)
    models = {"old": frame["picked"], "new": frame["picked"].copy()}
    result = audit(None, models, sensitive_features=frame["sex"])
    table = result.compare()
    assert (table["difference"] == 0).all()
    assert (table["lower"] < 0).all()
    assert (table["upper"] > 0).all()


def test_classes_and_numbers() -> None:
    frame = people(900)
    rng = np.random.default_rng(3)
    grades = rng.choice(["A", "B", "C"], len(frame))
    guessed = np.where(rng.random(len(frame)) < 0.7, grades, "A")
    classes = audit(grades, guessed, sensitive_features=frame["sex"])
    metrics = {"accuracy": accuracy_score}
    theirs = MetricFrame(
        metrics=metrics, y_true=grades, y_pred=guessed, sensitive_features=frame["sex"]
    )
    assert_equal(classes.by_group[["accuracy"]], theirs.by_group)
    of_a = (guessed[(grades == "A") & (frame["sex"] == "men")] == "A").mean()
    assert classes.by_group.loc["men", "recall.A"] == pytest.approx(of_a)
    pay = rng.gamma(2, 1000, len(frame))
    offer = pay + np.where(frame["sex"] == "men", 100, -100)
    numbers = audit(pay, offer, sensitive_features=frame["sex"])
    errors = {"mae": mean_absolute_error, "mean": mean_prediction}
    frames = MetricFrame(metrics=errors, y_true=pay, y_pred=offer, sensitive_features=frame["sex"])
    named = numbers.by_group[["mean_absolute_error", "mean_prediction"]]
    assert np.allclose(named, frames.by_group)
    assert "mean prediction" in numbers.verdict[0]
    gap = numbers.gaps().query("metric == 'mean_error' and kind == 'difference'").iloc[0]
    assert gap["value"] == pytest.approx(200)


def test_probabilities_give_decisions_and_an_auc() -> None:
    frame = people()
    result = audit(frame["hired"], y_score=frame["score"], sensitive_features=frame["sex"])
    in_place = audit(frame["hired"], frame["score"], sensitive_features=frame["sex"])
    assert result.by_group.equals(in_place.by_group)
    area = frame.groupby("sex")[["hired", "score"]].apply(
        lambda rows: roc_auc_score(rows["hired"], rows["score"])
    )
    assert np.allclose(result.by_group["auc"], area)
    assert "Note: decisions are probabilities of at least 0.5." in result.verdict


def test_the_catalogues_other_metrics_equal_an_evaluation() -> None:
    frame = people(800)
    names = ["ece", "log_loss_gain", "theil_index", "brier", "log_loss", "auc", "calibration_gap"]
    result = audit(
        frame["hired"], frame["score"], sensitive_features=frame["sex"], metrics=names, draws=20
    )
    outcomes = Outcomes(
        frame["hired"].to_numpy(),
        (frame["score"] >= 0.5).to_numpy().astype(int),
        frame["score"].to_numpy(),
        {"sex": frame["sex"].to_numpy(dtype=object)},
    )
    evaluation = evaluate(outcomes, draws=20)
    for name in names[:-1]:
        assert result.overall[name] == pytest.approx(evaluation.metrics[name].value), name
    gap = result.gaps().iloc[0]
    expected = evaluation.metrics["calibration_gap.sex"]
    assert (gap["metric"], gap["value"]) == ("calibration_gap", pytest.approx(expected.value))
    assert (gap["lower"], gap["upper"]) == (
        pytest.approx(expected.low),
        pytest.approx(expected.high),
    )


def test_r2_is_scikit_learns() -> None:
    frame = people(300)
    offer = frame["score"] + np.random.default_rng(0).normal(size=300) * 0.1
    weights = np.arange(300) % 3
    ours = audit(
        frame["score"],
        offer,
        sensitive_features=frame["sex"],
        metrics={"ours": "r2", "theirs": r2_score},
        sample_weight=weights,
        draws=20,
    ).by_group
    assert np.allclose(ours["ours"], ours["theirs"])


def test_functions_that_give_no_number_keep_their_results() -> None:
    frame = people(60)
    metrics = {"matrix": confusion_matrix, "accuracy": accuracy_score}
    result = audit(
        frame["hired"], frame["picked"], sensitive_features=frame["sex"], metrics=metrics
    )
    assert result.by_group.loc["men", "matrix"].shape == (2, 2)
    assert np.isnan(result.difference()["matrix"])
    with pytest.raises(ValueError, match="no single numbers"):
        result.group_min()


@pytest.mark.parametrize("kind", ["arrow", "dict", "array", "categorical"])
def test_tables_of_any_kind(kind: str) -> None:
    frame = people(80)
    named = {"sex": frame["sex"], "race": frame["race"]}
    table: Any = {
        "arrow": pa.table({name: column.to_numpy() for name, column in named.items()}),
        "dict": {name: list(column) for name, column in named.items()},
        "array": frame[["sex", "race"]].to_numpy(),
        "categorical": frame[["sex", "race"]].astype("category"),
    }[kind]
    result = audit(frame["hired"], frame["picked"], sensitive_features=table)
    expected = audit(frame["hired"], frame["picked"], sensitive_features=frame[["sex", "race"]])
    assert np.allclose(result.by_group, expected.by_group)


def test_polars_columns() -> None:
    polars = pytest.importorskip("polars")
    frame = people(80)
    table = polars.DataFrame({name: frame[name].to_numpy() for name in frame})
    result = audit(table["hired"], table["picked"], sensitive_features=table[["sex", "race"]])
    expected = audit(frame["hired"], frame["picked"], sensitive_features=frame[["sex", "race"]])
    assert result.by_group.equals(expected.by_group)


def test_value_names_stand_for_codes() -> None:
    given = hand()
    codes = [1] * 100 + [2] * 100
    result = audit(
        None,
        given["y_pred"],
        sensitive_features={"sex": codes},
        value_names={"sex": {1: "women", 2: "men"}},
        metrics="selection_rate",
    )
    assert result.verdict[0].startswith("Women get the prediction 1 60 % as often as men")
    assert result.by_group.index.tolist() == [1, 2]
    assert result.to_frame()["group"].tolist() == ["overall", "women", "men"]


def test_pages_escape_what_they_show() -> None:
    sex = ["<b>f</b>"] * 20 + ["m"] * 20
    result = audit(None, {"<i>": [0, 1] * 20}, sensitive_features={"s&x": sex})
    for page in (result.to_html(title="<u>"), result._repr_html_()):
        assert "&lt;b&gt;f" in page
        assert "<b>" not in page
        assert "<i>" not in page
        assert "<u>" not in page
    assert result.to_html().startswith("<!DOCTYPE html>")


def test_the_order_of_the_rows_does_not_matter() -> None:
    frame = people(400)
    frame["weight"] = np.random.default_rng(5).random(400)
    frame["person"] = np.arange(400) // 2
    frames = []
    for rows in (frame, frame.sample(frac=1, random_state=2)):
        result = audit(
            rows["hired"],
            rows["score"],
            sensitive_features=rows[["sex", "race"]],
            sample_weight=rows["weight"],
            people=rows["person"],
        )
        frames.append(result.to_frame())
    assert_frame_equal(*frames, check_exact=True)


def test_equal_weights_change_nothing() -> None:
    frame = people(300)
    given: dict[str, Any] = {"sensitive_features": frame["sex"], "draws": 0}
    plain = audit(frame["hired"], frame["score"], **given).to_frame()
    ones = audit(frame["hired"], frame["score"], **given, sample_weight=np.ones(300)).to_frame()
    assert_frame_equal(plain, ones)
    weighed = audit(frame["hired"], frame["score"], **given, sample_weight=np.full(300, 2.0))
    assert_frame_equal(weighed.to_frame(), plain)


def test_a_row_of_weight_2_counts_as_two_rows() -> None:
    frame = people(300)
    given: dict[str, Any] = {"metrics": ["selection_rate", "accuracy", "auc", "brier"], "draws": 0}
    weights = np.random.default_rng(7).integers(0, 4, 300)
    weighed = audit(
        frame["hired"],
        frame["score"],
        sensitive_features=frame["sex"],
        sample_weight=weights,
        **given,
    )
    rows = frame.loc[frame.index.repeat(weights)].reset_index(drop=True)
    repeated = audit(rows["hired"], rows["score"], sensitive_features=rows["sex"], **given)
    assert np.allclose(weighed.by_group, repeated.by_group)


def test_many_groups_are_compared_in_little_memory() -> None:
    rng = np.random.default_rng(0)
    place = np.repeat(np.arange(3000), 10)
    picked = rng.integers(0, 2, len(place))
    gaps = audit(None, picked, sensitive_features={"place": place}).gaps()
    assert (gaps["lower"] <= gaps["value"]).all()
    assert (gaps["value"] <= gaps["upper"]).all()


def test_ages_that_are_groups_each_get_a_note() -> None:
    rng = np.random.default_rng(0)
    ages = rng.integers(20, 70, 400)
    y = rng.integers(0, 2, 400)
    text = str(audit(y, y, sensitive_features=pd.Series(ages, name="age")))
    assert "Note: each of the 50 numbers of age is compared as a group: pass ranges" in text
    decades = pd.Series(ages // 10, name="decade")
    assert "is compared as a group" not in str(audit(y, y, sensitive_features=decades))


def test_booleans_are_named_and_not_shown_as_numbers() -> None:
    hired = pd.Series([True, False] * 20, name="sanctioned")
    text = str(audit(hired, hired, sensitive_features=["f"] * 20 + ["m"] * 20))
    assert "sanctioned = false is taken as the favourable outcome" in text
    assert "sanctioned = 0" not in text
