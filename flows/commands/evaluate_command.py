"""``evenhand evaluate``: evaluate a published model on a table, and write the reports for CI."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from evenhand.flows.commands import terminal
from evenhand.flows.engine import Verdict
from evenhand.tasks.errors import InputError, without_secrets
from evenhand.tasks.execution.fingerprint import now
from evenhand.tasks.execution.store import Store
from evenhand.tasks.written_input import FORM_KEYS

UNFINISHED = "the evaluation is not finished: it is still running, or it was killed."
# Keys that say how a file is read: under a policy without a holdout they are the caller's.
READING = (
    "table.delimiter",
    "table.format",
    "table.sql",
    "table.connection",
    "table.sha256",
    *(f"table.{key}" for key in FORM_KEYS),
)
BELOW = "below four fifths"
WORST_FIRST = (4, 2, 1, 3)  # exit codes
OUTCOMES = {0: "passed", 1: "refused", 3: "not enough evidence for a gate"}


@dataclass(frozen=True)
class CiFiles:
    """Paths of the JUnit report and the Markdown summary; `ready` names those that can be
    written.
    """

    junit: Path | None
    markdown: Path | None
    ready: set[str] = field(default_factory=set)

    def check(self, model: str) -> None:
        """Refuse paths that cannot be written, and write a failing JUnit report that holds until
        the end.

        Raises `InputError` for a missing folder, a folder as path, no permission, or one path for
        both.
        """
        if self.junit and self.markdown and self.junit.resolve() == self.markdown.resolve():
            raise InputError("--junit and --markdown are one path: give each a file of its own.")
        if self.junit is not None:
            _check_plain(self.junit)
            # if this run is killed, the report of an earlier one, perhaps green, must not stand for
            # it
            with _writable("--junit", self.junit):
                self._put_junit(_failed_junit(UNFINISHED, model, ""))
            self.ready.add("junit")
        if self.markdown is not None:
            with _writable("--markdown", self.markdown):
                self.markdown.open("a").close()
            self.ready.add("markdown")

    def write(self, verdict: Verdict, store: Store | None, model: str) -> str | None:
        """Write the reports; return an error message if that failed."""
        try:
            junit, markdown = _texts(verdict, store, model)
            if "markdown" in self.ready and self.markdown is not None:
                # appended: a CI system collects the summaries of several commands in one file
                with self.markdown.open("a", encoding="utf-8") as stream:
                    if self.markdown.stat().st_size:
                        stream.write("\n")
                    stream.write(markdown)
            # last: until then it says that the evaluation is not finished
            if "junit" in self.ready:
                self._put_junit(junit)
        except OSError as error:
            file = error.filename or "a report"
            return f"{file} could not be written ({error.strerror}): check the disk."
        return None

    def _put_junit(self, text: str) -> None:
        """Write the file atomically; a link is written through, because a rename would
        replace it.
        """
        assert self.junit is not None
        if self.junit.is_symlink():
            self.junit.write_text(text, encoding="utf-8")
            return
        temporary = self.junit.with_name(f".{self.junit.name}.{os.getpid()}")
        try:
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(self.junit)
        finally:
            temporary.unlink(missing_ok=True)


def evaluate(
    *,
    model: str,
    junit: Path | None,
    markdown: Path | None,
    as_json: bool,
    store_url: str | None,
    direct: bool,
    overrides: Sequence[str] | None,
    no_record: bool,
    use_policy: bool,
    key: Path | None = None,
    policy_digest: str | None = None,
    **options: Any,
) -> int:
    """Evaluate, print, and write the reports.

    `key` is the file of the private key that signs the record, `policy_digest` the digest that the
    model's policy must have. `options` are `data`, `gates`,
    `baseline` and `contract`: parameters of the plan and of the flow alike.
    """
    from evenhand.tasks.registry.policy_traces import expecting_policy
    from evenhand.tasks.registry.signed_records import signing_with

    files = CiFiles(junit, markdown)
    model_name = without_secrets(model)

    def plan() -> terminal.Verb:
        files.check(model_name)
        from evenhand.flows.evaluate import execute, plan_evaluation

        arguments: dict[str, Any] = {"model": model, "overrides": list(overrides or ()), **options}
        if use_policy:
            _take_policy(arguments, store_url)
        if arguments["data"] is None:
            raise InputError(
                "--data is missing: give the table, or --policy where the policy has a holdout."
            )
        planned = plan_evaluation(**arguments, record=not no_record)
        arguments |= {"gates": planned.gates or None, "record": not no_record}
        return terminal.Verb(planned.run_name, partial(execute, planned), "evaluate", arguments)

    with signing_with(key), expecting_policy(policy_digest):
        ended = terminal.run_verb(
            plan, as_json=as_json, store_url=store_url, direct=direct, reads_registry=no_record
        )
    return _finish(ended, files, model_name)


def audit(
    *,
    predictions: str,
    prediction: Sequence[str] | None,
    junit: Path | None,
    markdown: Path | None,
    as_json: bool,
    store_url: str | None,
    overrides: Sequence[str] | None,
    sensitive: Sequence[str],
    **options: Any,
) -> int:
    """Audit each column of predictions, print, and write the reports; an audit needs no Prefect.

    Several columns have a run and a page each. Their figures stand side by side, and JSON is one
    object.
    """
    files = CiFiles(junit, markdown)
    table_name = without_secrets(predictions)
    columns = list(dict.fromkeys(prediction or ()))
    several = len(columns) > 1
    audited_columns: list[str | None] = [*columns] or [None]

    def plan_column(column: str | None) -> terminal.Verb:
        if column == audited_columns[0]:
            files.check(table_name)
        from evenhand.flows.audit import AuditOptions, execute, plan_audit

        if several and options["model"] is not None:
            raise InputError("give either --prediction, columns of the table, or --model.")
        plans = {}
        # all of them: a wrong one ends the command before anything is measured
        for name in audited_columns:
            written = AuditOptions(
                data=predictions,
                prediction=name,
                sensitive=sensitive or (),
                overrides=list(overrides or ()),
                **options,
            )
            plans[name] = plan_audit(written)
        plan = replace(plans[column], together_with=tuple(columns))
        return terminal.Verb("audit", partial(execute, plan), "", {})

    def audit_column(column: str | None) -> terminal.Ended:
        plan = partial(plan_column, column)
        ended = terminal.run_verb(plan, as_json=as_json, store_url=store_url, direct=True)
        if not as_json and ended.verdict.status == "evaluated":
            if several:
                print(f"{column}\n")
            _print_findings(ended.verdict)
            _print_audit(ended.read("metrics.json"), ended.read("audit.json"))
        return ended

    if not several:
        return _finish(audit_column(audited_columns[0]), files, table_name)
    audits = {}
    for column in columns:
        audits[column] = audit_column(column)
        refused = audits[column].verdict.exit_code == InputError.exit_code
        if refused and column == columns[0]:
            # the options or the table are wrong, and all columns share them
            return _finish(audits[column], files, table_name)
    return _finish_several(audits, files, table_name)


def _finish_several(audits: Mapping[str, terminal.Ended], files: CiFiles, model: str) -> int:
    """Write the reports of several audits by column, and print their metrics side by side.

    Returns the worst exit code.
    """
    faults = _write_several(list(audits.values()), files, model)
    codes = {ended.verdict.exit_code for ended in audits.values()}
    if any(faults):
        codes.add(4)
    code = next((code for code in WORST_FIRST if code in codes), 0)
    verdicts = {column: ended.verdict for column, ended in audits.items()}
    if any(ended.as_json for ended in audits.values()):
        documents = {column: verdict.to_dict() for column, verdict in verdicts.items()}
        print(json.dumps({"exit_code": code, "audits": documents}))
    else:
        _print_several(verdicts)
        _print_comparisons(audits)
    errors = [verdict.error for verdict in verdicts.values()]
    for message in dict.fromkeys([*errors, *faults]):
        if message:
            terminal.print_note(f"evenhand: {message}")
    return code


def _write_several(
    audits: Sequence[terminal.Ended], files: CiFiles, model: str
) -> list[str | None]:
    """Append every summary, and write one JUnit report of all; return the errors of writing."""
    from evenhand.tasks.evaluating.summaries import joined_junit

    faults = []
    junits = []
    for ended in audits:
        faults.append(files.write(ended.verdict, ended.store, model))
        junits.append(_texts(ended.verdict, ended.store, model)[0])
    if "junit" in files.ready and not any(faults):
        files._put_junit(joined_junit(junits))
    return faults


def _print_several(verdicts: Mapping[str, Verdict]) -> None:
    """Print the gates of each audited column, all metrics side by side, and the reports."""
    for column, verdict in verdicts.items():
        if verdict.status == "evaluated" and verdict.gates["results"]:
            print(f"{column}\n")
            terminal.print_gates(verdict.gates["results"])
            print(f"  {OUTCOMES[verdict.exit_code]}\n")
    _print_side_by_side(verdicts)
    for column, verdict in verdicts.items():
        if "report" in verdict.artifacts:
            print(f"report    {verdict.artifacts['report']}  ({column})")


def _print_comparisons(audits: Mapping[str, terminal.Ended]) -> None:
    """Print where a column of predictions differs from an earlier one, with paired intervals."""
    from evenhand.tasks.evaluating.group_audits import comparison_lines

    columns = list(audits)
    for column, ended in audits.items():
        audited = ended.read("audit.json")
        if not audited:
            continue
        for baseline in columns[: columns.index(column)]:
            rows = [row for row in audited["comparisons"] if row["baseline"] == baseline]
            lines = comparison_lines(rows)
            print(f"\n{column} less {baseline}, on the same rows: {len(lines)} clear differences")
            for line in lines:
                print(f"  {line}")


def _print_side_by_side(verdicts: Mapping[str, Verdict]) -> None:
    """Print a row for each metric, and a column for each audit that was carried out."""
    names: dict[str, None] = {}
    for verdict in verdicts.values():
        names |= dict.fromkeys(terminal.metric_names(verdict))
    rows = [["", *verdicts]]
    for name in names:
        row = [name]
        for verdict in verdicts.values():
            cell = ""
            if name in verdict.metrics:
                low = verdict.metrics.get(f"{name}.low")
                high = verdict.metrics.get(f"{name}.high")
                metric = {"value": verdict.metrics[name], "low": low, "high": high}
                cell = terminal.estimate(metric)
            row.append(cell)
        rows.append(row)
    terminal.print_table(rows, "  ")
    print()


def _print_findings(verdict: Verdict) -> None:
    """Print what the audit shows, as its page does; ratios below four fifths have a capital."""
    for sentence in verdict.findings:
        word = "finding"
        if BELOW in sentence and f"not {BELOW}" not in sentence:
            word = "FINDING"
        print(f"{word}   {sentence}")
    if verdict.findings:
        print()


def _print_audit(metrics: Mapping[str, Any], audited: Mapping[str, Any]) -> None:
    """Print the groups: the usual rates of two labels, else every metric; then within controls."""
    if metrics["counts"] and audited["is_plain"]:
        _print_groups(metrics)
    else:
        _print_values(audited["groups"])
    _print_values(audited.get("groups_within", ()))


def _print_values(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print every metric of every group, a table for each attribute."""
    attributes = dict.fromkeys(row["attribute"] for row in rows if row["attribute"])
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    for attribute in attributes:
        names = list(rows[0])
        controls = names[names.index("attribute") + 1 : names.index("group")]
        lines: dict[tuple[str, ...], dict[str, str]] = {}
        for row in rows:
            if row["attribute"] == attribute:
                key = tuple(str(row[name]) for name in ("group", *controls))
                lines.setdefault(key, {})[row["metric"]] = _value_text(row)
        table = [[attribute, *controls, *metrics]]
        for key, values in lines.items():
            table.append([f"  {key[0]}", *key[1:], *(values.get(name, "") for name in metrics)])
        terminal.print_table(table, "  ")
        print()


