"""Contract: the raw table keeps its promises, or the run ends here."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq

from evenhand.data_contracts.arrow import coerce
from evenhand.data_contracts.checking import check_table
from evenhand.data_contracts.errors import CheckCrashed, ContractError, ContractViolation
from evenhand.data_contracts.model import Contract
from evenhand.data_contracts.page import validation_html
from evenhand.data_contracts.result import raise_for
from evenhand.tasks.errors import InputError, NotCarriedOut
from evenhand.tasks.step import Step, StepContext, StepResult

__all__ = ["STEP"]


def check_contract(context: StepContext) -> StepResult:
    """Write the checked table, the validation result and its page; bad rows to a quarantine, if allowed."""
    contract = Contract.from_dict(context.parameters["contract"])
    try:
        table = coerce(pq.read_table(context.inputs["raw"]), contract)
        result = check_table(table, contract, callback=lambda done, total: context.progress(done, total, {}))
        raise_for(result)
    except (ContractViolation, ContractError) as error:
        raise InputError(str(error)) from None
    except CheckCrashed as error:
        raise NotCarriedOut(f"the contract could not be checked: {error}") from error
    report = result.to_json()
    outputs = {}
    folder = context.workdir
    keep = pa.array(result.keep)
    # one digest for one content, however the rows came in
    pq.write_table(table.filter(keep).combine_chunks(), folder / "checked.parquet")
    outputs["checked"] = (folder / "checked.parquet", "checked")
    (folder / "validation.json").write_text(json.dumps(report, sort_keys=True))
    outputs["validation"] = (folder / "validation.json", "validation")
    (folder / "validation.html").write_text(validation_html(report))
    outputs["page"] = (folder / "validation.html", "validation-page")
    if result.rows_kept < result.rows:
        quarantine = table.filter(pa.array(~result.keep))
        pq.write_table(quarantine, folder / "quarantine.parquet")
        outputs["quarantine"] = (folder / "quarantine.parquet", "quarantine")
    facts = {"rows": result.rows, "rows_kept": result.rows_kept, "checks": len(result.checks)}
    return StepResult(outputs, facts)


STEP = Step("contract", check_contract)
