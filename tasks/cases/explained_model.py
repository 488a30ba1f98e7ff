"""A published classifier that decides about single people and explains it."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from evenhand.data_contracts.column import LANGUAGE, Column, value_text
from evenhand.data_contracts.favourable import describe_outcome
from evenhand.data_contracts.init_notes import people_description
from evenhand.data_contracts.model import Contract
from evenhand.fairlib.catalogue import spoken
from evenhand.fairlib.decision_words import decision_words
from evenhand.fairlib.distances.metric_base import Metric
from evenhand.fairlib.explanations.choices import Changeable
from evenhand.fairlib.explanations.comparables import ComparablePeople, Comparables
from evenhand.fairlib.explanations.ranked_reasons import (
    favourable_contributions,
    principal_reasons,
    reason_method,
)
from evenhand.fairlib.explanations.real_people import RealValues
from evenhand.fairlib.explanations.recourse import Recourse, RecourseSearch
from evenhand.fairlib.methods.decided import ThresholdRule, predictions_of
from evenhand.fairlib.methods.reasons import mean_row
from evenhand.tasks.cases.letter_texts import primary
from evenhand.tasks.errors import InputError
from evenhand.tasks.filtering.checks import check_features
from evenhand.tasks.filtering.filter_inputs import list_inputs
from evenhand.tasks.filtering.predicting import PredictSettings, RowPredictor
from evenhand.tasks.filtering.reading import Stream, parquet_footer, read_parquet, read_rows
from evenhand.tasks.registry.bundle import Bundle

FORMAT = 1
NO_CHANGES = (
    "the contract does not say which columns a person can change: give them {property: changeable}"
)
MORE_THAN = 5000  # values of a sensitive number that are tried
NOT_BOUNDED = "its values are not bounded by the contract"


@dataclass(frozen=True)
class Wanted:
    """What a case file contains."""

    recourse: bool = True
    proofs: bool = True
    metric: Metric | None = None  # of the job; None: sensitive columns alone
    metric_digest: str = ""
    radius: float = 0.1
    language: str = LANGUAGE


@dataclass(frozen=True)
class Person:
    """One row of a table: the values of the model's inputs, and which row it is."""

    values: Mapping[str, Any]
    row: int  # from 1
    identity: Mapping[str, Any] = field(default_factory=dict)  # columns with the role id


@dataclass(frozen=True)
class People:
    """People of a table who meet the contract, and the rows that do not."""

    people: list[Person]
    broken: int


