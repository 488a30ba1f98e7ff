"""``evenhand init``: understand a new table, and write a starter contract and job for it."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from evenhand.data_contracts.arrow import MISSING_GROUP, bin_names, coerce, known_groups
from evenhand.data_contracts.contract_yaml import to_yaml
from evenhand.data_contracts.errors import ContractError
from evenhand.data_contracts.favourable import (
    describe_outcome,
    guess_favourable,
    guess_side,
    positive_meaning,
)
from evenhand.data_contracts.inference import (
    FEWEST_UNITS,
    LEAST_PEOPLE,
    Columns,
    ignored,
    in_words,
    infer_contract,
)
from evenhand.data_contracts.roles import is_protected
from evenhand.data_contracts.spellings import find_spellings, joined
from evenhand.data_contracts.values import sample_rows
from evenhand.fairlib.escaping import terminal_text
from evenhand.fairlib.methods.registry import PROXIES, MethodSpec
from evenhand.fairlib.outcome_words import outcome_in_words
from evenhand.flows import starter_job
from evenhand.flows.classifier_jobs import check_labels
from evenhand.flows.commands.terminal import exact_stdout, print_table
from evenhand.flows.data_source import KNOWN_TABLES
from evenhand.flows.init_forms import (
    partly_read,
    preview_lines,
    rare_warnings,
    refuse_lost_columns,
    refuse_repeated,
    shown_previews,
    spelling_notes,
    spelling_warnings,
    stated_forms,
    with_legitimate,
    with_spellings,
    without_columns,
    without_rare_spellings,
)
from evenhand.flows.job import NAME
from evenhand.flows.job_file import load_job
from evenhand.flows.metric_choice import MetricChoice, choose_metric
from evenhand.flows.resolved_job import resolve, with_terms
from evenhand.tasks.credentials import holds_credential
from evenhand.tasks.errors import InputError, input_errors, without_secrets
from evenhand.tasks.written_input import FORM_KEYS, nearest_file

if TYPE_CHECKING:
    from evenhand.data_contracts.model import Column, Contract
    from evenhand.tasks.execution.dataset import StoredTable
    from evenhand.tasks.sources.table_forms import TableForms

# A group of fewer rows may miss in the training or the test rows, and then a run refuses the table.
SMALL_GROUP = 20
SHOWN = 8
# What happens to proxy features, without a learned metric and with one.
KEPT = "kept as they are"
ADAPTED = "which the fair metric removes or adapts"
FORMS_OF_LEAKS = {
    "linear": "as a sum or difference",
    "ratio": "as a ratio or product",
    "pair": "as a pair of values",
}


@dataclass(frozen=True)
class Understanding:
    """What `init` says about a table."""

    contract: Contract
    leaks: dict[str, Any]  # what `evenhand.tasks.steps.profile_step.leak_report` gives
    groups: dict[str, dict[str, int]]  # rows of each group in the sample, by sensitive column
    warnings: list[str]
    flips: dict[str, Any]  # counterfactuals that flip the sensitive model inputs
    people: str | None  # id column of people of whom there are several rows
    sample: pa.Table  # some rows, typed by the contract


def init(
    table: str,
    label: str,
    sensitive: Sequence[str] | None,
    positive: str | None,
    favourable: str | None,
    identifier: Sequence[str] | None,
    name: str | None,
    method: str,
    folder: Path,
    force: bool,
    use_sensitive: bool,
    sql: str | None,
    connection: str | None,
    as_json: bool,
    text: Sequence[str] | None,
    terms: Path | None,
    encoding: str | None,
    decimal: Sequence[str] | None,
    dates: Sequence[str] | None,
    ignore: Sequence[str] | None,
    sheet: str | None,
    join_spellings: bool,
    at_least: float | None = None,
    legitimate: Sequence[str] | None = None,
    keep_rare: bool = False,
) -> None:
    """Write ``NAME.contract.yaml`` and ``NAME.yaml``, both or none, and print how columns were
    understood.

    Raises `InputError` if the table cannot be read, a named column does not exist, or a file exists
    already.
    """
    spec = starter_job.check_method(method, bool(sensitive) or terms is not None)
    if terms is not None:
        _check_terms(terms, text or ())
    if name is not None:
        _check_name(name)
    source, table_name = _source(table, sql, connection, folder)
    name = name or _name_from(table_name)
    contract_file = folder / f"{name}.contract.yaml"
    job_file = folder / f"{name}.yaml"
    if not force:
        _refuse_existing(contract_file, job_file)
    place = Path(table).expanduser().resolve()
    source |= stated_forms(encoding, decimal, dates, sheet)
    with (
        _stored(source, place, join_spellings=join_spellings) as (rows, forms),
        input_errors("", ContractError, end=_other_sheets(forms)),
    ):
        columns = rows.column_names
        refuse_repeated(forms, "--label", [label], table_name)
        refuse_repeated(forms, "--sensitive", _columns(sensitive, columns), table_name)
        refuse_repeated(forms, "--id", _columns(identifier, columns), table_name)
        sentences = _columns(text, columns)
        understanding = understand(
            rows,
            name,
            label,
            _columns(sensitive, columns),
            positive,
            _columns(identifier, columns),
            use_sensitive or starter_job.needs_inputs(spec),
            sentences,
            _columns(ignore, columns),
            favourable=favourable,
            at_least=at_least,
            legitimate=_columns(legitimate, columns),
            least_people=0 if keep_rare else LEAST_PEOPLE,
        )
    contract = understanding.contract
    refuse_lost_columns(contract)
    forms = without_rare_spellings(forms, contract)
    source |= forms.keys
    understanding.warnings.extend(partly_read(contract, forms.partly))
    understanding.warnings.extend(spelling_warnings(contract, forms.spellings))
    flips: dict[str, Any] = {}
    if method not in PROXIES:
        check_labels(contract, method)
        flips |= understanding.flips
    if terms is not None:
        terms_path = os.path.relpath(terms.resolve(), folder.resolve())
        flips["identity"] = {"terms": terms_path, "column": sentences[0]}
    keys, notes = _needs(spec, understanding)
    choice = MetricChoice()
    if (spec.needs_metric or spec.needs_counterfactuals) and terms is None:
        choice = choose_metric(understanding.sample, contract, understanding.groups, spec)
    if choice.is_learned:
        understanding = _with_adapted_proxies(understanding)
    notes = [*forms.notes, *spelling_notes(forms), *notes, *choice.notes]
    source = {"name": name, **source}
    job = starter_job.job_text(
        name,
        contract,
        contract_file.name,
        source=source,
        shown=table_name,
        spec=spec,
        keys=keys,
        flips=flips,
        choice=choice,
    )
    _write(folder, {contract_file.name: _contract_text(understanding), job_file.name: job})
    document = _document(understanding, notes, contract_file, job_file, method)
    document["previews"] = shown_previews(forms.previews, contract)
    if as_json:
        print(json.dumps(document))
    else:
        _show(document)


def _other_sheets(forms: TableForms) -> str:
    """End of a refusal that says which sheet was read, where the file has others."""
    for note in forms.notes:
        if note.startswith("the sheet "):
            return f" ({note})"
    return ""


def _needs(spec: MethodSpec, understanding: Understanding) -> tuple[dict[str, Any], list[str]]:
    """Keys of the job that the method and the table need, and notes about them."""
    keys, notes = starter_job.method_needs(spec, understanding.contract, understanding.groups)
    people = understanding.people
    if people is None:
        return keys, list(notes)
    note = f"rows with the same {people} stay together in training or test rows (split.by)"
    return {**keys, "split": {"by": people}}, [*notes, note]


def _with_adapted_proxies(understanding: Understanding) -> Understanding:
    """The same, with warnings for a job whose fair metric is learned."""
    warnings = [warning.replace(KEPT, ADAPTED, 1) for warning in understanding.warnings]
    return replace(understanding, warnings=warnings)


def _contract_text(understanding: Understanding) -> str:
    """The contract as YAML; its comments are the warnings, and what a favourable outcome is."""
    comments = list(understanding.warnings)
    label = understanding.contract.label
    if not label.classes:
        comments.append(_favourable(label))
    return to_yaml(understanding.contract, comments)


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise InputError(
            f"--name {name!r} is not a valid job name: use letters, digits, dots, dashes, "
            "underscores."
        )


def _refuse_existing(*paths: Path) -> None:
    for path in paths:
        if path.exists():
            raise InputError(f"{path} exists: choose another --name, or overwrite with --force.")


def _check_terms(terms: Path, text: Sequence[str]) -> None:
    """Check that the list of terms is a file, and that one column of sentences has them."""
    if not terms.is_file():
        raise InputError(f"--terms needs a file, and {terms} is none.")
    if len(text) != 1:
        raise InputError("--terms needs one --text column that they are in.")


def _name_from(table_name: str) -> str:
    """Return a name for the job: the last part of the table's address, without its ending."""
    last_part = table_name.split("?")[0].rstrip("/").split("/")[-1].split(".")[0]
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", last_part)
    return name[:60].strip("-_") or "table"


