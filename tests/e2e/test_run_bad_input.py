"""Bad input: exit code 2, one line that names the place and the cure, and nothing left behind."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SECRET_GROUP = "zzyzx-group"
SECRET_ID = "ID-77-SECRET"
Break = Callable[[Any], None]


def refused(bench: Any, *words: str, arguments: tuple[str, ...] = (), **more: Any) -> Any:
    """Run, and check all that holds for every refusal."""
    done = bench.run(*arguments, **more)
    assert done.code == 2, (done.code, done.out, done.err)
    assert done.out == ""
    lines = done.err.splitlines()
    assert len(lines) == 1, done.err
    assert lines[0].startswith("evenhand: ")
    for word in words:
        assert word in lines[0], (word, lines[0])
    if not bench.store.is_dir():
        return done
    nothing_published(bench.store)
    nothing_half_written(bench.store)
    for run in sorted((bench.store / "runs").glob("*")):
        assert [item.name for item in run.iterdir()] == ["verdict.json"]
        verdict = json.loads((run / "verdict.json").read_text())
        assert (verdict["status"], verdict["exit_code"]) == ("failed", 2)
        assert f"evenhand: {verdict['error']}" == lines[0]
        assert verdict["model"] is None
    said = done.err + "".join(path.read_text() for path in (bench.store / "runs").rglob("*.json"))
    assert SECRET_GROUP not in said
    assert SECRET_ID not in said
    assert "p-00007" not in said
    return done


def nothing_published(store: Path) -> None:
    database = store / "mlflow.db"
    if database.exists():
        with sqlite3.connect(database) as opened:
            assert opened.execute("select count(*) from model_versions").fetchone() == (0,)
            assert opened.execute("select count(*) from registered_models").fetchone() == (0,)
        opened.close()
    assert not list(store.glob("steps/publish/*"))


def nothing_half_written(store: Path) -> None:
    assert not list(store.glob("tmp/*"))
    assert not [path for path in store.rglob(".*") if path.is_file() and path.name != ".gitignore"]
    assert not list(store.rglob("*.part"))


# what is wrong with the values


def drop_column(bench: Any) -> None:
    bench.table = bench.table.drop_columns(["income"])


def extra_column(bench: Any) -> None:
    bench.table = bench.table.append_column("shoe", pa.array(range(len(bench.table))))


def misspelt_column(bench: Any) -> None:
    bench.table = bench.table.rename_columns(
        ["incom" if n == "income" else n for n in bench.table.column_names]
    )


def text_for_number(bench: Any) -> None:
    bench.set("income", [SECRET_ID, *map(str, bench.table["income"].to_pylist()[1:])])


def text_for_sensitive_number(bench: Any) -> None:
    bench.set("age", [SECRET_GROUP, *map(str, bench.table["age"].to_pylist()[1:])])


def null_feature(bench: Any) -> None:
    bench.put("income", 7, None)


def null_label(bench: Any) -> None:
    bench.put("paid", 7, None)


def null_sensitive(bench: Any) -> None:
    bench.put("sex", 7, None)


def infinite(bench: Any) -> None:
    bench.put("income", 7, math.inf)


def nan_in_parquet(bench: Any) -> None:
    bench.put("income", 7, math.nan)
    bench.job["table"]["path"] = "people.parquet"
    pq.write_table(bench.table, bench.folder / "people.parquet")


def unknown_category(bench: Any) -> None:
    bench.put("job", 7, "smit")


def unknown_sensitive_category(bench: Any) -> None:
    bench.put("sex", 7, SECRET_GROUP)


def one_class(bench: Any) -> None:
    bench.set("paid", ["yes"] * len(bench.table))


def other_class(bench: Any) -> None:
    bench.set("paid", ["no"] * len(bench.table))


def third_class(bench: Any) -> None:
    bench.put("paid", 7, "maybe")


def one_positive(bench: Any) -> None:
    bench.set("paid", ["yes", *["no"] * (len(bench.table) - 1)])


def declared_group_without_rows(bench: Any) -> None:
    bench.properties["sex"]["quality"][0]["validValues"] = ["F", "M", "X"]


def undeclared_group_with_one_row(bench: Any) -> None:
    del bench.properties["sex"]["quality"]
    bench.put("sex", 7, SECRET_GROUP)


def age_group_without_rows(bench: Any) -> None:
    bench.properties["age"]["customProperties"][1]["value"] = [18]


def duplicate_names_csv(bench: Any) -> None:
    bench.table = bench.table.append_column("income", bench.table["income"])


def duplicate_names_parquet(bench: Any) -> None:
    duplicate_names_csv(bench)
    bench.job["table"]["path"] = "people.parquet"
    pq.write_table(bench.table, bench.folder / "people.parquet")


def list_column(bench: Any) -> None:
    bench.set("income", [[1.0]] * len(bench.table))
    bench.job["table"]["path"] = "people.parquet"
    pq.write_table(bench.table, bench.folder / "people.parquet")


VALUES: dict[str, tuple[Break, tuple[str, ...]]] = {
    "missing column": (drop_column, ("'income'", "add the column")),
    "extra column": (extra_column, ("'shoe'", "role ignore")),
    "misspelt column": (misspelt_column, ("'income'", "rename column 'incom'")),
    "text for a number": (
        text_for_number,
        ("'income'", "1 of 400 rows", "write plain decimal numbers"),
    ),
    "text for an age": (text_for_sensitive_number, ("'age'", "write whole numbers")),
    "null feature": (null_feature, ("'income'", "1 of 400 rows", "required: false")),
    "null label": (null_label, ("'paid'", "fill the values")),
    "null sensitive": (null_sensitive, ("'sex'", "missingSensitive")),
    "infinite": (infinite, ("'income'", "NaN or infinity", "correct")),
    "NaN": (nan_in_parquet, ("'income'", "NaN or infinity", "correct")),
    "unknown category": (unknown_category, ("'job'", "did you mean 'smith'?")),
    "unknown group": (unknown_sensitive_category, ("'sex'", "validValues")),
    "one class": (one_class, ("'paid'", "one outcome only")),
    "other class": (other_class, ("'paid'", "no row with the positive value")),
    "third class": (third_class, ("'paid'", "2 allowed values")),
    "one positive row": (one_positive, ("cannot be split",)),
    "declared group without rows": (
        declared_group_without_rows,
        ("'X'", "'sex'", "has no training rows"),
    ),
    "group with one row": (
        undeclared_group_with_one_row,
        ("'sex'", "a group", "merge small groups"),
    ),
    "age group without rows": (age_group_without_rows, ("'<18'", "'age'", "merge small groups")),
    "duplicate names, CSV": (duplicate_names_csv, ("'income'", "rename all but one")),
    "duplicate names, Parquet": (duplicate_names_parquet, ("'income'", "rename all but one")),
    "lists in a column": (list_column, ("'income'", "list")),
}


@pytest.mark.long
@pytest.mark.parametrize("case", VALUES)
def test_a_table_that_breaks_its_contract_is_refused(bench: Any, case: str) -> None:
    change, words = VALUES[case]
    change(bench)
    refused(bench, *words)


# what is wrong with the file


def csv_bytes(bench: Any) -> bytes:
    bench.write()
    return (bench.folder / "people.csv").read_bytes()


def empty(bench: Any) -> None:
    bench.content = b""


def blank_lines(bench: Any) -> None:
    bench.content = b"\n\n  \n"


def header_only(bench: Any) -> None:
    bench.content = csv_bytes(bench).splitlines(keepends=True)[0]


def header_without_end(bench: Any) -> None:
    bench.content = csv_bytes(bench).splitlines()[0]


def empty_gzip(bench: Any) -> None:
    import gzip

    bench.job["table"]["path"] = "people.csv.gz"
    bench.content = gzip.compress(b"")


def truncated_gzip(bench: Any) -> None:
    import gzip

    content = csv_bytes(bench)
    bench.job["table"]["path"] = "people.csv.gz"
    bench.content = gzip.compress(content)[:-900]


def truncated_parquet(bench: Any) -> None:
    pq.write_table(bench.table, bench.folder / "whole")
    bench.job["table"]["path"] = "people.parquet"
    bench.content = (bench.folder / "whole").read_bytes()[:-500]


def no_rows_parquet(bench: Any) -> None:
    bench.job["table"]["path"] = "people.parquet"
    pq.write_table(bench.table.slice(0, 0), bench.folder / "people.parquet")


def csv_named_parquet(bench: Any) -> None:
    bench.content = csv_bytes(bench)
    bench.job["table"]["path"] = "people.parquet"


def parquet_named_csv(bench: Any) -> None:
    pq.write_table(bench.table, bench.folder / "whole")
    bench.content = (bench.folder / "whole").read_bytes()


def text_named_gz(bench: Any) -> None:
    bench.content = csv_bytes(bench)
    bench.job["table"]["path"] = "people.csv.gz"


def zip_named_csv(bench: Any) -> None:
    bench.content = b"PK\x03\x04" + b"\0" * 40


def page_named_csv(bench: Any) -> None:
    bench.content = b"<!doctype html>\n<title>Sign in</title>\n<p>Please, sign in</p>\n"


def no_ending(bench: Any) -> None:
    bench.content = csv_bytes(bench)
    bench.job["table"]["path"] = "people.table"


def ragged(bench: Any) -> None:
    bench.content = csv_bytes(bench) + f"{SECRET_ID},1,{SECRET_GROUP}\n".encode()


def latin_values(bench: Any) -> None:
    bench.content = csv_bytes(bench).replace(b"clerk", "j\xe4ger".encode("latin-1"))


def latin_header(bench: Any) -> None:
    bench.content = csv_bytes(bench).replace(b"income", "l\xf6hne".encode("latin-1"))


def folder_without_parquet(bench: Any) -> None:
    bench.write()
    (bench.folder / "tables").mkdir()
    bench.job["table"]["path"] = "tables"


def folder_of_different_files(bench: Any) -> None:
    (bench.folder / "tables").mkdir()
    pq.write_table(bench.table, bench.folder / "tables" / "a.parquet")
    pq.write_table(pa.table({"income": [SECRET_ID]}), bench.folder / "tables" / "b.parquet")
    bench.job["table"]["path"] = "tables"


def not_there(bench: Any) -> None:
    bench.content = b"unused"
    bench.write()
    bench.content = None
    (bench.folder / "people.csv").unlink()
    bench.job["table"]["path"] = "peeple.parquet"


FILES: dict[str, tuple[Break, tuple[str, ...]]] = {
    "empty": (empty, ("people.csv is empty", "check where it is written")),
    "blank lines": (blank_lines, ("people.csv is empty",)),
    "header only": (header_only, ("found 0", "check that the file is whole")),
    "header without its end": (header_without_end, ("found 0", "check that the file is whole")),
    "empty gzip": (empty_gzip, ("people.csv.gz is empty",)),
    "truncated gzip": (truncated_gzip, ("people.csv.gz", "write it again")),
    "truncated Parquet": (
        truncated_parquet,
        ("people.parquet", "damaged or truncated", "write it again"),
    ),
    "Parquet without rows": (no_rows_parquet, ("found 0", "check that the file is whole")),
    "CSV named .parquet": (
        csv_named_parquet,
        ("people.parquet is not a Parquet file", "table.format"),
    ),
    "Parquet named .csv": (parquet_named_csv, ("people.csv is Parquet", "rename it")),
    "text named .csv.gz": (text_named_gz, ("people.csv.gz is not compressed by gzip", "rename it")),
    "zip named .csv": (zip_named_csv, ("people.csv is a zip archive", "rename it")),
    "page named .csv": (page_named_csv, ("people.csv", "check table.delimiter")),
    "no ending": (no_ending, ("people.table", "set table.format")),
    "ragged": (ragged, ("people.csv", "expected 8 columns, got 3", "check table.delimiter")),
    "Latin-1 values": (latin_values, ("'job'", "people.csv", "save it as UTF-8", "table.encoding")),
    "Latin-1 header": (
        latin_header,
        ("people.csv is not UTF-8 text", "save it as UTF-8", "table.encoding"),
    ),
    "folder without Parquet": (folder_without_parquet, ("tables holds no table",)),
    "folder of different files": (folder_of_different_files, ("tables", "make them alike")),
    "not there": (not_there, ("peeple.parquet", "check the table's path")),
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_cannot_be_read_is_refused(bench: Any, case: str) -> None:
    change, words = FILES[case]
    change(bench)
    refused(bench, *words)


# what is wrong with the job

OVERRIDES: dict[str, tuple[str, tuple[str, ...]]] = {
    "unknown key": ("gate={auc: {min: 0.5}}", ("'gate'", "did you mean 'gates'?")),
    "unknown nested key": ("split.tets=0.2", ("'split.tets'", "did you mean 'test'?", "known:")),
    "unknown key of publish": ("publish.alais=x", ("'publish.alais'", "did you mean 'alias'?")),
    "unknown method": ("method=gbtd", ("'gbtd'", "did you mean 'gbdt'?", "known:")),
    "method that is no name": ("method={name: [gbdt]}", ("method", "known:")),
    "unknown argument": ("method.max_dept=3", ("'method.max_dept'", "did you mean 'max_depth'?")),
    "reserved argument": ("method.random_state=3", ("'method.random_state'", "gbdt takes")),
    "argument of another type": ("method.n_steps=many", ("method.n_steps", "a whole number")),
    "argument that is no number": ("method.eta=.nan", ("method.eta", "finite")),
    "argument out of range": ("method.n_steps=0", ("n_steps", "at least 1")),
    "argument that the engine refuses": ("method.max_depth=-4", ("max_depth",)),
    "share out of range": ("split.test=1.5", ("split.test", "below 1")),
    "infinite strength": ("fair_metric.strength=.inf", ("fair_metric.strength", "finite")),
    "too few draws for an interval": ("evaluate.draws=5", ("evaluate.draws", "at least 20")),
    "seed that is no number": ("seed=soon", ("seed", "a whole number")),
    "date that no calendar has": ("seed=2024-13-45", ("seed", "not valid YAML")),
    "counterfactual of no column": (
        "evaluate.counterfactuals={w: {jobs: all}}",
        ("'w'", "'jobs'", "did you mean 'job'?"),
    ),
    "counterfactual of a sensitive column": (
        "evaluate.counterfactuals={w: {sex: all}}",
        ("'sex'", "not a model input"),
    ),
    "counterfactual of no value": (
        "evaluate.counterfactuals={w: {job: [clerk, smit]}}",
        ("'job'", "'smit'", "did you mean 'smith'?"),
    ),
    "counterfactual of text for a number": (
        "evaluate.counterfactuals={w: {income: [1000, lots]}}",
        ("'income'", "'lots'", "not a number"),
    ),
    "counterfactual of all numbers": (
        "evaluate.counterfactuals={w: {income: all}}",
        ("'income'", "list values"),
    ),
    "counterfactual of one value": (
        "evaluate.counterfactuals={w: {job: [clerk]}}",
        ("'w'", "at least two"),
    ),
    "counterfactual of one pair": (
        "evaluate.counterfactuals={w: {job: [clerk], owner: [true]}}",
        ("'w'", "at least two"),
    ),
    "counterfactual of nothing": ("evaluate.counterfactuals={w: {}}", ("'w'", "name a column")),
    "counterfactual of no values": (
        "evaluate.counterfactuals={w: {job: [], owner: all}}",
        ("'job'", "at least two"),
    ),
    "gate of no metric": ("gates={acuracy: {min: 0.5}}", ("'acuracy'", "did you mean 'accuracy'?")),
    "gate of no counterfactual": (
        "gates={consistency.wrok: {min: 0.5}}",
        ("'consistency.wrok'", "did you mean 'consistency.work'?"),
    ),
    "gate of no attribute": ("gates={gap_max.sax: {max: 0.5}}", ("'gap_max.sax'", "'gap_max.sex'")),
    "gate without a limit": ("gates={auc: {}}", ("'auc'", "add one or remove")),
    "gate with an unknown key": (
        "gates={auc: {mim: 0.5}}",
        ("'auc'", "'mim'", "did you mean 'min'?"),
    ),
    "gate that needs a baseline": (
        "gates.auc.no_worse_than_baseline=1e-2",
        ("'auc'", "no_worse_than_baseline", "`evenhand evaluate --baseline`"),
    ),
    "gate that is no mapping": ("gates={auc: 0.5}", ("gates.auc", "must be a mapping")),
    "metric direction of no column": (
        "fair_metric.learned=[sax]",
        ("fair_metric.learned", "'sax'", "'sex'"),
    ),
    "metric indicator of no input": (
        "fair_metric.indicators=[sex]",
        ("fair_metric.indicators", "'sex'"),
    ),
    "metric of no kind": (
        "fair_metric.kind=fase",
        ("fair_metric.kind", "'fase'", "did you mean 'face'?"),
    ),
    "legitimate column that is sensitive": (
        "fair_metric={kind: learned, legitimate: [sex]}",
        ("fair_metric.legitimate", "'sex'", "sensitive attribute"),
    ),
    "legitimate column that is missing": (
        "fair_metric={kind: learned, legitimate: [sax]}",
        ("fair_metric.legitimate", "'sax'"),
    ),
    "metric that is a list": ("fair_metric=[face]", ("fair_metric", "dictionary")),
    "kind that is a list": (
        "fair_metric.kind=[face]",
        ("fair_metric.kind", "known: sensitive-subspace"),
    ),
    "metric key of no kind": (
        "fair_metric={kind: face, n_direction: 3}",
        ("'fair_metric.n_direction'", "did you mean 'n_directions'?", "explained_variance"),
    ),
    "metric key of another kind": (
        "fair_metric={kind: face, learned: [sex]}",
        ("'fair_metric.learned'", "sensitive-subspace", "face takes", "remove it"),
    ),
    "metric of two sizes": (
        "fair_metric={kind: face, n_directions: 3, explained_variance: 0.5}",
        ("fair_metric", "both n_directions and explained_variance"),
    ),
    "metric of two sources": (
        "fair_metric={kind: explore, counterfactuals: [work], comparable_by: [job]}",
        ("fair_metric", "both counterfactuals and comparable_by"),
    ),
    "metric of no copies": (
        "fair_metric={kind: face, counterfactuals: []}",
        ("fair_metric", "a list of 1 or more"),
    ),
    "metric of unknown copies": (
        "fair_metric={kind: face, counterfactuals: [wrok]}",
        (
            "fair_metric.counterfactuals",
            "did you mean 'work'?",
            "evaluate.counterfactuals has work",
        ),
    ),
    "metric of an unknown column": (
        "fair_metric={kind: explore, comparable_by: [jbo]}",
        ("fair_metric.comparable_by", "did you mean 'job'?"),
    ),
    "metric of a column that is no input": (
        "fair_metric={kind: explore, comparable_by: [sex]}",
        ("fair_metric.comparable_by", "'sex'", "model inputs are income, job"),
    ),
    "share of no direction": (
        "fair_metric={kind: face, explained_variance: 0}",
        ("above 0",),
    ),
    "share above one": (
        "fair_metric={kind: face, explained_variance: 1.5}",
        ("at most 1",),
    ),
    "metric of no pairs": ("fair_metric={kind: explore, pairs: 0}", ("fair_metric.pairs",)),
    "path and query": ("table.sql=select 1", ("both path and sql",)),
    "digest that is none": ("table.sha256=abc", ("table.sha256",)),
    "wrong digest": (
        f"table.sha256={'a' * 64}",
        ("people.csv has sha256", "expected aaaaaaaaaaaa"),
    ),
    "unreachable": (
        "table.path=http://127.0.0.1:9/people.csv",
        ("127.0.0.1:9", "check the address"),
    ),
    "no such scheme": ("table.path=gopher://h/people.csv", ("gopher://", "check the address")),
    "contract not there": ("contract=nowhere.yaml", ("nowhere.yaml", "cannot be read")),
    "contract of no name": ("contract=germen", ("'germen'", "did you mean 'german'?")),
    "no table": ("table={name: germen}", ("'germen'", "did you mean 'german'?", "table.path")),
    "reserved alias": ("publish.alias=latest", ("publish.alias", "choose another alias")),
    "bad model name": ("publish.model=a/b", ("publish.model",)),
    "bad job name": ("name=../x", ("name", "use letters")),
    "set without a value": ("method.eta", ("KEY=VALUE", "'method.eta'")),
    "set without a key": ("=3", ("KEY=VALUE",)),
    "set of bad YAML": ("method.eta=[1", ("method.eta", "not valid YAML")),
    "set below a value": ("name.x.y=3", ("name is not a section",)),
    "set of nothing known": ("evalute.draws=3", ("'evalute'", "did you mean 'evaluate'?")),
}


@pytest.mark.parametrize("case", OVERRIDES)
def test_a_job_that_is_wrong_is_refused(bench: Any, case: str) -> None:
    override, words = OVERRIDES[case]
    refused(bench, *words, arguments=("--set", override))


@pytest.mark.parametrize("kind", ["face", "explore"])
def test_a_metric_of_comparable_people_needs_some(bench: Any, kind: str) -> None:
    bench.job["evaluate"]["counterfactuals"] = {}
    words = ("comparable people", "evaluate.counterfactuals", "fair_metric.comparable_by")
    refused(bench, *words, arguments=("--set", f"fair_metric.kind={kind}"))
    assert not bench.store.exists()


# each is known only when the metric is learned
METRICS: dict[str, tuple[str, tuple[str, ...]]] = {
    "more directions than there are": (
        "{kind: face, n_directions: 3}",
        ("n_directions is 3", "span 2"),
    ),
    "everybody alone": ("{kind: face, comparable_by: [income]}", ("groups of at least two",)),
    "nobody comparable differs": (
        "{kind: explore, comparable_by: [income, job, owner, since]}",
        ("no two comparable rows differ",),
    ),
}


@pytest.mark.parametrize("case", METRICS)
def test_a_metric_that_cannot_be_learned_is_refused(bench: Any, case: str) -> None:
    section, words = METRICS[case]
    bench.set("income", [10.0 * row for row in range(bench.table.num_rows)])
    refused(
        bench,
        "the fair metric cannot be learned",
        *words,
        arguments=("--set", "method=project", "--set", f"fair_metric={section}"),
    )


def test_a_metric_under_which_all_are_comparable_is_refused(bench: Any) -> None:
    # of categories something always stays: their columns have one sum in every copy
    for name in ("job", "owner"):
        bench.properties[name]["customProperties"] = [{"property": "role", "value": "ignore"}]
    every = "{all: {income: [0, 9], since: ['2020-02-02', '2021-02-02']}}"
    refused(
        bench,
        "subspace is everything",
        "fair_metric.n_directions",
        arguments=(
            *("--set", "method=project", "--set", f"evaluate.counterfactuals={every}"),
            *("--set", "fair_metric={kind: face, explained_variance: 1}"),
        ),
    )


def test_refusals_of_the_job_leave_no_run(bench: Any) -> None:
    refused(bench, arguments=("--set", "gates={acuracy: {min: 0.5}}"))
    assert not bench.store.exists()


def test_the_reserved_words_of_yaml_in_a_key(bench: Any) -> None:
    job = bench.write()
    job.write_text(job.read_text() + "\nyes: 3\n")
    refused(bench, job=job)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: [", ("not valid YAML at line",)),
        ("just text", ("must be a mapping",)),
        ("", ("must be a mapping",)),
        ("name: a\n\ttable: b", ("not valid YAML at line 2",)),
        ("name: a\ntable: loans\n", ("'method' is missing",)),
        ("name: a\ntable: loans\nmethod:\n", ("'method' is missing",)),
        ("- a\n- b", ("must be a mapping",)),
    ],
)
def test_a_job_file_that_is_no_job(bench: Any, text: str, words: tuple[str, ...]) -> None:
    path = bench.folder / "job.yaml"
    path.write_text(text)
    refused(bench, *words, job=path)


def test_a_job_file_that_is_not_text(bench: Any) -> None:
    path = bench.folder / "job.yaml"
    path.write_bytes(b"\xff\xfe\x00\x01")
    refused(bench, "job.yaml", "cannot be read", job=path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("german-budr", ("'german-budr'", "did you mean 'german-budro'?", "evenhand jobs")),
        ("", ("there is no job",)),
        ("../german-budro", ("there is no job",)),
        ("nowhere.yaml", ("there is no job file nowhere.yaml",)),
    ],
)
def test_no_such_job(bench: Any, name: str, words: tuple[str, ...]) -> None:
    refused(bench, *words, job=name)


@pytest.mark.parametrize("text", ["schema: [", "a: 1", "", "when: 2024-13-45"])
def test_a_contract_that_is_none(bench: Any, text: str) -> None:
    job = bench.write()
    (bench.folder / "people.contract.yaml").write_text(text)
    refused(bench, "people.contract.yaml", job=job)


def test_a_store_below_a_file_cannot_be_written(bench: Any) -> None:
    (bench.folder / "file").write_text("")
    refused(bench, "cannot be written", "set EVENHAND_STORE", store=bench.folder / "file" / "store")


@pytest.mark.parametrize("url", ["nosuch://place/store", "http://127.0.0.1:9/store"])
def test_a_store_of_no_known_kind(bench: Any, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(bench.folder / "cache"))
    refused(bench, "the store", store=url)


# queries


@pytest.fixture
def database(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The table in SQLite, and a job that asks it."""
    path = bench.folder / "people.db"
    with sqlite3.connect(path) as opened:
        opened.execute("create table people (income, name)")
        opened.executemany(
            "insert into people values (?, ?)", [(1.5, "a"), (SECRET_ID, "b"), (b"\0", "c")]
        )
    opened.close()
    monkeypatch.setenv("PEOPLE_DB", f"sqlite:///{path}")
    bench.job["table"] = {
        "name": "people",
        "sql": "select * from people",
        "connection": "$PEOPLE_DB",
    }
    return bench


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"connection": None}, ("needs table.connection",)),
        ({"connection": "$NOT_SET"}, ("table.connection", "variable")),
        ({"connection": "no url"}, ("table.connection cannot be used",)),
        ({"connection": "nosuch://u:pass-word@h/d"}, ("table.connection looks like", "$NAME")),
        ({"connection": "nosuch://u:$PASS@h/d"}, ("table.connection cannot be used",)),
        ({"connection": "sqlite:///nowhere.db"}, ("nowhere.db", "does not exist")),
        ({"sql": "select * from peeple"}, ("no such table: peeple", "correct the query")),
        ({"sql": "selct 1"}, ("one SELECT",)),
        ({"sql": "select 1 from"}, ("table.sql cannot be read as sqlite SQL", "correct it")),
        ({"sql": "delete from people"}, ("one SELECT",)),
        ({"sql": "select 1; drop table people"}, ("one SELECT",)),
        ({"sql": "with a as (delete from people returning 1) select * from a"}, ("one SELECT",)),
        ({"sql": "select income, name from people"}, ("'income'", "CAST")),
        ({"sql": "select name, name from people where 0"}, ("'name'", "rename all but one")),
    ],
)
def test_a_query_that_fails(database: Any, changes: dict[str, Any], words: tuple[str, ...]) -> None:
    database.job["table"] = {
        k: v for k, v in (database.job["table"] | changes).items() if v is not None
    }
    done = refused(database, *words)
    assert "pass-word" not in done.err
    assert not (database.folder / "nowhere.db").exists()


