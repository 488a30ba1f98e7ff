"""The section on the change of outputs: it claims what was found, and no more than that."""

from __future__ import annotations

import copy
import json
import math
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from page_blocks import charts, rows, said, table, tables
from scipy.special import expit
from torch import nn

from evenhand.fairlib.certificates.measures import Interval
from evenhand.fairlib.certificates.proof import Proof, prove
from evenhand.fairlib.distances import SensitiveSubspace
from evenhand.fairlib.evaluation.certificates import certify
from evenhand.tasks.evaluating.certified import Certified
from evenhand.tasks.pages.page_model import Section
from evenhand.tasks.pages.sections import certificates_section as certificates

# the least mean squared difference of two logits that changes the odds by a factor of 2 is (ln 2)^2
# / 4
VALUE = 0.25 * (math.log(2) ** 2 / 4)
CERTIFICATE: dict[str, Any] = {
    "people": 200,
    "budget": 0.01,
    "value": VALUE,
    "multiplier": 1.5,
    "curve": {
        "budgets": [0.0, 0.001, 0.01, 0.1],
        "values": [0.0125, 0.02, VALUE, 0.09],
        "low": [0.0, 0.01, 0.025, 0.08],
        "high": [0.02, 0.03, 0.0352, 0.1],
    },
    "shares": [
        {"odds": 1.25, "share": 1.0},
        {"odds": 1.5, "share": 0.7306},
        {"odds": 2.0, "share": 0.25},
        {"odds": 4.0, "share": 0.0625},
    ],
    "proof": {
        "radius": 0.1,
        "unchanged": 0.8549,
        "intervals": {
            "certificate.dif": {"found": VALUE, "proved": 0.04},
            "certificate.score": {"found": 0.0291, "proved": 0.03001},
            "certificate.radius": {"found": 0.5, "proved": 0.4},
        },
        "reasons": {},
    },
}
PROOF: dict[str, Any] = CERTIFICATE["proof"]
METRICS: dict[str, Any] = {"n": 200, "settings": {"level": 0.9}, "metrics": {}}
CURVE, NUMBERS = (
    "Change of the outputs by budget",
    "Shares of people, if the search missed no exchange",
)


def section(metrics: Any = None, **changes: Any) -> Section:
    certificate = {**copy.deepcopy(CERTIFICATE), **changes}
    return next(
        iter(certificates.build({"certificate": certificate, "metrics": metrics or METRICS}))
    )


def numbers(found: Section) -> dict[str, str]:
    return {name: row[0] for name, row in rows(table(found, NUMBERS)).items()}


def curve(**changes: Any) -> dict[str, Any]:
    return {**CERTIFICATE["curve"], **changes}


def test_the_section_says_question_answer_share_and_price() -> None:
    text = said(section())
    for part in (
        "Each of the 200 people in the test rows may be exchanged for a comparable one",
        "the mean squared fair distance between the two is at most 0.01 (the budget)",
        "The outputs change by 0.030 (90% interval 0.025 to 0.035)",
        "at most 25.0% of these people can have their odds of a positive prediction changed by a "
        "factor of 2",
        # odds of 2 to 1 are two thirds, of 1 to 2 one third
        "a factor of 2 takes a probability of 50% to 67% or to 33%",
        "With a budget of 0, exchanges are possible only at a fair distance of 0; that alone gives "
        "0.013",
        "the price is 1.500 per unit",
        # 1.5 times 0.01
        "with twice the budget, the outputs would change by at most 0.015 more",
    ):
        assert part in text


def test_the_section_says_what_it_does_not_prove() -> None:
    text = said(section())
    for part in (
        "If the search missed no exchange, at most",
        "each person’s own squared distance, not the mean alone, is at most the budget",
        "Markov’s bound",
        "a search can miss",
        "a lower bound",
        "A share of people that rests on it is no guarantee",
        "each feature within the range of the training rows",
        "each protected direction, along which the fair distance is 0, within its own range",
        "only a change along such a direction may take a feature further",
        "not about what another training would give",
        "nothing about the individual",
    ):
        assert part in text


