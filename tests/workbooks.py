"""Small spreadsheets for tests, written by hand: the project only reads them."""

from __future__ import annotations

import datetime as dt
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

_HEAD = '<?xml version="1.0" encoding="UTF-8"?>'
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_FIRST_DAY = dt.datetime(1899, 12, 30)
# the second format is that of dates
_STYLES = f"""{_HEAD}<styleSheet xmlns="{_MAIN}"><fonts count="1"><font/></fonts><fills count="1">
<fill/></fills><borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs>
<cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="14" applyNumberFormat="1"/></cellXfs>
</styleSheet>"""


def write_workbook(path: Path, sheets: Mapping[str, Sequence[Sequence[Any]]]) -> Path:
    """Write sheets, the first row of each being its header; None is an empty cell."""
    parts = {"xl/styles.xml": _STYLES}
    entries = []
    links = [f'<Relationship Id="s" Type="{_LINKS}/styles" Target="styles.xml"/>']
    types = []
    for number, (name, rows) in enumerate(sheets.items(), start=1):
        file = f"worksheets/sheet{number}.xml"
        parts[f"xl/{file}"] = _sheet(rows)
        entries.append(f'<sheet name="{escape(name)}" sheetId="{number}" r:id="r{number}"/>')
        links.append(f'<Relationship Id="r{number}" Type="{_LINKS}/worksheet" Target="{file}"/>')
        types.append(_content_type(f"/xl/{file}", "worksheet"))
    book = f'<workbook xmlns="{_MAIN}" xmlns:r="{_LINKS}"><sheets>{"".join(entries)}</sheets>'
    parts["xl/workbook.xml"] = f"{_HEAD}{book}</workbook>"
    relations = f'<Relationships xmlns="{_PACKAGE}/relationships">'
    parts["xl/_rels/workbook.xml.rels"] = f"{_HEAD}{relations}{''.join(links)}</Relationships>"
    link = f'<Relationship Id="b" Type="{_LINKS}/officeDocument" Target="xl/workbook.xml"/>'
    parts["_rels/.rels"] = f"{_HEAD}{relations}{link}</Relationships>"
    types.append(_content_type("/xl/workbook.xml", "sheet.main"))
    types.append(_content_type("/xl/styles.xml", "styles"))
    xml = '<Default Extension="xml" ContentType="application/xml"/>'
    rels = (
        '<Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    )
    parts["[Content_Types].xml"] = (
        f'{_HEAD}<Types xmlns="{_PACKAGE}/content-types">{xml}{rels}{"".join(types)}</Types>'
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return path


def _content_type(part: str, kind: str) -> str:
    place = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    return f'<Override PartName="{part}" ContentType="{place}.{kind}+xml"/>'


def _sheet(rows: Sequence[Sequence[Any]]) -> str:
    texts = []
    for number, row in enumerate(rows, start=1):
        cells = "".join(_cell(f"{_letters(k)}{number}", cell) for k, cell in enumerate(row))
        texts.append(f'<row r="{number}">{cells}</row>')
    data = "".join(texts)
    return f'{_HEAD}<worksheet xmlns="{_MAIN}"><sheetData>{data}</sheetData></worksheet>'


def _letters(place: int) -> str:
    first = "" if place < 26 else chr(64 + place // 26)
    return first + chr(65 + place % 26)


def _cell(place: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, int | float):
        return f'<c r="{place}"><v>{value!r}</v></c>'
    if isinstance(value, dt.date):
        moment = value
        if not isinstance(moment, dt.datetime):
            moment = dt.datetime.combine(value, dt.time())
        days = (moment - _FIRST_DAY) / dt.timedelta(days=1)
        return f'<c r="{place}" s="1"><v>{days!r}</v></c>'
    text = escape(str(value))
    return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>'
