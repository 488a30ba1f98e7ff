"""Forms with a file: read as browsers send them, and refused if they are anything else."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.flows.app.uploads import MOST_PARTS, parse_upload

KIND = "multipart/form-data; boundary=xyz"


def body_of(*parts: str) -> bytes:
    return "".join(f"--xyz\r\n{part}\r\n" for part in parts).encode() + b"--xyz--\r\n"


TEXT = 'Content-Disposition: form-data; name="a"\r\n\r\n1'
FILE = 'Content-Disposition: form-data; name="file"; filename="t.csv"\r\n\r\nx'


@settings(max_examples=30)
@given(content=st.binary(max_size=300), text=st.text(max_size=50), name=st.text(max_size=20))
def test_what_a_client_sends_is_read(content: bytes, text: str, name: str) -> None:
    # by the multipart writer of another library
    files = {"file": (f"{name}.csv", content, "text/csv")}
    request = httpx.Request("POST", "http://x/", data={"label": text}, files=files)
    upload = parse_upload(request.read(), request.headers["content-type"])
    assert upload.content == content
    assert upload.fields == {"label": text}


def test_a_form_without_a_file_has_none() -> None:
    upload = parse_upload(body_of(TEXT), KIND)
    assert (upload.fields, upload.content, upload.file_name) == ({"a": "1"}, None, "")
    empty = FILE.replace('"t.csv"', '""').replace("\r\n\r\nx", "\r\n\r\n")
    assert parse_upload(body_of(empty), KIND).content == b""


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (body_of(TEXT), "application/x-www-form-urlencoded"),
        (body_of(TEXT), "multipart/form-data"),
        (body_of(TEXT), "multipart/form-data; boundary=" + "x" * 71),
        (body_of(TEXT), 'multipart/form-data; boundary="x\ny"'),
        (body_of(TEXT)[:-8], KIND),
        (b"", KIND),
        (b"before" + body_of(TEXT), KIND),
        (body_of(TEXT) + b"after", KIND),
        (body_of("name=a\r\n\r\n1"), KIND),
        (body_of("Content-Disposition: form-data\r\n\r\n1"), KIND),
        (body_of('Content-Disposition: attachment; name="a"\r\n\r\n1'), KIND),
        (body_of('Content-Disposition: form-data; name="a"'), KIND),
        (body_of(FILE, FILE), KIND),
        (body_of(*[TEXT] * (MOST_PARTS + 2)), KIND),
        (body_of(TEXT + "1" * 20_000), KIND),
        (body_of("X: " + "y" * 5000 + f"\r\n{TEXT}"), KIND),
        (body_of(TEXT).replace(b"1", b"\xff"), KIND),
    ],
)
def test_anything_else_is_refused(body: bytes, kind: str) -> None:
    with pytest.raises(ValueError, match="."):
        parse_upload(body, kind)


@given(st.binary(max_size=400))
def test_odd_bytes_are_read_or_refused(body: bytes) -> None:
    for whole in (body, b"--xyz\r\n" + body + b"\r\n--xyz--\r\n"):
        try:
            parse_upload(whole, KIND)
        except ValueError:
            continue