class ExplainedModel:
    """Decides about people and explains the decisions.

    `terms` says by column what a person can change, and the texts of reasons, as
    :attr:`Contract.case_terms`; units and descriptions are those of the contract `words`, or else
    the model's own. Raises `InputError` for a proxy, and for a model of more than two labels.
    """

    def __init__(
        self,
        bundle: Bundle,
        terms: Mapping[str, Mapping[str, Any]],
        words: Contract | None = None,
    ) -> None:
        bundle.require_two_labels("`evenhand case`")
        settings = PredictSettings().with_forms(bundle.evaluation.get("table_forms", {}))
        self.predictor = RowPredictor(bundle, settings)
        self.bundle = bundle
        self.contract = bundle.contract
        self.words = words or bundle.contract
        self.encoder = self.predictor.model.encoder
        self.classifier = self.predictor.classifier
        self.terms = terms
        # the column that decisions depend on may be an input too
        self.features = tuple(dict.fromkeys(self.predictor.model.features))
        self.label = self.contract.label
        self.favourable = self.label.favourable_code
        self.names = bundle.value_names
        self._search: RecourseSearch | None = None
        self._comparables: dict[Any, ComparablePeople] = {}
        self._reference: Any = None

    @property
    def inputs_in_order(self) -> list[str]:
        """The model's inputs, in the order of the contract."""
        listed = [column.name for column in self.contract.columns if column.name in self.features]
        return listed + [name for name in self.features if name not in listed]

    # reading people

    def read(self, location: str) -> People:
        """Read the people of a file or folder, as `evenhand predict` reads them.

        Rows that break the contract are left out and counted; rows outside bounds that were only
        observed are kept.
        """
        people: list[Person] = []
        rows = 0
        for file in list_inputs(location, self.predictor.settings.format).files:
            with ExitStack() as files:
                if file.format == "parquet":
                    groups = (0, parquet_footer(file).num_row_groups)
                    stream = read_parquet(file, groups, self.predictor, files, threads=True)
                else:
                    stream = read_rows(file, self.predictor, files)
                for batch in _batches(stream):
                    people += self.checked(batch, rows)
                    rows += batch.num_rows
        return People(people, rows - len(people))

    def checked(self, batch: pa.RecordBatch, first_row: int) -> list[Person]:
        """People of a batch who meet the contract."""
        typed = self.predictor._typed_values(batch)
        check = check_features(typed, self.predictor.model)
        usable = np.ones(batch.num_rows, dtype=np.bool_)
        for mask in (check.bad, check.dropped):
            if mask is not None:
                usable &= ~mask
        columns = {name: values.to_pylist() for name, values in typed.items()}
        ids = {}
        for column in self.contract.columns:
            if column.role == "id" and column.name in batch.schema.names:
                ids[column.name] = batch.column(column.name).to_pylist()
        people = []
        for place in np.flatnonzero(usable).tolist():
            values = {name: items[place] for name, items in columns.items()}
            identity = {name: items[place] for name, items in ids.items()}
            people.append(Person(values, first_row + place + 1, identity))
        return people

    def person_of(self, values: Mapping[str, Any]) -> Person:
        """A person of values as JSON or text has them; an `InputError` for one that breaks the
        contract.
        """
        arrays = []
        names = []
        for name in self.features:
            value = values.get(name)
            names.append(name)
            arrays.append(pa.array([value]))
        batch = pa.RecordBatch.from_arrays(arrays, names=names)
        typed = self.predictor._typed_values(batch)
        check = check_features(typed, self.predictor.model)
        if check.violations:
            violation = check.violations[0]
            raise InputError(
                f"the value of {violation.column} breaks the contract: expected "
                f"{violation.expectation}."
            )
        return Person({name: column.to_pylist()[0] for name, column in typed.items()}, 0)

    # deciding

    def decide(self, people: Sequence[Person]) -> tuple[Any, Any, Any]:
        """Encoded rows, whether each decision is positive, and the probabilities."""
        frame = self._frame(people)
        matrix = self.encoder.transform(frame)
        groups = None
        if self.predictor.groups_by:
            groups = self.classifier.rule.groups_of(frame)
        positive, probability, _ = predictions_of(self.classifier, matrix, groups)
        return matrix, positive, probability

    def _frame(self, people: Sequence[Person]) -> Any:
        """The table of people as `evenhand predict` makes it."""
        import pandas as pd

        columns: dict[str, Any] = {}
        for name in self.features:
            values = [person.values[name] for person in people]
            if self.contract.column(name).is_numeric:
                columns[name] = pd.array(values, dtype="Float64").to_numpy(
                    dtype=np.float64, na_value=np.nan
                )
            else:
                columns[name] = pd.Series(values, dtype=object)
        return pd.DataFrame(columns)

    def is_adverse(self, positive: bool) -> bool:
        """Whether a decision is not the favourable one."""
        return bool(positive) != (self.favourable == 1)

    # explaining

    def explain(self, people: Sequence[Person], wanted: Wanted) -> Iterator[dict[str, Any]]:
        """The parts of a case file about each person that the model gives.

        Everybody is decided about alone: the last bits of a network's probability depend on the
        other rows of a batch, and a replay has one row.
        """
        reasons = self._reasons(self.encoder.transform(self._frame(people)))
        for place, person in enumerate(people):
            decision = self.decision(person)
            adverse = not decision["favourable"]
            yield {
                "decision": decision,
                "inputs": self.inputs(person),
                "reasons": self._reason_texts(reasons, place, person, wanted, adverse=adverse),
                "recourse": self._recourse(person, wanted, adverse=adverse),
                "comparables": self._comparable(person, wanted),
            }

    def decision(self, person: Person) -> dict[str, Any]:
        """The decision about one person, decided about alone."""
        _, positive, probability = self.decide([person])
        return self._decision(bool(positive[0]), float(probability[0]))

    def _decision(self, positive: bool, probability: float) -> dict[str, Any]:
        value = self.bundle.inputs["label_values"][int(positive)]
        outcome = describe_outcome(self.label)
        chance = probability if self.favourable == 1 else 1.0 - probability
        return {
            "label": self.label.name,
            "value": value,
            "shown": self.shown_decision(value),
            "favourable": not self.is_adverse(positive),
            "favourable_outcome": self.shown_decision(outcome["favourable"]),
            "favourable_is_stated": outcome["stated"],
            "probability_of_positive": probability,
            "probability_bits": float(probability).hex(),
            "probability_of_favourable": chance,
            "threshold_of_favourable": self._threshold_of_favourable(),
        }

    def _threshold_of_favourable(self) -> float | None:
        """Probability of the favourable outcome that a person needs; None where no single number
        decides.
        """
        rule = getattr(self.classifier, "rule", None)
        if not isinstance(rule, ThresholdRule) or rule.threshold is None:
            return None
        if self.favourable == 1:
            return float(rule.threshold)
        return 1.0 - float(rule.threshold)

    def inputs(self, person: Person) -> dict[str, Any]:
        """The inputs that the model used, with their values, and the columns that it did not."""
        used = []
        for name in self.inputs_in_order:
            column = self.words.column(name)
            used.append(
                {
                    "column": name,
                    "name": self.spoken(name),
                    "value": _plain(person.values[name]),
                    "shown": self.shown(name, person.values[name]),
                    "unit": column.unit,
                    "description": people_description(column.description),
                }
            )
        not_used = []
        for column in self.contract.columns:
            if column.name not in self.features and column.role != "label":
                not_used.append({"column": column.name, "role": column.role})
        return {"used": used, "not_used": not_used}

    def _reasons(self, matrix: Any) -> Any:
        """Contributions of all rows, or the text of why there are none."""
        try:
            if self._reference is None:
                file = self.bundle.folder / "reference.json"
                self._reference = mean_row(self.encoder, json.loads(file.read_text())["columns"])
            return favourable_contributions(
                self.classifier,
                matrix,
                self.encoder,
                self._reference,
                favourable=self.favourable,
            )
        except (OSError, KeyError):
            return "the model lacks the counts of its training rows: publish it again."
        except ValueError as error:
            return str(error)

    def _reason_texts(
        self, reasons: Any, place: int, person: Person, wanted: Wanted, *, adverse: bool
    ) -> dict[str, Any]:
        if isinstance(reasons, str):
            return {"method": None, "refusal": reasons, "principal": [], "contributions": {}}
        by_column = dict(zip(self.encoder.groups_, reasons[place].tolist(), strict=True))
        principal = []
        for reason in principal_reasons(by_column) if adverse else []:
            text, language = self.reason_text(reason.column, wanted.language)
            principal.append(
                {
                    "column": reason.column,
                    "text": text,
                    "language": language,
                    "value": self.shown(reason.column, person.values[reason.column]),
                    "contribution": reason.contribution,
                    "is_sensitive": self.contract.column(reason.column).role == "sensitive",
                }
            )
        return {
            "method": reason_method(self.classifier),
            "refusal": None,
            "principal": principal,
            "contributions": by_column,
        }

    def reason_text(self, name: str, language: str) -> tuple[str, str]:
        """The text of a column's reason and its language: the contract's, or else the column's
        name in words, of no language.
        """
        texts = self.terms.get(name, {}).get("adverse_reason", {})
        for key in (language, primary(language), LANGUAGE):
            if key in texts:
                return str(texts[key]), key
        return self.spoken(name), ""

    def lacks_texts(self, language: str) -> bool:
        """Whether the contract has texts of reasons, and none in a language."""
        languages = set()
        for stated in self.terms.values():
            languages |= set(stated.get("adverse_reason", {}))
        return bool(languages) and not languages & {language, primary(language)}

    def _recourse(self, person: Person, wanted: Wanted, *, adverse: bool) -> dict[str, Any]:
        if not wanted.recourse or not adverse:
            reason = "it was not asked for" if adverse else "the decision is the favourable one"
            return {"status": "not needed", "reason": reason, "changes": []}
        changeable = self.changeable()
        if not changeable:
            return {"status": "refused", "reason": NO_CHANGES, "changes": []}
        if self._search is None:
            self._search = RecourseSearch(
                self.classifier, self.encoder, changeable, favourable=self.favourable
            )
        recourse = self._search.find(self._row(person), self._group(person))
        return self._recourse_content(recourse, changeable)

    def _recourse_content(
        self, found: Recourse, changeable: Sequence[Changeable]
    ) -> dict[str, Any]:
        changes = []
        for change in found.changes:
            column = self.words.column(change.column)
            changes.append(
                {
                    "column": change.column,
                    "name": self.spoken(change.column),
                    "from": _plain(change.before),
                    "to": _plain(change.after),
                    "from_shown": self.shown(change.column, change.before),
                    "to_shown": self.shown(change.column, change.after),
                    "unit": column.unit,
                    "cost": change.cost,
                }
            )
        return {
            "status": found.status,
            "reason": "",
            "changes": changes,
            "cost": found.cost,
            "is_smallest": found.is_smallest,
            "least_cost": found.least_cost,
            "method": found.method,
            "changeable": [item.column for item in changeable],
        }

    def changeable(self) -> list[Changeable]:
        """The columns that the contract says a person can change."""
        listed = []
        for name, stated in self.terms.items():
            direction = stated.get("changeable", "fixed")
            if direction == "fixed" or name not in self.encoder.groups_:
                continue
            column = self.contract.column(name)
            listed.append(
                Changeable(
                    column=name,
                    direction=direction,
                    values=_categories_of(column),
                    minimum=_number(column.minimum),
                    maximum=_number(column.maximum),
                    whole=column.logical_type == "integer",
                )
            )
        return listed

    def _comparable(self, person: Person, wanted: Wanted) -> list[dict[str, Any]]:
        """Comparable people by sensitive columns alone, and by the job's fair metric."""
        answers: list[dict[str, Any]] = []
        if not wanted.proofs:
            return answers
        sensitive, not_listed = self._sensitive_values()
        if not_listed:
            refusal = Comparables(
                "refused", 0.0, "", reason=f"the column {not_listed}: {NOT_BOUNDED}"
            )
            answers.append(self._comparable_content("sensitive columns alone", refusal, person))
        else:
            comparables = self._people("values", sensitive, None, 0.0).find(
                self._row(person), self._group(person)
            )
            answers.append(self._comparable_content("sensitive columns alone", comparables, person))
        if wanted.metric is not None:
            people = self._people(wanted.metric_digest, sensitive, wanted.metric, wanted.radius)
            comparables = people.find(self._row(person), self._group(person))
            content = self._comparable_content("the fair metric of the job", comparables, person)
            answers.append(content | {"metric_digest": wanted.metric_digest})
        return answers

    def _people(
        self, key: str, sensitive: Mapping[str, Any], metric: Metric | None, radius: float
    ) -> ComparablePeople:
        if (key, radius) not in self._comparables:
            self._comparables[key, radius] = ComparablePeople(
                self.classifier,
                self.encoder,
                sensitive,
                metric,
                radius,
                self._real_values(),
                groups_of=self._groups_of if self.predictor.groups_by else None,
            )
        return self._comparables[key, radius]

    def _real_values(self) -> dict[str, RealValues]:
        """The values that the contract lets people have, by column that the model reads."""
        values = {}
        for name in self.encoder.groups_:
            column = self.contract.column(name)
            values[name] = RealValues(
                name,
                values=(False, True) if column.logical_type == "boolean" else column.allowed,
                minimum=_number_or_day(column.minimum),
                maximum=_number_or_day(column.maximum),
                whole=column.logical_type == "integer",
                optional=not column.required,
            )
        return values

    def _sensitive_values(self) -> tuple[dict[str, list[Any]], str]:
        """The values that sensitive inputs may have, and the name of one whose values are not
        bounded.
        """
        values: dict[str, list[Any]] = {}
        for column in self.contract.sensitive:
            is_read = column.name in self.encoder.groups_
            if not is_read and column.name not in self.predictor.groups_by:
                continue
            listed = _values_of(column)
            if listed is None:
                return values, column.name
            values[column.name] = listed
        return values, ""

    def _comparable_content(
        self, compared_by: str, found: Comparables, person: Person
    ) -> dict[str, Any]:
        differs = []
        for name, value in found.differs.items():
            differs.append(
                {
                    "column": name,
                    "name": self.spoken(name),
                    "own": self.shown(name, person.values[name]),
                    "other": self.shown(name, value),
                }
            )
        return {
            "compared_by": compared_by,
            "status": found.status,
            "radius": found.radius,
            "proved_radius": found.proved_radius,
            "differs": differs,
            "distance": found.distance,
            "method": found.method,
            "reason": found.reason,
            "tried": found.tried,
        }

    def _row(self, person: Person) -> dict[str, Any]:
        row = {}
        for name in self.encoder.groups_:
            row[name] = person.values[name]
        for name in self.predictor.groups_by:
            row[name] = person.values[name]
        return row

    def _groups_of(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        """The groups by which decisions are made, of rows with the sensitive columns."""
        import pandas as pd

        columns = {name: [row[name] for row in rows] for name in self.predictor.groups_by}
        return self.classifier.rule.groups_of(pd.DataFrame(columns))

    def _group(self, person: Person) -> Any:
        if not self.predictor.groups_by:
            return None
        return self.classifier.rule.groups_of(self._frame([person]))[0]

    # words

    def spoken(self, name: str) -> str:
        """The name of a column in words."""
        return str(spoken(name.replace("-", " ")))

    def shown_decision(self, value: Any) -> str:
        """A label as people read it: the contract's name, or else ``rejected`` and ``not rejected``
        for 1 and 0.
        """
        if value is None:
            return "missing"
        text = value_text(value)
        value_name = self.names.get(self.label.name, {}).get(text)
        return value_name or decision_words(self.label.name, text)

    def shown(self, name: str, value: Any) -> str:
        """A value as people read it, by the contract's names of values."""
        if value is None:
            return "missing"
        text = value_text(value)
        if isinstance(value, bool):
            return self.names.get(name, {}).get(text, "yes" if value else "no")
        return self.names.get(name, {}).get(text, text)


def _batches(stream: Stream) -> Iterator[pa.RecordBatch]:
    yield from stream.batches


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, datetime.date):
        return None
    return float(value)


