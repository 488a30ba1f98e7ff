"""The proxies by name."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenhand.fairlib.proxies.base import DESCRIPTION_FILE, BalancingProxy

__all__ = ["PROXIES", "ProxySpec", "load_proxy", "proxy_class"]


@dataclass(frozen=True)
class ProxySpec:
    """
    One proxy, as jobs see it: its estimator, and the arguments that make it this one.

    `fixed` holds constructor arguments that the name stands for; a job cannot set them.
    """

    name: str
    module: str
    class_name: str
    summary: str
    fixed: Mapping[str, Any] = field(default_factory=dict)


_TREE = ("evenhand.fairlib.proxies.tree", "ProxyTree")
_PREDICTED = ("evenhand.fairlib.proxies.predicted", "PredictedGroupProxy")

PROXIES: dict[str, ProxySpec] = {
    spec.name: spec
    for spec in (
        ProxySpec("proxy", *_TREE, "tree whose leaves balance, each within a disclosivity limit",
                  {"relaxed": False}),
        ProxySpec("relaxed-proxy", *_TREE, "the same, mixture weights free to sum to anything",
                  {"relaxed": True}),
        ProxySpec("qp-tree", *_PREDICTED, "decision tree that predicts the group, balanced by program",
                  {"model": "tree", "sampling": "program"}),
        ProxySpec("qp-regression", *_PREDICTED, "logistic regression of the group, balanced by program",
                  {"model": "regression", "sampling": "program"}),
        ProxySpec("naive-tree", *_PREDICTED, "decision tree that predicts the group, as many of each",
                  {"model": "tree", "sampling": "equal"}),
        ProxySpec("naive-regression", *_PREDICTED, "logistic regression of the group, as many of each",
                  {"model": "regression", "sampling": "equal"}),
    )
}  # fmt: skip


def proxy_class(name: str) -> type[BalancingProxy]:
    """Import and give the estimator of a proxy."""
    spec = PROXIES[name]
    found: type[BalancingProxy] = getattr(importlib.import_module(spec.module), spec.class_name)
    return found


def load_proxy(folder: str | Path) -> BalancingProxy:
    """
    Read any proxy that was saved.

    Raises
    ------
    ValueError
        The folder holds no proxy.
    """
    try:
        name = json.loads((Path(folder) / DESCRIPTION_FILE).read_text())["class"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"{folder} holds no proxy.") from None
    for spec in PROXIES.values():
        if spec.class_name == name:
            return proxy_class(spec.name).load(folder)
    raise ValueError(f"{folder} holds a proxy of the unknown class {name!r}.")
