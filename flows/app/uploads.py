"""Uploaded forms with one file: their parts, read strictly and within limits."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser

MOST_PARTS = 40
LONGEST_HEAD = 4096
LONGEST_FIELD = 16 * 1024
BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,./:=?-]{1,70}")


@dataclass
class Upload:
    """A form: its texts by name, and the file, with the name that the browser gave it."""

    fields: dict[str, str] = field(default_factory=dict)
    file_name: str = ""
    content: bytes | None = None


def parse_upload(body: bytes, content_type: str) -> Upload:
    """Read a form of the type ``multipart/form-data``.

    Raises ValueError for anything else: another type, a part without an end or a name, two files,
    or more and longer parts than a form of ours has.
    """
    delimiter = b"--" + _boundary(content_type)
    if not body.startswith(delimiter + b"\r\n"):
        raise ValueError("the form does not begin with its boundary.")
    parts = (b"\r\n" + body).split(b"\r\n" + delimiter)
    if parts[-1] not in (b"--", b"--\r\n") or len(parts) > MOST_PARTS + 2:
        raise ValueError("the form has no end, or too many parts.")
    upload = Upload()
    for part in parts[1:-1]:
        _add_part(upload, part)
    return upload


def _boundary(content_type: str) -> bytes:
    head = Message()
    head["content-type"] = content_type
    boundary = head.get_param("boundary")
    if head.get_content_type() != "multipart/form-data" or not isinstance(boundary, str):
        raise ValueError("the form is of another type.")
    if not BOUNDARY.fullmatch(boundary):
        raise ValueError("the form's boundary is none.")
    return boundary.encode("ascii")


def _add_part(upload: Upload, part: bytes) -> None:
    end = part.find(b"\r\n\r\n", 0, LONGEST_HEAD)
    if not part.startswith(b"\r\n") or end < 0:
        raise ValueError("a part of the form has no head.")
    head = BytesParser().parsebytes(part[2 : end + 4], headersonly=True)
    content = part[end + 4 :]
    name = head.get_param("name", header="content-disposition")
    if head.get_content_disposition() != "form-data" or not isinstance(name, str):
        raise ValueError("a part of the form has no name.")
    if head.get_param("filename", header="content-disposition") is None:
        if len(content) > LONGEST_FIELD:
            raise ValueError("a text of the form is too long.")
        upload.fields[name] = content.decode("utf-8")
        return
    if upload.content is not None:
        raise ValueError("the form has two files.")
    upload.file_name = head.get_filename() or ""
    upload.content = content
