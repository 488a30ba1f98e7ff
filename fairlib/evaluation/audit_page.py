"""An audit as HTML that needs nothing else: its verdict, its gaps and its groups, all escaped.

Values of groups with too few people are not written: a page may be sent to others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from evenhand.fairlib.escaping import html_text
from evenhand.fairlib.evaluation.group_metrics import TITLES

STYLE = """
.evenhand-audit { font: 15px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 0 auto; }
.evenhand-audit h1 { font-size: 1.35rem; } .evenhand-audit h2 { font-size: 1.1rem; }
.evenhand-audit .verdict p { max-width: 44rem; margin: .45rem 0; }
.evenhand-audit .verdict p:first-child { font-size: 1.2rem; font-weight: 600; }
.evenhand-audit .scroll { overflow-x: auto; margin: 1rem 0; }
.evenhand-audit table { border-collapse: collapse; font-size: .9rem; }
.evenhand-audit caption, .evenhand-audit summary { text-align: left; font-weight: 600; }
.evenhand-audit th, .evenhand-audit td { padding: .25rem 0 .25rem 1.1rem; text-align: right;
  vertical-align: top; border-bottom: 1px solid #d7dde4; }
.evenhand-audit th.text, .evenhand-audit td.text { text-align: left; }
.evenhand-audit th:first-child, .evenhand-audit td:first-child { padding-left: 0; }
.evenhand-audit td { white-space: nowrap; }
.evenhand-audit .ends { display: block; color: #55606d; font-size: .85em; }
.evenhand-audit .lack { color: #55606d; }
body.evenhand-page { margin: 0; padding: 1.2rem; color: #1d2733; background: #fff; }
@media (prefers-color-scheme: dark) {
  body.evenhand-page { background: #14191f; color: #e4e9ee; }
  .evenhand-page .ends, .evenhand-page .lack { color: #a9b3be; }
  .evenhand-page th, .evenhand-page td { border-color: #37414c; }
}
@media print { .evenhand-audit table { break-inside: avoid; } }
"""

LACKS = {
    "too_few": "too few",
    "undefined": "undefined",
}
MOST_GROUPS = 200
"""Groups of an attribute that a page lists."""

Verdicts = Mapping[str, Sequence[str]]


def audit_page(
    verdicts: Verdicts, groups: pd.DataFrame, gaps: pd.DataFrame, level: float, title: str
) -> str:
    """Write a whole page.

    Parameters
    ----------
    verdicts : mapping
        Sentences by model.
    groups, gaps : DataFrame
        As of ``GroupAudit.to_frame`` and ``GroupAudit.gaps``.
    level : float
        Coverage of the intervals.
    title : str
        Title of the page.

    Returns
    -------
    str
    """
    body = audit_fragment(verdicts, groups, gaps, level, title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html_text(title)}</title>\n</head>\n"
        f'<body class="evenhand-page">\n<main>\n{body}\n</main>\n</body>\n</html>\n'
    )


def audit_fragment(
    verdicts: Verdicts, groups: pd.DataFrame, gaps: pd.DataFrame, level: float, title: str = ""
) -> str:
    """Write the part of a page that a notebook shows.

    Parameters
    ----------
    verdicts, groups, gaps, level, title
        As of :func:`audit_page`.

    Returns
    -------
    str
    """
    parts = [f"<style>{STYLE}</style>", '<div class="evenhand-audit">']
    if title:
        parts.append(f"<h1>{html_text(title)}</h1>")
    for model, sentences in verdicts.items():
        if model:
            parts.append(f"<h2>{html_text(model)}</h2>")
        lines = "".join(f"<p>{html_text(sentence)}</p>" for sentence in sentences)
        parts.append(f'<div class="verdict">{lines}</div>')
    for model in verdicts:
        of_model = groups
        gaps_of_model = gaps
        if "model" in groups.columns:
            of_model = groups[groups["model"] == model]
            gaps_of_model = gaps[gaps["model"] == model] if len(gaps) else gaps
        parts += _tables(model, of_model, gaps_of_model)
    parts.append(
        f"<p>Intervals cover with {100 * level:g} %. Values of groups with too few people are not "
        "shown.</p></div>"
    )
    return "\n".join(parts)


def _tables(model: str, groups: pd.DataFrame, gaps: pd.DataFrame) -> list[str]:
    """Table of the groups and of the gaps of every attribute."""
    parts = []
    for attribute in pd.unique(groups["attribute"]):
        if not attribute:
            continue
        of_attribute = groups[groups["attribute"] == attribute]
        overall = groups[groups["attribute"] == ""]
        heading = " and ".join(str(attribute).split("&"))
        caption = f"{model}, by {heading}" if model else f"By {heading}"
        parts.append(_group_table(caption, of_attribute, overall))
        if len(gaps):
            parts.append(_gap_table(gaps[gaps["attribute"] == attribute]))
    return parts


def _control_names(frame: pd.DataFrame) -> list[str]:
    """Names of the control features: the columns between the attribute and the group."""
    columns = list(frame.columns)
    return columns[columns.index("attribute") + 1 : columns.index("group")]


def _group_table(caption: str, groups: pd.DataFrame, overall: pd.DataFrame) -> str:
    """A row a group, a column a metric; last all rows."""
    controls = _control_names(groups)
    metrics = list(pd.unique(groups["metric"]))
    keys = ["group", *controls]
    rows = []
    measurements = pd.concat([groups, overall], ignore_index=True)
    cells: dict[tuple[Any, ...], dict[str, str]] = {}
    row: Any
    for row in measurements.to_dict("records"):
        key = tuple(row[name] for name in keys)
        cells.setdefault(key, {})[row["metric"]] = _value_cell(row)
    hidden = max(len(cells) - MOST_GROUPS, 0)
    for key in list(cells)[:MOST_GROUPS]:
        texts = [_text_cell(part) for part in key]
        texts += [cells[key].get(metric, "<td></td>") for metric in metrics]
        rows.append(f"<tr>{''.join(texts)}</tr>")
    note = f" ({hidden:,} further groups are not listed)" if hidden else ""
    titles = [TITLES.get(metric, metric.replace("_", " ")) for metric in metrics]
    return _table(f"{caption}{note}", keys, titles, rows)


def _text_cell(value: Any) -> str:
    return f'<td class="text">{html_text(value)}</td>'


def _value_cell(row: Mapping[str, Any]) -> str:
    """A value with its interval; none where too few people stand behind it."""
    if row["metric"] == "count":
        return f"<td>{row['n']:,}</td>"
    if row["status"] in LACKS:
        return f'<td class="lack">{LACKS[row["status"]]}</td>'
    if not isinstance(row["value"], int | float) or pd.isna(row["value"]):
        return '<td class="lack">undefined</td>'
    return f"<td>{_number(row['value'])}{_ends(row)}</td>"


def _ends(row: Mapping[str, Any]) -> str:
    if pd.isna(row["lower"]):
        return ""
    ends = f"{_number(row['lower'])} to {_number(row['upper'])}"
    return f'<span class="ends">{ends}</span>'


def _number(value: float) -> str:
    """A number with three digits behind the point, or without any where it is large."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}"


def _gap_table(gaps: pd.DataFrame) -> str:
    """A row a metric and kind of gap."""
    if not len(gaps):
        return ""
    columns = list(gaps.columns)
    controls = columns[columns.index("attribute") + 1 : columns.index("kind")]
    rows = []
    row: Any
    for row in gaps.to_dict("records"):
        title = TITLES.get(row["metric"], row["metric"].replace("_", " "))
        texts = [_text_cell(title)]
        texts += [_text_cell(row[name]) for name in (*controls, "kind", "lowest", "highest")]
        if row["status"] == "ok":
            texts.append(f"<td>{_number(row['value'])}{_ends(row)}</td>")
        else:
            texts.append('<td class="lack">not enough evidence</td>')
        rows.append(f"<tr>{''.join(texts)}</tr>")
    table = _table("", ["metric", *controls, "kind", "lowest", "highest"], ["value"], rows)
    return f"<details><summary>Differences and ratios</summary>{table}</details>"


def _table(caption: str, texts: Sequence[str], numbers: Sequence[str], rows: Sequence[str]) -> str:
    """A table whose first columns are texts."""
    head = "".join(f'<th scope="col" class="text">{html_text(name)}</th>' for name in texts)
    head += "".join(f'<th scope="col">{html_text(name)}</th>' for name in numbers)
    title = f"<caption>{html_text(caption)}</caption>" if caption else ""
    return (
        f'<div class="scroll"><table>{title}<thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
