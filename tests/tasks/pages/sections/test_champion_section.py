"""What changed since the champion: the sentence of the headline, and the section's tables."""

from __future__ import annotations

from typing import Any

import pytest
from page_blocks import by_metric, page, rows, said, table, tables
from page_examples import published_documents, run_documents, with_champion

from evenhand.tasks.evaluating.favoured_groups import favoured_groups
from evenhand.tasks.pages.fronts.run_front import headline
from evenhand.tasks.pages.page_model import Section
from evenhand.tasks.pages.sections.champion_section import champion_sentence


def section(documents: dict[str, Any]) -> Section:
    return page("run", documents)["champion"]


def test_without_a_champion_nothing_is_said() -> None:
    assert "champion" not in page("run", run_documents())
    assert not any("champion" in sentence for sentence in headline(run_documents()))


def test_a_refused_run_names_what_was_refused_first() -> None:
    documents = with_champion()
    sentence = champion_sentence(documents)
    assert sentence == (
        "Version 3 was champion before, and stays it: Counterfactual consistency over spouse was "
        "0.952 and "
        "is now 0.944, Demographic parity difference by age is still 0.316, on the same table, "
        "with other "
        "values of boosting.eta and solver."
    )
    # after the gates and the groups, and before what was trained on what
    found = headline(documents)
    assert found[-2] == sentence
    assert found[-1].startswith("The model, ")


def test_a_published_run_took_its_place() -> None:
    sentence = champion_sentence(with_champion(published_documents("4")))
    assert sentence.startswith(
        "Version 3 was champion before: Balanced accuracy was 0.765 and is now 0.815,"
    )


def test_a_run_whose_own_version_is_the_champion_says_so() -> None:
    documents = with_champion(published_documents("3"))
    assert (
        champion_sentence(documents)
        == "This model is the champion: version 3 has the same content."
    )
    assert "same content as version 3" in said(section(documents))
    assert not tables(section(documents))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data_fingerprint": "ab" * 32}, "on new data"),
        ({"method": "gbdt"}, "by another method (gbdt before)"),
        ({"parameters": run_documents()["run"]["job"]["parameters"]}, "with the same parameters"),
        ({"parameters": {"a": 1, "b": 2}}, "with other values of a, b and 3 more"),
    ],
)
def test_data_method_and_parameters_in_words(changes: dict[str, Any], words: str) -> None:
    documents = with_champion(**changes)
    assert words in champion_sentence(documents)
    on_other_rows = "evaluated on different rows" in said(section(documents))
    assert on_other_rows == ("data_fingerprint" in changes)


def test_another_favoured_group_than_the_champions_is_named() -> None:
    """The difference has the same size, and is one against the other group."""
    documents = with_champion()
    now = favoured_groups(documents["metrics"])
    assert now
    same = champion_sentence(with_champion(favoured=now))
    assert "favoured" not in same
    turned = {name: {"most": of["least"], "least": of["most"]} for name, of in now.items()}
    documents = with_champion(favoured=turned)
    for name, of in now.items():
        words = (
            f"By {name} the favoured group has changed: “{of['most']}” gets the favourable outcome "
            f"most often now, “{of['least']}” did before"
        )
        assert words in champion_sentence(documents)
        assert words in said(section(documents))


def test_a_champion_without_a_card_is_still_named() -> None:
    documents = {**run_documents(), "champion": {"version": 3, "uri": "models:/adult-budro/3"}}
    sentence = champion_sentence(documents)
    assert (
        sentence == "Version 3 was champion before, and stays it; its model card could not be read."
    )
    assert "Its model card could not be read." in said(section(documents))
    assert not tables(section(documents))


def test_the_tables_hold_both_numbers_and_the_change() -> None:
    metrics, settings = tables(section(with_champion()))
    found = by_metric(metrics)
    assert set(found) == set(run_documents()["metrics"]["metrics"])
    # far apart: 0.765 with 0.757 to 0.774, and 0.815 with 0.807 to 0.824
    assert found["balanced_accuracy"] == [
        "0.765 | 0.757 to 0.774",
        "0.815 | 0.807 to 0.824",
        "+0.050 | better, intervals apart",
    ]
    assert found["consistency.spouse"][2] == "\u22120.008 | worse, intervals overlap"
    assert found["gap_max.sex"][2] == "0.000 | the same"
    assert found["equal_opportunity_difference.age"] == [
        "not enough evidence",
        "not enough evidence | age: 1 cell of 6 has fewer than 25 rows",
        "cannot be computed",
    ]
    assert found["gap_max.race"][0] == "not measured"
    assert rows(settings) == {"boosting.eta": ["0.01", "0.005"], "solver": ["not given", "dual"]}
    # only a change between intervals that lie apart has the colour of one
    changes = {row[0].code: row[-1].kind for row in metrics.rows}
    assert (changes["balanced_accuracy"], changes["consistency.spouse"]) == ("passed", "")


def test_other_contract_and_seed_stand_in_the_table() -> None:
    documents = with_champion(
        contract_version="0.9.0", seed=8, data_fingerprint="ab" * 32, method="gbdt"
    )
    settings = rows(table(section(documents), "What the two were made from"))
    assert settings["Contract version"] == ["0.9.0", "1.0.0"]
    assert settings["Seed"] == ["8", "7"]
    assert settings["Method"] == ["gbdt", "budro"]
    assert settings["Fingerprint of the table (SHA-256)"][0] == "ab" * 32
