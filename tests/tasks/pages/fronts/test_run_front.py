"""The page of a run: its front and headline, and the sections that every classifier has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from page_blocks import by_metric, charts, headings, page, rows, said, table, tables
from page_examples import COUNTS, LACKING, gate, ok, published_documents, run_documents

from evenhand.tasks.pages import formats
from evenhand.tasks.pages.build import build, write_page
from evenhand.tasks.pages.fronts.run_front import headline
from evenhand.tasks.pages.page_model import Terms

METRICS = run_documents()["metrics"]["metrics"]
RATES = ("Base rate", "Selection rate", "True positive rate (TPR)", "True negative rate (TNR)")


@pytest.fixture
def documents() -> dict[str, Any]:
    return run_documents()


def test_sections_come_in_the_order_of_reading(documents: dict[str, Any]) -> None:
    assert list(page("run", documents)) == [
        "gates",
        "metrics",
        "rates",
        "scores",
        "training",
        "made",
    ]


@pytest.mark.parametrize(
    ("section", "document", "empty"),
    [
        ("gates", "decision", None),
        ("scores", "histograms", None),
        ("training", "history", None),
        ("training", "history", {"step": [1], "loss": [None]}),
        ("rates", "metrics", {"counts": {}}),
    ],
)
def test_empty_sections_are_left_out(
    documents: dict[str, Any], section: str, document: str, empty: Any
) -> None:
    documents[document] = documents[document] | empty if document == "metrics" else empty
    assert section not in page("run", documents)


def test_a_run_without_steps_has_no_table_of_them(documents: dict[str, Any]) -> None:
    documents["run"]["steps"] = []
    captions = [found.caption for found in tables(page("run", documents)["made"])]
    assert "Time of each step" not in captions


# the front


def test_the_headline_answers_the_questions(documents: dict[str, Any]) -> None:
    found = headline(documents)
    assert found[0] == (
        "The model, gradient-boosted trees trained on the worst case within a fair-distance budget "
        "(BuDRO), "
        "was trained on 36,177 of the 45,222 rows of the table adult and evaluated on 9,045 rows "
        "that it had "
        "not seen."
    )
    assert found[1] == "It is not published: 1 of 4 gates refused it."
    assert found[2] == "Counterfactual consistency over spouse in one line."
    assert found[3].endswith(" in one line.")
    # the widest difference first; (590 + 1498) / 6121 - (130 + 196) / 2924 = 0.2296
    assert found[4].startswith("By age: 32.3% of “25-59” and 0.7% of “<25” are predicted positive")
    assert found[5] == (
        "By sex: 34.1% of “Male” and 11.1% of “Female” are predicted positive; a difference of "
        "23.0 "
        "percentage points (95% interval 21.2 to 24.7); the impact ratio 0.327 is below four "
        "fifths."
    )
    assert found[-1].startswith(
        "94.4% of people have the same prediction on every counterfactual copy"
    )
    assert found[-1].endswith("differs only in “spouse”.")


@pytest.mark.parametrize(
    ("results", "start"),
    [
        (0, "No gate was set, so the model was not held to any limit"),
        (1, "It passes its one gate"),
        (2, "It passes both gates"),
        (3, "It passes all 3 gates"),
    ],
)
def test_the_headline_of_a_published_model(results: int, start: str) -> None:
    documents = published_documents()
    documents["decision"]["results"] = documents["decision"]["results"][:1] * results
    expected = f"{start} and is published as version 4 of adult-budro, as its champion."
    assert headline(documents)[1] == expected


def test_groups_are_not_compared_without_evidence(documents: dict[str, Any]) -> None:
    lacking = {**LACKING, "reason": "sex: too few rows"}
    documents["metrics"]["metrics"]["demographic_parity_difference.sex"] = lacking
    found = headline(documents)
    assert "By sex: not enough evidence to compare the groups: sex: too few rows." in found
    assert not any(text.startswith("By sex: ") and "%" in text for text in found)


def test_one_group_is_compared_with_none_and_equal_rates_are_named(
    documents: dict[str, Any],
) -> None:
    del documents["metrics"]["metrics"]["demographic_parity_difference.sex"]
    documents["metrics"]["counts"] = {
        "sex": [{"group": "x", "label": 0, "n": 90, "predicted_positive": 3}]
    }
    assert "By sex: not enough evidence to compare the groups." in headline(documents)
    same = [{"group": group, "label": 0, "n": 90, "predicted_positive": 9} for group in "xy"]
    documents["metrics"]["counts"] = {"sex": same}
    assert "By sex: 10.0% of every group are predicted positive." in headline(documents)


def test_attributes_beyond_three_are_counted_and_intersections_are_not_named(
    documents: dict[str, Any],
) -> None:
    sex = documents["metrics"]["counts"]["sex"]
    documents["metrics"]["counts"] |= {"d": sex, "e": sex, "sex&race": sex}
    found = headline(documents)
    assert "2 further attributes with smaller differences: see the tables below." in found
    assert not any("sex and race" in text for text in found)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("published", "Published"),
        ("gated", "Not published: a gate refused"),
        ("insufficient_evidence", "Not published: not enough evidence"),
    ],
)
def test_the_status_is_stated_in_words(documents: dict[str, Any], status: str, words: str) -> None:
    documents["run"]["status"] = status
    documents["run"]["model"] = published_documents()["run"]["model"]
    badge = build("run", documents).front.badge
    assert badge is not None
    assert (badge[0], badge[2]) == (status, words)
    html = write_page(
        "run",
        {"run": documents["run"], "metrics": {**documents["metrics"], "metrics": {}, "counts": {}}},
    )
    assert f": {words}</title>" in html


def test_the_front_names_model_contract_and_purpose(documents: dict[str, Any]) -> None:
    facts = dict(build("run", documents).front.facts)
    assert facts["Model"].text == "No version was published."
    assert (facts["Data contract"].text, facts["Data contract"].href) == (
        "adult, version 1.0.0: what was checked",
        "contract.html",
    )
    assert facts["Purpose"].text == documents["run"]["job"]["description"]
    model = dict(build("run", published_documents()).front.facts)["Model"]
    assert (model.text, model.code) == (
        "adult-budro, version 4, champion",
        "models:/adult-budro@champion",
    )


# gates


def test_gates_that_did_not_pass_come_first_with_what_was_asked_and_found(
    documents: dict[str, Any],
) -> None:
    found = by_metric(table(page("run", documents)["gates"], "Every gate"))
    assert list(found) == [
        "consistency.spouse",
        "equal_opportunity_difference.age",
        "balanced_accuracy",
        "gap_max.sex",
    ]
    assert found["consistency.spouse"] == ["Refused", "In one line"]
    assert found["balanced_accuracy"] == ["Passed", "In one line"]
    assert found["equal_opportunity_difference.age"] == ["Not enough evidence", "In one line"]


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("passed", "here all passed"),
        ("refused", "here at least one refused"),
        ("insufficient_evidence", "here the rows were too few to decide"),
    ],
)
def test_the_gates_say_how_it_ended(documents: dict[str, Any], verdict: str, words: str) -> None:
    documents["decision"]["verdict"] = verdict
    assert words in said(page("run", documents)["gates"])


def test_a_gate_says_its_metric_once_unless_it_judges_by_another(documents: dict[str, Any]) -> None:
    texts = (
        "auc is 0.700 and must be at least 0.800",
        "auc.proved, by which a max of auc is judged, is 0.7",
    )
    documents["decision"]["results"] = [
        gate("auc", "min", 0.8, 0.7) | {"text": text} for text in texts
    ]
    rows = table(page("run", documents)["gates"], "Every gate").rows
    assert [row[2] for row in rows] == ["Is 0.700 and must be at least 0.800", f"A{texts[1][1:]}"]


def test_many_gates_are_folded_and_no_gate_is_a_sentence(documents: dict[str, Any]) -> None:
    results = documents["decision"]["results"]
    assert not tables(page("run", documents)["gates"])[0].folded
    documents["decision"]["results"] = results * 4
    assert tables(page("run", documents)["gates"])[0].folded
    documents["decision"]["results"] = []
    assert said(page("run", documents)["gates"]) == (
        "The job sets no gate, so the model was not held to any limit."
    )


# metrics


def test_every_metric_stands_in_the_table_with_interval_and_paper(
    documents: dict[str, Any],
) -> None:
    found = by_metric(
        table(
            page("run", documents)["metrics"],
            "All metrics with their 95% intervals, compared with Vargo et al. 2021",
        )
    )
    for name, metric in METRICS.items():
        if metric["value"] is not None:
            ends = formats.interval(metric["low"], metric["high"])
            assert found[name][0] == f"{formats.number(metric['value'])} | {ends}"
    assert found["balanced_accuracy"][1:] == ["0.815 ± 0.005", "+0.0004"]
    assert found["auc"][1:] == ["not in the paper"]
    assert found["gap_rms.race"] == ["not measured", "0.072", "cannot be computed"]
    # a metric without evidence is never a number
    reason = "not enough evidence | age: 1 cell of 6 has fewer than 25 rows"
    assert found["equal_opportunity_difference.age"] == [
        reason,
        "0.300 ± 0.100",
        "cannot be computed",
    ]


def test_without_a_paper_there_is_no_column_for_it(documents: dict[str, Any]) -> None:
    documents["run"]["paper"] = None
    section = page("run", documents)["metrics"]
    assert table(section, "All metrics").columns == ["Metric", "Model"]
    assert "Diamonds" not in said(section)
    assert by_metric(table(section, "All metrics"))["auc"] == ["0.902 | 0.895 to 0.909"]


def test_charts_hold_metrics_of_one_direction_and_no_intersections(
    documents: dict[str, Any],
) -> None:
    documents["metrics"]["metrics"] |= {
        "gap_max.sex&race": ok(0.2, 0.1),
        "smallest_growth": ok(2.0, 0.1),
    }
    documents["metrics"]["counts"]["sex&race"] = documents["metrics"]["counts"]["sex"]
    section = page("run", documents)["metrics"]
    first, growth, lower = charts(section)
    assert headings(section)[:3] == [
        "Higher is better",
        "Growth in times: higher is better",
        "Lower is better",
    ]
    assert [row["label"] for row in growth.data["rows"]] == ["Growth of the rarest group"]
    assert not any("sex and race" in row["label"] for row in lower.data["rows"])
    assert "1 metric of intersections of attributes is in the table only." in said(section)
    row = next(row for row in first.data["rows"] if row["label"] == "Balanced accuracy")
    assert (row["value"], row["paper"], row["paper_sd"], row["limit"]) == (
        0.8154,
        0.815,
        0.005,
        0.8,
    )
    assert (first.data["ceiling"], lower.data["floor"]) == (1.0, 0.0)
    assert "Counterfactual consistency over spouse 0.944" in first.description
    assert "Equal opportunity difference by age not enough evidence" in lower.description


def test_a_run_without_metrics_has_no_such_section(documents: dict[str, Any]) -> None:
    documents["metrics"]["metrics"] = {}
    assert "metrics" not in page("run", documents)


def test_the_glossary_explains_a_kind_once_for_all_its_attributes(
    documents: dict[str, Any],
) -> None:
    names = [
        "auc",
        "gap_max.sex",
        "gap_max.race",
        "gap_max.sex&race",
        "consistency.a",
        "consistency.b",
        "own",
    ]
    documents["metrics"]["metrics"] = {name: ok(0.5, 0.1) for name in names}
    (terms,) = [
        block for block in page("run", documents)["metrics"].blocks if isinstance(block, Terms)
    ]
    assert [entry[:2] for entry in terms.entries] == [
        ("Area under the ROC curve", "higher is better"),
        ("Largest gap in error rates", "lower is better"),
        ("Counterfactual consistency", "higher is better"),
    ]
    explained = [entry[2] for entry in terms.entries]
    assert "by sex, race or sex and race in" in explained[1]
    assert "only in “a or b”" in explained[2]
    assert all("Formula: `" in text and "{" not in text for text in explained)


# groups


def test_rates_of_every_group_stand_in_chart_and_table(documents: dict[str, Any]) -> None:
    section = page("run", documents)["rates"]
    assert headings(section) == ["By sex", "By race", "By age"]
    for name, counts in COUNTS.items():
        found = rows(table(section, f"Rates by {name}"))
        for group, n0, p0, n1, p1 in counts:
            assert found[group][0] == f"{n0 + n1:,}"
            assert f"{n1:,} of {n0 + n1:,}" in found[group][1]
            assert f"{p0 + p1:,} of {n0 + n1:,}" in found[group][2]
            assert n1 < 25 or f"{p1:,} of {n1:,}" in found[group][3]
            assert f"{n0 - p0:,} of {n0:,}" in found[group][4]
    chart = charts(section)[0]
    assert [(row["rate"], row["group"]) for row in chart.data["rows"]] == [
        (rate, group) for rate in RATES for group in ("Female", "Male")
    ]
    assert "Selection rate: groups 23.0 percentage points apart" in chart.description


def test_a_rate_over_too_few_rows_is_not_shown_but_its_group_is(documents: dict[str, Any]) -> None:
    section = page("run", documents)["rates"]
    assert "a rate over fewer than 25 rows is not shown" in said(section)
    few = rows(table(section, "Rates by age"))["<25"]
    assert few[0] == "1,371"
    assert few[1].startswith("1.5% | 21 of 1,371")
    assert few[2].startswith("0.7% | 10 of 1,371")
    assert few[3] == "too few rows | 21"
    assert few[4].startswith("99.7% | 1,346 of 1,350")
    drawn = {(row["rate"], row["group"]): row["value"] for row in charts(section)[2].data["rows"]}
    assert drawn["True positive rate (TPR)", "<25"] is None


def test_of_many_groups_the_largest_are_drawn_and_all_are_in_the_table(
    documents: dict[str, Any],
) -> None:
    cells = [
        {"group": f"g{i}", "label": 1, "n": 100 + i, "predicted_positive": 50} for i in range(11)
    ]
    documents["metrics"]["counts"] = {"town": cells, "town&sex": cells, "sex": cells[:1]}
    section = page("run", documents)["rates"]
    first, second = charts(section)
    assert {row["group"] for row in first.data["rows"]} == {f"g{i}" for i in range(3, 11)}
    assert first.caption == "The largest groups; 3 more are in the table."
    assert len(tables(section)[0].rows) == 11
    # one group has nothing to be compared with
    assert "Selection rate: nothing to compare" in second.description


# scores


def test_scores_of_every_shown_group_stand_in_chart_and_table(documents: dict[str, Any]) -> None:
    section = page("run", documents)["scores"]
    for name, histogram in documents["histograms"].items():
        found = table(section, f"Scores by {name}")
        shown = [group for group, counts in histogram["groups"].items() if counts]
        assert found.folded
        assert found.columns == ["Score", *shown, "All shown groups"]
        for group in shown:
            counts = histogram["groups"][group]
            column = [row[found.columns.index(group)] for row in found.rows]
            assert [cell.below[0] for cell in column] == [f"{n:,}" for n in counts]
            assert [cell.text for cell in column] == [
                f"{100 * n / sum(counts):.1f}%" for n in counts
            ]
    female, male, *_ = charts(section)
    assert sum(female.data["shares"]) == pytest.approx(1.0)
    assert female.data["top"] == male.data["top"] >= max(female.data["shares"])
    assert female.caption == "Female: 2,924 rows"
    assert "The fullest range is " in female.description


def test_groups_with_hidden_scores_are_named(documents: dict[str, Any]) -> None:
    section = page("run", documents)["scores"]
    assert "Not shown because there are too few rows: <25." in said(section)
    assert "<25" not in table(section, "Scores by age").columns
    documents["histograms"] = {"age": {"edges": [0, 1], "groups": {"a": None, "b": [0]}}}
    section = page("run", documents)["scores"]
    assert "too few rows: a, b." in said(section)
    assert not charts(section)


# training


def test_a_long_training_is_thinned_and_keeps_its_ends(documents: dict[str, Any]) -> None:
    section = page("run", documents)["training"]
    (chart,) = charts(section)
    history = documents["history"]
    assert [row for row in chart.data["rows"] if row["step"] == 1] == [
        {"step": 1, "series": "adversarial loss", "value": history["adversarial_loss"][0]},
        {"step": 1, "series": "loss", "value": history["loss"][0]},
    ]
    found = table(section, "60 of 180 recorded steps")
    assert len(found.rows) == 60
    assert [found.rows[0][0], found.rows[-1][0]] == ["1", "180"]
    assert rows(found)["180"] == [
        formats.number(history[name][-1]) for name in ("adversarial_loss", "loss")
    ]
    assert "loss goes from 0.690 to 0.403" in chart.description


def test_a_training_curve_with_gaps_and_with_one_point(documents: dict[str, Any]) -> None:
    documents["history"] = {"loss": [0.5, None, float("inf")], "adversary_loss": [None, None, None]}
    section = page("run", documents)["training"]
    assert [cells for cells in rows(tables(section)[0]).values()] == [
        ["0.500"],
        ["not available"],
        ["not available"],
    ]
    assert [row["value"] for row in charts(section)[0].data["rows"]] == [0.5, None, None]
    documents["history"] = {"loss": [2.0]}
    assert rows(tables(page("run", documents)["training"])[0]) == {"1": ["2.000"]}


def test_curves_of_other_sizes_have_charts_of_their_own(documents: dict[str, Any]) -> None:
    documents["history"] = {"adversarial_loss": [100.0, 0.0], "loss": [0.5, 0.4]}
    found = charts(page("run", documents)["training"])
    assert [chart.title for chart in found] == ["adversarial loss by step", "loss by step"]


# how it was made


def test_steps_have_times_and_what_was_reused(documents: dict[str, Any]) -> None:
    found = rows(table(page("run", documents)["made"], "Time of each step"))
    assert found == {
        "ingest": ["1.8 s, reused from the cache"],
        "train": ["2 min 41 s"],
        "gate": ["0.02 s"],
        "All": ["2 min 43 s"],
    }


def test_everything_recorded_stands_in_tables(documents: dict[str, Any]) -> None:
    section = page("run", documents)["made"]
    job = rows(table(section, "The job"))
    assert job["Method"][0].startswith("budro: gradient-boosted trees")
    assert (job["Seed"], job["boosting.eta"], job["solver"]) == (["7"], ["0.005"], ["dual"])
    assert rows(table(section, "The table"))["Fingerprint (SHA-256)"] == ["9b" * 32]
    assert rows(table(section, "The evaluation")) == {
        "Rows evaluated": ["9,045"],
        "Level of the intervals": ["95%"],
        "Bootstrap draws": ["1,000"],
        "Rows that a rate needs": ["25"],
    }
    machine = rows(table(section, "The machine"))
    assert machine["Git commit"] == ["4f1c2d9b6a7e, with changes not committed"]
    assert machine["xgboost"] == ["3.2.0"]
    files = table(section, "Files next to this page").rows
    assert [(row[0].text, row[0].href) for row in files] == [("metrics", "metrics.json")]
    documents["run"]["job"]["seed"] = None
    documents["run"] |= {"files": [], "environment": {"python": "3"}}
    section = page("run", documents)["made"]
    assert rows(table(section, "The job"))["Seed"] == ["not set"]
    assert rows(table(section, "The machine"))["Git commit"] == ["not recorded"]
    assert not headings(section)


def test_an_evaluation_is_taken_as_the_science_writes_it(documents: dict[str, Any]) -> None:
    from evenhand.fairlib.evaluation.evaluate import evaluate
    from evenhand.fairlib.evaluation.gates import decide, parse_gates
    from evenhand.fairlib.evaluation.outcomes import Outcomes, score_histograms

    rng = np.random.default_rng(3)
    score = rng.random(400)
    y_true = (rng.random(400) < score).astype(np.int64)
    sensitive = {
        "sex": np.where(rng.random(400) < 0.4, "x", "y"),
        "rare": np.array(["p"] * 398 + ["q"] * 2),
    }
    outcomes = Outcomes(
        y_true, (score > 0.5).astype(np.int64), score, sensitive, {"all": score > 0.1}
    )
    found = evaluate(outcomes, draws=20, seed=1, level=0.9)
    decision = decide(found, parse_gates({"accuracy": {"min": 0.99}, "gap_max.rare": {"max": 0.5}}))
    documents |= {
        "metrics": found.to_json(),
        "decision": decision.to_json(),
        "histograms": score_histograms(outcomes),
    }
    parts = page("run", documents)
    shown = by_metric(table(parts["metrics"], "All metrics"))
    assert shown["accuracy"][0].startswith(formats.number(found.metrics["accuracy"].value))
    assert "90% interval" in said(parts["metrics"])
    assert "95%" not in said(parts["metrics"]) + said(parts["rates"])
    assert "Not shown because there are too few rows: q." in said(parts["scores"])
    assert (
        by_metric(table(parts["gates"], "Every gate"))["gap_max.rare"][0] == "Not enough evidence"
    )


def test_a_big_run_keeps_every_group(documents: dict[str, Any]) -> None:
    attributes = [f"attribute_{i}" for i in range(6)]
    crossed = [f"{a}&{b}" for i, a in enumerate(attributes) for b in attributes[i + 1 :]]
    documents["metrics"]["counts"] = {
        name: [
            {"group": f"{name} group {g}", "label": label, "n": 900 + g, "predicted_positive": 300}
            for g in range(15)
            for label in (0, 1)
        ]
        for name in attributes + crossed
    }
    section = page("run", documents)["rates"]
    heads = {row[0] for found in tables(section) for row in found.rows}
    assert heads == {f"{name} group {g}" for name in attributes + crossed for g in range(15)}
    assert len(charts(section)) == 6