def _columns(arguments: Sequence[str] | None, columns: Sequence[str]) -> list[str]:
    """Names of columns, also of several in one argument with commas between them."""
    names = []
    for argument in arguments or ():
        if argument in columns:
            names.append(argument.strip())
        else:
            names += [name.strip() for name in argument.split(",")]
    return names


def understand(
    table: Columns,
    name: str,
    label: str,
    sensitive: Sequence[str],
    positive: str | None,
    ids: Sequence[str],
    use_sensitive: bool,
    text: Sequence[str] = (),
    unused: Sequence[str] = (),
    favourable: str | None = None,
    at_least: float | None = None,
    legitimate: Sequence[str] = (),
    least_people: int = LEAST_PEOPLE,
) -> Understanding:
    """Infer a contract, and leave leaks out of its model inputs.

    Raises `ContractError` as :func:`evenhand.data_contracts.inference.infer_contract` does, and if
    nothing but leaks is left.
    """
    from evenhand.tasks.steps.profile_step import leak_report

    contract = infer_contract(
        table,
        name,
        label,
        sensitive,
        positive,
        ids,
        use_sensitive=use_sensitive,
        text=text,
        favourable=favourable,
        at_least=at_least,
        least_people=least_people,
    )
    contract = without_columns(contract, unused)
    sampled = sample_rows(table.num_rows)
    sample = pa.table({column: table.column(column).take(sampled) for column in table.column_names})
    typed = coerce(sample, contract)
    leaks = leak_report(_with_joined_groups(typed, contract), contract, typed.num_rows)
    reasons = {item["name"]: _reason(item, label) for item in leaks["columns"]}
    columns = []
    for column in contract.columns:
        if column.name in reasons:
            column = ignored(column, reasons[column.name])
        columns.append(column)
    if not any(column.is_feature for column in columns):
        raise ContractError(
            f"no column is left as a model input: {', '.join(reasons)} reveal the label '{label}' "
            "or a sensitive column: give a table with other columns"
        )
    contract = with_legitimate(replace(contract, columns=tuple(columns)), legitimate)
    groups = starter_job.group_sizes(typed, contract)
    warnings = _warnings(contract, leaks, reasons, groups)
    warnings += rare_warnings(table, contract, least_people)
    flips = starter_job.counterfactuals(typed, contract)
    return Understanding(contract, leaks, groups, warnings, flips, _people(table, contract), typed)


