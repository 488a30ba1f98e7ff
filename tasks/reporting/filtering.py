"""A batch filter run as one HTML page: what was kept, what balance to expect of it, and what is not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from evenhand.tasks.errors import without_secrets
from evenhand.tasks.reporting import filter_words, formats, words
from evenhand.tasks.reporting.context import Environment
from evenhand.tasks.reporting.filter_files import file_tables
from evenhand.tasks.reporting.filter_numbers import (
    ExpectedShare,
    ProxyGroup,
    expected_by_attribute,
    proxy_groups,
)
from evenhand.tasks.reporting.filter_plots import expected_plot, proxy_group_bars, share_interval
from evenhand.tasks.reporting.page import environment

__all__ = ["render_filter"]

Json = Mapping[str, Any]
MOST_DRAWN = 30
# A longer table below a plot is folded.
MOST_OPEN = 12
STATUS = {"done": "filtered", "skipped": "filtered before", "failed": "failed"}


def render_filter(context: Mapping[str, Any]) -> str:
    """
    Write the report of a filter run.

    Parameters
    ----------
    context : mapping
        Plain JSON: ``run_id``, ``created`` (ISO time), ``status`` ("filtered" or "failed"), ``job``,
        ``proxy`` (``name``, ``version``, ``alias``, ``uri``), ``input``, ``output``, ``summary`` and
        ``settings`` (those of :mod:`tasks.filtering`, as their ``to_dict`` gives them), ``balance`` (content
        of the proxy's ``balance.json``, or None), ``seconds``, ``environment`` (see
        :class:`evenhand.tasks.reporting.context.Environment`).

    Returns
    -------
    str
        A whole HTML document. The same context gives the same text.
    """
    kind, symbol, status = filter_words.badge(context)
    html = (
        environment()
        .get_template("filter.html.j2")
        .render(
            c=context,
            kind=kind,
            symbol=symbol,
            status=status,
            words=STATUS,
            headline=filter_words.headline(context),
            places=[(name, _shown(context[name])) for name in ("input", "output")],
            files=file_tables(context),
            rows=_rows(context),
            shares=_shares(context),
            no_shares=filter_words.without_balance(context),
            groups=_groups(context),
            cautions=filter_words.cautions(context),
            made=_made(context),
        )
    )
    # the name of a file may hold bytes that are no text
    return html.encode("utf-8", "replace").decode("utf-8")


def _shown(address: str) -> str:
    """An address without secrets; a local one may hold any sign."""
    return without_secrets(address) if "://" in address else address


def _rows(context: Json) -> list[tuple[str, str, int, str]]:
    """What became of the rows: a name, a remark, how many, which share."""
    summary = context["summary"]
    rest = summary["rows_in"] - summary["rows_out"] - summary["quarantined"] - summary["dropped"]
    expected = f"{round(summary['expected_out']):,} were to be expected"
    found = [
        ("Kept", expected, summary["rows_out"]),
        ("Not kept", "their coin decided", rest),
        ("Set aside", "they break the data contract", summary["quarantined"]),
        ("Left out", "a sensitive model input is missing", summary["dropped"]),
        ("All rows read", "", summary["rows_in"]),
    ]
    return [
        (name, remark, count, formats.percent(count / summary["rows_in"]))
        for name, remark, count in found
        if summary["rows_in"] and (count or name == "Kept")
    ]


def _shares(context: Json) -> list[dict[str, Any]]:
    return [
        {
            "about": words.attribute(attribute),
            "plot": _share_plots(context, attribute, shares, number),
            "left": max(len(shares) - MOST_DRAWN, 0),
            "folded": len(shares) > MOST_OPEN,
            "interval": filter_words.interval_name(context),
            "rows": [
                {
                    "group": item.group,
                    "expected": None if item.expected is None else formats.percent(item.expected),
                    "interval": share_interval(item.low, item.high),
                    "training": "too few rows" if item.training is None else formats.percent(item.training),
                    "wanted": formats.percent(item.wanted),
                    "farther": item.farther,
                }
                for item in shares
            ],
        }
        for number, (attribute, shares) in enumerate(expected_by_attribute(context).items())
    ]


def _share_plots(context: Json, attribute: str, shares: list[ExpectedShare], number: int) -> Markup:
    shown = sorted(shares, key=lambda item: -(item.training or 0.0))[:MOST_DRAWN]
    spoken = "; ".join(
        f"{item.group} from {formats.percent(item.training)} to {formats.percent(item.expected)}"
        for item in shown
    )
    drawn: dict[str, Any] = {
        "rows": [item for item in shares if item in shown],
        "title": f"Expected shares by {words.attribute(attribute)} among the kept rows",
        "description": f"From training rows to kept rows: {spoken}. The table below has every number.",
        "interval_name": filter_words.interval_name(context),
    }
    wide = expected_plot(**drawn, uid=f"shares-{number}-w")
    return Markup(wide + expected_plot(**drawn, uid=f"shares-{number}-n", compact=True))


def _groups(context: Json) -> dict[str, Any] | None:
    groups = proxy_groups(context)
    if not groups:
        return None
    known = context["balance"] is not None
    shown = groups[:MOST_DRAWN]
    drawn: dict[str, Any] = {
        "rows": shown,
        "title": "Rows of the batch by proxy group",
        "description": "; ".join(_spoken(group) for group in shown) + ". The table below has every number.",
    }
    wide = proxy_group_bars(**drawn, uid="groups-w")
    return {
        "said": filter_words.drift(context),
        "drift": _drift(context),
        "known": known,
        "plot": Markup(wide + proxy_group_bars(**drawn, uid="groups-n", compact=True)),
        "left": len(groups) - len(shown),
        "folded": len(groups) > MOST_OPEN,
        "rows": [
            {
                "name": group.name,
                "training": group.training,
                "share": group.share,
                "difference": None if group.training is None else _signed(group.share - group.training),
                "rows": round(group.rows),
                "acceptance": group.acceptance,
                "kept": round(group.kept),
            }
            for group in groups
        ],
    }


def _spoken(group: ProxyGroup) -> str:
    before = "" if group.training is None else f" ({formats.percent(group.training)} in training)"
    return f"group {group.name} {formats.percent(group.share)}{before}"


def _signed(difference: float) -> str:
    text = f"{100 * difference:+.1f}".replace("-", "\u2212")
    return "0.0" if text[1:] == "0.0" else text


def _drift(context: Json) -> list[tuple[str, str]]:
    found = context["summary"]["drift"]
    if found is None:
        return []
    value, limit = formats.apart(found["psi"], context["settings"]["max_drift"])
    chance = found["p_value"]
    return [
        ("Population stability index", value),
        ("Its limit (filter.max_drift)", limit),
        ("Chi-square statistic", formats.number(found["chi_square"])),
        ("Its p-value", "below 0.001" if chance < 0.001 else formats.number(chance)),
    ]


def _made(context: Json) -> list[tuple[str, list[tuple[str, str]]]]:
    proxy, machine = context["proxy"], Environment.model_validate(context["environment"])
    commit = machine.git_commit or "not recorded"
    if machine.git_commit and machine.git_dirty:
        commit += ", with changes not committed"
    return [
        (
            "The run",
            [
                ("Job", context["job"]),
                ("Run", context["run_id"]),
                ("Proxy", f"{proxy['name']}, version {proxy['version']}"),
                ("Input", _shown(context["input"])),
                ("Output", _shown(context["output"])),
                ("Time", formats.seconds(context["seconds"])),
            ],
        ),
        ("The settings", formats.flatten(context["settings"])),
        (
            "Proxies whose work is in the output",
            [
                (f"Version {item['version']}", f"{formats.plural(item['files'], 'file')}; SHA-256 {digest}")
                for digest, item in sorted(context["summary"]["proxies"].items())
            ],
        ),
        (
            "The machine and the code",
            [
                ("Git commit", commit),
                ("Python", machine.python),
                ("Machine", machine.machine or "not recorded"),
                *sorted(machine.packages.items()),
            ],
        ),
    ]
