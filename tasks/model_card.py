"""The model card: what was trained on what, how it measures, and who let it pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["card_markdown"]


def card_markdown(card: Mapping[str, Any]) -> str:
    """Write a card as Markdown; what nobody stated is shown as not provided."""
    lines = [f"# {card['name']}", "", card["description"] or "Description: not provided.", ""]
    if card.get("kind") == "proxy":
        lines += ["## What it is", "", _proxy(card), ""]
    lines += ["## Made from", ""]
    for key in ("table", "data_fingerprint", "contract", "method", "seed", "git_commit"):
        lines.append(f"- {key.replace('_', ' ')}: {_inline(card[key])}")
    if "balance" in card:
        lines.append(f"- training rows: {_kept(card['balance'])}")
    lines += ["", "## Parameters", ""]
    lines += [f"- {name}: {value}" for name, value in card["parameters"].items()] or ["- none"]
    lines += ["", "## Metrics on held-out rows", "", "| metric | value | 95% interval |", "|---|---|---|"]
    for name, metric in card["metrics"].items():
        if metric["value"] is None:
            lines.append(f"| {name} | insufficient evidence | {metric['reason']} |")
        else:
            lines.append(f"| {name} | {metric['value']:.4f} | {_interval(metric)} |")
    lines += ["", f"## Gates: {card['gates']['verdict']}", ""]
    lines += [f"- {result['text']}" for result in card["gates"]["results"]] or ["- no gates"]
    lines += [
        "",
        "## Intended use, limits",
        "",
        card.get("intended_use") or "Not provided.",
        "",
        "## Packages",
        "",
    ]
    lines += [f"- {name} {version}" for name, version in card["packages"].items()]
    return "\n".join(lines) + "\n"


def _proxy(card: Mapping[str, Any]) -> str:
    attributes = ", ".join(card["sensitive"])
    return (
        f"A proxy for {attributes}: from a row's other columns it gives the probability with which the row "
        "is kept, so that the kept rows come near the wanted group shares. It does not see the attribute. "
        "Its limit, where it has one (alpha), is about what a proxy group tells of a person's group, not "
        "about what the columns themselves tell. It predicts nothing about anybody."
    )


def _kept(balance: Mapping[str, Any]) -> str:
    return (
        f"{balance['rows_after']} of {balance['rows_before']}, kept by the proxy {balance['proxy']}, version "
        f"{balance['version']}"
    )


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return "not provided" if value is None else str(value)


def _interval(metric: Mapping[str, Any]) -> str:
    if metric["low"] is None:
        return "not provided"
    return f"{metric['low']:.4f} to {metric['high']:.4f}"
