"""Learn a proxy of the registry from the encoded training rows and their sensitive groups."""

from __future__ import annotations

import inspect

import numpy as np

from evenhand.fairlib.execution import derive_seed
from evenhand.fairlib.methods.registry import PROXIES, proxy_class
from evenhand.fairlib.proxies.proxy_base import BalancingProxy
from evenhand.fairlib.proxies.proxy_groups import MAX_GROUPS
from evenhand.fairlib.proxies.tree import ProxyTree
from evenhand.tasks.errors import InputError, input_errors
from evenhand.tasks.execution.dataset import read_dataset
from evenhand.tasks.execution.step import StepContext, StepResult


def learn_proxy(context: StepContext) -> StepResult:
    """Write `proxy/`; the fact `refusal` says why a tree has no split, or is None.

    Raises `InputError` for attributes with too many groups, and attributes that are model inputs.
    """
    spec = PROXIES[context.parameters["method"]]
    data = read_dataset(context.inputs["train"])
    for name, values in data.sensitive.items():
        if name in data.groups:
            raise InputError(
                f"the proxy would read its own attribute {name!r}: it must be no model input."
            )
        count = np.unique(values.astype(str)).size
        if count > MAX_GROUPS:
            raise InputError(
                f"the sensitive column {name!r} has {count} groups, and at most {MAX_GROUPS} can "
                "be balanced: merge them in the table."
            )
    arguments = {**context.parameters["arguments"], **spec.fixed}
    if "random_state" in inspect.signature(proxy_class(spec.name).__init__).parameters:
        arguments["random_state"] = derive_seed(context.parameters["seed"], "learn_proxy")
    proxy = proxy_class(spec.name)(**arguments)
    with input_errors(f"method {spec.name}: ", ValueError, TypeError):
        proxy.fit(data.X, sensitive_features=data.sensitive, callback=context.progress)
    proxy.save(context.workdir / "proxy")
    return StepResult(
        {"proxy": (context.workdir / "proxy", "proxy")},
        {
            "method": spec.name,
            "proxy_groups": len(proxy.masses_),
            "alpha": getattr(proxy, "alpha", None),
            "refusal": _refusal(proxy),
        },
    )


def _refusal(proxy: BalancingProxy) -> str | None:
    """Reason why a tree above its tolerance has no split."""
    if (
        not isinstance(proxy, ProxyTree)
        or len(proxy.distances_) > 1
        or proxy.distances_[0] <= proxy.tolerance
    ):
        return None
    line = f"no split of the training rows stays within alpha = {proxy.alpha:g}"
    if proxy.least_alpha_ is None:
        settings = f"progress = {proxy.progress:g}, min_leaf = {proxy.min_leaf:g}"
        return f"{line}; none does at any alpha ({settings})."
    return f"{line}; the smallest alpha that allows one is {proxy.least_alpha_:.3g}."
