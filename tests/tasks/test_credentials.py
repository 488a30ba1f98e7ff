"""Credentials in jobs, options and addresses; keys given twice; and names that a terminal would obey."""

from __future__ import annotations

import pytest

from evenhand.tasks.errors import InputError
from evenhand.tasks.inputs import parse_yaml, refuse_credentials


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:hunter2@host/db",
        "https://me:p@ss@host/x",
        "https://host/x.csv?token=abc",
        "https://host/x.csv?a=1&sas_token=abc",
        "https://host/x.csv?X-Amz-Signature=abc",
        "https://host/x.csv?api_key=abc",
        "host=db password=hunter2",
        "AKIAABCDEFGHIJKLMNOP",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "-----BEGIN RSA PRIVATE KEY-----",
    ],
)
def test_credentials_are_refused_wherever_they_stand(text: str) -> None:
    for value in (text, [text], {"a": {"b": [text]}}):
        with pytest.raises(InputError, match="looks like it holds a credential") as caught:
            refuse_credentials(value, "table")
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:$PASS@host/db",
        "postgresql://me@host/db",
        "https://host/x.csv?token=$TOKEN",
        "https://host/x.csv?signed=x/y",
        "s3://bucket/key.parquet",
        "select password from people",
        "models:/people@champion",
        "12:30@noon",
    ],
)
def test_what_holds_none_is_taken(text: str) -> None:
    refuse_credentials({"a": [text]}, "")


def test_a_repeated_key_names_both_lines() -> None:
    with pytest.raises(InputError, match=r"key 'gates' is given twice \(lines 1 and 3\)"):
        parse_yaml("gates: {a: 1}\nb: 2\ngates: {}\n", "the job x")
    assert parse_yaml("a: &x {b: 1}\nc:\n  <<: *x\n  b: 2\n", "x") == {"a": {"b": 1}, "c": {"b": 2}}


def test_a_message_holds_no_codes_for_a_terminal() -> None:
    assert str(InputError("column '\x1b[2Jx'\nand more")) == "column '?[2Jx' and more"
