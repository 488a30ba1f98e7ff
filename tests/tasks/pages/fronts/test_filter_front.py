"""The page of a filter run: how it ended, files and rows, expected shares, proxy groups, drift,
cautions.
"""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from filter_documents import (
    ACCEPTANCE,
    BALANCE,
    DRIFTED,
    FILES,
    FINE,
    GROUPS,
    TRAINING,
    TWO_PROXIES,
    failing,
    filter_documents,
    many,
    two_attributes,
)
from page_blocks import charts, headings, page, rows, said, table, tables

from evenhand.tasks.filtering.filter_bundle import FilterSettings
from evenhand.tasks.filtering.summary import FileOutcome
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.build import build, cells
from evenhand.tasks.pages.fronts.filter_front import (
    MOST_FILES,
    badge,
    headline,
)
from evenhand.tasks.pages.page_model import Section

NO_ROWS = filter_documents([FileOutcome("empty.csv", "done")], left_out=[])
ALL_SKIPPED = filter_documents([FileOutcome("a.csv", "skipped", 50_000, 21_000)])
ALL_FAILED = filter_documents(failing(3), left_out=[])
WITHOUT_BALANCE = filter_documents(FINE, balance=None)
UNFINISHED = filter_documents(FINE, rows_out=0)
UNFINISHED["run"]["status"] = "failed"


def parts(documents: dict[str, Any]) -> dict[str, Section]:
    return page("filter", documents)


def in_order(section: Section, caption: str) -> list[list[str]]:
    """Texts of a table's rows, smaller lines after a bar."""
    found = table(section, caption)
    return [
        [" | ".join((cell.text, *cell.below)) for cell in cells(list(row))] for row in found.rows
    ]


def everything(documents: dict[str, Any]) -> str:
    """All paragraphs and all texts of tables."""
    found = [headline(documents)]
    for section in parts(documents).values():
        found.append([section.title, said(section), *headings(section)])
        found += [
            [caption.caption, *rows(caption), *sum(rows(caption).values(), [])]
            for caption in tables(section)
        ]
    return " ".join(" ".join(texts) for texts in found)


# the front


def test_the_headline_by_hand() -> None:
    found = headline(filter_documents(FINE, (0.1, 0.5, 0.3, 0.1)))
    assert found[0] == (
        "The output has 48,021 of 100,000 rows (48.0%), from 3 files. Of these, 1 file was "
        "filtered in an "
        "earlier run."
    )
    # Accepted: 0.1, 0.125, 0.15 and 0.08 of the rows, together 0.455; students among them:
    # 0.1 * 0.4 + 0.125 * 0.02 + 0.15 * 0.03 + 0.08 * 0.05 = 0.051, which is 11.2%.
    assert found[1] == (
        "By job: the rarest group, “student”, is 6.0% of the training rows and 11.2% of the kept "
        "rows, as "
        "expected (target: 25.0%)."
    )
    # Of the kept 0.455, the groups have 0.13225, 0.17275, 0.099 and 0.051.
    kept = sum(
        (a - 0.25) ** 2 for a in (0.13225 / 0.455, 0.17275 / 0.455, 0.099 / 0.455, 0.051 / 0.455)
    )
    assert f"is expected to be {kept**0.5:.3f} (95% interval " in found[2]
    assert found[2].endswith("; that of the training rows is 0.296.")
    assert found[3] == (
        "The rows fall into the proxy groups as the training rows did (population stability index "
        "0.000, "
        "limit 0.200)."
    )
    assert len(found) == 4


def test_drift_comes_before_the_balance_with_its_cure() -> None:
    documents = filter_documents(FINE, DRIFTED)
    found = headline(documents)
    assert "not like the training rows" in found[1]
    assert f"index {documents['summary']['drift']['psi']:.3f}, above the limit of 0.200" in found[1]
    assert "Retrain the proxy" in found[1]
    assert not any("as the training rows did" in sentence for sentence in found)
    assert badge(documents) == ("insufficient_evidence", "?", "Filtered, but the rows have drifted")


