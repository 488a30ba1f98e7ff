"""The scores that decide, and the raw values at which an encoding passes a threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.fairlib.methods.registry import load_model
from evenhand.fairlib.preprocessing.encoder import FittedColumn
from evenhand.tasks.errors import InputError
from evenhand.tasks.exporting.score import first_true, raw_cuts, read_score

FINITE = st.floats(-1e6, 1e6, allow_nan=False)


@given(FINITE, st.sampled_from([np.float32, np.float64]))
def test_the_first_true_number_is_the_bound_itself(bound: float, kind: Any) -> None:
    bound = kind(bound)
    assert first_true(lambda x: x >= bound, 1, kind)[0] == bound
    assert first_true(lambda x: x > bound, 1, kind)[0] == np.nextafter(bound, kind(np.inf))


def test_a_test_that_is_always_or_never_true() -> None:
    assert first_true(lambda x: x == x, 1)[0] == -np.inf
    assert first_true(lambda x: x != x, 1)[0] == np.inf


@settings(max_examples=50)
@given(FINITE, st.floats(1e-3, 1e4), st.booleans(), st.floats(-3, 3, width=32))
def test_a_cut_separates_neighbouring_values(
    mean: float, scale: float, falls: bool, threshold: float
) -> None:
    item = FittedColumn("x", "standard", mean, -scale if falls else scale)
    cut = raw_cuts(item, np.array([threshold], dtype=np.float32))[0]

    def below(x: float) -> bool:
        return bool(np.float32((x - item.centre) / item.scale) < np.float32(threshold))

    before = np.nextafter(cut, -np.inf)
    assert (below(before), below(cut)) == ((False, True) if falls else (True, False))


@pytest.mark.parametrize(("method", "target"), [("nn", "sql"), ("project", "sql")])
def test_a_method_that_sql_cannot_express(publish: Any, method: str, target: str) -> None:
    model = load_model(publish(method, **SMALL[method]).bundle.folder / "model")
    with pytest.raises(
        InputError, match=f"method {method} cannot be exported to {target}.*gbdt, lightgbm.*qp-tree"
    ):
        read_score(model, target)


SMALL: dict[str, dict[str, Any]] = {
    "nn": {"n_steps": 50, "hidden": (8,)},
    "project": {"n_steps": 20},
}