def test_a_known_table_whose_file_was_changed(
    bench: Any, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = bench.folder / "data"
    changed.mkdir()
    shutil.copyfile(data_folder / "german.data", changed / "german.data")
    with (changed / "german.data").open("ab") as stream:
        stream.write(b"\n")
    monkeypatch.setenv("EVENHAND_DATA", str(changed))
    refused(bench, "german.data", "sha256", "fetch it again", job="german-gbdt")


# --json says the same


@pytest.mark.parametrize("case", ["missing column", "unknown category"])
def test_json_is_one_object_for_a_failed_run(bench: Any, case: str) -> None:
    VALUES[case][0](bench)
    done = bench.run("--json")
    assert done.code == 2
    assert len(done.out.splitlines()) == 1
    assert (done.json["status"], done.json["exit_code"]) == ("failed", 2)
    assert done.err == f"evenhand: {done.json['error']}\n"
    assert done.json == done.verdict
    assert done.json["model"] is None


def test_json_is_one_object_where_not_even_a_run_began(bench: Any) -> None:
    done = bench.run("--json", job="german-budr")
    assert done.code == 2
    assert (done.json["status"], done.json["exit_code"]) == ("failed", 2)
    assert "did you mean" in done.json["error"]


def test_a_refusal_leaves_the_published_model_alone(publishing: Any) -> None:
    assert publishing.run().code == 0
    publishing.put("income", 7, None)
    (publishing.folder / "people.csv").unlink()
    done = publishing.run("--json")
    assert done.code == 2
    with sqlite3.connect(publishing.store / "mlflow.db") as opened:
        models = "select version from model_versions where name not like 'evenhand.audit.%'"
        assert opened.execute(models).fetchall() == [(1,)]
        aliases = opened.execute("select alias, version from registered_model_aliases").fetchall()
    opened.close()
    assert aliases == [("champion", 1)]