def _with_joined_groups(typed: pa.Table, contract: Contract) -> pa.Table:
    """The table with one spelling of each group: leaks are of groups, however they are written."""
    names = [column.name for column in contract.sensitive]
    spellings = find_spellings({name: typed[name] for name in names})
    for name, values in spellings.items():
        place = typed.column_names.index(name)
        typed = typed.set_column(place, name, joined(typed[name], values))
    return typed


def _people(table: Columns, contract: Contract) -> str | None:
    """The id column whose values are in several rows, of several the one with the fewest values."""
    ids = [column.name for column in contract.columns if column.role == "id"]
    counts = {name: pc.count_distinct(table.column(name)).as_py() for name in ids}
    several = [name for name in ids if FEWEST_UNITS <= counts[name] < table.num_rows]
    return min(several, key=counts.__getitem__, default=None)


def _reason(leak: Mapping[str, Any], label: str) -> str:
    cure = "to use it all the same, set its role to feature"
    partners = " and ".join(map(repr, leak["partners"]))
    if leak["kind"] == "sensitive_combined":
        return (
            f"together with {partners} it determines the sensitive column '{leak['attribute']}' "
            f"({FORMS_OF_LEAKS[leak['form']]}); {cure}"
        )
    if leak["kind"] == "combined":
        return (
            f"LEAK, together with {partners} it predicts '{label}' almost perfectly "
            f"({FORMS_OF_LEAKS[leak['form']]}, AUC {leak['auc']:.3f}); {cure}"
        )
    if leak["kind"] == "sensitive":
        return f"computed from the sensitive column '{leak['attribute']}'; {cure}"
    how = {
        "label": f"it determines '{label}' exactly",
        "alone": f"it predicts '{label}' almost perfectly",
        "joint": f"together with others it predicts '{label}' almost perfectly",
    }[leak["kind"]]
    return f"LEAK, {how} (AUC {leak['auc']:.3f}); {cure}"