def _value_text(row: Mapping[str, Any]) -> str:
    """A value of a group, or why there is none."""
    if row["metric"] == "count":
        return f"{row['n']:,}"
    if row["value"] is None:
        return "too few" if row["status"] != "undefined" else "undefined"
    return f"{row['value']:,.3f}"


def _print_groups(metrics: Mapping[str, Any]) -> None:
    """Print rows, selection rate and impact ratio of every group, and TPR and TNR where labels are
    known.
    """
    from evenhand.fairlib.evaluation.outcomes import group_rates

    settings = metrics["settings"]
    titles = {"selected": "selected", "impact": "impact ratio"}
    if settings["labelled"]:
        titles |= {"tpr": "TPR", "tnr": "TNR"}
    for attribute, cells in metrics["counts"].items():
        rows = [[attribute, "rows", *titles.values()]]
        favourable = settings.get("favourable", 1)
        for group in group_rates(cells, settings["min_cell"], settings["level"], favourable):
            row = [f"  {group.group}", f"{group.n:,}"]
            for name in titles:
                rate = getattr(group, name).value
                if rate is None:
                    row.append("too few")
                else:
                    row.append(f"{rate:.3f}")
            rows.append(row)
        terminal.print_table(rows, "  ")
        for line in _left_out_lines(metrics, attribute):
            print(f"  {line}")
        print()


