"""The numbers of a filter run as its page shows them: files, rows by proxy group, expected shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evenhand.tasks.pages import formats
from evenhand.tasks.pages.model import Json


@dataclass(frozen=True)
class ProxyGroup:
    """
    Rows of one proxy group; rows that are in several of them by shares count by these.

    `training` is its share of the training rows, None if it is not known; `rows` and `kept` are the rows of
    the batch and those expected to be kept; `judged` counts the rows of all proxy groups.
    """

    name: str
    training: float | None
    rows: float
    kept: float
    judged: float

    @property
    def share(self) -> float:
        """Share of the batch."""
        return self.rows / self.judged

    @property
    def acceptance(self) -> float | None:
        """Probability with which its rows are kept; None without rows."""
        return self.kept / self.rows if self.rows else None


@dataclass(frozen=True)
class ExpectedShare:
    """One sensitive group: expected, training and target share; None where there are too few rows."""

    group: str
    expected: float | None
    low: float | None
    high: float | None
    training: float | None
    target: float

    @property
    def farther(self) -> bool:
        """Whether the kept rows are expected to be farther from the target than the training rows."""
        if self.expected is None or self.training is None:
            return False
        return abs(self.expected - self.target) > abs(self.training - self.target)

    @property
    def interval(self) -> str:
        """Both ends of the interval as percentages."""
        if self.low is None or self.high is None:
            return "no interval"
        return f"{formats.percent(self.low)} to {formats.percent(self.high)}"


def files_by(summary: Json, status: str) -> list[Json]:
    """Files of the input with one status, by name."""
    return [file for file in summary["files"] if file["status"] == status]


def proxy_groups(documents: Json) -> list[ProxyGroup]:
    """Rows by proxy group, numbered as on the proxy's own page (largest first); none if no row was judged."""
    summary, balance = documents["summary"], documents.get("balance")
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


def expected_by_attribute(documents: Json) -> dict[str, list[ExpectedShare]]:
    """Shares of the sensitive groups by attribute; empty where nothing is known of them."""
    balance, expected = documents.get("balance"), documents["summary"]["balance"]
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


def distance(shares: Sequence[float | None], target: Sequence[float]) -> float | None:
    r"""Distance :math:`\lVert s - t \rVert_2` of shares from the target; None if a share is not known."""
    known = [share for share in shares if share is not None]
    return math.dist(known, target) if len(known) == len(target) else None


def _known(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
