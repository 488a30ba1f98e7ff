"""The words of an audit's verdict."""

from __future__ import annotations

import numpy as np
import pytest

from evenhand.fairlib.evaluation.audit_verdict import outcome_words, plain_number, short
from evenhand.fairlib.evaluation.group_audit import audit


@pytest.mark.parametrize(
    ("column", "label", "words"),
    [
        ("approved", "1", "are approved"),
        ("was_hired", "yes", "are hired"),
        ("is_approved", "false", "are not approved"),
        ("denied", "no", "are not denied"),
        ("", "granted", "are granted"),
        ("decision", "Hired", "are Hired"),
        ("loan_status", "fully paid", "are fully paid"),
        ("credit", "good", "get “good”"),
        ("two_year_recid", "0", "get “two year recid = 0”"),
        ("", "1", "get the prediction 1"),
    ],
)
def test_words_of_an_outcome(column: str, label: str, words: str) -> None:
    assert outcome_words(column, label) == words


def test_numbers_are_short() -> None:
    assert [short(number) for number in (0.54, 1.0, -0.25, 0.0)] == [".54", "1.00", "-.25", ".00"]
    assert [plain_number(number) for number in (12.3456, 24_268.5)] == ["12.35", "24,268"]


def rates(*selected: int, n: int = 1000) -> list[str]:
    """Verdict of groups of n people of whom so many are selected."""
    picked = []
    groups = []
    for place, hits in enumerate(selected):
        picked += [1] * hits + [0] * (n - hits)
        groups += [f"group {'abc'[place]}"] * n
    return list(audit(None, picked, sensitive_features={"of": groups}).verdict)


def test_the_judgement_says_whether_it_is_beyond_chance() -> None:
    assert "): below four fifths; interval" in rates(400, 600)[0]
    assert "below four fifths, though the interval reaches above" in rates(7, 9, n=20)[0]
    assert "not below four fifths, though the interval reaches below" in rates(8, 9, n=20)[0]
    assert "): not below four fifths; interval" in rates(590, 600)[0]
    assert rates(500, 500)[0] == "All groups get the prediction 1 equally often (50.0 %)."


def test_a_tiny_group_is_no_named_extreme() -> None:
    picked = [1] * 400 + [0] * 600 + [1] * 600 + [0] * 400 + [0] * 10
    groups = ["women"] * 1000 + ["men"] * 1000 + ["diverse"] * 10
    result = audit(None, picked, sensitive_features={"gender": groups})
    assert result.verdict[0].startswith("Women get the prediction 1 67 % as often as men (40.0 ")
    (unnamed,) = [text for text in result.verdict if "are not named" in text]
    assert unnamed.startswith(
        "By gender, groups of fewer than 20 rows are not named as extremes: diverse (10 rows); "
        "with them the smallest impact ratio is .00, interval .00 to "
    )
    # the figures still have it
    assert result.ratio()["selection_rate"] == 0.0


def test_tiny_groups_are_named_where_no_others_are() -> None:
    result = audit(None, [1] * 8 + [0] * 12, sensitive_features=["a1"] * 10 + ["b1"] * 10)
    assert result.verdict[0].startswith("B1 get the prediction 1 0 % as often as a1 ")
    assert not any("are not named" in text for text in result.verdict)


def test_the_gravest_attribute_is_first_and_pairs_only_if_graver() -> None:
    rng = np.random.default_rng(0)
    sex = rng.choice(["women", "men"], 4000)
    race = rng.choice(["black", "white"], 4000)
    chance = 0.7 - 0.1 * (sex == "women") - 0.3 * (race == "black")
    picked = (rng.random(4000) < chance).astype(int)
    verdict = audit(None, picked, sensitive_features={"sex": sex, "race": race}).verdict
    assert verdict[0].startswith("By race: black get ")
    assert verdict[1].startswith("By sex: women get ")
    assert verdict[2].startswith("By sex and race together: women & black get ")
    alone = audit(
        None, picked, sensitive_features={"sex": sex, "race": race}, intersections=False
    ).verdict
    assert not any("together" in sentence for sentence in alone)


def test_a_level_with_too_few_people_is_counted() -> None:
    sex = ["women", "men"] * 60
    site = ["north"] * 112 + ["south"] * 8
    result = audit(
        [0, 1] * 60, [0, 1] * 60, sensitive_features={"sex": sex}, control_features={"site": site}
    )
    (within,) = [text for text in result.verdict if text.startswith("By sex within site")]
    assert "1 of 2 levels have too few people" in within