def _warnings(
    contract: Contract,
    leaks: Mapping[str, Any],
    reasons: Mapping[str, str],
    groups: Mapping[str, Mapping[str, int]],
) -> list[str]:
    """Return what the user should read, leaks first."""
    warnings = [
        f"column {name} is ignored: {reason} in the contract" for name, reason in reasons.items()
    ]
    for attribute, features in leaks["stand_ins"].items():
        proxies = []
        for item in features:
            if item["name"] not in reasons:
                proxies.append(f"{item['name']} (AUC {item['auc']:.2f})")
        if proxies:
            warnings.append(f"proxy features of {attribute}, {KEPT}: {_first(proxies)}")
    protected = []
    for column in contract.features:
        if column.role == "feature" and is_protected(column.name):
            protected.append(column.name)
    if protected:
        warnings.append(
            f"model inputs that look sensitive: {', '.join(protected)}; name them with "
            "--sensitive, so that a run measures by their groups"
        )
    warnings += _parsing_warnings(contract)
    for attribute, sizes in groups.items():
        warnings += _small_groups_warning(attribute, sizes)
    if contract.missing_sensitive == "drop":
        warnings.append(
            "rows without a value of a sensitive model input are dropped (missingSensitive)"
        )
    return warnings


def _parsing_warnings(contract: Contract) -> list[str]:
    """Return warnings on values that mean a missing one, on columns of too many categories and on
    sampling weights.
    """
    warnings = []
    missing = []
    too_wide = []
    for weight in contract.unused_weights:
        warnings.append(
            f"column {weight} reads as a sampling weight and is not used: all shares are of rows, "
            "not of the people for whom they stand (`evenhand audit --weight` measures with "
            "weights)"
        )
    for column in contract.columns:
        if column.missing:
            missing.append(f"{column.name} {', '.join(map(repr, column.missing))}")
        if column.role == "ignore" and "too many" in column.description:
            too_wide.append(column.name)
        if "lies far from all others" in column.description:
            sentence = column.description.partition("values. ")[2].rstrip(".")
            warnings.append(f"column {column.name}: {sentence}")
        if "None" in (column.allowed or ()):
            warnings.append(
                f"'None' is a value of {column.name} like any other: list it under missing in the "
                "contract if it means that nothing is known"
            )
    if missing:
        warnings.append(f"read as missing: {'; '.join(missing)}")
    if too_wide:
        warnings.append(
            "ignored because of too many categories, group the values to use these columns: "
            f"{', '.join(too_wide)}"
        )
    return warnings


def _small_groups_warning(attribute: str, sizes: Mapping[str, int]) -> list[str]:
    """Return a warning if groups of an attribute have few rows."""
    small = [f"“{name}”" for name, count in sizes.items() if count < SMALL_GROUP]
    if not small:
        return []
    subject = f"the group {small[0]} of {attribute} has"
    figures = "its figures are uncertain, or left out of comparisons"
    if len(small) > 1:
        subject = f"the groups {_first(small)} of {attribute} have"
        figures = "their figures are uncertain, or left out of comparisons"
    text = f"{subject} fewer than {SMALL_GROUP} rows: {figures}"
    single = [f"“{name}”" for name, count in sizes.items() if count == 1]
    if single:
        text += f"; {_first(single)} has one row, which a run refuses: join it with another group"
    return [text]


def _first(names: Sequence[str]) -> str:
    """Return the first names with commas between them, and how many there are more."""
    text = ", ".join(names[:SHOWN])
    if len(names) > SHOWN:
        text += f" and {len(names) - SHOWN} more"
    return text


