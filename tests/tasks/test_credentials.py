"""Credentials in jobs, options and addresses; keys given twice; and names that a terminal would
obey.
"""

from __future__ import annotations

import re

import pytest

from evenhand.tasks.credentials import redacted, without_credentials
from evenhand.tasks.errors import InputError, without_secrets
from evenhand.tasks.written_input import parse_yaml, refuse_credentials

SECRETS = [
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
    # parameters of addresses
    "https://host/x.csv?key=hunter2",
    "https://host/x.csv?code=hunter2",
    "https://host/x.csv?jwt=hunter2",
    "https://host/x.csv?a=1&sig=hunter2",
    "https://host/x.csv?sv=2024&se=2030-01-01&sr=b&sp=r&sig=hunter2%3D",
    "https://host/x.csv?auth=hunter2",
    "https://host/x.csv?access_token=hunter2",
    "https://host/x.csv?client-secret=hunter2",
    "https://host/x.csv?X-Goog-Credential=hunter2",
    "https://host/x.csv?X-Amz-Security-Token=hunter2",
    "https://host/x.csv?Ocp-Apim-Subscription-Key=hunter2",
    "https://host/x.csv#access_token=hunter2",
    "https://host/x.csv?%6Bey=hunter2",
    "https://host/x.csv?next=https%3A%2F%2Fhost%2F%3Ftoken%3Dhunter2",
    "https://host/x.csv?anything=q8Zk2LmP0xVb7Rt5Yc3Nd9Wf",
    "https://host/x.csv?token=$3hunter2",
    "https://host/x.csv?token=$A-hunter2",
    "s3://bucket/x.csv?AWSAccessKeyId=AKIAABCDEFGHIJKLMNOP&Signature=hunter2",
    # the place of a user
    "https://glpat-abcdefghij0123456789@gitlab.example/x.csv",
    "https://hunter2@host/x.csv",
    "https://hunter2:@host/x.csv",
    "https://:hunter2@host/x.csv",
    "git+https://hunter2@host/x.git",
    "sftp://q8Zk2LmP0xVb7Rt5Yc3Nd9Wf@host/x.csv",
    # connection strings
    "mssql+pyodbc://?odbc_connect=DRIVER%3D%7BODBC%7D%3BUID%3Dme%3BPWD%3Dhunter2",
    "mssql+pyodbc:///?odbc_connect=DRIVER={ODBC};UID=me;PWD={hunter2}",
    "jdbc:sqlserver://host;user=me;password=hunter2",
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=hunter2",
    "Endpoint=sb://host/;SharedAccessKeyName=a;SharedAccessKey=hunter2",
    "snowflake://me@account/db?private_key_passphrase=hunter2",
    "databricks://token:dapi0123456789abcdef0123456789abcdef@host?http_path=x",
    "aws_secret_access_key = hunter2",
    # addresses of channels
    "https://hooks.slack.com/services/T00000000/B00000000/hunter2",
    "https://hooks.slack.com/triggers/T0/1/hunter2",
    "https://discord.com/api/webhooks/123456/hunter2",
    "https://x.webhook.office.com/webhookb2/hunter2@a/IncomingWebhook/b/c",
    "https://outlook.office.com/webhook/hunter2@a/IncomingWebhook/b",
    "https://api.telegram.org/bot123456:hunter2/sendMessage",
    "https://chat.googleapis.com/v1/spaces/A/messages?key=hunter2&token=hunter2",
    "https://prod-1.westeurope.logic.azure.com/workflows/a/triggers/b?sig=hunter2",
    # keys by their form
    "glpat-abcdefghij0123456789",
    "github_pat_11ABCDEFG0123456789abc_abcdefg",
    "xoxb-123456789012-abcdefghij",
    "hf_abcdefghijklmnopqrstuvwxyzabcdefgh",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdef",
    "Authorization: Bearer hunter2hunter2hunter2",
]
NO_SECRETS = [
    "postgresql://me:$PASS@host/db",
    "postgresql://me:${PASS}@host/db",
    "postgresql://$USER:$PASS@host/db",
    "postgresql://me@host/db",
    "https://$TOKEN@host/x.csv",
    "https://$USER:$TOKEN@host/x.csv",
    "https://host/x.csv?token=$TOKEN",
    "https://host/x.csv?signed=x/y",
    "https://host/x.csv?key=$KEY&code=${CODE}",
    "https://hooks.slack.com/services/$SLACK",
    "https://host/x.csv?year=2024&page=3&keyword=abc&encode=utf8&monkey=1",
    "https://host/x.csv?versionId=3HL4kqtJlcpXroDTDmJ+rmSpXd3dIbrHY",
    "https://host/export?id=1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms",
    "https://host/e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855.csv",
    "https://host/x.csv?sha256=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "https://host/x.csv?from=2024-01-01T00:00:00Z&to=2024-12-31T00:00:00Z",
    "https://host/x.csv?query=SelectedColumnsOfPeopleIn2024",
    "https://docs.example/@scope/package",
    "abfss://container@account.dfs.core.windows.net/x",
    "mssql+pyodbc://?odbc_connect=DRIVER%3D%7BODBC%7D%3BPWD%3D%24PASS",
    "s3://bucket/key.parquet",
    "select password from people",
    "select token, code, key from people where code = 'A1' and key = 3",
    "models:/people@champion",
    "12:30@noon",
    "secret/warehouse",
    "folder/part-?.csv",
    "contact: team@example.org, basic statistics of the bearer",
    "task-risk-level-of-people-in-2024",
]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "http://host/xoxb-123456789012-123456789012-abcdefABCDEF123456789012/a.csv",
            "http://host/***/a.csv",
        ),
        (f"http://host/sk-ant-api03-{'a1B2' * 10}/x.csv", "http://host/***/x.csv"),
        (f"ghp_{'a1B2c3D4e5' * 4} is wrong", "*** is wrong"),
        (
            "-----BEGIN PRIVATE KEY-----\nMIIEabc\n-----END PRIVATE KEY----- cannot be read",
            "*** cannot be read",
        ),
        ("-----BEGIN PRIVATE KEY-----\nMIIEabc", "***"),
        ("password='my secret word' for me", "password='***' for me"),
        ("pwd={a;b};Server=x", "pwd={***};Server=x"),
        ("https://host/x?password=a'b", "https://host/x?password=***"),
        ("postgresql://u:pa ss@host/db", "postgresql://u:***@host/db"),
        ("https://host/a?secret%3Dhunter2", "https://host/a?***"),
        ("bigquery://p?credentials_base64=abc", "bigquery://p?credentials_base64=***"),
        ("//u:p@host/x", "//u:***@host/x"),
        ("http://host:80/path and a@b.c", "http://host:80/path and a@b.c"),
    ],
)
def test_the_whole_credential_is_left_out(text: str, shown: str) -> None:
    assert without_credentials(text) == shown


