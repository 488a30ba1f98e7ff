"""Groups of one or several attributes as columns, and the shares wanted of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evenhand.fairlib.proxies.proxy_groups import group_names, indicators_of, target_shares

ATTRIBUTES = {"sex": ["m", "f", "m"], "region": [2, 10, 3]}


def test_every_attribute_has_a_block_of_columns() -> None:
    names = group_names(ATTRIBUTES, 3)
    # names in the order of text
    assert names == {"sex": ["f", "m"], "region": ["10", "2", "3"]}
    indicators = indicators_of(ATTRIBUTES, names)
    np.testing.assert_array_equal(indicators, [[0, 1, 0, 1, 0], [1, 0, 1, 0, 0], [0, 1, 0, 0, 1]])
    assert indicators.dtype == np.float64


def test_the_target_is_uniform_within_what_is_not_named() -> None:
    names = group_names(ATTRIBUTES, 3)
    np.testing.assert_allclose(target_shares(names, None), [1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3])
    wanted = {"region": {"3": 0.5, "2": 0.5, "10": 0.0}}
    np.testing.assert_allclose(target_shares(names, wanted), [0.5, 0.5, 0, 0.5, 0.5])


def test_indicators_of_other_rows_keep_the_columns() -> None:
    names = {"sex": ["f", "m", "x"]}
    np.testing.assert_array_equal(
        indicators_of({"sex": ["x", "f"], "age": [1, 2]}, names), [[0, 0, 1], [1, 0, 0]]
    )


def test_unknown_groups_and_missing_attributes_are_refused() -> None:
    with pytest.raises(ValueError, match="a group that the proxy was not fitted on") as caught:
        indicators_of({"sex": ["planted", "f"]}, {"sex": ["f", "m"]})
    assert "planted" not in str(caught.value)
    with pytest.raises(ValueError, match="lacks the attribute 'sex'"):
        indicators_of({"age": [1]}, {"sex": ["f", "m"]})


@pytest.mark.parametrize("share", ["0.5", None, True, [0.5]])
def test_a_share_that_is_no_number_is_named(share: Any) -> None:
    with pytest.raises(ValueError, match="the target share of 'm' must be a number, got"):
        target_shares({"sex": ["f", "m"]}, {"sex": {"f": 0.5, "m": share}})