def test_every_number_of_the_certificate_is_in_a_table() -> None:
    found = section()
    assert numbers(found) == {
        "People whose odds can change by a factor of 1.25 or more": "no bound",
        "People whose odds can change by a factor of 1.5 or more": "at most 73.1%",
        "People whose odds can change by a factor of 2 or more": "at most 25.0%",
        "People whose odds can change by a factor of 4 or more": "at most 6.3%",
    }
    assert rows(table(found, CURVE)) == {
        "0": ["0.013", "0.000 to 0.020"],
        "0.001": ["0.020", "0.010 to 0.030"],
        "0.01 (this job)": ["0.030", "0.025 to 0.035"],
        "0.1": ["0.090", "0.080 to 0.100"],
    }


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0.25, "25.0%"), (0.25001, "25.1%"), (1e-7, "0.1%"), (0.3, "30.0%"), (0.0, "0.0%")],
)
def test_a_bound_is_rounded_up_so_that_it_stays_one(share: float, shown: str) -> None:
    assert f"at most {shown} of these people" in said(
        section(shares=[{"odds": 2.0, "share": share}])
    )


def test_where_two_bounds_nothing_the_next_factor_is_named() -> None:
    text = said(section(shares=[{"odds": 2.0, "share": 1.0}, {"odds": 4.0, "share": 0.5}]))
    assert "at most 50.0% of these people" in text
    # odds of 4 to 1 and 1 to 4
    assert "a factor of 4 takes a probability of 50% to 80% or to 20%" in text


def test_a_bound_of_everybody_is_not_called_a_bound() -> None:
    text = said(section(shares=[{"odds": 2.0, "share": 1.0}, {"odds": 4.0, "share": 1.0}]))
    assert "at most 100" not in text
    assert "bounds no share of people" in text
    assert "by a factor of 4 or more" in text


def test_with_more_than_two_classes_there_are_no_odds() -> None:
    found = section(shares=[])
    assert not re.search("odds|share", said(found) + str([one.caption for one in tables(found)]))


def test_people_drawn_from_more_are_called_so() -> None:
    text = said(section(metrics={**METRICS, "n": 9045}, people=5000))
    assert "Each of 5,000 people, drawn at random from the 9,045 in the test rows," in text
    assert "drawn" not in said(section())


def test_without_draws_there_is_one_budget_and_no_chart() -> None:
    """There is no interval either."""
    found = section(curve={"budgets": [0.01], "values": [VALUE], "low": None, "high": None})
    assert "The outputs change by 0.030: the mean" in said(found)
    assert "interval" not in said(found).partition("What the search proves")[0]
    assert not charts(found)
    assert len(tables(found)) == 2


def test_a_curve_without_intervals_has_no_band() -> None:
    found = section(curve=curve(low=None, high=None))
    (chart,) = charts(found)
    assert chart.caption == "The diamond is this job’s budget."
    assert rows(table(found, CURVE))["0.001"] == ["0.020", "no interval"]
    assert (
        charts(section())[0].caption
        == "The diamond is this job’s budget; the band is the 90% interval."
    )


@pytest.mark.parametrize("noise", [0.0, 2e-14])
def test_a_network_that_nothing_moves_is_said_to_stand_still(noise: float) -> None:
    nothing = [noise] * 4
    found = section(
        value=noise,
        multiplier=0.0,
        curve=curve(values=nothing, low=nothing, high=nothing),
        shares=[{"odds": 2.0, "share": noise}],
    )
    text = said(found)
    assert "the outputs do not change (90% interval" in text
    assert "at a fair distance of 0; no output changes" in text
    assert "A larger budget would not change the outputs further." in text
    assert "a search can miss" in text
    # a logarithmic axis has no 0
    assert not charts(found)
    assert len(rows(table(found, CURVE))) == 4


def test_a_budget_of_0_has_its_own_words_and_no_mark() -> None:
    found = section(budget=0.0, value=0.0125, multiplier=8.0)
    text = said(found)
    assert "The budget is 0: people may be exchanged only where the fair distance is 0" in text
    assert "by at most 8.000 per unit" in text
    assert "twice" not in text
    assert "0 (this job)" in rows(table(found, CURVE))
    assert charts(found)[0].caption == "The band is the 90% interval."


def test_the_chart_leaves_a_budget_of_0_to_the_table() -> None:
    (chart,) = charts(section())
    assert [point["budget"] for point in chart.data["rows"]] == [0.001, 0.01, 0.1]
    assert chart.data["marked"] == 0.01
    assert "From 0.020 at a budget of 0.001 to 0.090 at a budget of 0.1" in chart.description


