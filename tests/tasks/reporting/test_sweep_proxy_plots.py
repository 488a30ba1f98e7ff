"""Plots of a sweep of proxies: lines by method, bars value by value, heat maps in equal colours."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_report_svg import assert_apart, parse

from evenhand.tasks.reporting.balance_plots import GroupShares, fit_columns, heat_map, share_grid
from evenhand.tasks.reporting.sweep_plots import Estimate, Mark, tradeoff_plot


def test_a_series_runs_through_its_marks_in_their_order() -> None:
    marks = [
        Mark("1", Estimate(0.0), Estimate(0.0), series="a"),
        Mark("2", Estimate(1.0), Estimate(1.0), series="a", on_front=True),
        Mark("3", Estimate(0.5), Estimate(0.0), series="a"),
        Mark("1", Estimate(0.5), Estimate(0.5), series="b"),
    ]
    image = tradeoff_plot(marks, uid="u", title="t", description="d", x_axis="across", y_axis="up")
    root = parse(image)
    dots = {(c.get("cx"), c.get("cy")): c for c in root.findall("circle")}
    assert len(dots) == 4
    (curve,) = [p for p in root.findall("path") if (p.get("class") or "").startswith("curve")]
    x0, y0, x1, y1, x2, y2 = map(float, re.findall(r"[\d.]+", curve.get("d", "")))
    assert (x0 < x2 < x1, y1 < y0) == (True, True)
    assert y0 == y2
    assert sorted(c.get("class") or "" for c in dots.values()) == ["end c0"] * 3 + ["end c1"]
    assert [c.get("r") for c in dots.values()].count("5") == 1
    assert len(root.findall("g")) == 2, "a legend of two methods"


SHARES = st.one_of(st.none(), st.integers(0, 100).map(lambda k: k / 100))
CELLS = st.one_of(
    st.none(),
    st.builds(GroupShares, st.just("g"), SHARES, SHARES, st.integers(0, 100).map(lambda k: k / 100)),
)


@given(st.data(), st.integers(1, 6), st.integers(1, 5), st.booleans())
def test_every_known_share_has_a_bar_of_its_length(
    data: st.DataObject, columns: int, rows: int, compact: bool
) -> None:
    cells = [[data.draw(CELLS) for _ in range(columns)] for _ in range(rows)]
    names = [str(i) for i in range(1, columns + 1)]
    assert fit_columns(names)
    image = share_grid(
        names,
        [f"group {i}" for i in range(rows)],
        cells,
        uid="u",
        title="t",
        description="d",
        compact=compact,
    )
    assert_apart(image)
    bars = [n for n in parse(image).findall("rect") if n.get("class") in ("pale", "bar")]
    known = [v for line in cells for c in line if c for v in (c.before, c.after) if v is not None]
    assert len(bars) == len(known)
    long = {value: float(bar.get("width", 0)) for value, bar in zip(known, bars, strict=False)}
    for one in known:
        for other in known:
            assert one <= other or long[one] >= long[other]
    assert len(parse(image).findall("line")) == sum(c is not None for line in cells for c in line)


def test_bars_and_the_wanted_mark_stand_on_one_scale_by_hand() -> None:
    cells = [[GroupShares("g", 0.4, 0.2, 0.3), GroupShares("g", 0.1, 0.2, 0.3)]]
    root = parse(share_grid(["a", "b"], ["g"], cells, uid="u", title="t", description="d"))
    widths = [float(bar.get("width", 0)) for bar in root.findall("rect")]
    lefts = [float(bar.get("x", 0)) for bar in root.findall("rect")]
    unit = widths[0] / 4
    assert widths == pytest.approx([4 * unit, 2 * unit, unit, 2 * unit], abs=0.2)
    wanted = [float(line.get("x1", 0)) for line in root.findall("line")]
    assert wanted == pytest.approx([lefts[0] + 3 * unit, lefts[2] + 3 * unit], abs=0.2)


def test_a_heat_map_has_its_own_colours_unless_told() -> None:
    cells: list[list[float | None]] = [[0.1, -0.05]]
    own = heat_map(["1", "2"], ["g"], cells, uid="u", title="t", description="d")
    shared = heat_map(["1", "2"], ["g"], cells, uid="u", title="t", description="d", strongest=0.2)
    one, other = (
        [float(x) for x in re.findall(r'fill-opacity="([\d.]+)"', image)] for image in (own, shared)
    )
    assert one == pytest.approx([2 * strength for strength in other])
