"""The drift report: what its front says, that nothing else is loaded, and that names cannot break it."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from evenhand.tasks.reporting.monitoring import render_monitoring

OK: dict[str, Any] = {"status": "ok", "reason": ""}
LACKING: dict[str, Any] = {
    "value": None,
    "low": None,
    "high": None,
    "status": "insufficient_evidence",
    "reason": "30 rows are too few",
}


def metric(value: float, low: float, high: float) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, **OK}


def column(psi: float, bins: list[tuple[str, float, float]], **more: Any) -> dict[str, Any]:
    return {
        "kind": "number",
        "sensitive": False,
        "psi": metric(psi, psi / 2, psi * 2),
        "expected_psi": 0.012,
        "p_value": 0.0001,
        "bins_compared": len(bins),
        "bins": [{"name": name, "then": then, "now": now} for name, then, now in bins],
        "missing": {"then": 0.0, "now": 0.01, "change": metric(0.01, 0.0, 0.02)},
        "unseen": None,
        "outside_contract": metric(0.0, 0.0, 0.01),
        "broken": [],
        **more,
    }


def gate(name: str, value: float | None, limit: float) -> dict[str, Any]:
    passed = value is not None and value <= limit
    return {
        "metric": name,
        "bound": "point",
        "limit": limit,
        "kind": "max",
        "value": value,
        "passed": passed,
        "status": "insufficient_evidence" if value is None else "ok",
        "shortfall": None if value is None else max(value - limit, 0.0),
        "text": f"{name} and its limit",
    }


@pytest.fixture
def context() -> dict[str, Any]:
    bins = [("below 10", 0.5, 0.2), ("10 to below 20", 0.25, 0.4), ("20 and above", 0.25, 0.4)]
    return {
        "run_id": "20260101-000000-people-monitor-abc",
        "created": "2026-01-01T00:00:00+00:00",
        "status": "refused",
        "model": {
            "name": "people",
            "version": "3",
            "uri": "models:/people/3",
            "method": "gbdt",
            "contract": {"name": "people", "version": "1.0.0"},
            "content": "ab" * 32,
        },
        "data": {"shown": "new.csv", "fingerprint": "cd" * 32},
        "drift": {
            "rows": 1200,
            "reference_rows": 5000,
            "ignored_columns": 2,
            "settings": {"draws": 100, "level": 0.9, "min_cell": 5},
            "columns": {
                "calm": column(
                    0.01, [("a", 0.4, 0.41), ("b", 0.6, 0.59)], kind="category", unseen=metric(0, 0, 0)
                ),
                "income": column(0.42, bins),
            },
            "groups": {
                "sex": {
                    "share_change": metric(0.2, 0.15, 0.25),
                    "label_rate_change": LACKING,
                    "rows": [
                        {
                            "group": "F",
                            "then": 0.4,
                            "now": 0.6,
                            "few": False,
                            "label_then": 0.3,
                            "label_now": None,
                        },
                        {
                            "group": "M",
                            "then": 0.6,
                            "now": None,
                            "few": True,
                            "label_then": 0.3,
                            "label_now": None,
                        },
                    ],
                }
            },
            "label": {"name": "paid", "then": 0.3, "now": None, "change": LACKING},
            "prediction": {
                "rows": 1190,
                "unanswered": 10,
                "rate": metric(0.5, 0.47, 0.53),
                "then": 0.3,
                "now": 0.5,
                "change": metric(0.2, 0.15, 0.25),
            },
        },
        "gates": {
            "verdict": "refused",
            "passed": False,
            "note": "default gates",
            "results": [gate("psi.calm", 0.01, 0.2), gate("psi.income", 0.42, 0.2)],
        },
        "default_gates": True,
        "notes": [],
        "seconds": {"ingest": 0.1, "measure_drift": 1.0, "gate": 0.1},
        "cached": ["ingest"],
        "environment": {"python": "3.11"},
        "files": [{"name": "metrics", "href": "metrics.json"}],
    }


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_the_front_answers(context: dict[str, Any]) -> None:
    text = text_of(render_monitoring(context))
    assert "1,200 new rows were held against the 5,000 rows that version 3 of people learned from." in text
    assert "The people have changed: 1 of 2 default gates refused." in text
    assert "“income” (stability index 0.420; without drift it would be about 0.012)" in text
    assert "In “income”, 20.0% of the rows are now “below 10”, where 50.0% were." in text
    assert "By sex: “F” is now 60.0% of the people, and was 40.0%." in text
    assert "It matters for the model: it gives the positive answer to 50.0% of the new rows" in text
    assert "10 rows it could not answer" in text
    assert "90% interval" in text


def test_what_failed_comes_first_and_what_changed_most(context: dict[str, Any]) -> None:
    page = render_monitoring(context)
    gates = page[page.index('id="gates"') :]
    assert gates.index("psi.<wbr>income") < gates.index("psi.<wbr>calm")
    columns = page[page.index('id="columns"') : page.index('id="shares"')]
    assert columns.index("income") < columns.index("calm")
    assert "too few people" in page


def test_no_drift_and_no_evidence_read_so(context: dict[str, Any]) -> None:
    calm = copy.deepcopy(context)
    calm["status"] = calm["gates"]["verdict"] = "passed"
    calm["gates"]["results"] = [gate("psi.calm", 0.01, 0.2)]
    calm["default_gates"] = False
    assert "They are like the training rows as far as the gates ask." in text_of(render_monitoring(calm))
    few = copy.deepcopy(context)
    few["status"] = few["gates"]["verdict"] = "insufficient_evidence"
    few["gates"]["results"] = [gate("psi.income", None, 0.2)]
    for item in few["drift"]["columns"].values():
        item |= {"psi": LACKING, "expected_psi": None, "p_value": None, "bins_compared": 0, "bins": []}
    few["drift"]["prediction"] = None
    text = text_of(render_monitoring(few))
    assert "There are too few rows to tell: 1 of 1 default gate could not be judged." in text
    assert "30 rows are too few" in text


def test_the_page_is_the_same_again_and_loads_nothing(context: dict[str, Any]) -> None:
    page = render_monitoring(context)
    assert page == render_monitoring(copy.deepcopy(context))
    assert "<script" not in page
    assert not re.findall(r'(?:src|href)="(?!#|metrics\.json|data:)[^"]*"', page)
    names = re.findall(r'id="([^"]+)"', page)
    assert len(names) == len(set(names))


def test_names_cannot_break_the_page(context: dict[str, Any]) -> None:
    evil = "<b>&\"'\udc80"
    context["drift"]["columns"][evil] = context["drift"]["columns"].pop("income")
    context["drift"]["columns"][evil]["bins"][0]["name"] = evil
    context["data"]["shown"] = evil
    page = render_monitoring(context)
    assert "<b>" not in page
    assert "&lt;b&gt;&amp;" in page
    page.encode()
