"""Names of what is measured of proxies, and of the proxies, in plain words."""

from __future__ import annotations

from typing import Literal

__all__ = ["PROXIES", "PROXY_METRICS"]

PROXY_METRICS: dict[str, tuple[str, str, Literal["higher", "lower"] | None]] = {
    "disclosivity": (
        "Most a proxy group tells",
        "Disclosivity: the largest difference between a group's share within a proxy group and its share "
        "among all rows; proxy groups of too few rows are left out. On few rows it lies a little high, and "
        "its interval is wide rather than narrow: it is a maximum.",
        "lower",
    ),
    "disclosivity_of_probability": (
        "Most a probability tells",
        "The same difference within rows of one acceptance probability. A row's probability mixes those of "
        "its proxy groups, and so can tell more than the proxy group does; values that few rows have are "
        "left out.",
        "lower",
    ),
    "imbalance": (
        "Distance from the target",
        "Imbalance: how far the groups' shares among the rows that are kept lie from the wanted shares (root "
        "of the summed squares).",
        "lower",
    ),
    "imbalance_before": (
        "Distance before filtering",
        "The distance of all rows' shares from the wanted ones, to compare with.",
        None,
    ),
    "smallest_growth": (
        "Growth of the rarest group",
        "How many times larger the share of the group that was rarest in the training rows is among the rows "
        "that are kept.",
        "higher",
    ),
    "smallest_share": (
        "Share of the rarest group",
        "The share of the same group among the rows that are kept.",
        "higher",
    ),
    "kept": ("Share of rows that are kept", "The share of all rows that is expected to be kept.", "higher"),
    "disclosivity.train": (
        "Tells at most, training rows",
        "The same difference on the training rows, which the limit alpha is about.",
        "lower",
    ),
    "imbalance.train": (
        "Distance, training rows",
        "The distance from the target on the training rows.",
        "lower",
    ),
    "disclosivity.bound": (
        "Tells at most, by the paper",
        "The paper's bound, at the level of the intervals, on the disclosivity on new rows. A bound of 1 or "
        "more says nothing.",
        "lower",
    ),
    "imbalance.bound": (
        "Distance, by the paper",
        "The paper's bound on that distance on new rows. With one attribute, a bound of 1.41 or more says "
        "nothing.",
        "lower",
    ),
}

PROXIES: dict[str, str] = {
    "proxy": "a proxy tree, each of whose groups may tell little",
    "relaxed-proxy": "a proxy tree in the relaxed form, each of whose groups may tell little",
    "qp-tree": "a decision tree that predicts the group, sampled by program",
    "qp-regression": "a logistic regression that predicts the group, sampled by program",
    "naive-tree": "a decision tree that predicts the group, sampled evenly",
    "naive-regression": "a logistic regression that predicts the group, sampled evenly",
}