def test_a_limit_that_is_just_passed_differs_from_the_index() -> None:
    documents = filter_documents(FINE)
    documents["settings"]["max_drift"] = documents["summary"]["drift"]["psi"] - 1e-5
    documents["summary"]["drift"]["warning"] = True
    found = re.search(r"index ([\d.]+), above the limit of ([\d.]+)\)", headline(documents)[1])
    assert found is not None
    assert float(found[1]) > float(found[2])


def test_groups_that_end_farther_from_the_target_are_named() -> None:
    balance = copy.deepcopy(BALANCE)
    balance["base_rates_train"] = [0.26, 0.45, 0.24, 0.05]
    documents = filter_documents(FINE, (0.1, 0.5, 0.3, 0.1), balance)
    # 29.1% and 21.8% are farther from 25% than 26% and 24% are
    assert "Farther from the target share than before: “admin.” and “retired”." in headline(
        documents
    )
    heads = {row[0] for row in in_order(parts(documents)["shares"], "Shares by job")}
    assert {head for head in heads if "farther" in head} == {
        "admin. | farther from the target",
        "retired | farther from the target",
    }


@pytest.mark.parametrize(
    ("documents", "text", "start"),
    [
        (filter_documents(), "1 of 4 files failed", "The output has 48,021 of 100,000 rows"),
        (ALL_FAILED, "3 of 3 files failed", "Nothing was filtered, and the output has no row."),
        (NO_ROWS, "No rows to filter", "There was nothing to filter: 1 file without a row."),
        (ALL_SKIPPED, "Filtered", "The output has 21,000 of 50,000 rows (42.0%), from 1 file."),
        (UNFINISHED, "Did not finish", "The output has 0 of 100,000 rows (0.0%)"),
    ],
)
def test_badge_and_first_sentence_say_how_it_ended(
    documents: dict[str, Any], text: str, start: str
) -> None:
    assert badge(documents)[2] == text
    assert headline(documents)[0].startswith(start)
    assert (badge(documents)[0] == "failed") == (documents["run"]["status"] == "failed")


def test_nothing_to_do_means_that_all_files_were_done_before() -> None:
    words = "All files of the input were filtered before and have not changed."
    assert words in headline(ALL_SKIPPED)[0]
    assert words not in headline(filter_documents(FINE))[0]
    mixed = [FileOutcome("a.csv", "skipped", 50, 20), *failing(1)]
    assert words not in headline(filter_documents(mixed))[0]
    assert headline(UNFINISHED)[1] == "The run did not finish: start it again, and it continues."


def test_the_work_of_another_proxy_is_named_and_listed() -> None:
    documents = filter_documents(FINE, others=4, proxies=TWO_PROXIES)
    assert "4 files filtered by another proxy (version 2)" in headline(documents)[-1]
    assert "the expected shares and the drift do not" in headline(documents)[-1]
    assert "from 7 files" in headline(documents)[0]
    assert "4 files are of earlier runs and not in this input." in headline(documents)[0]
    found = rows(table(parts(documents)["made"], "Proxies that filtered"))
    assert found == {
        "Version 3": [f"3 files; SHA-256 {'a' * 64}"],
        "Version 2": [f"4 files; SHA-256 {'b' * 64}"],
    }
    assert not any("another proxy" in sentence for sentence in headline(filter_documents()))


def test_the_front_names_proxy_input_and_output() -> None:
    front = build("filter", filter_documents()).front
    assert front.title == "bank-balanced-sample: filtered rows"
    assert [(name, cell.text, cell.code) for name, cell in front.facts] == [
        ("Proxy", "bank-proxy, version 3, champion", "models:/bank-proxy@champion"),
        ("Input", "", "/data/bank/accounts"),
        ("Output", "", "/data/bank/balanced"),
    ]


# files and rows


def test_failed_files_come_with_their_reasons_and_the_cure() -> None:
    found = headline(ALL_FAILED)[1]
    assert found.startswith(
        "3 of 3 files of the input failed; none of their rows is in the output."
    )
    assert "run the filter again" in found
    section = parts(ALL_FAILED)["files"]
    assert [row[0] for row in in_order(section, "Failed files")] == [
        f"00{i}.csv | reason {i}" for i in range(3)
    ]


