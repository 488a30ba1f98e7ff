"""The page as a whole: whole HTML, nothing loaded, nothing lost, nothing let through."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from html_tree import Node, read
from report_example import EDGES, example

from evenhand.tasks.reporting import formats
from evenhand.tasks.reporting.page import render_report

HOSTILE = '<script>alert("1")</script>\'&"><img src=x onerror=alert(1)>'


def page(**changes: Any) -> Node:
    return read(render_report({**example(), **changes}))


def published() -> dict[str, Any]:
    context = example()
    context["status"] = "published"
    context["model"] = {
        "name": "adult-budro",
        "version": 4,
        "alias": "champion",
        "uri": "models:/adult-budro@champion",
    }
    kept = [r for r in context["gates"]["results"] if r["passed"]]
    context["gates"] = {"verdict": "passed", "results": kept}
    return context


def failed() -> dict[str, Any]:
    context = example()
    context.update(status="failed", evaluation=None, gates=None, paper=None, histograms={}, training=None)
    context.update(sections=[], steps=[], files=[])
    return context


def bare() -> dict[str, Any]:
    """The least that the model asks for."""
    keys = ("title", "job", "run_id", "created", "table", "environment")
    return {**{key: example()[key] for key in keys}, "status": "failed"}


def hostile(value: Any) -> Any:
    """Put markup into every string and key that a table or a job can bring in."""
    if isinstance(value, dict):
        return {key: hostile(item) for key, item in value.items()}
    if isinstance(value, list):
        return [hostile(item) for item in value]
    return HOSTILE + value if isinstance(value, str) else value


def all_hostile() -> dict[str, Any]:
    context = example()
    safe = {"status", "verdict", "kind", "bound"}

    def spoil(item: Any) -> Any:
        if isinstance(item, dict):
            return {k: v if k in safe else spoil(v) for k, v in item.items()}
        return [spoil(i) for i in item] if isinstance(item, list) else hostile(item)

    context = spoil(context)
    evaluation = context["evaluation"]
    for part in ("metrics", "counts"):
        evaluation[part] = {HOSTILE + k: v for k, v in evaluation[part].items()}
    context["histograms"] = {
        HOSTILE + k: {**v, "groups": {HOSTILE + g: n for g, n in v["groups"].items()}}
        for k, v in context["histograms"].items()
    }
    context["job"]["parameters"] = {HOSTILE: HOSTILE}
    context["training"]["series"] = {HOSTILE + k: v for k, v in context["training"]["series"].items()}
    context["environment"]["packages"] = {HOSTILE: HOSTILE}
    context["model"] = {"name": HOSTILE, "version": HOSTILE, "alias": HOSTILE, "uri": HOSTILE}
    return context


CONTEXTS = {
    "full": example,
    "published": published,
    "failed": failed,
    "bare": bare,
    "hostile": all_hostile,
}


@pytest.fixture(params=sorted(CONTEXTS))
def any_html(request: pytest.FixtureRequest) -> str:
    return render_report(CONTEXTS[request.param]())


def test_whole_html_with_unique_ids_and_no_dangling_reference(any_html: str) -> None:
    root = read(any_html)
    ids = [node.attrs["id"] for node in root.walk() if "id" in node.attrs]
    assert len(ids) == len(set(ids))
    for node in root.walk():
        for name in ("aria-labelledby", "aria-describedby"):
            for target in (node.attrs.get(name) or "").split():
                assert target in ids
        href = node.attrs.get("href") or ""
        if href.startswith("#"):
            assert href[1:] in ids


def test_loads_and_runs_nothing(any_html: str) -> None:
    root = read(any_html)
    assert not root.all("script", "link", "img", "iframe", "object", "embed", "base", "form")
    for node in root.walk():
        for name, value in node.attrs.items():
            assert not name.startswith("on")
            if name in {"src", "href", "action", "xlink:href", "srcset", "data"}:
                assert not re.match(r"\s*[a-z][a-z0-9+.-]*:|//", value or "", re.IGNORECASE)
    for reference in re.findall(r"url\(([^)]*)\)", any_html):
        assert re.fullmatch(r"#[\w-]+", reference)
    assert "@import" not in any_html
    policy = [n.attrs["content"] for n in root.all("meta") if "http-equiv" in n.attrs]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_landmarks_headings_tables_and_plots_speak(any_html: str) -> None:
    root = read(any_html)
    (html,) = root.all("html")
    assert html.attrs["lang"] == "en"
    assert any(n.attrs.get("name") == "viewport" for n in root.all("meta"))
    for landmark in ("header", "main", "nav", "footer"):
        assert len(root.all(landmark)) == 1
    levels = [int(n.tag[1]) for n in root.all("h1", "h2", "h3", "h4")]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:], strict=False))
    for table in root.all("table"):
        assert [c for c in table.children if isinstance(c, Node)][0].tag == "caption"
        heads = table.all("th")
        assert heads
        assert all(th.attrs.get("scope") in {"col", "row"} for th in heads)
        columns = len([th for th in heads if th.attrs["scope"] == "col"])
        for row in table.all("tbody")[0].all("tr"):
            cells = row.all("td", "th")
            assert cells[0].attrs.get("scope") == "row"
            assert sum(int(cell.attrs.get("colspan") or 1) for cell in cells) == columns
    for svg in root.all("svg"):
        assert svg.attrs["role"] == "img"
        assert svg.attrs["viewbox"]
        (title,) = svg.all("title")
        assert title.text()
        assert title.attrs["id"] in (svg.attrs["aria-labelledby"] or "").split()


def test_every_number_stands_in_a_table() -> None:
    context = example()
    root = read(render_report(context))
    cells = {cell.text() for table in root.all("table") for cell in table.all("td", "th")}
    joined = "\n".join(cells)
    for metric in context["evaluation"]["metrics"].values():
        if metric["value"] is not None:
            assert formats.number(metric["value"]) in cells
            assert formats.interval(metric["low"], metric["high"]) in cells
    for mean, _ in context["paper"]["row"].values():
        assert any(cell.startswith(formats.number(mean)) for cell in cells)
    for rows in context["evaluation"]["counts"].values():
        for row in rows:
            if row["label"] == 1 and row["n"] >= 25:
                assert f"{row['predicted_positive']:,} of {row['n']:,}" in joined
    for histogram in context["histograms"].values():
        for counts in histogram["groups"].values():
            for n in counts or []:
                assert f"{100 * n / sum(counts):.1f}% {n:,}" in cells
    for step in context["steps"]:
        assert formats.seconds(step["seconds"]) in cells
    for value in (context["training"]["series"]["loss"][0], context["training"]["series"]["loss"][-1]):
        assert formats.number(value) in cells
    for value in ("1.140", "0.439"):
        assert value in cells


def test_insufficient_evidence_is_said_with_its_reason_and_never_as_a_number() -> None:
    root = page()
    (row,) = [
        r
        for r in root.all("tr")
        if r.solid().endswith("lower") and "equal_opportunity_difference.age" in r.solid()
    ]
    assert "not enough evidence" in row.text()
    assert "age: 1 cell of 6 has fewer than 25 rows" in row.text()
    assert not re.search(r"\d\.\d", row.text())
    gates = root.all("table")[0]
    (gate,) = [r for r in gates.all("tr") if "equal_opportunity_difference.age" in r.solid()]
    assert "Not enough evidence" in gate.text()
    assert "cannot be told" in gate.text()


def test_a_rate_over_too_few_rows_is_not_shown_but_its_group_is() -> None:
    root = page()
    (table,) = [t for t in root.all("table") if "Rates by age" in t.text()]
    (row,) = [r for r in table.all("tbody")[0].all("tr") if r.all("th")[0].text() == "<25"]
    cells = [cell.text() for cell in row.all("td")]
    assert cells[0] == "1,371"
    assert cells[1].startswith("0.7% 10 of 1,371")
    assert cells[2] == "too few rows 21 to judge by"
    assert cells[3].startswith("99.7% 1,346 of 1,350")


def test_suppressed_groups_are_named() -> None:
    (scores,) = [s for s in page().all("section") if s.attrs.get("id") == "scores"]
    assert "Not shown, because there are too few rows: <25." in scores.text()


@pytest.mark.parametrize(
    ("part", "empty"),
    [
        ("gates", {"gates": None}),
        ("metrics", {"evaluation": None}),
        ("rates", {"evaluation": None}),
        ("scores", {"histograms": {}}),
        ("training", {"training": None}),
        ("extra-1", {"sections": []}),
        ("steps", {"steps": []}),
    ],
)
def test_empty_parts_are_left_out(part: str, empty: dict[str, Any]) -> None:
    def parts(root: Node) -> tuple[list[str | None], list[str | None]]:
        links = [a.attrs["href"] for a in root.all("nav")[0].all("a")]
        return [s.attrs.get("id") for s in root.all("section")], links

    sections, links = parts(page())
    assert part in sections
    assert f"#{part}" in links
    sections, links = parts(page(**empty))
    assert part not in sections
    assert f"#{part}" not in links


def test_parts_come_in_the_order_of_reading() -> None:
    sections = [s.attrs.get("id") for s in page().all("section")]
    order = ["gates", "metrics", "rates", "scores", "training", "extra-1", "steps", "made"]
    assert sections == [None, *order]


def test_hostile_text_stays_text() -> None:
    html = render_report(all_hostile())
    root = read(html)
    assert not root.all("script", "img")
    (title,) = root.all("h1")
    assert title.solid() == HOSTILE + "Adult census: who is offered a loan"
    groups = [th.text() for table in root.all("table") for th in table.all("th")]
    assert HOSTILE + "Female" in groups
    assert any(node.solid().startswith("Scores of " + HOSTILE) for node in root.all("title"))


@pytest.mark.parametrize(
    "href",
    [
        "https://example.org/x",
        "javascript:alert(1)",
        " JAVASCRIPT:alert(1)",
        "//host/x",
        "java\nscript:x",
        "\\\\h\\x",
    ],
)
def test_links_stay_beside_the_report(href: str) -> None:
    root = page(files=[{"name": "odd", "href": href}, {"name": "near", "href": "sub/metrics.json"}])
    links = [a.attrs["href"] for a in root.all("a")]
    assert "sub/metrics.json" in links
    assert href not in links
    assert not any("odd" in a.text() for a in root.all("a"))


def test_names_that_no_reader_can_show_are_replaced() -> None:
    context = example()
    context["evaluation"]["counts"]["sex"][0]["group"] = "a\x00b\ud800\x1b"
    html = render_report(context)
    assert "a\ufffdb\ufffd\ufffd" in html
    assert html.encode("utf-8")


def test_given_sentences_replace_the_written_ones() -> None:
    root = page(headline=["One thing.", "Another & more."])
    (listed,) = [n for n in root.all("ul") if n.attrs.get("class") == "headline"]
    assert [li.text() for li in listed.all("li")] == ["One thing.", "Another & more."]


def test_the_status_is_said_in_words() -> None:
    for status, words in {
        "published": "Published",
        "gated": "a gate refused",
        "insufficient_evidence": "not enough evidence",
        "failed": "Did not finish",
    }.items():
        root = page(status=status)
        (badge,) = [n for n in root.all("p") if "badge" in (n.attrs.get("class") or "").split()]
        assert words in badge.text()
        assert words in root.all("title")[0].text()


def test_the_model_is_found() -> None:
    root = read(render_report(published()))
    (where,) = [n for n in root.all("dl") if n.attrs.get("class") == "where"]
    assert "adult-budro, version 4, champion" in where.text()
    assert "models:/adult-budro@champion" in where.text()


def test_same_context_same_page_and_context_left_alone() -> None:
    context = example()
    before = copy.deepcopy(context)
    assert render_report(context) == render_report(context)
    assert context == before


def test_a_big_run_stays_under_the_limit_and_keeps_every_group() -> None:
    context = example()
    attributes = [f"attribute_{i}" for i in range(6)]
    crossed = [f"{a}&{b}" for i, a in enumerate(attributes) for b in attributes[i + 1 :]]
    evaluation = context["evaluation"]
    evaluation["metrics"] = {
        f"{kind}.{name}": {"value": 0.1234, "low": 0.1, "high": 0.2, "status": "ok", "reason": ""}
        for kind in ("gap_max", "demographic_parity_difference", "equal_opportunity_difference")
        for name in attributes + crossed
    }
    evaluation["counts"] = {
        name: [
            {"group": f"{name} group {g}", "label": label, "n": 900 + g, "predicted_positive": 300}
            for g in range(15)
            for label in (0, 1)
        ]
        for name in attributes + crossed
    }
    context["histograms"] = {
        name: {"edges": EDGES, "groups": {f"group {g}": [10] * 20 for g in range(15)}} for name in attributes
    }
    context["training"] = {"steps": list(range(5000)), "series": {"loss": [1 / (i + 1) for i in range(5000)]}}
    html = render_report(context)
    assert len(html.encode()) < 500_000
    heads = {th.text() for th in read(html).all("th")}
    for name in attributes + crossed:
        assert {f"{name} group {g}" for g in range(15)} <= heads


def test_a_training_curve_with_gaps_and_one_point() -> None:
    training = {"steps": [1, 2, 3], "series": {"a": [0.5, None, float("inf")], "b": [None, None, None]}}
    root = page(training=training)
    (table,) = [t for t in root.all("table") if "Training by step" in t.text()]
    assert [c.text() for c in table.all("td")] == ["0.500", "not available", "not available"]
    assert "training" in [
        s.attrs.get("id") for s in page(training={"steps": [1], "series": {"a": [2.0]}}).all("section")
    ]


def test_contrast_of_every_text_colour_is_enough() -> None:
    css = page().all("style")[0].text()

    def luminance(colour: str) -> float:
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    schemes = [
        dict(re.findall(r"--(\w+): ?(#[0-9a-f]{6})", block)) for block in re.findall(r":root\{(.*?)\}", css)
    ]
    light, dark = [s for s in schemes if "ink" in s and len(s["page"]) == 7][:2]
    assert luminance(light["page"]) > 0.8 > 0.05 > luminance(dark["page"])
    for scheme in (light, dark):
        for ground in ("page", "card"):
            for name in ("ink", "muted", "accent", "good", "bad", "unsure"):
                bright, dim = sorted((luminance(scheme[name]), luminance(scheme[ground])), reverse=True)
                assert (bright + 0.05) / (dim + 0.05) >= 4.5, (name, ground)
        for mark in ("c0", "c1", "c2", "c3", "c4", "c5", "warm"):
            bright, dim = sorted((luminance(scheme[mark]), luminance(scheme["page"])), reverse=True)
            assert (bright + 0.05) / (dim + 0.05) >= 3, mark