def test_a_real_certificate_holds_for_every_exchange() -> None:
    """The exchanges are within the budget."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(40, 2)).astype(np.float32)
    metric = SensitiveSubspace(indicators=[0]).fit(X)
    weights = np.array([[0.3, 0.1], [-0.4, 0.2]], dtype=np.float32)
    layer = nn.Linear(2, 2)
    layer.weight.data = torch.from_numpy(weights)
    network = nn.Sequential(layer)
    settings = {"draws": 0, "level": 0.9, "seed": 0}
    proof = prove(SimpleNamespace(network_=network), X, metric, 0.01)
    certified = Certified(
        certify(network, X, metric, [0.01, 0.0, 0.1], **settings), proof, settings
    )
    content = certified.content()
    (found,) = certificates.build({"certificate": content, "metrics": {**METRICS, "n": 40}})
    # of a linear model the worst exchange is at an end of both ranges: x1 anywhere, x2 by 0.1 at
    # most
    low, high = metric.feature_bounds_.low, metric.feature_bounds_.high
    ends = [
        np.stack([np.full(40, end), np.clip(X[:, 1] + move, low[1], high[1])], axis=1) - X
        for end in (low[0], high[0])
        for move in (-0.1, 0.1)
    ]
    logits = np.stack([move @ weights.T for move in ends])
    change = np.abs(logits[..., 1] - logits[..., 0]).max(axis=0)
    for item in content["shares"]:
        row = numbers(found)[
            f"People whose odds can change by a factor of {item['odds']:g} or more"
        ]
        shown = re.fullmatch(r"at most ([\d.]+)%", row)
        if shown is None:
            assert row == "no bound"
            continue
        assert float(shown[1]) >= 100 * (change >= math.log(item["odds"])).mean()
    assert "at most" in numbers(found)["People whose odds can change by a factor of 4 or more"]
    gained = content["curve"]["values"][2] - content["value"]
    assert 0 < gained <= content["multiplier"] * 0.09 + 1e-9
    # of a linear model the proof is exact: of the score, and of the decisions
    margins = np.diff(X @ weights.T + layer.bias.detach().numpy(), axis=1)[:, 0]
    moved = margins + np.diff(logits, axis=2)[..., 0]
    largest = np.abs(expit(moved) - expit(margins)).max()
    assert (
        f"changes the score by more than {math.ceil(largest * 1000) / 1000:.3f} (proved)"
        in said(found)
    )
    stays = ((moved > 0) == (margins > 0)).all(axis=0).mean()
    assert f"The decision about {100 * stays:.1f}% of these people provably cannot change" in said(
        found
    )


def test_the_section_says_what_is_proved_and_never_less_than_it() -> None:
    text = said(section())
    assert (
        "No comparable treatment of anybody among the 200 people in the test rows, over all "
        "possible people "
        "at fair distance up to 0.1, changes the score by more than 0.031 (proved); a search found "
        "0.029."
    ) in text
    assert "The decision about 85.4% of these people provably cannot change" in text
    proved = rows(table(section(), "Between what was found and what is proved"))
    assert proved["Fair distance within which no decision changes"] == ["0.500", "0.400"]
    tiny = {"certificate.score": {"found": 0.000021, "proved": 0.0000214}}
    assert "by more than 0.0000214 (proved)" in said(section(proof={**PROOF, "intervals": tiny}))


def test_what_is_not_proved_has_its_reason_once() -> None:
    reasons = dict.fromkeys(
        ("certificate.dif", "certificate.score"), "not proved: no bound is known for X"
    )
    text = said(
        section(proof={"radius": 0.1, "unchanged": None, "intervals": {}, "reasons": reasons})
    )
    assert text.count("not proved: no bound is known for X.") == 1
    assert "(proved)" not in text


def test_of_trees_the_proof_alone_is_shown() -> None:
    """A radius without a find has no number."""
    intervals = {
        "certificate.score": Interval(0.0, 0.02),
        "certificate.flips": Interval(0.0, 0.5),
        "certificate.radius": Interval(math.inf, 0.4),
        "certificate.loss": Interval(0.0, 0.3),
    }
    certified = Certified(None, Proof(150, 0.1, intervals, 1.0), {"draws": 0})
    metrics = certified.metrics()
    assert set(metrics) == {f"{name}.{end}" for name in intervals for end in ("found", "proved")}
    assert metrics["certificate.radius.found"].status == "insufficient_evidence"
    assert "no comparable point" in metrics["certificate.radius.found"].reason
    assert metrics["certificate.radius.proved"].value == 0.4
    assert metrics["certificate.score.found"].value == 0.0
    content = json.loads(json.dumps(certified.content(), allow_nan=False))
    (found,) = certificates.build({"certificate": content, "metrics": METRICS})
    assert (
        "150 people, drawn at random from the 200 in the test rows, over all possible people"
        in said(found)
    )
    assert "by more than 0.020 (proved)" in said(found)
    (only,) = tables(found)
    assert rows(only)["Fair distance within which no decision changes"] == ["none found", "0.400"]