def test_failed_files_stand_before_the_others() -> None:
    section = parts(filter_documents())["files"]
    assert [item.caption for item in tables(section)] == [
        "Failed files, and why",
        "Files of the input that are in the output",
    ]
    found = in_order(section, "Files of the input")
    assert found[1] == ["2026/05/accounts.parquet", "filtered before", "35,000", "16,840", "40"]
    assert "Ignored, as their names are neither of Parquet nor of CSV: 2026/README.md." in said(
        section
    )


def test_of_many_failed_files_the_first_are_named() -> None:
    """All are counted."""
    section = parts(filter_documents(failing(MOST_FILES + 1)))["files"]
    assert (
        len(in_order(section, f"The first {MOST_FILES} of {MOST_FILES + 1} failed files"))
        == MOST_FILES
    )


def test_of_many_files_the_first_are_listed() -> None:
    """All are counted."""
    section = parts(filter_documents(many(MOST_FILES + 40)))["files"]
    caption = next(
        item.caption for item in tables(section) if item.caption.startswith("Files of the input")
    )
    done = sum(file.status != "failed" for file in many(MOST_FILES + 40))
    assert f"the first {MOST_FILES} of {done};" in caption
    assert len(in_order(section, "Files of the input")) == MOST_FILES


def test_every_row_is_accounted_for() -> None:
    found = rows(table(parts(filter_documents(dropped=7))["rows"], "Rows of all files"))
    counts = {name: int(texts[0].replace(",", "")) for name, texts in found.items()}
    # judged: 100,000 rows less 53; accepted of them 0.12 + 0.45 / 4 + 0.32 / 2 + 0.11 * 0.8 =
    # 0.4805
    assert found["Kept | 48,025 expected"] == ["48,021", "48.0%"]
    assert counts["Set aside | they break the data contract"] == 53
    assert counts["Left out | a sensitive model input is missing"] == 7
    assert (
        sum(n for name, n in counts.items() if name != "All rows read")
        == counts["All rows read"]
        == 100_000
    )


def test_columns_and_rows_that_were_left_out_are_named() -> None:
    text = said(parts(filter_documents(left_out=["job", "sex"]))["rows"])
    assert (
        "Sensitive columns are no input of the proxy and are not in the output: `job`, `sex`."
        in text
    )
    assert "53 rows outside the data contract" in text
    assert "_evenhand/quarantine" in text
    clean = parts(filter_documents(FINE[:1], left_out=[]))["rows"]
    assert "no sensitive column that the proxy does not need" in said(clean)
    assert headings(clean) == ["Columns that were left out"]
    assert not headings(parts(ALL_FAILED)["rows"])


# expected shares


def test_shares_stand_beside_those_of_training_and_the_target() -> None:
    documents = filter_documents(FINE)
    found = documents["summary"]["balance"]
    section = parts(documents)["shares"]
    assert in_order(section, "Shares by job") == [
        [
            group,
            formats.percent(before),
            f"{formats.percent(after)} | "
            + formats.interval(found["low"][k], found["high"][k], formats.percent),
            "25.0%",
            f"{after / before:.3f}",
        ]
        for k, (group, before, after) in enumerate(
            zip(GROUPS["job"], BALANCE["base_rates_train"], found["shares"], strict=True)
        )
    ]
    (chart,) = charts(section)
    expected = zip(
        GROUPS["job"], BALANCE["base_rates_train"], found["shares"], [0.25] * 4, strict=True
    )
    assert [tuple(row.values()) for row in chart.data["rows"]] == list(expected)
    assert "student 6.0% to " in chart.description
    assert "The 95% interval covers the number of those rows only." in said(section)


def test_a_group_with_few_training_rows_has_no_share() -> None:
    """It is never the rarest."""
    documents = filter_documents(FINE)
    documents["balance"]["base_rates_train"][3] = None
    section = parts(documents)["shares"]
    student = in_order(section, "Shares by job")[3]
    assert (student[0], student[1], student[4]) == ("student", "not available", "not available")
    assert charts(section)[0].data["rows"][3]["before"] is None
    assert "the rarest group, “retired”" in " ".join(headline(documents))
    assert "imbalance" not in " ".join(headline(documents))