def _source(
    table: str, sql: str | None, connection: str | None, folder: Path
) -> tuple[dict[str, Any], str]:
    """Return the job's section ``table``, and a name to show."""
    if sql is not None:
        return _query_source(sql, connection), table
    if connection is not None:
        raise InputError("--connection is for --sql: give the query too, or leave it out.")
    if table in KNOWN_TABLES:
        return {"name": table}, table
    if "://" in table:
        if _has_password(table):
            raise InputError(
                "the address has a password, which the job file would keep: put it into an "
                "environment variable and write $NAME in its place."
            )
        return {"path": table}, table
    path = Path(table).expanduser()
    if not path.exists():
        raise InputError(
            f"there is no file {table}{nearest_file(path)}: give a file, a folder, a URL or a "
            "known table."
        )
    return {"path": os.path.relpath(path.resolve(), folder.resolve())}, path.resolve().name


def _query_source(sql: str, connection: str | None) -> dict[str, Any]:
    if not connection:
        raise InputError(
            "--sql needs --connection: a SQLAlchemy URL, or $NAME of a variable that has one."
        )
    if _has_password(connection):
        raise InputError(
            "--connection has a password, which the job file would keep: put the URL into an "
            "environment variable and give its name, as in --connection '$DATABASE'."
        )
    return {"sql": sql, "connection": connection}


def _has_password(address: str) -> bool:
    return without_secrets(address) != address or holds_credential(address)


