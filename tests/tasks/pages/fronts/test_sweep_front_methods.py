"""Methods side by side in a sweep: every number in a table, tests, and sentences that follow from
them.
"""

from __future__ import annotations

from typing import Any

from page_blocks import by_metric, charts, headings, page, rows, said, table, tables
from sweep_documents import EOD, method_documents, sweep_documents

from evenhand.tasks.pages.page_model import Chart, Section

BY_TITLE = {
    "accuracy": "Accuracy",
    EOD: "Equal opportunity difference by sex",
    "theil_index": "Theil index of benefits",
}


def section(documents: dict[str, Any]) -> Section:
    return page("sweep", documents)["methods"]


def findings(documents: dict[str, Any]) -> str:
    return str(section(documents).blocks[0])


def chart(documents: dict[str, Any], metric: str) -> Chart:
    (found,) = [
        c for c in charts(section(documents)) if c.title == f"{BY_TITLE[metric]}, method by method"
    ]
    return found


def differences(documents: dict[str, Any], method: str) -> dict[str, str]:
    """Difference of a method from the reference by metric."""
    found = table(section(documents), "Differences from the reference")
    place = list(found.columns).index(method) - 1
    return {name: texts[place] for name, texts in by_metric(found).items()}


def test_only_a_sweep_over_methods_has_the_section() -> None:
    assert "methods" not in page("sweep", sweep_documents())


def test_each_metric_has_one_chart_and_intersections_none() -> None:
    """The chart has all attributes."""
    found = section(method_documents())
    assert headings(found) == ["Performance", "Differences and inequality"]
    assert [c.title.removesuffix(", method by method") for c in charts(found)] == [
        "Accuracy",
        "Balanced accuracy",
        "Equal opportunity difference by sex",
        "Average odds difference by sex",
        "Average odds difference by race",
        "Theil index of benefits",
    ]


def test_marks_are_means_with_a_standard_deviation() -> None:
    """It goes to either side; the reference is drawn, too."""
    documents = method_documents()
    summaries = [documents["tradeoff"]["values"][i]["metrics"]["accuracy"] for i in (1, 0, 2)]
    found = chart(documents, "accuracy").data["rows"]
    assert [(row["value"], row["low"], row["high"], row["limit"]) for row in found] == [
        (s["mean"], s["mean"] - s["sd"], s["mean"] + s["sd"], summaries[0]["mean"])
        for s in summaries
    ]
    assert [row["label"] for row in found] == ["gbdt (the reference)", "nn (n.s.)", "reweigh"]


def test_sentences_and_tables_say_what_is_significant() -> None:
    documents = method_documents()
    assert findings(documents) == (
        "Compared with gbdt, the reference, on the same 5 splits. nn: **no significant "
        "difference**. "
        "reweigh: **better** in equal opportunity difference by sex (\u22120.150), and **worse** "
        "in accuracy "
        "(\u22120.100); in the other measures no significant difference."
    )
    text = said(section(documents))
    assert "(Nadeau and Bengio 2003)" in text
    assert "Bonferroni" in text
    assert "it does not say that two methods are alike" in text
    found = differences(documents, "reweigh")
    assert found["accuracy"].startswith("\u22120.100 | ")
    assert found["accuracy"].endswith("\u2715 worse")
    assert found["theil_index"].endswith("no significant difference")
    assert differences(documents, "nn")["accuracy"].endswith("no significant difference")
    assert [row["label"] for row in chart(documents, "theil_index").data["rows"]][1:] == [
        "nn (n.s.)",
        "reweigh (n.s.)",
    ]
    described = chart(documents, "accuracy").description
    assert "(n.s.)" in described


def test_every_number_stands_in_a_table() -> None:
    documents = method_documents()
    overall = rows(table(page("sweep", documents)["numbers"], "Overall"))
    for value in documents["tradeoff"]["values"]:
        shown = overall[value["label"]][:2]
        for text, name in zip(shown, ("accuracy", "balanced_accuracy"), strict=True):
            summary = value["metrics"][name]
            assert text.startswith(f"{summary['mean']:.3f} ± {summary['sd']:.3f}")


def test_fewer_than_two_splits_have_no_interval() -> None:
    # nn comes first: of its five splits one, then four, have no number
    some, most = (method_documents(lacking=lacking) for lacking in ((0,), (0, 1, 2, 3)))
    assert differences(some, "nn")[EOD].endswith("no significant difference")
    assert differences(most, "nn")[EOD].endswith("no interval")
    assert differences(most, "reweigh")[EOD].endswith("better")
    assert "nn (n.s.)" in [row["label"] for row in chart(most, EOD).data["rows"]]


def test_one_split_tells_nothing_and_has_no_marks() -> None:
    documents = method_documents(seeds=1)
    assert findings(documents).startswith("One split: the differences from gbdt, the reference,")
    found = section(documents)
    for word in ("n.s.", "±"):
        assert not any(word in str(c.data["rows"]) + c.description for c in charts(found))
        assert not any(word in str(rows(item)) for item in tables(found))


def test_a_method_that_never_finished_has_no_number() -> None:
    documents = method_documents(failing=(0, 1, 2, 3, 4))
    assert "nn: there are no intervals" in findings(documents)
    (row,) = [
        row for row in chart(documents, "accuracy").data["rows"] if row["label"].startswith("nn")
    ]
    assert (row["value"], row["low"]) == (None, None)


def test_the_method_of_the_job_may_be_missing_and_all_may_differ() -> None:
    text = findings(method_documents("method=budro,reweigh"))
    assert text.startswith("Compared with budro, the reference, on the same 5 splits. reweigh: ")
    assert "**better** in equal opportunity difference by sex" in text
    assert "theil index of benefits" in text


def test_another_key_is_named_in_sentences_and_labels() -> None:
    text = findings(method_documents("method=gbdt,reweigh", "split.test=0.2,0.5"))
    assert text.startswith(
        "Compared with gbdt, the reference, at the same values of the other keys, on the"
    )
    assert "method=reweigh, test=0.2: **better**" in text


def test_of_many_values_the_first_are_drawn() -> None:
    """All are in the tables."""
    shares = ",".join(f"0.{i}" for i in range(11, 20))
    documents = method_documents("method=gbdt,reweigh,nn", f"split.test={shares}", seeds=2)
    assert "The charts show the first values; the numbers of 3 more are in the tables." in said(
        section(documents)
    )
    assert len(chart(documents, "accuracy").data["rows"]) == 24
    assert len(table(page("sweep", documents)["numbers"], "Overall").rows) == 27
