"""A software bill of materials of the running environment: CycloneDX 1.6 JSON on stdout.

python deploy/sbom.py > sbom.json
"""

from __future__ import annotations

import json
import re
import sys
from importlib import metadata
from typing import Any

ROOT = "evenhand"


def purl(name: str, version: str) -> str:
    """Package URL of a Python package, whose name is normalised as on the index."""
    return f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{version.partition('+')[0]}"


def bill() -> dict[str, Any]:
    """Every installed distribution with version, licence and package URL, and what each
    requires.
    """
    found = {purl(item.name, item.version): item for item in metadata.distributions() if item.name}
    by_name = {key.partition("@")[0]: key for key in found}
    components, dependencies = [], []
    for key, item in sorted(found.items()):
        licence = item.metadata.get("License-Expression") or item.metadata.get("License") or ""
        component = {"type": "library", "bom-ref": key, "name": item.name, "version": item.version}
        component["purl"] = key
        if licence and len(licence) < 100:
            component["licenses"] = [{"license": {"name": licence}}]  # type: ignore[assignment]
        components.append(component)
        needed = {
            purl(re.split(r"[ ;\[<>=!~(]", text, maxsplit=1)[0], "") for text in item.requires or []
        }
        refs = sorted(by_name[name.rstrip("@")] for name in needed if name.rstrip("@") in by_name)
        dependencies.append({"ref": key, "dependsOn": refs})
    main = next((item for item in components if item["name"] == ROOT), None)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": main or {"type": "application", "bom-ref": ROOT, "name": ROOT}},
        "components": [item for item in components if item is not main],
        "dependencies": dependencies,
    }


if __name__ == "__main__":
    json.dump(bill(), sys.stdout, indent=1)
