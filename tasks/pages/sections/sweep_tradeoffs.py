"""Trade-offs of a sweep: each value beside its blind control, then performance against fairness metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.fairlib.catalogue import direction, title
from evenhand.tasks.pages import formats
from evenhand.tasks.pages.fronts.sweep import (
    estimate,
    interval_name,
    is_of_proxies,
    mark,
    plain_metrics,
    tradeoff_chart,
    within,
)
from evenhand.tasks.pages.model import Block, Charts, Documents, Json, Section, Table
from evenhand.tasks.pages.sections.controls import answered
from evenhand.tasks.pages.sections.metrics import difference_cell
from evenhand.tasks.pages.texts import metric_cell

PAGES = {"sweep": 15}
NEEDS = ("tradeoff",)

Marks = list[dict[str, Any]]
# Values beside their control: more columns cannot be read.
MOST = 12
# Few seeds make the intervals of proxies so wide that all marks would lie in a corner.
PROXY_WIDENING = 1.0
PROXIES = (
    "Each chart shows how far the kept rows are from the target shares against the largest difference within "
    "a proxy group: first on held-out rows, then on the training rows, on which the limit alpha holds. Both "
    "have the same axes. The first is what to expect of new rows."
)


def build(documents: Documents) -> list[Section]:
    """The controls, and the trade-offs."""
    sweep = documents["tradeoff"]
    controls = Section("over-blind", "Beside the blind control", _controls(sweep["values"]))
    return [controls, Section("tradeoffs", "Trade-offs", _tradeoffs(sweep))]


def _controls(values: Sequence[Json]) -> list[Block]:
    """A table of mean differences, a column a value."""
    known = {name for value in values for name in value.get("over_blind", {})}
    names = [name for name in answered(dict.fromkeys(sorted(known))) if direction(name) is not None]
    if not names:
        return []
    shown = values[:MOST]
    rows: list[list[Any]] = []
    for name in names:
        means = [value["over_blind"].get(name) for value in shown]
        found = [mean and {**mean, "value": mean["mean"]} for mean in means]
        rows.append([metric_cell(name), *(difference_cell(name, one) for one in found)])
    left = f" The first {MOST} of {len(values)} values are shown." if len(values) > MOST else ""
    text = (
        "Each run also trained the same learner without mitigation and without the sensitive columns "
        "(blind) on the same rows. The table has the mean difference from it over the seeds, with the "
        f"interval of the mean where there are several. What is no better than blind buys nothing.{left}"
    )
    return [text, Table("Differences from the blind control", ["Metric", *(v["label"] for v in shown)], rows)]


def _tradeoffs(sweep: Json) -> list[Block]:
    """A chart a fairness metric, and a table of the fronts."""
    marks = {name: found for name in plain_metrics(sweep["fronts"]) if (found := _marks(sweep, name))}
    if not marks:
        return []
    lead, shared = f"Each chart shows {within(sweep['performance'])} against a fairness metric.", {}
    if is_of_proxies(sweep):
        reach = [[found[axis] for own in marks.values() for found in own] for axis in "xy"]
        lead, shared = PROXIES, {"reach": reach, "widening": PROXY_WIDENING}
    charts, fronts = [], []
    for name, found in marks.items():
        on_front = formats.join([sweep["values"][index]["label"] for index in sweep["fronts"][name]])
        said = f"{len(found)} values with intervals; on the Pareto front: {on_front}."
        limits = sweep["limits"]
        charts.append(
            tradeoff_chart(name, _other(sweep, name), found, said, title(name), limits=limits, **shared)
        )
        fronts.append((title(name), on_front))
    table = Table("Values on the Pareto front of each chart", ["Metric", "On the front"], fronts, pairs=True)
    explained = _explained(sweep, by_method=any(found["series"] for own in marks.values() for found in own))
    return [lead, explained, Charts(charts, large=True), table]


def _explained(sweep: Json, *, by_method: bool) -> str:
    keys = f" (of {', '.join(sweep['keys'])}, in this order)" if len(sweep["keys"]) > 1 else ""
    joined = "The dashed line joins the Pareto front"
    if by_method:
        joined = (
            "A line joins the values of one method in the given order, and large marks are on the Pareto "
            "front"
        )
    limits = " Dashed lines across are the limits that were asked for." if sweep["limits"] else ""
    return (
        f"Each mark is one value{keys}; the thin lines through it are the {interval_name(sweep)}. "
        f"{joined}: the values for which no other value is better in one of the two and as good in the "
        f"other.{limits} A label without room is left out, and an interval much wider than the spread of the "
        "marks is cut: the tables have every number."
    )


def _other(sweep: Json, name: str) -> str:
    """Metric that a front trades for this one: of proxies, the one on the same rows."""
    return "imbalance.train" if name == "disclosivity.train" else str(sweep["performance"])


def _marks(sweep: Json, name: str) -> Marks:
    named = [_method_and_rest(value) for value in sweep["values"]]
    methods = [method for method, _ in named]
    by_method = is_of_proxies(sweep) and any(methods.count(method) > 1 for method in methods if method)
    best = (sweep["best"] or {}).get("value")
    marks: Marks = []
    for index, value in enumerate(sweep["values"]):
        x, y = estimate(value, name), estimate(value, _other(sweep, name))
        if x is not None and y is not None:
            kind = "front" if index in sweep["fronts"][name] else "other"
            method, rest = named[index] if by_method else ("", value["mark"])
            marks.append(mark(rest, "best" if index == best else kind, x, y, method))
    return marks


def _method_and_rest(value: Json) -> tuple[str, str]:
    """A value's method, where that is swept, and a label of what else it sets, or else of the method."""
    settings = formats.flatten(value["settings"])
    method = next((text for key, text in settings if key in ("method", "method.name")), "")
    rest = [text for key, text in settings if key not in ("method", "method.name")]
    return method, ", ".join(rest) or method
