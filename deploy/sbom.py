"""A software bill of materials of the running environment: CycloneDX 1.6 JSON on stdout.

python deploy/sbom.py > sbom.json

A component has the SHA-256 of the distribution that was installed, from the files with digests
next to this one. The digest of its list of installed files (``RECORD``) is a property.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = "evenhand"
FOLDER = Path(__file__).resolve().parent
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ \\]+)(.*)$")
DIGEST = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def purl(name: str, version: str) -> str:
    """Package URL of a Python package, whose name is normalised as on the index."""
    return f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{version.partition('+')[0]}"


def pinned_digests() -> dict[str, list[str]]:
    """SHA-256 of the distributions of each pin, by package URL."""
    digests: dict[str, list[str]] = {}
    for name in ("hashes.txt", "hashes-dev.txt"):
        text = (FOLDER / name).read_text().replace("\\\n", " ")
        for line in text.splitlines():
            pin = PIN.match(line)
            if pin is not None:
                digests[purl(pin[1], pin[2])] = DIGEST.findall(pin[3])
    return digests


def component_of(key: str, item: metadata.Distribution, pinned: list[str]) -> dict[str, Any]:
    """A distribution with version, licence and digests."""
    component: dict[str, Any] = {"type": "library", "bom-ref": key, "name": item.name}
    component["version"] = item.version
    component["purl"] = key
    licence = item.metadata.get("License-Expression") or item.metadata.get("License") or ""
    if licence and len(licence) < 100:
        component["licenses"] = [{"license": {"name": licence}}]
    if pinned:
        component["hashes"] = [{"alg": "SHA-256", "content": digest} for digest in pinned]
    installed = item.read_text("RECORD")
    if installed is not None:
        digest = hashlib.sha256(installed.encode()).hexdigest()
        component["properties"] = [{"name": f"{ROOT}:sha256-of-RECORD", "value": digest}]
    return component


def bill() -> dict[str, Any]:
    """Every installed distribution with version, licence and package URL, and what each
    requires.
    """
    found = {purl(item.name, item.version): item for item in metadata.distributions() if item.name}
    by_name = {key.partition("@")[0]: key for key in found}
    components, dependencies = [], []
    digests = pinned_digests()
    for key, item in sorted(found.items()):
        components.append(component_of(key, item, digests.get(key, [])))
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
