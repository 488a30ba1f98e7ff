"""The page on choosing a method: costs, improvements, and differences within the spread."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.common import DOCS, read_result
from benchmarks.page_generators import planted_section
from benchmarks.page_generators.choose_page import (
    BEGIN,
    Change,
    measured,
    write,
)


def test_a_difference_whose_interval_has_zero_is_put_in_brackets() -> None:
    """Of three splits the factor of the standard error is 4.3."""
    small = Change("gap", (0.20, 0.20, 0.20), (0.16, 0.18, 0.20), more_is_better=False)
    assert not small.is_better
    assert small.text() == "(gap 0.200 → 0.180, −0.020 ± 0.050)"


@pytest.mark.parametrize(("more_is_better", "better"), [(True, False), (False, True)])
def test_a_fall_is_better_or_worse_by_the_metric(more_is_better: bool, better: bool) -> None:
    change = Change("x", (0.20, 0.30, 0.40), (0.10, 0.20, 0.29), more_is_better=more_is_better)
    assert (change.is_better, change.is_worse) == (better, not better)
    assert change.text().startswith("**worse:**") is not better


@pytest.mark.parametrize("text", ["no markers", f"only {BEGIN}"])
def test_a_page_without_markers_is_refused(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match=r"page\.md lacks the line"):
        write(page, {})
    assert page.read_text() == text


def test_measured_part_is_that_of_the_kept_results() -> None:
    names = ("fronts", "dadi", "faias", "proxies_judged", "planted_worlds", "real_tables")
    results = {name: read_result(name) for name in names}
    text = (DOCS / "choose-a-method.md").read_text(encoding="utf-8")
    renew = "run python -m benchmarks.page_generators.benchmark_pages"
    assert measured(results) in text, renew


def test_planted_worlds_count_losses_beyond_the_tolerance() -> None:
    def row(gain: float) -> dict[str, float]:
        return {"true_auc": 0.85 + gain, "consistency": 0.9, "gain": gain}

    methods = {"blind": row(0.0), "project": row(-0.0031), "project-learned": row(-0.0029)}
    seeds = {"blind": 3, "project": 3, "project-learned": 3}
    world = {"seeds_by_method": seeds, "best_control": "blind", "methods": methods}
    text = planted_section.section({"worlds": {"2500": {"linear": world}}})
    assert "| linear | 0.850 / 0.900 | −0.003 / 0.900 | −0.003 / 0.900 |" in text
    assert "- `project`, default metric: at most 0.003" in text
    assert "below the best baseline in 0 of 1 worlds." in text
    assert "below the best baseline in 1 of 1 worlds." in text
    # a method that was not measured has no column
    assert "budro" not in text.partition("| world |")[2]
