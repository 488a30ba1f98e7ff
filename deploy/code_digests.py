"""Digests of the code that a release copies into models, as JSON on stdout.

python deploy/code_digests.py dist/evenhand-0.2.0-py3-none-any.whl > evenhand-0.2.0.code.json

`evenhand verify MODEL --code evenhand-0.2.0.code.json` compares the code of every version that this
release published with it.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

from evenhand.tasks.registry.released_code import PACKAGE, place_in_model


def digests_of_wheel(wheel: Path) -> dict[str, Any]:
    """Version and digests of a wheel's code."""
    name, version, *_ = wheel.name.split("-")
    if name != PACKAGE:
        raise SystemExit(f"{wheel} is no wheel of {PACKAGE}")
    files = {}
    with zipfile.ZipFile(wheel) as archive:
        for path in sorted(archive.namelist()):
            place = place_in_model(path)
            if place is not None:
                files[place] = hashlib.sha256(archive.read(path)).hexdigest()
    return {"version": version, "files": files}


if __name__ == "__main__":
    json.dump(digests_of_wheel(Path(sys.argv[1])), sys.stdout, indent=1)
