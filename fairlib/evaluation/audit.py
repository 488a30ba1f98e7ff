"""Earlier place of the transport audit: its names still work, with a DeprecationWarning."""

import sys
from typing import TYPE_CHECKING

from evenhand.fairlib.lazy_exports import RenamedModule

if TYPE_CHECKING:
    from evenhand.fairlib.evaluation.transport_adversary import TransportAudit as Audit
    from evenhand.fairlib.evaluation.transport_adversary import (
        audit_losses,
        drawn_together,
    )
    from evenhand.fairlib.evaluation.transport_adversary import transport_audit as audit

__all__ = ["Audit", "audit", "audit_losses", "drawn_together"]

_NOW = "evenhand.fairlib.evaluation.transport_adversary"


class _Renamed(RenamedModule):
    moved = {
        "Audit": (_NOW, "TransportAudit"),
        "audit": (_NOW, "transport_audit"),
        "audit_losses": (_NOW, "audit_losses"),
        "drawn_together": (_NOW, "drawn_together"),
    }
    # `from evenhand.fairlib.evaluation import audit` gives this module once it is imported
    callee = ("evenhand.fairlib.evaluation.group_audit", "audit")


sys.modules[__name__].__class__ = _Renamed
