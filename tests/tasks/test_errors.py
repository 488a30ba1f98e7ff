"""Errors of libraries as input errors: one line, with what was being read before it."""

from __future__ import annotations

import pytest

from evenhand.tasks.errors import InputError, input_errors


def convert(error: Exception, *kinds: type[Exception]) -> None:
    with input_errors("gates: ", *kinds, end="."):
        raise error


def test_a_value_error_stands_between_lead_and_end() -> None:
    with pytest.raises(InputError) as caught:
        convert(ValueError("no such metric"))
    assert str(caught.value) == "gates: no such metric."
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_named_kinds_are_converted_in_place_of_value_errors() -> None:
    with pytest.raises(InputError, match="gates: 3"):
        convert(LookupError(3), LookupError, TypeError)
    with pytest.raises(ValueError, match="^left alone$") as caught:
        convert(ValueError("left alone"), LookupError, TypeError)
    assert not isinstance(caught.value, InputError)


def test_other_errors_pass() -> None:
    with pytest.raises(TypeError, match="^left alone$"):
        convert(TypeError("left alone"))
