"""Verdicts on planted worlds: paired gains, oracles, leaks, and the tables made of them."""

import json

import pandas as pd
import pytest

from benchmarks.common import read_result
from benchmarks.studies.planted_criteria import (
    BEGIN,
    END,
    PAGE,
    best_baseline,
    judged,
    leaks_of,
    page_section,
    paired,
    standard_error,
    write_page,
)


def results(values):
    """Rows of a world: by method, (true AUC, consistency) of each seed."""
    rows = []
    for method, by_seed in values.items():
        for seed, (auc, consistency) in enumerate(by_seed):
            rows.append(
                {"method": method, "seed": seed, "true_auc": auc, "consistency": consistency}
            )
    return pd.DataFrame(rows)


def test_differences_are_paired_by_seed():
    frame = results({"plain": [(0.8, 1), (0.7, 1)], "project-learned": [(0.81, 1), (0.73, 1)]})
    gains = paired(frame, "project-learned", "plain", "true_auc")
    assert gains.round(3).tolist() == [0.01, 0.03]
    assert standard_error(gains) == pytest.approx(0.01)
    assert standard_error(gains[:1]) is None
    assert paired(frame, "budro-learned", "plain", "true_auc").empty


def test_a_method_is_judged_beside_the_larger_oracle():
    frame = results(
        {
            "plain": [(0.80, 1.0), (0.82, 1.0)],
            "project-learned": [(0.812, 0.98), (0.833, 0.98)],
            "project-oracle": [(0.815, 1.0), (0.836, 1.0)],
            "oracle-trees": [(0.80, 1.0), (0.81, 1.0)],
        }
    )
    (figure,) = judged(frame).values()
    assert figure["seeds"] == 2
    assert figure["gain"] == pytest.approx(0.0125)
    assert figure["auc_holds"]
    # 125 of 155
    assert figure["oracle_gain"] == pytest.approx(0.0155)
    assert figure["gain_share"] == pytest.approx(0.81)
    assert figure["gain_holds"]
    assert not figure["consistency_holds"]


def test_without_a_clear_gain_of_an_oracle_no_share_is_judged():
    frame = results(
        {
            "plain": [(0.80, 1.0), (0.82, 1.0)],
            "sensei-learned": [(0.79, 0.99), (0.82, 0.99)],
            "oracle-trees": [(0.83, 1.0), (0.81, 1.0)],
        }
    )
    (figure,) = judged(frame).values()
    assert not figure["auc_holds"]
    assert figure["gain_share"] is None
    # the oracle of sensei was not measured
    assert figure["consistency_holds"] is None


def test_sensei_also_has_networks_as_baselines():
    frame = results(
        {
            "plain": [(0.80, 1.0), (0.80, 1.0), (0.99, 1.0)],
            "network_reweigh": [(0.84, 1.0), (0.84, 1.0)],
            # better on the first seed alone than the network on average, but not than the network there
            "network_thresholds": [(0.83, 1.0)],
            "sensei-learned": [(0.83, 0.99), (0.85, 0.99)],
            "project-learned": [(0.83, 0.99), (0.85, 0.99)],
        }
    )
    figures = judged(frame)
    assert figures["sensei"]["baseline"] == "network_reweigh"
    assert figures["sensei"]["gain"] == pytest.approx(0.0)
    assert figures["project"]["baseline"] == "plain"
    # the third seed has no value of the method
    assert figures["project"]["gain"] == pytest.approx(0.04)
    assert figures["project"]["gain_error"] == pytest.approx(0.01)


def test_without_a_baseline_nothing_is_judged():
    frame = results({"project-learned": [(0.8, 1.0)], "network_reweigh": [(0.8, 1.0)]})
    assert best_baseline(frame) is None
    assert judged(frame) == {}


def test_a_leak_counts_where_the_oracle_has_none():
    def verdict(leak, oracle):
        rows = pd.DataFrame(
            [{"method": "metric", "leak_before": 0.9, "leak": leak, "oracle_leak": oracle}]
        )
        return leaks_of(rows)["holds"]

    assert verdict(0.54, 0.5)
    assert not verdict(0.56, 0.5)
    assert verdict(0.56, 0.6)
    assert leaks_of(pd.DataFrame({"method": ["plain"]})) is None


def test_the_research_page_has_the_tables_of_the_result(tmp_path):
    content = read_result("planted_worlds")
    section = page_section(content)
    assert section in PAGE.read_text()
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_page(content, page)
    assert page.read_text() == f"before\n{section}\nafter\n"
    assert json.dumps(content)


def test_single_seeds_and_results_of_older_rules_are_marked():
    figure = {
        "seeds": 1,
        "gain": 0.002,
        "gain_error": None,
        "consistency": 0.99,
        "oracle_consistency": None,
        "consistency_holds": None,
        "gain_share": None,
        "gain_holds": None,
        "auc_holds": True,
    }
    world = {
        "unseen": False,
        "best_control": "blind",
        "methods": {"blind": {"true_auc": 0.8, "consistency": 1.0}},
        "figures": {"project": figure},
        "seeds_by_method": {"project-learned": 3, "blind": 3},
        "older_rules": {"project-learned": 2},
    }
    section = page_section({"worlds": {"20000": {"linear": world}}})
    assert "+.002 (one seed) / .990" in section
    assert "rules last changed: 2 of 3 of `project`." in section
    assert "last changed" not in page_section(
        {"worlds": {"20000": {"linear": world | {"older_rules": {}}}}}
    )
