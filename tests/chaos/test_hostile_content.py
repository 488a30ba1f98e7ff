"""Hostile content: names and values on pages, archives, checkpoints, and formulas for
spreadsheets.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from evenhand.fairlib.methods.checkpoint import FILE, Checkpoint
from evenhand.tasks.errors import InputError
from evenhand.tasks.sources import fetching as sources
from tests.flows.people import Bench, clean_environment

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = "<script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(1)>'
FORMULA = "=cmd|'/C calc'!A0"


class Tags(HTMLParser):
    """Elements, attributes and text of a page, as a browser would read them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.long
def test_hostile_names_and_values_are_text_on_every_page(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.table = bench.table.rename_columns(
        [{"job": IMAGE, "income": FORMULA}.get(name, name) for name in bench.table.column_names]
    )
    jobs = [
        {"clerk": SCRIPT, "smith": FORMULA}.get(value, value)
        for value in bench.table[IMAGE].to_pylist()
    ]
    bench.set(IMAGE, jobs)
    bench.properties["income"]["name"] = FORMULA
    job = bench.properties["job"]
    job["name"] = IMAGE
    job["quality"][0]["validValues"] = [SCRIPT, FORMULA, "cook"]
    bench.job |= {"description": SCRIPT, "evaluate": {"draws": 20}}
    bench.job["publish"]["intended_use"] = IMAGE
    with clean_environment(), contextlib.chdir(tmp_path):
        done = bench.run("--json")
    assert (done.code, done.err) == (0, "")
    pages = list((bench.store / "runs").rglob("*.html"))
    assert len(pages) >= 4
    read = [Tags(path.read_text()) for path in pages]
    for page in read:
        assert not page.tags & {
            "script",
            "img",
            "iframe",
            "object",
            "embed",
            "base",
            "form",
            "link",
        }
        assert not [item for item in page.attributes if item[0].startswith("on")]
        links = [value for name, value in page.attributes if name in ("href", "xlink:href", "src")]
        assert not [
            link for link in links if link.lower().lstrip().startswith(("javascript:", "data:text"))
        ]
    for shown in (SCRIPT, IMAGE, FORMULA):
        assert any(shown in page.text for page in read), shown


def test_no_command_writes_a_file_for_spreadsheets() -> None:
    """A cell that begins with = is a formula there. A new file of this kind must escape its
    cells.
    """
    writes = re.compile(
        r"\.to_csv\(|write_csv|csv\.(Dict)?[wW]riter|\.to_excel\(|openpyxl\.Workbook"
    )
    for folder in ("flows", "tasks", "fairlib", "data_contracts"):
        for path in (ROOT / folder).rglob("*.py"):
            assert not writes.search(path.read_text()), path


# archives


def zipped(member: str, content: bytes) -> bytearray:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr(member, content)
    return bytearray(archive.getvalue())


def test_a_hostile_archive_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytes(range(256)) * 40
    good = zipped("a.csv", content)
    begun = good.index(b"a.csv") + len(b"a.csv")
    central = good.index(b"PK\1\2")
    damaged, encrypted, method = bytearray(good), bytearray(good), bytearray(good)
    damaged[begun : begun + 8] = b"\xff" * 8
    encrypted[6] |= 1
    encrypted[central + 8] |= 1
    method[8] = method[central + 10] = 99
    path = tmp_path / "a.zip"
    for archive in (damaged, encrypted, method, good[:-30], b"", zipped("b.csv", content)):
        path.write_bytes(archive)
        with pytest.raises(InputError, match=r"holds no a\.csv: fetch the file by hand"):
            sources._extract(path, "a.csv", tmp_path)
    path.write_bytes(good)
    assert sources._extract(path, "a.csv", tmp_path).read_bytes() == content
    monkeypatch.setattr(sources, "MAX_MEMBER", len(content) - 1)
    with pytest.raises(InputError, match=r"a\.csv is too large"):
        sources._extract(path, "a.csv", tmp_path)


def test_a_hostile_checkpoint_is_no_checkpoint(tmp_path: Path) -> None:
    """Its digest is right: whoever can write the file can compute one."""
    saved = Checkpoint(tmp_path, "this")
    saved.save({"weights": np.arange(2000.0)})
    assert saved.load() is not None
    compressed = io.BytesIO()
    np.savez_compressed(compressed, training=np.array("this"), weights=np.arange(2000.0))
    damaged = bytearray(compressed.getvalue())
    damaged[100:140] = b"\xff" * 40
    method = bytearray(compressed.getvalue())
    method[8] = method[method.index(b"PK\1\2") + 10] = 99
    pickled = io.BytesIO()
    np.savez(pickled, training=np.array("this"), weights=np.array([{}], dtype=object))
    for content in (bytes(damaged), bytes(method), pickled.getvalue(), b"PK\3\4", b""):
        (tmp_path / FILE).write_bytes(hashlib.sha256(content).digest() + content)
        assert saved.load() is None
