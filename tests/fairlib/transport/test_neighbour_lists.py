"""Bounds of the rows that are on no list."""

from __future__ import annotations

import numpy as np
import pytest

from evenhand.fairlib.transport.neighbour_lists import split_rises


@pytest.mark.parametrize(("n", "room"), [(5, 1), (40, 3), (3000, 45), (3000, 0)])
def test_rises_of_movers_and_of_all_others(n: int, room: int) -> None:
    rng = np.random.default_rng(n)
    before = rng.exponential(size=n)
    now = before + rng.normal(scale=0.1, size=n)
    scale = np.array([0.9, 1.1])
    rise = np.empty(2)
    others = np.empty(2)
    movers = np.empty(room, dtype=np.int32)
    climbs = np.empty((room, 2))
    split_rises(now, before, scale, rise, others, movers, climbs)
    rises = now[:, None] - scale * before[:, None]
    assert rise == pytest.approx(rises.max(axis=0), abs=0)
    chosen = np.isfinite(climbs[:, 0])
    assert (climbs[chosen] == rises[movers[chosen]]).all()
    assert (movers[~chosen] == 0).all()
    rest = np.setdiff1d(np.arange(n), movers[chosen])
    assert others == pytest.approx(rises[rest].max(axis=0), abs=0)
    # the movers rose more at the low end than anybody else, unless there was no room
    if chosen.sum() < room:
        assert climbs[chosen, 0].min(initial=np.inf) >= others[0]
