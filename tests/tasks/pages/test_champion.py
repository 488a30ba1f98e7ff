"""What changed since the champion: the sentence of the headline."""

from __future__ import annotations

from typing import Any

import pytest
from page_examples import published_documents, run_documents, with_champion

from evenhand.tasks.pages.fronts.run import champion_sentence, headline


def test_without_a_champion_nothing_is_said() -> None:
    assert not any("champion" in sentence for sentence in headline(run_documents()))


def test_a_refused_run_names_what_was_refused_first() -> None:
    documents = with_champion()
    sentence = champion_sentence(documents)
    assert sentence == (
        "Version 3 was champion before, and stays it: Counterfactual consistency over spouse was 0.952 and "
        "is now 0.944, Demographic parity difference by age is still 0.316, on the same table, with other "
        "values of boosting.eta and solver."
    )
    # after what the gates said, and before the groups
    found = headline(documents)
    place = found.index(sentence)
    assert found[place - 1] == "Equal opportunity difference by age in one line."
    assert found[place + 1].startswith("By age")


def test_a_published_run_took_its_place() -> None:
    sentence = champion_sentence(with_champion(published_documents("4")))
    assert sentence.startswith("Version 3 was champion before: Balanced accuracy was 0.765 and is now 0.815,")


def test_a_run_whose_own_version_is_the_champion_says_so() -> None:
    documents = with_champion(published_documents("3"))
    assert champion_sentence(documents) == "This model is the champion: version 3 has the same content."


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


def test_a_champion_without_a_card_is_still_named() -> None:
    documents = {**run_documents(), "champion": {"version": 3, "uri": "models:/adult-budro/3"}}
    sentence = champion_sentence(documents)
    assert sentence == "Version 3 was champion before, and stays it; its model card could not be read."
