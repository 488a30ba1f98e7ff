"""The numbers of a filter run as its report shows them: files, rows by proxy group, expected shares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["ExpectedShare", "ProxyGroup", "distance", "expected_by_attribute", "files_by", "proxy_groups"]

Json = Mapping[str, Any]


@dataclass(frozen=True)
class ProxyGroup:
    """
    Rows of one proxy group; rows that are in several of them by shares count by these.

    Attributes
    ----------
    name : str
    training : float or None
        Share of the training rows; None if it is not known.
    rows, kept : float
        Rows that were judged, and how many of them are expected to be kept.
    judged : float
        Rows of all proxy groups.
    """

    name: str
    training: float | None
    rows: float
    kept: float
    judged: float

    @property
    def share(self) -> float:
        """Share of the rows that were judged."""
        return self.rows / self.judged

    @property
    def kept_share(self) -> float:
        """Expected kept rows as a share of the rows of all proxy groups."""
        return self.kept / self.judged

    @property
    def acceptance(self) -> float | None:
        """Probability with which its rows are kept; None without rows."""
        return self.kept / self.rows if self.rows else None


@dataclass(frozen=True)
class ExpectedShare:
    """One sensitive group: expected, training and wanted share; None where too few rows tell."""

    group: str
    expected: float | None
    low: float | None
    high: float | None
    training: float | None
    wanted: float

    @property
    def farther(self) -> bool:
        """Whether the kept rows are expected to be farther from the wanted share than the training rows."""
        if self.expected is None or self.training is None:
            return False
        return abs(self.expected - self.wanted) > abs(self.training - self.wanted)


def files_by(context: Json, status: str) -> list[Json]:
    """Files of the input with one status, by name."""
    return [file for file in context["summary"]["files"] if file["status"] == status]


def proxy_groups(context: Json) -> list[ProxyGroup]:
    """Rows by proxy group, numbered as in the proxy's own report (largest first); none if none was judged."""
    summary, balance = context["summary"], context["balance"]
    masses, kept = summary["masses"], summary["expected_by_group"]
    judged = sum(masses)
    if judged <= 0:
        return []
    training: Sequence[float] | None = balance["masses"] if balance else None
    ranks: Sequence[float] = masses if training is None else training
    order = sorted(range(len(masses)), key=lambda j: -ranks[j])
    return [
        ProxyGroup(str(place), training[j] if training else None, masses[j], kept[j], judged)
        for place, j in enumerate(order, start=1)
    ]


def expected_by_attribute(context: Json) -> dict[str, list[ExpectedShare]]:
    """Shares of the sensitive groups by attribute; empty where nothing is known of them."""
    balance, expected = context["balance"], context["summary"]["balance"]
    if balance is None or expected is None:
        return {}
    found: dict[str, list[ExpectedShare]] = {}
    at = 0
    for attribute, groups in balance["attributes"].items():
        found[attribute] = [
            ExpectedShare(
                group,
                _known(expected["shares"][k]),
                _known(expected["low"][k]),
                _known(expected["high"][k]),
                _known(balance["base_rates_train"][k]),
                float(expected["target"][k]),
            )
            for k, group in enumerate(groups, start=at)
        ]
        at += len(groups)
    return found


def distance(shares: Sequence[float | None], wanted: Sequence[float]) -> float | None:
    r"""
    Distance of shares from the wanted ones.

    .. math:: \lVert s - t \rVert_2

    None if a share is not known.
    """
    known = [share for share in shares if share is not None]
    return math.dist(known, wanted) if len(known) == len(wanted) else None


def _known(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
