"""Rates and disparities of COMPAS by Aequitas, kept so that tests can compare an audit with them.

    python -m benchmarks.studies.audit_against_aequitas --environments FOLDER

FOLDER/aequitas is an environment with ``peers/requirements-aequitas.txt``. The result has the rows
as counts of each combination of values, and what Aequitas says of them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.common import provenance, write_result

NAME = "audit_against_aequitas"
ATTRIBUTES = ("sex", "race", "age_cat")
SCRIPT = Path(__file__).parents[1] / "peers" / "aequitas_groups.py"
# ProPublica's analysis, and Aequitas's example, call a decile of 5 and more a high risk.
HIGH_RISK = 5


def compas(folder: Path) -> pd.DataFrame:
    """The predictions of COMPAS with the label and the attributes."""
    raw = pd.read_csv(folder / "compas-scores-two-years.csv")
    rows = raw[list(ATTRIBUTES)].copy()
    rows["score"] = (raw["decile_score"] >= HIGH_RISK).astype(int)
    rows["label_value"] = raw["two_year_recid"]
    return rows


def aequitas(rows: pd.DataFrame, environments: Path) -> dict[str, Any]:
    """What Aequitas says of the rows, from its environment."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        rows.to_csv(path, index=False)
        python = environments / "aequitas" / "bin" / "python"
        # -P: the folder of the script has modules with the names of the libraries
        command = [str(python), "-P", str(SCRIPT), str(path), *ATTRIBUTES]
        output = subprocess.check_output(command, text=True)
    groups: dict[str, Any] = json.loads(output.splitlines()[-1])
    return groups


def main() -> None:
    """Measure with Aequitas, and keep its result with the counted rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environments", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="folder of COMPAS's file")
    arguments = parser.parse_args()
    rows = compas(arguments.data)
    cells = rows.groupby([*ATTRIBUTES, "score", "label_value"]).size().reset_index(name="rows")
    command = "python -m benchmarks.studies.audit_against_aequitas --environments FOLDER"
    result = {
        **provenance(command),
        "columns": list(cells.columns),
        "cells": cells.to_numpy().tolist(),
        "groups": aequitas(rows, arguments.environments),
    }
    write_result(NAME, result)


if __name__ == "__main__":
    main()