def _left_out_lines(metrics: Mapping[str, Any], attribute: str) -> list[str]:
    """Name the groups that the attribute's gaps and ratios leave out."""
    from evenhand.fairlib.evaluation.group_selection import left_out_text

    lines: list[str] = []
    unit = metrics["settings"].get("unit", "rows")
    for kind, words in {"impact_ratio": "impact ratio", "gap_max": "gaps of error rates"}.items():
        groups = metrics.get("groups", {}).get(f"{kind}.{attribute}")
        if groups and groups["left_out"]:
            lines.append(f"not in the {words}: {left_out_text(groups['left_out'], unit)}")
    return lines


def _finish(ended: terminal.Ended, files: CiFiles, model: str) -> int:
    """Write the reports and print the verdict; a report that cannot be written is an error."""
    fault = files.write(ended.verdict, ended.store, model)
    if fault is not None:
        ended.verdict.exit_code = 4
        ended.verdict.error = ended.verdict.error or fault
    return ended.finish(_print)


def _take_policy(arguments: dict[str, Any], store_url: str | None) -> None:
    """Replace the gates, and the data if the policy has a holdout, by those of the model's
    policy.
    """
    from evenhand.tasks.registry.bundle import parse_address
    from evenhand.tasks.registry.client import tracking_uri
    from evenhand.tasks.registry.ledger import current_policy
    from evenhand.tasks.registry.policy import in_force
    from evenhand.tasks.registry.policy_terms import older_policy, terms_of
    from evenhand.tasks.registry.policy_traces import refuse_without_policy

    name = parse_address(arguments["model"]).name
    policy = current_policy(tracking_uri(Store(store_url, reading=True)), name)
    if policy is None:
        refuse_without_policy(tracking_uri(Store(store_url, reading=True)), name)
        raise InputError(
            f"--policy: the model {name!r} has no policy: `evenhand policy set` sets one."
        )
    terms = terms_of(policy)
    holdout = policy["holdout"]
    if terms.older:
        terminal.print_note(f"evenhand: {older_policy(name, policy)}")
    if arguments["gates"] is not None or (holdout and arguments["data"] is not None):
        given_option = "--data" if arguments["gates"] is None else "--gates"
        raise InputError(
            f"{given_option}: the policy of {name} gives the gates and the data: leave --gates and "
            f"--data out ({in_force(policy)})."
        )
    _refuse_pinned(arguments["overrides"], name, policy)
    arguments["gates"] = policy["gates"]
    if holdout:
        arguments |= {"data": holdout["data"], "overrides": [*holdout["overrides"]]}
    arguments["overrides"] = [*arguments["overrides"], *terms.overrides()]


