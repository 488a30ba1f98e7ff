"""``evenhand init``: write a starter contract and job for a table."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import yaml

from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.inference import infer_contract, to_yaml
from evenhand.fairlib.methods.registry import METHODS
from evenhand.flows.job import NAME
from evenhand.tasks.errors import InputError
from evenhand.tasks.ingest import read_table

COMMENTS = """\
# Counterfactual copies: consistency.NAME is the share of people whose prediction is the same on all copies.
# evaluate:
#   counterfactuals:
#     example: {{{example}: all}}
# Gates: a model is published only within these bounds; `evenhand metrics` lists the names.
# gates:
#   balanced_accuracy: {{min: 0.7}}
#   gap_max.{attribute}: {{max: 0.1, bound: interval}}
"""


def init(
    table: str,
    label: str,
    sensitive: Sequence[str],
    positive: str | None,
    identifier: Sequence[str] | None,
    name: str | None,
    method: str,
    folder: Path,
    force: bool,
) -> None:
    """
    Write ``NAME.contract.yaml`` and ``NAME.yaml``, and print the command that runs the job.

    Raises
    ------
    InputError
        The table cannot be read, a named column does not exist, or a file exists already.
    """
    source = Path(table).expanduser()
    if not source.exists():
        raise InputError(f"there is no file {table}: `evenhand init` reads a local file or folder.")
    if method not in METHODS:
        raise InputError(f"method {method!r} is not known; known: {', '.join(METHODS)}.")
    if name is not None and not NAME.fullmatch(name):
        raise InputError(
            f"--name {name!r} is not a valid job name: use letters, digits, dots, dashes, underscores."
        )
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", source.name.split(".")[0])[:60].strip("-_")
    name = name or plain or "table"
    contract_file, job_file = folder / f"{name}.contract.yaml", folder / f"{name}.yaml"
    for path in (contract_file, job_file):
        if path.exists() and not force:
            raise InputError(f"{path} exists: choose another --name, or overwrite with --force.")
    try:
        rows = read_table(source, {"path": str(source)})
        contract = infer_contract(rows, name, label, sensitive, positive, identifier or [])
    except ContractError as error:
        raise InputError(str(error)) from None
    job = {
        "name": name,
        "description": f"{contract.label.name} from {source.name}",
        "table": {"name": name, "path": os.path.relpath(source.resolve(), folder.resolve())},
        "contract": contract_file.name,
        "seed": 0,
        "method": {"name": method},
    }
    categorical = [column.name for column in contract.features if column.encoding == "onehot"]
    comments = COMMENTS.format(
        example=categorical[0] if categorical else "COLUMN",
        attribute=contract.sensitive[0].name if contract.sensitive else "ATTRIBUTE",
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        contract_file.write_text(to_yaml(contract), encoding="utf-8")
        job_text = yaml.safe_dump(job, sort_keys=False, allow_unicode=True) + comments
        job_file.write_text(job_text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written ({error.strerror}): choose another with --into."
        ) from None
    print(f"wrote {contract_file}  (the data contract: check roles, ranges and descriptions)")
    print(f"wrote {job_file}  (the job: the method, and comments on gates)")
    print(f"next: evenhand run {job_file}")
