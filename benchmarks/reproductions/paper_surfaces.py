"""Numbers behind the pictures of decision surfaces: ``python -m benchmarks.reproductions.paper_surfaces``.

Figure 1 of BuDRO, and figures 1 and 3 of SenSeI, on the generated people of docs/two-clusters.svg
and docs/decision-surfaces-*.svg: the share of people whose prediction changes when the protected
feature alone changes, and the share of the logit's variation that lies along it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.common import provenance, read_result, rounded, write_result
from benchmarks.reproductions import decision_surfaces, two_clusters

RESULT = "papers_surfaces"


def clusters() -> dict[str, Any]:
    """Return the share of predictions that the protected feature changes, with and without BuDRO."""
    example = two_clusters.example()
    low = example.X.min(axis=0) - 0.3
    high = example.X.max(axis=0) + 0.3
    shares = {}
    for name, model in (("plain", example.plain), ("budro", example.fair)):
        shares[name] = two_clusters.changing(model.predict, example.X, low[0], high[0])
    return {"changing": shares}


def networks() -> dict[str, Any]:
    """Return the same for each weight of SenSeI and each budget of SenSR."""
    X, y = decision_surfaces.people()
    edge = decision_surfaces.EDGE
    panels = {
        "sensei": decision_surfaces.sensei(X, y),
        "sensr": decision_surfaces.sensr(X, y),
    }
    result: dict[str, Any] = {}
    for name, trained in panels.items():
        result[name] = {
            panel.title: {
                "changing": two_clusters.changing(panel.model.predict, X, -edge, edge),
                "sideways": decision_surfaces.sideways(panel.model),
            }
            for panel in trained
        }
    return result


PARTS = {"budro": clusters, "sensei": networks}


def main(names: Sequence[str]) -> None:
    """Measure the named parts (default: both)."""
    content = read_result(RESULT)
    for name in names or PARTS:
        origin = provenance(f"python -m benchmarks.reproductions.paper_surfaces {name}")
        content[name] = {**origin, "result": rounded(PARTS[name](), 4)}
        write_result(RESULT, content)


if __name__ == "__main__":
    main(sys.argv[1:])