def _number_or_day(value: Any) -> float | None:
    """A bound as a number; of a date the days since 1970, as encodings count them."""
    if isinstance(value, datetime.date):
        return float((value - datetime.date(1970, 1, 1)).days)
    return _number(value)


def _categories_of(column: Column) -> Sequence[Any] | None:
    """The categories that a column may have; None for numbers, and if they are not listed."""
    if column.is_numeric and column.encoding in ("standard", "unit"):
        return None
    if column.logical_type == "boolean":
        return (False, True)
    return column.allowed


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value


def _values_of(column: Column) -> list[Any] | None:
    """All values that a sensitive column may have; None if they are not bounded."""
    if column.allowed is not None:
        return list(column.allowed)
    if column.logical_type == "boolean":
        return [False, True]
    low = column.minimum
    high = column.maximum
    is_bounded = low is not None and high is not None
    if column.logical_type != "integer" or not is_bounded or high - low > MORE_THAN:  # type: ignore[operator]
        return None
    return list(range(int(low), int(high) + 1))  # type: ignore[arg-type]


def metric_of_version(store: Any, name: str, version: str) -> tuple[Metric, str] | None:
    """The fair metric of the run that published a version, if the store still has it, and the
    digest of its files.
    """
    from evenhand.fairlib.distances.metric_kinds import load_metric
    from evenhand.tasks.execution.store import sha256_of_path

    for place_of_verdict in reversed(list(store.runs_with("verdict.json").values())):
        verdict = json.loads(store.filesystem.cat_file(place_of_verdict))
        model = verdict.get("model") or {}
        if model.get("name") != name or str(model.get("version")) != version:
            continue
        place = Path(verdict["artifacts"].get("fair_metric.metric", ""))
        if place.name and place.is_dir():
            return load_metric(place), sha256_of_path(place)[0]
    return None
