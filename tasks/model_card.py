"""The model card: what was trained on what, how it measures, and who let it pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["card_markdown"]


def card_markdown(card: Mapping[str, Any]) -> str:
    """Write a card as Markdown; what nobody stated is shown as not provided."""
    lines = [f"# {card['name']}", "", card["description"] or "Description: not provided.", ""]
    lines += ["## Made from", ""]
    for key in ("table", "data_fingerprint", "contract", "method", "seed", "git_commit"):
        lines.append(f"- {key.replace('_', ' ')}: {_inline(card[key])}")
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


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return "not provided" if value is None else str(value)


def _interval(metric: Mapping[str, Any]) -> str:
    if metric["low"] is None:
        return "not provided"
    return f"{metric['low']:.4f} to {metric['high']:.4f}"