def test_every_attribute_has_its_own_shares() -> None:
    documents = filter_documents(FINE, balance=two_attributes())
    section = parts(documents)["shares"]
    found = in_order(section, "Shares by job") + in_order(section, "Shares by sex")
    assert [row[2].partition(" | ")[0] for row in found] == [
        formats.percent(s) for s in documents["summary"]["balance"]["shares"]
    ]
    assert [row[:2] for row in found[4:]] == [["female", "30.0%"], ["male", "70.0%"]]
    assert len(charts(section)) == 2


# proxy groups and drift


def test_proxy_groups_are_numbered_by_their_size_in_training() -> None:
    documents = filter_documents(FINE, (0.1, 0.2, 0.3, 0.4))
    section = parts(documents)["groups"]
    found = in_order(section, "Rows by proxy group")
    # of 99,947 judged rows
    assert found[0] == ["1", "50.0%", "20.0%", "19,989", "0.250", "4,997"]
    assert found[3] == ["4", "10.0%", "40.0%", "39,979", "0.800", "31,983"]
    (chart,) = charts(section)
    # places 1, 2, 0 and 3 of the bundle: of equal ones the earlier comes first
    assert [row["before"] for row in chart.data["rows"]] == [0.5, 0.3, 0.1, 0.1]
    assert [row["after"] for row in chart.data["rows"]] == pytest.approx([0.2, 0.3, 0.1, 0.4])
    assert "group 1 from 50.0% to 20.0%" in chart.description


def test_the_drift_test_is_under_the_table() -> None:
    """Its index is in the headline."""
    documents = filter_documents(FINE, DRIFTED)
    drift = documents["summary"]["drift"]
    text = said(parts(documents)["groups"])
    assert f"(statistic {formats.number(drift['chi_square'])}) the p-value is below 0.001" in text
    assert "With many rows it is small for any difference" in text
    assert any(
        f"population stability index {drift['psi']:.3f}, above the limit of 0.200" in sentence
        for sentence in headline(documents)
    )


def test_without_the_proxys_measurements_only_the_batch_shows() -> None:
    assert "shares" not in parts(WITHOUT_BALANCE)
    assert "published without the measurements" in " ".join(headline(WITHOUT_BALANCE))
    section = parts(WITHOUT_BALANCE)["groups"]
    found = in_order(section, "Rows by proxy group")
    assert [row[1:3] for row in found] == [
        ["not known", s] for s in ("45.0%", "32.0%", "12.0%", "11.0%")
    ]
    assert not charts(section)
    assert "the proxy’s own page" not in said(section)


def test_without_a_judged_row_no_drift_or_balance_is_claimed() -> None:
    lacking = filter_documents(FINE, drift=None, masses=[0.0] * 4, expected_by_group=[0.0] * 4)
    assert any("Drift cannot be judged" in sentence for sentence in headline(lacking))
    assert "groups" not in parts(lacking)
    assert "no row is expected to be kept" in said(parts(NO_ROWS)["shares"])
    assert "as the training rows" not in everything(NO_ROWS)


# cautions


def test_rows_with_the_same_random_number_depend_on_the_key() -> None:
    without = said(parts(filter_documents(FINE, settings=FilterSettings(seed=11)))["cautions"])
    assert "Rows with equal features are all kept or all left out" in without
    assert "seed 11" in without
    keyed = said(
        parts(filter_documents(FINE, settings=FilterSettings(key=("id", "month"))))["cautions"]
    )
    assert "equal features" not in keyed
    assert "its key (“id” and “month”)" in keyed
    for text in (without, keyed):
        assert "The shares are expectations, not counts." in text
        assert "Other people have other shares." in text


def test_no_number_is_undefined() -> None:
    for documents in (filter_documents(), NO_ROWS, ALL_FAILED, WITHOUT_BALANCE, UNFINISHED):
        assert not re.search(r"\b(nan|inf|None|undefined)\b", everything(documents))


def test_the_example_fits_together() -> None:
    assert sum(TRAINING) == pytest.approx(1.0)
    assert len(ACCEPTANCE) == len(TRAINING) == len(BALANCE["compositions"])
    assert all(sum(line) == pytest.approx(1.0) for line in BALANCE["compositions"])
    assert {file.status for file in FILES} == {"done", "skipped", "failed"}
