"""Jobs: what is written, what overrides make of it, and the shipped ones."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from evenhand.data_contracts.odcs import load_contract
from evenhand.fairlib.catalogue import PROVED
from evenhand.fairlib.methods.registry import METHODS, PROXIES
from evenhand.flows.classifier_jobs import metric_note
from evenhand.flows.job import Split
from evenhand.flows.job_file import load_job, shipped_jobs
from evenhand.flows.resolved_job import resolve
from evenhand.tasks.errors import InputError


@pytest.fixture
def written(bench: Any) -> Any:
    """A job made of the bench's files, changed by overrides."""

    def load(*overrides: str, **changes: Any) -> Any:
        bench.job.update(changes)
        return resolve(*load_job(str(bench.write()), overrides))

    return load


def test_every_kind_of_override(written: Any) -> None:
    resolved = written(
        "seed=7",
        "split.test=0.25",
        "split.stratify=false",
        "method.eta=1e-4",
        "method.n_steps=12",
        "method.balance_classes=no",
        "evaluate.counterfactuals={both: {job: [clerk, cook], owner: all}}",
        "evaluate.level=.9",
        "gates.consistency.both={min: 5e-1, bound: interval}",
        "gates.gap_max.sex.max=9e-1",
        "table.null_values=['', '?']",
        "publish.alias=shadow",
        "fair_metric.learned=[sex]",
        "description=a=b, with = signs",
    )
    job = resolved.job
    assert job.seed == 7
    assert (job.split.test, job.split.stratify) == (0.25, False)
    assert resolved.arguments["eta"] == 1e-4
    assert resolved.arguments["n_steps"] == 12
    assert resolved.arguments["balance_classes"] is False
    assert job.evaluate.counterfactuals == {"both": {"job": ["clerk", "cook"], "owner": "all"}}
    assert job.evaluate.level == 0.9
    assert job.gates == {
        "auc": {"min": 0.3},
        "consistency.both": {"min": 0.5, "bound": "interval"},
        "gap_max.sex": {"max": 0.9},
    }
    assert job.table.null_values == ["", "?"]
    assert job.publish.alias == "shadow"
    assert job.fair_metric.learned == ["sex"]
    assert job.description == "a=b, with = signs"


def test_an_override_of_one_gate_leaves_the_others(written: Any) -> None:
    resolved = written(
        "gates.consistency.work.min=0.7",
        gates={"auc": {"min": 0.3}, "consistency.work": {"min": 0.9, "bound": "interval"}},
    )
    assert resolved.job.gates == {
        "auc": {"min": 0.3},
        "consistency.work": {"min": 0.7, "bound": "interval"},
    }


@pytest.mark.parametrize("text", ["1e-4", "1E-4", "1.0e-4", "0.0001", "+1e-4", "1.e-4"])
def test_numbers_as_people_write_them(written: Any, text: str, bench: Any) -> None:
    assert written(f"method.eta={text}").arguments["eta"] == 1e-4
    job = bench.folder / "job.yaml"
    job.write_text(
        job.read_text()
        .replace("n_steps: 4", f"n_steps: 4\n  eta: {text}")
        .replace("min: 0.3", f"min: {text}")
    )
    resolved = resolve(*load_job(str(job)))
    assert resolved.arguments["eta"] == 1e-4
    assert resolved.job.gates["auc"]["min"] == 1e-4


def test_one_number_is_one_job_however_it_is_written(written: Any) -> None:
    values = [written(f"method.eta={text}").arguments["eta"] for text in ("1", "1.0", "1e+0")]
    assert values == [1.0] * 3
    assert {type(value) for value in values} == {float}


def test_a_method_may_be_a_name_alone(written: Any) -> None:
    assert written(method="reweigh").method == "reweigh"
    assert written(method="reweigh").arguments == {}
    resolved = written("method.eta=0.1", method="gbdt")
    assert (resolved.method, resolved.arguments) == ("gbdt", {"eta": 0.1})
    assert written("method=gbdt", method={"name": "gbdt", "eta": 0.5}).arguments == {}


def test_sections_with_nothing_in_them_are_as_good_as_absent(bench: Any) -> None:
    text = "name: j\ntable: loans\nmethod: gbdt\n"
    path = bench.folder / "j.yaml"
    path.write_text(
        text + "split:\nfair_metric:\nevaluate:\n  counterfactuals:\ngates:\npublish:\npaper:\n"
    )
    empty = resolve(*load_job(str(path)))
    path.write_text(text)
    assert resolve(*load_job(str(path))).job == empty.job
    assert empty.job.split.test == 0.2


