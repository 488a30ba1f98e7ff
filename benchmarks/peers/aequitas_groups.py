"""The crosstabs and disparities of Aequitas on a table of predictions, as JSON on stdout.

    python aequitas_groups.py TABLE.csv ATTRIBUTE...

It runs in an environment of its own (``requirements-aequitas.txt``), so it imports nothing of ours.
TABLE has the columns ``score`` (0 and 1), ``label_value`` and the attributes.
"""

from __future__ import annotations

import json
import sys
import warnings

warnings.simplefilter("ignore")

import pandas as pd  # noqa: E402
from aequitas.bias import Bias  # noqa: E402
from aequitas.group import Group  # noqa: E402

RATES = ("tpr", "tnr", "fpr", "fnr", "precision", "npv", "pprev", "prev", "group_size")
DISPARITIES = ("pprev_disparity", "fpr_disparity", "tpr_disparity")


def main() -> None:
    """Measure, and print one object by attribute and group."""
    rows = pd.read_csv(sys.argv[1])
    attributes = sys.argv[2:]
    crosstabs, _ = Group().get_crosstabs(rows, attr_cols=attributes)
    bias = Bias().get_disparity_major_group(
        crosstabs, original_df=rows, mask_significance=False, check_significance=False
    )
    groups: dict[str, dict[str, dict[str, float]]] = {}
    for row in bias.to_dict("records"):
        values = {name: float(row[name]) for name in (*RATES, *DISPARITIES)}
        groups.setdefault(row["attribute_name"], {})[row["attribute_value"]] = values
    print(json.dumps(groups))


if __name__ == "__main__":
    main()