def _refuse_pinned(overrides: Sequence[str], name: str, policy: Mapping[str, Any]) -> None:
    """Refuse a key of `--set` that the policy decides about: how, and on which rows, is
    measured.
    """
    from evenhand.tasks.registry.policy import in_force

    free_keys: Sequence[str] = READING
    if policy["holdout"]:
        free_keys = ()
    for override in overrides:
        key = override.partition("=")[0].strip()
        if key not in free_keys:
            raise InputError(
                f"--set {without_secrets(key)}: the policy of {name} decides how, and on which "
                f"rows, its versions are measured: leave it out ({in_force(policy)}; free under "
                f"--policy: {', '.join(free_keys) or 'none'})."
            )


def _check_plain(junit: Path) -> None:
    """Refuse a device or a pipe: JUnit is written twice, and a rename would replace /dev/stdout."""
    if junit.is_dir():
        raise InputError(
            f"--junit {junit} cannot be written (it is a folder): choose another path."
        )
    is_special = _is_special(junit.absolute()) or _is_special(junit.resolve())
    if is_special or (junit.exists() and not junit.is_file()):
        raise InputError(f"--junit {junit} is not a regular file: give the path of one.")


def _is_special(path: Path) -> bool:
    return path.is_relative_to("/dev") or path.is_relative_to("/proc")


@contextlib.contextmanager
def _writable(option: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{option} {path} cannot be written ({error.strerror}): choose another path."
        ) from None


def _texts(verdict: Verdict, store: Store | None, model: str) -> tuple[str, str]:
    """Return the run's JUnit and Markdown; texts that state the failure if the evaluation
    failed.
    """
    from evenhand.tasks.evaluating.summaries import markdown_of_failure

    if verdict.status == "evaluated" and store is not None:
        junit = store.read_text("runs", verdict.run_id, "junit.xml")
        markdown = store.read_text("runs", verdict.run_id, "summary.md")
        if junit is not None and markdown is not None:
            return junit, markdown
    error = verdict.error or "the evaluation left no report."
    return _failed_junit(error, model, verdict.run_id), markdown_of_failure(error, model)


def _failed_junit(error: str, model: str, run_id: str) -> str:
    from evenhand.tasks.evaluating.summaries import junit_of_failure

    return junit_of_failure(
        error, model=model, created=now(), properties={"run_id": run_id, "model": model}
    )


def _print(verdict: Verdict, seconds: float) -> None:
    if verdict.status != "evaluated":
        return
    terminal.print_steps(verdict)
    terminal.print_metrics(verdict)
    if verdict.model and verdict.model["contract"]:
        # an audit began with its findings
        terminal.print_rates(verdict)
    terminal.print_gates(verdict.gates["results"])
    if verdict.gates["results"]:
        print()
    for note in verdict.notes:
        print(f"note      {note}")
    if verdict.gates["results"]:
        print(f"verdict   {OUTCOMES[verdict.exit_code]}")
    terminal.print_model("model", verdict.model)
    terminal.print_model("baseline", verdict.baseline)
    terminal.print_end(verdict, seconds)