def test_an_override_may_take_a_section_away(written: Any) -> None:
    assert written("gates=").job.gates == {}
    assert written("gates=null", "evaluate=").job.evaluate.counterfactuals == {}


def test_paths_are_meant_from_the_jobs_folder(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = bench.folder / "a folder, with ü"
    folder.mkdir()
    bench.folder = folder
    bench.job["table"]["path"] = "./people.csv"
    bench.write()
    monkeypatch.chdir("/")
    resolved = resolve(*load_job(str(folder / "job.yaml")))
    assert resolved.source()["path"] == str(folder / "people.csv")
    monkeypatch.chdir(folder.parent)
    assert resolve(*load_job(f"{folder.name}/job.yaml")).source()["path"] == str(
        folder / "people.csv"
    )
    done = bench.run(
        "--set", "gates={accuracy: {min: 1.5}}", job=f"{folder.name}/job.yaml", store="rel store"
    )
    assert done.code == 1, done.err
    assert (folder.parent / "rel store" / "runs").is_dir()


def test_urls_are_left_as_they_are(written: Any) -> None:
    assert written("table.path=s3://bucket/a.csv").source()["path"] == "s3://bucket/a.csv"


def test_a_model_is_named_after_its_job_unless_told_otherwise(written: Any) -> None:
    assert written().model_name == "people-gbdt"
    assert written("publish.model=other").model_name == "other"


@pytest.mark.parametrize(("table", "column"), [("german", "month"), ("german-sex", "month")])
def test_a_number_has_no_list_of_all_values(table: str, column: str, tmp_path: Path) -> None:
    """However it is encoded."""
    path = tmp_path / "job.yaml"
    changes = {"evaluate": {"counterfactuals": {"longer": {column: "all"}}}}
    path.write_text(yaml.safe_dump({"name": "one", "table": table, "method": "gbdt", **changes}))
    with pytest.raises(InputError, match=f"'longer': '{column}' is a number: list values, not all"):
        resolve(*load_job(str(path)))
    assert resolve(
        *load_job(str(path), [f"evaluate.counterfactuals={{longer: {{{column}: [6, 60]}}}}"])
    )


def test_gates_of_intersections_are_left_to_the_data(written: Any) -> None:
    gate = "gates={gap_max.age&sex: {max: 0.5}}"
    assert written("evaluate.intersections=true", gate).job.gates
    with pytest.raises(InputError, match="names no metric"):
        written("evaluate.intersections=false", gate)


@pytest.mark.parametrize("name", sorted(shipped_jobs()))
def test_every_shipped_job_fits_its_contract_and_its_name(name: str) -> None:
    job, _ = load_job(name)
    resolved = resolve(job, ".")
    assert job.name == name
    table, method, *balanced = name.split("-")
    # the census is Adult with all its attributes; the others are as the paper of the method has
    # them
    table = {
        "adult-dadi": "census",
        "bank-faias": "bank-age",
        "bios-nn": "bios-generated",
        "bios-sensei": "bios-generated",
        "compas-faias": "compas-charges",
        "german-faias": "german-sex",
    }.get(name, table)
    # the stand-in has the contract of the table that it stands for
    stands_in = name.startswith("bios")
    hidden = {"hiring-blind": ["gender"], "hiring-blind-club": ["gender", "club"]}.get(name)
    if hidden is not None:
        method, balanced = "gbdt", []
        assert job.leave_out == hidden
        assert not {column.name for column in resolved.contract.features} & {*hidden}
    assert job.contract == ("bios" if stands_in else None)
    # a name says the kind of proxy no nearer
    assert (job.table.name, resolved.method.removeprefix("relaxed-")) == (table, method)
    assert resolved.method in (*METHODS, *PROXIES)
    assert balanced == (["balanced"] if job.balance else [])
    contract = load_contract(job.contract or table)
    columns = {column.name for column in contract.columns}
    for changes in job.evaluate.counterfactuals.values():
        assert set(changes) <= columns
    for metric in job.paper.row if job.paper else ():
        kind, _, subject = metric.partition(".")
        known = job.evaluate.counterfactuals if kind == "consistency" else columns
        assert not subject or subject in known
    assert shipped_jobs()[name]


def test_a_job_restricts_its_methods_to_some_sensitive_columns() -> None:
    from evenhand.flows import classifier_jobs as classifier

    told: dict[str, Any] = {}

    class Steps:
        engine = SimpleNamespace(execution=SimpleNamespace(workers_free=()))

        def __call__(self, name: str, parameters: Any, inputs: Any, **others: Any) -> None:
            told[name] = parameters

        def output(self, step: str, name: str) -> str:
            return f"{step}/{name}"

        def has_output(self, step: str, name: str) -> bool:
            return False

        def facts(self, step: str) -> dict[str, Any]:
            return {"train_rows": 100, "features": 5} if step == "preprocess" else {}

    for method, expected in (("faias", ["sex"]), ("reweigh", ["sex"]), ("logistic", None)):
        resolved = resolve(*load_job("compas-faias", [f"method={method}"]))
        classifier.train_and_measure(resolved, Steps())  # type: ignore[arg-type]
        assert told["train"].get("sensitive") == expected
        # what is measured is not restricted
        assert "average_odds_difference.race" in resolved.known_metrics
    with pytest.raises(
        InputError, match="sensitive names 'age'.*; the contract's sensitive columns are sex, race"
    ):
        resolve(*load_job("compas-faias", ["sensitive=[age]"]))
    with pytest.raises(
        InputError, match="method.attributes names 'race'; the sensitive columns are sex"
    ):
        resolve(*load_job("compas-faias", ["method.attributes=[race]"]))


@pytest.mark.data
@pytest.mark.parametrize(
    "table",
    ["adult", "bank", "bank-age", "census", "compas", "compas-charges", "german", "german-sex"],
)
def test_every_shipped_contract_fits_its_table(table: str, data_folder: Path) -> None:
    from evenhand.fairlib.datasets.recipes import RECIPES

    recipe = RECIPES[table]
    frame = recipe.read({raw.name: data_folder / raw.name for raw in recipe.files})
    assert list(map(str, frame.columns)) == [column.name for column in load_contract(table).columns]


def test_a_job_that_ran_can_be_run_again(bench: Any) -> None:
    """The run's folder keeps the job with its overrides."""
    done = bench.run("--set", "gates.auc.min=1.01", "--set", "method.eta=0.25", "--json")
    kept = yaml.safe_load(Path(done.json["artifacts"]["job"]).read_text())
    assert kept["method"]["eta"] == 0.25
    assert kept["gates"] == {"auc": {"min": 1.01}}
    kept["contract"] = "people.contract.yaml"
    (bench.folder / "again.yaml").write_text(yaml.safe_dump(kept))
    again = bench.run("--json", job="again.yaml")
    assert set(again.json["cached"]) == set(again.json["seconds"])


@pytest.mark.parametrize(
    ("job", "change", "fault"),
    [
        ("adult-gbdt", "method.base_score=2", r"method gbdt: base_score must be .*, got 2.0\.$"),
        (
            "adult-sensei",
            "method.n_steps=0",
            "method sensei: n_steps must be a whole number, at least 1",
        ),
        ("bank-proxy", "method.alpha=2", "method proxy: alpha must be "),
    ],
)
def test_what_a_method_refuses_ends_a_run_before_it_begins(
    job: str, change: str, fault: str
) -> None:
    with pytest.raises(InputError, match=fault):
        resolve(*load_job(job, [change]))


def test_a_split_names_a_person_unless_the_job_says_a_group() -> None:
    people = Split(by="nr")
    # the key of the step is that of a job without the key
    assert people.parameters() == {"test": 0.2, "by": "nr", "hash": None, "stratify": True}
    assert Split(by="word", unit="group").parameters()["unit"] == "group"
    with pytest.raises(ValidationError, match="give by, or leave unit out"):
        Split(unit="group")


def test_legitimate_columns_are_of_the_job_or_else_the_contract(bench: Any) -> None:
    bench.properties["income"]["customProperties"].append({"property": "legitimate", "value": True})
    place = str(bench.write())
    for override, names in (
        ("fair_metric={kind: learned}", ["income"]),
        ("fair_metric={kind: learned, legitimate: []}", []),
        ("fair_metric={kind: learned, legitimate: [job]}", ["job"]),
        ("fair_metric={kind: sensitive-subspace}", ["income"]),
    ):
        resolved = resolve(*load_job(place, ["method=project", override]))
        assert resolved.legitimate == names
        assert getattr(resolved.job.fair_metric, "legitimate", names) == names
        # steps do not see the mark: only the fair metric is learned anew
        assert resolved.contract.legitimate == ()
    left_out = resolve(*load_job(place, ["leave_out=[income]", "fair_metric={kind: learned}"]))
    assert left_out.legitimate == []


def test_adapted_copies_are_named_among_counterfactuals(written: Any) -> None:
    learned = "fair_metric={kind: learned}"
    named = "evaluate.counterfactuals={work: {job: all}, counterpart: adapted}"
    resolved = written("method=project", learned, named)
    assert resolved.job.evaluate.adapted == ["counterpart"]
    assert [*resolved.job.evaluate.counterfactuals] == ["work"]
    assert {"consistency.work", "consistency.counterpart"} <= {*resolved.known_metrics}
    # as the job of a step has it, and a method without a metric measures them too
    again = written("method=gbdt", learned, "evaluate={adapted: [counterpart]}")
    assert again.job.evaluate.adapted == ["counterpart"]
    assert "consistency.counterpart" in again.known_metrics
    assert written("method={name: clp}", learned, named).job.evaluate.adapted


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["evaluate.counterfactuals={twin: adapted}"], "set fair_metric.kind to learned"),
        (
            [
                "fair_metric={kind: learned}",
                "evaluate={counterfactuals: {twin: {job: all}}, adapted: [twin]}",
            ],
            "the counterfactual 'twin' is defined twice",
        ),
        (["evaluate.counterfactuals={twin: adaptd}"], "evaluate.counterfactuals"),
    ],
)
def test_adapted_copies_without_a_metric_are_refused(
    written: Any, overrides: list[str], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        written(*overrides)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def metric_report(label_auc: list[float], *verdicts: str) -> dict[str, Any]:
    columns = [{"column": f"c{n}", "verdict": verdict} for n, verdict in enumerate(verdicts)]
    return {"columns": columns, "label_auc": label_auc}


def test_a_run_says_where_a_learned_metric_gains_nothing() -> None:
    alone = metric_note(metric_report([0.8, 0.8], "sensitive", "kept"))
    assert alone is not None
    assert "to leave out the sensitive attributes is enough" in alone
    removed = metric_note(metric_report([0.8, 0.8], "sensitive", "removed", "kept"))
    assert removed is not None
    assert "only removes c1: it gains nothing over leaving these columns" in removed
    assert metric_note(metric_report([0.8, 0.75], "removed", "steps")) is None
    much = metric_note(metric_report([0.8, 0.7], "removed", "steps"))
    assert much is not None
    assert "fair_metric.legitimate" in much


@pytest.mark.parametrize("method", ["project", "budro"])
def test_no_proof_is_asked_of_a_model_on_adapted_columns(bench: Any, method: str) -> None:
    for name in ("age", "sex"):
        bench.properties[name]["customProperties"].append({"property": "use", "value": "feature"})
    place = str(bench.write())
    learned = [f"method={method}", "fair_metric={kind: learned}", "evaluate.certificate.budget=0.1"]
    resolved = resolve(*load_job(place, learned))
    assert "certificate.drf" in resolved.known_metrics
    assert not {*PROVED} & {*resolved.known_metrics}
    proved = f"gates={{{PROVED[-1]}: {{max: 1}}}}"
    for asks, named in ((proved, PROVED[-1]), ("evaluate.proof_parts=4", "evaluate.proof_parts")):
        with pytest.raises(InputError, match=f"{named} asks for a proof, and {method} with"):
            resolve(*load_job(place, [*learned, asks]))
    # with another metric the method has proofs
    other = [learned[0], *learned[2:], proved]
    assert resolve(*load_job(place, other))


def test_metrics_of_a_fair_metric_are_of_methods_that_take_one(written: Any) -> None:
    learned = "fair_metric={kind: learned}"
    leaks = {"metric_leak.age", "metric_leak.sex"}
    both = {*written("method=project", learned).known_metrics}
    assert leaks | {"adapted_consistency"} <= both
    subspace = {*written("method=project").known_metrics}
    assert leaks <= subspace
    assert "adapted_consistency" not in subspace
    without = {*written("method=gbdt", learned).known_metrics}
    assert without.isdisjoint(leaks | {"adapted_consistency"})