@contextmanager
def _stored(
    source: Mapping[str, Any], local: Path, *, join_spellings: bool
) -> Iterator[tuple[StoredTable, TableForms]]:
    """The table as a run reads it, a local one from its place, in a file that is removed again.

    With the forms of its text, which are inferred where `source` does not state them.
    """
    from evenhand.tasks.execution.dataset import StoredTable
    from evenhand.tasks.execution.store import Store
    from evenhand.tasks.sources.fetching import fetch_source
    from evenhand.tasks.sources.table_forms import TableForms
    from evenhand.tasks.sources.table_reader import infer_table_forms, read_source
    from evenhand.tasks.steps.ingest_step import write_raw

    described = {"name": "table", **source}
    if "://" not in (source.get("path") or "://"):
        described["path"] = str(local)
    with tempfile.TemporaryDirectory() as scratch:
        store = Store(scratch)
        files = {name: store.fetch(item) for name, item in fetch_source(store, described).items()}
        stored = Path(scratch) / "table"
        forms = TableForms()
        if described.get("path") or described.get("sql"):
            (file,) = files.values()
            forms = infer_table_forms(file, described)
        elif any(described.get(key) for key in FORM_KEYS):
            raise InputError(
                "a known table has a form of its own: leave out --encoding, --decimal, --dates "
                "and --sheet."
            )
        write_raw(read_source({**described, **forms.keys}, files, 0), stored)
        table = StoredTable(stored)
        spellings = find_spellings({name: table.column(name) for name in table.column_names})
        is_file = bool(described.get("path"))
        if spellings and join_spellings and is_file:
            forms = with_spellings(forms, spellings)
            stored = Path(scratch) / "joined"
            write_raw(read_source({**described, **forms.keys}, files, 0), stored)
            table = StoredTable(stored)
        elif spellings and is_file:
            forms = replace(forms, spellings=spellings)
        yield table, forms


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write both files or none: next to their places, checked as a run checks them, then
    renamed.
    """
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    before: dict[Path, bytes | None] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".init-", dir=folder) as name:
            for file, text in files.items():
                (Path(name) / file).write_text(text, encoding="utf-8")
            job, place = load_job(str(Path(name) / [*files][-1]))
            resolve(with_terms(job, str(folder)), place)
            for file in files:
                target = folder / file
                content = None
                if target.exists():
                    content = target.read_bytes()
                # only now, as a place that cannot be read is not restored
                before[target] = content
                (Path(name) / file).replace(target)
    except (OSError, InputError) as error:
        _restore(before, new_folders)
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{folder} cannot be written ({error.strerror}): choose another with --output."
        ) from None


def _restore(before: Mapping[Path, bytes | None], new_folders: Sequence[Path]) -> None:
    """Bring files to their content before, None for no file, and remove empty new folders."""
    for target, content in before.items():
        if content is not None:
            target.write_bytes(content)
        else:
            target.unlink(missing_ok=True)
    for path in new_folders:
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def _document(
    understanding: Understanding,
    notes: Sequence[str],
    contract_file: Path,
    job_file: Path,
    method: str,
) -> dict[str, Any]:
    """Return all that `init` inferred, as plain JSON types."""
    contract = understanding.contract
    label = contract.label
    if label.classes:
        positive = f"{label.name} has {len(label.classes)} classes"
        favourable = None
    else:
        positive = positive_meaning(label.name, in_words(label.outcome.positive))
        favourable = _favourable(label)
    groups = {}
    for column in contract.sensitive:
        groups[column.name] = _group_names(column, understanding.groups[column.name])
    return {
        "contract": str(contract_file),
        "job": str(job_file),
        "method": method,
        "label": label.name,
        "positive": positive,
        "favourable": favourable,
        "columns": [_column_document(column) for column in contract.columns],
        "groups": groups,
        "leaks": understanding.leaks["columns"],
        "joint_auc": understanding.leaks["joint_auc"],
        "stand_ins": understanding.leaks["stand_ins"],
        "warnings": understanding.warnings,
        "notes": notes,
        "next": f"evenhand run {job_file}",
    }


def _column_document(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.logical_type,
        "role": column.role,
        "input": column.is_feature,
        "encoding": column.encoding,
        "missing": list(column.missing or ()),
        "reason": column.description,
    }


def _favourable(label: Column) -> str:
    """Say which outcome is favourable and why, or that nothing states it and what to do."""
    outcome = describe_outcome(label)
    favourable = outcome_in_words(outcome["column"], outcome["favourable"])
    cure = "VALUE"
    guess = guess_favourable(label.name, label.allowed or ())
    if label.at_least is not None:
        cure = "below"
        guess = guess_side(label.name)
    if not outcome["stated"]:
        return (
            f"WARNING  nothing says whether {favourable} is the favourable outcome: it is taken as "
            f"such; if it is not, give --favourable {cure}"
        )
    reason = "as asked"
    if guess is not None and guess.value == label.favourable:
        reason = guess.reason
    return f"favourable outcome: {favourable} ({reason})"


def _group_names(column: Column, sizes: Mapping[str, int]) -> list[str]:
    """Names of groups: of a cut number from low to high, else by size."""
    if column.bins is not None:
        return [*bin_names(column), *(name for name in sizes if name == MISSING_GROUP)]
    return sorted(known_groups(column) | set(sizes), key=lambda name: (-sizes.get(name, 0), name))


def _show(document: Mapping[str, Any]) -> None:
    """Print the columns as a table, groups, warnings and notes, and the files."""
    head = ["column", "type", "role", "encoding", "reason"]
    rows = [_column_row(item) for item in document["columns"]]
    if sys.stdout.isatty():
        _print_rich(head, rows)
    else:
        print_table([head, *rows])
    print(f"\n{document['positive']}")
    if document["favourable"]:
        print(document["favourable"])
    for attribute, names in document["groups"].items():
        print(f"groups of {attribute}: {_first([name.strip() for name in names])}")
    for warning in document["warnings"]:
        print(f"WARNING  {warning}")
    for note in document["notes"]:
        print(f"note: {note}")
    if document["previews"]:
        print("\nvalues before and after they are read:")
    for line in preview_lines(document["previews"]):
        print(f"  {line}")
    print(
        f"\nwrote {document['contract']}  (the data contract: check roles, ranges and descriptions)"
    )
    print(
        f"wrote {document['job']}  (the job: the method {document['method']}, and comments on "
        "gates)"
    )
    print(f"next: {document['next']}")


def _column_row(item: Mapping[str, Any]) -> list[str]:
    """Return what is printed of a column: name, type, role, encoding and reason."""
    role = item["role"]
    if role == "sensitive" and item["input"]:
        role += ", input"
    reason = item["reason"].removeprefix("Ignored: ")
    return [item["name"], item["type"], role, item["encoding"] or "", reason]


def _print_rich(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in head:
        # names wrap before the reason gets too narrow
        width = 8
        if title == "reason":
            width = 20
        table.add_column(title, overflow="fold", ratio=None, min_width=width)
    for row in rows:
        style = ""
        if "LEAK" in row[-1]:
            style = "bold red"
        elif row[2] == "ignore":
            style = "dim"
        table.add_row(*[Text(terminal_text(cell), style=style) for cell in row])
    Console(file=exact_stdout()).print(table)
