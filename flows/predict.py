"""Predicting: a published classifier adds predictions to the rows of files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from evenhand.flows.data_source import checked_section, read_overrides
from evenhand.flows.file_runs import FilesPlan, Place
from evenhand.flows.job import FileSection
from evenhand.flows.workers import check_engine
from evenhand.tasks.errors import InputError, without_secrets
from evenhand.tasks.execution.store import Store
from evenhand.tasks.filtering.predicting import PredictSettings, RowPredictor
from evenhand.tasks.filtering.query_inputs import query_of
from evenhand.tasks.filtering.summary import RunSummary
from evenhand.tasks.registry.bundle import open_bundle, parse_address
from evenhand.tasks.registry.client import tracking_uri
from evenhand.tasks.sources.databases import is_database

# Regulation B advises against more than four principal reasons (12 CFR 1002.9, official
# interpretation).
MOST_ADVERSE = 4


class Predict(FileSection):
    """Keys of `evenhand predict --set predict.KEY=VALUE`."""

    sensitive: Literal["keep", "drop", "refuse"] = "keep"
    """Keep sensitive columns in the output, leave them out, or refuse a file that has one."""
    outside: Literal["set_aside", "use"] = "set_aside"
    """Whether rows outside bounds that `init` only observed (`rules: observed` in the contract) are
    set aside, or predicted all the same; either way they are counted.
    """
    in_database: bool = False
    """Whether the database of the input table computes the predictions and writes them to an output
    table in it: PostgreSQL and DuckDB. Rows that break the contract are read and judged by the
    model.
    """


@dataclass(frozen=True, kw_only=True)
class PredictPlan(FilesPlan):
    """Checked options of a prediction run."""

    verb: ClassVar[str] = "predict"
    done: ClassVar[str] = "predicted"

    model: str
    settings: PredictSettings

    @property
    def run_name(self) -> str:
        """Name for the run's id."""
        return f"{parse_address(self.model).run_name}-predict"

    def open(
        self, store: Store, scratch: Path, *, to_look: bool = False
    ) -> tuple[RowPredictor, Place, dict[str, Any]]:
        """Fetch the classifier; an `InputError` for a proxy, or a method without the wanted
        reasons.
        """
        bundle = open_bundle(self.model, store, scratch)
        settings = self.settings
        settings = settings.with_forms(bundle.evaluation.get("table_forms", {}))
        if settings.reasons:
            value_names = sorted(
                (name, tuple(sorted(names.items()))) for name, names in bundle.value_names.items()
            )
            settings = replace(settings, value_names=tuple(value_names))
        version = ""
        if bundle.version:
            version = f"{bundle.name}/{bundle.version}"
        place = (str(bundle.folder), tracking_uri(store), bundle.name, version)
        return RowPredictor(bundle, settings, to_look=to_look), place, bundle.described()

    def notes(self, judge: RowPredictor) -> Sequence[str]:
        """Warnings about the model's files."""
        return judge.bundle.notes

    def metrics(self, summary: RunSummary, judge: RowPredictor) -> dict[str, float | None]:
        """Share of positive predictions; None with more than two labels."""
        if not summary.rows_out or len(judge.labels) != 2:
            return {"positive": None}
        return {"positive": summary.expected_out / summary.rows_out}

    def rates(self, summary: RunSummary, judge: RowPredictor) -> dict[str, Any]:
        """Share of rows that are predicted to have the positive label, and the label in words."""
        predicted = self.metrics(summary, judge)["positive"]
        if predicted is None:
            return {}
        return {"positive": judge.bundle.positive_outcome, "predicted": predicted}

    def facts(
        self, judge: RowPredictor, model: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Model, label, and the predictions on the test rows of the training."""
        bundle = judge.bundle
        return {
            "judged": model,
            "label": bundle.label,
            "tested": bundle.evaluation.get("tested"),
            "min_cell": bundle.evaluation["evaluate"]["min_cell"],
            "value_names": bundle.value_names,
        }, {}


def plan_prediction(
    model: str,
    input: str,
    output: str,
    overrides: Sequence[str] = (),
    reasons: int | None = None,
    *,
    adverse: bool = False,
) -> PredictPlan:
    """Check the options of a prediction run before anything is read.

    With `adverse` and no number of reasons there are four. Raises `InputError` with one line that
    names what is wrong and the cure.
    """
    parse_address(model)
    if reasons is not None and reasons < 1:
        raise InputError(f"--reasons is {reasons}: give a number of at least 1, or leave it out.")
    keys = read_overrides(overrides, [f"predict.{key}" for key in Predict.model_fields])
    section = Predict.model_validate(checked_section(Predict, "predict", keys.get("predict", {})))
    check_engine(section, "predict")
    chosen = section.model_dump(exclude={"engine", "address"})
    if reasons is None:
        reasons = 0
        if adverse:
            reasons = MOST_ADVERSE
    settings = PredictSettings(reasons=reasons, adverse=adverse, **chosen)
    if settings.in_database:
        _check_database(input, output, reasons)
    return PredictPlan(model=model, section=section, settings=settings, input=input, output=output)


def _check_database(input: str, output: str, reasons: int) -> None:
    """Refuse options under which a database cannot compute the predictions."""
    if reasons:
        raise InputError(
            "--in-database gives no reasons: leave --reasons and --adverse, or --in-database, out."
        )
    for option, address in (("--input", input), ("--output", output)):
        if not is_database(address):
            raise InputError(
                f"--in-database needs a table, and {option} {without_secrets(address)} is none: "
                "write URL#TABLE, or leave --in-database out."
            )
    if query_of(input) is not None:
        raise InputError(
            "--in-database needs a table, and --input is a query: make it a view, or leave "
            "--in-database out."
        )
    if input.rpartition("#")[0] != output.rpartition("#")[0]:
        raise InputError(
            "--in-database needs input and output in one database: write the same URL in --input "
            "and --output, or leave --in-database out."
        )
