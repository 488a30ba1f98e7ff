"""Contract: the raw table keeps its promises, or the run ends here."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq

from evenhand.data_contracts.arrow import coerce
from evenhand.data_contracts.checking import check_table, raise_for
from evenhand.data_contracts.errors import CheckCrashed, ContractError, ContractViolation
from evenhand.data_contracts.model import Contract
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.step import StepContext, StepResult

__all__ = ["contract"]


def contract(context: StepContext) -> StepResult:
    """Write the rows that keep the contract, the check's result, and, if allowed, the rows that break it."""
    contract = Contract.from_dict(context.parameters["contract"])
    try:
        table = coerce(pq.read_table(context.inputs["raw"]), contract)
        result = check_table(table, contract, callback=lambda done, total: context.progress(done, total, {}))
        raise_for(result)
    except (ContractViolation, ContractError) as error:
        raise InputError(str(error)) from None
    except CheckCrashed as error:
        raise NotCarriedOut(f"the contract could not be checked: {error}") from error
    folder = context.workdir
    # one chunk: the digest does not depend on how the rows were read
    pq.write_table(table.filter(pa.array(result.keep)).combine_chunks(), folder / "checked.parquet")
    (folder / "result.json").write_text(json.dumps(result.to_json(), sort_keys=True))
    outputs = {
        "checked": (folder / "checked.parquet", "checked"),
        "result": (folder / "result.json", "validation"),
    }
    if result.rows_kept < result.rows:
        pq.write_table(table.filter(pa.array(~result.keep)), folder / "quarantine.parquet")
        outputs["quarantine"] = (folder / "quarantine.parquet", "quarantine")
    facts = {"rows": result.rows, "rows_kept": result.rows_kept, "checks": len(result.checks)}
    return StepResult(outputs, facts)
