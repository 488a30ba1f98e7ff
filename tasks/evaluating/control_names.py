"""Names of the controls, as documents, gates and steps write them."""

from __future__ import annotations

METHOD = "method"
MAJORITY, PLAIN, BLIND = CONTROLS = ("majority", "plain", "blind")
# Those with a simple mitigation, which only the runs of mitigating methods have.
REWEIGH, LEAVE_OUT = SIMPLE_MITIGATIONS = ("reweigh", "leave_out")
