"""Certificates: proved bounds on a model's output over all comparable people of a fair metric."""

from functools import partial
from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import list_names, load_name

if TYPE_CHECKING:
    from evenhand.fairlib.certificates.networks import NotProvedError
    from evenhand.fairlib.certificates.proof import Proof, prove
    from evenhand.fairlib.certificates.region import Region

__all__ = [
    "NotProvedError",
    "Proof",
    "prove",
    "Region",
]

if not TYPE_CHECKING:
    _MODULES = {
        "NotProvedError": "evenhand.fairlib.certificates.networks",
        "Proof": "evenhand.fairlib.certificates.proof",
        "prove": "evenhand.fairlib.certificates.proof",
        "Region": "evenhand.fairlib.certificates.region",
    }
    __getattr__ = partial(load_name, __name__, _MODULES)
    __dir__ = partial(list_names, __name__, _MODULES)
