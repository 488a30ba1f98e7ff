"""A balancing proxy with another mixing, without learning anything again."""

from __future__ import annotations

import copy

from evenhand.fairlib.proxies.proxy_base import BalancingProxy


def remixed(proxy: BalancingProxy, mixing: float) -> BalancingProxy:
    """A fitted proxy with another `mixing`; nothing is learned again."""
    other = copy.copy(proxy)
    other.mixing = mixing
    other._check_parameters()
    other._set_acceptance()
    return other
