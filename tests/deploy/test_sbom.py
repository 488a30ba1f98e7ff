"""The software bill of materials names what is installed, and what needs what."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

ALTAIR = "7defb6ca730676dfc99a299768e2769f51585fcb3dc960ea71aacc368929d65e"
SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "sbom.py"


def test_every_distribution_is_in_the_bill_once() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=True)
    bill = json.loads(done.stdout)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    refs = [item["bom-ref"] for item in bill["components"]]
    assert len(set(refs)) == len(refs)
    names = {item["name"].lower() for item in bill["components"]}
    assert {"prefect", "mlflow-skinny", "torch", "numpy"} <= names
    torch = next(item for item in bill["components"] if item["name"] == "torch")
    # a local build label names no release
    assert torch["purl"] == f"pkg:pypi/torch@{metadata.version('torch').partition('+')[0]}"
    # the digests that pip was told to accept
    hashes = {item["bom-ref"]: item.get("hashes") for item in bill["components"]}
    assert hashes["pkg:pypi/altair@6.3.0"] == [{"alg": "SHA-256", "content": ALTAIR}]
    hashed = [item for item in bill["components"] if item.get("hashes")]
    assert len(hashed) > 0.9 * len(bill["components"])
    for item in hashed:
        assert all(re.fullmatch("[0-9a-f]{64}", entry["content"]) for entry in item["hashes"])
    recorded = next(item for item in bill["components"] if item["name"] == "numpy")["properties"]
    record = metadata.distribution("numpy").read_text("RECORD") or ""
    assert recorded[0]["value"] == hashlib.sha256(record.encode()).hexdigest()
    needs = {item["ref"]: item["dependsOn"] for item in bill["dependencies"]}
    assert any(
        ref.startswith("pkg:pypi/numpy@")
        for ref in needs[f"pkg:pypi/pandas@{metadata.version('pandas')}"]
    )
    assert {ref for listed in needs.values() for ref in listed} <= set(needs)