@pytest.mark.parametrize("text", SECRETS)
def test_credentials_are_refused_wherever_they_stand(text: str) -> None:
    for value in (text, [text], {"a": {"b": [text]}}):
        with pytest.raises(InputError, match="looks like it holds a credential") as caught:
            refuse_credentials(value, "table")
        assert "hunter2" not in str(caught.value)
        assert "$NAME" in str(caught.value)


@pytest.mark.parametrize("text", SECRETS)
def test_a_message_that_quotes_one_does_not_show_it(text: str) -> None:
    for shown in (
        str(InputError(f"cannot read {text}: no")),
        without_secrets(text),
        without_credentials(text),
    ):
        assert "hunter2" not in shown
        assert not re.search(r"AKIA\w{16}|glpat-\w{10}|ghp_\w{20}|dapi\w{20}|q8Zk2LmP0x", shown)
    assert redacted({"a": [text]}) == {"a": [without_credentials(text)]}


@pytest.mark.parametrize("text", NO_SECRETS)
def test_what_holds_none_is_taken(text: str) -> None:
    refuse_credentials({"a": [text]}, "")
    assert without_credentials(text) == text


def test_a_key_says_what_its_value_is() -> None:
    with pytest.raises(InputError, match="table.password looks like it holds a credential"):
        refuse_credentials({"table": {"password": "hunter2"}}, "")
    refuse_credentials({"table": {"password": "$PASS"}, "filter": {"key": "id"}}, "")


def test_a_repeated_key_names_both_lines() -> None:
    with pytest.raises(InputError, match=r"key 'gates' is given twice \(lines 1 and 3\)"):
        parse_yaml("gates: {a: 1}\nb: 2\ngates: {}\n", "the job x")
    assert parse_yaml("a: &x {b: 1}\nc:\n  <<: *x\n  b: 2\n", "x") == {"a": {"b": 1}, "c": {"b": 2}}


def test_a_message_holds_no_codes_for_a_terminal() -> None:
    assert str(InputError("column '\x1b[2Jx'\nand more")) == "column '?[2Jx' and more"


@pytest.mark.parametrize(
    "unit", ["a", "a-", "//a:", "a://b:", "pwd={", "pwd:", "-u=", "eyJ-", "%4", "A_", "x."]
)
def test_a_long_text_is_searched_once(unit: str) -> None:
    """A search from every place of the text to its end would take minutes."""
    text = unit * (30_000 // len(unit))
    assert without_credentials(text).startswith(unit)
    assert str(InputError(text)).startswith(unit)
