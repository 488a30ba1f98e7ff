"""The pages of the benchmarks: each section on its topic's page, links lead where they led."""

from __future__ import annotations

import pytest

from benchmarks.page_generators.split_page import divide

TEXT = """\
# Benchmarks

Head.

## Speed

[budro](budro.md#limits), [rows](#settings), ![curve](curve.svg), [web](https://example.org/x)

## Balanced filtering

### Settings

Rows, and [again](#settings).
"""


def test_index_lists_the_topics_under_their_titles() -> None:
    index = divide(TEXT)["benchmarks.md"]
    assert index.startswith("# Benchmarks\n\nHead.\n")
    assert "## Speed\n" in index
    assert "(benchmarks/proxies.md)" in index
    assert "curve.svg" not in index


def test_links_lead_from_the_folder_of_the_pages() -> None:
    pages = divide(TEXT)
    speed = pages["benchmarks/speed.md"]
    assert speed.startswith("# Speed\n")
    for link in ("(../budro.md#limits)", "(proxies.md#settings)", "(../curve.svg)"):
        assert link in speed
    assert "(https://example.org/x)" in speed
    assert "(#settings)" in pages["benchmarks/proxies.md"]


def test_a_section_without_a_topic_is_an_error() -> None:
    with pytest.raises(ValueError, match="New section"):
        divide(f"{TEXT}\n## New section\n")
