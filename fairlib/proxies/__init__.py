"""Non-disclosive proxies for a sensitive attribute, and the sampling probabilities that balance
with them.
"""

from functools import partial
from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import list_names, load_name

if TYPE_CHECKING:
    from evenhand.fairlib.methods.registry import PROXIES, load_proxy, proxy_class
    from evenhand.fairlib.proxies.predicted import PredictedGroupProxy
    from evenhand.fairlib.proxies.proxy_base import BalancingProxy
    from evenhand.fairlib.proxies.proxy_evaluation import ProxyMeasures, measure_proxy
    from evenhand.fairlib.proxies.tree import ProxyTree

__all__ = [
    "BalancingProxy",
    "load_proxy",
    "measure_proxy",
    "PredictedGroupProxy",
    "PROXIES",
    "proxy_class",
    "ProxyMeasures",
    "ProxyTree",
]

if not TYPE_CHECKING:
    _MODULES = {
        "BalancingProxy": "evenhand.fairlib.proxies.proxy_base",
        "load_proxy": "evenhand.fairlib.methods.registry",
        "measure_proxy": "evenhand.fairlib.proxies.proxy_evaluation",
        "PredictedGroupProxy": "evenhand.fairlib.proxies.predicted",
        "PROXIES": "evenhand.fairlib.methods.registry",
        "proxy_class": "evenhand.fairlib.methods.registry",
        "ProxyMeasures": "evenhand.fairlib.proxies.proxy_evaluation",
        "ProxyTree": "evenhand.fairlib.proxies.tree",
    }
    __getattr__ = partial(load_name, __name__, _MODULES)
    __dir__ = partial(list_names, __name__, _MODULES)
