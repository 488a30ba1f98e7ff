"""Jobs over a base: what is merged, removed and refused, and that every verb sees the whole job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from evenhand.fairlib.tuning.study import Trial
from evenhand.flows.job import Job
from evenhand.flows.job_file import JOBS, load_job, shipped_jobs
from evenhand.flows.sweep import make_grid
from evenhand.flows.tune_job import tuned_text
from evenhand.flows.tune_plan import make_plan
from evenhand.tasks.errors import InputError
from evenhand.tasks.tuning.trial_search import JOB
from tests.flows.people import Bench

BASE: dict[str, Any] = {
    "name": "trees",
    "description": "The base.",
    "table": {"name": "hiring", "rows": 300},
    "method": {"name": "gbdt", "eta": 0.1, "n_steps": 5},
    "decision": "own",
    "evaluate": {
        "draws": 200,
        "counterfactuals": {"gender": {"gender": "all"}, "both": {"gender": "all"}},
    },
    "gates": {"auc": {"min": 0.5, "bound": "interval"}, "gap_max.gender": {"max": 0.3}},
    "sensitive": ["gender"],
    "tuned": {"study": "s", "digest": "0" * 64},
}


@pytest.fixture
def merged(tmp_path: Path) -> Any:
    """The job of a file whose base is `BASE`, and the overrides of a command."""
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(BASE))

    def load(*overrides: str, **own: Any) -> Job:
        path = tmp_path / "own.yaml"
        path.write_text(yaml.safe_dump({"name": "own", "base": "base.yaml", **own}))
        return load_job(str(path), overrides)[0]

    return load


def test_mappings_merge_key_by_key_and_all_else_is_replaced(merged: Any) -> None:
    job = merged(
        method={"eta": 0.3}, gates={"auc": {"min": 0.6}}, sensitive=["other"], table={"rows": 400}
    )
    assert job.method == {"name": "gbdt", "eta": 0.3, "n_steps": 5}
    assert job.gates == {"auc": {"min": 0.6, "bound": "interval"}, "gap_max.gender": {"max": 0.3}}
    assert (job.sensitive, job.table.rows, job.evaluate.draws) == (["other"], 400, 200)


def test_a_base_gives_neither_the_name_nor_the_tuning_of_a_job(merged: Any) -> None:
    assert (merged().name, merged().description, merged().tuned) == ("own", "", None)
    with pytest.raises(InputError, match="the key 'name' is missing"):
        merged(name=None)


def test_null_removes_a_key_and_is_a_value_of_a_methods(merged: Any) -> None:
    job = merged(
        decision=None,
        method={"n_steps": None},
        gates={"gap_max.gender": None, "auc": {"bound": None}},
        evaluate={"counterfactuals": {"both": None}, "draws": None, "level": None},
    )
    assert job.decision.threshold is None
    assert job.method == {"name": "gbdt", "eta": 0.1, "n_steps": None}
    assert job.gates == {"auc": {"min": 0.5}}
    assert job.evaluate.counterfactuals == {"gender": {"gender": "all"}}
    assert (job.evaluate.draws, job.evaluate.level) == (1000, 0.95)


def test_another_method_or_table_replaces_the_section(merged: Any) -> None:
    """Another kind of metric replaces it, too."""
    assert merged(method={"name": "reweigh", "eta": 0.2}).method == {"name": "reweigh", "eta": 0.2}
    assert merged(method="gbdt").method == {"name": "gbdt"}
    assert merged(table={"name": "loans"}).table.rows is None
    face = {"kind": "face", "n_directions": 2}
    assert merged(fair_metric=face).fair_metric.kind == "face"


def test_short_forms_of_a_base_are_sections(merged: Any, tmp_path: Path) -> None:
    short = BASE | {"table": "hiring", "method": "gbdt", "fair_metric": {"learned": ["gender"]}}
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(short))
    metric = {"kind": "sensitive-subspace", "strength": 0.5}
    job = merged(
        table={"rows": 400}, method={"eta": 0.3}, decision={"folds": 3}, fair_metric=metric
    )
    assert (job.table.name, job.table.rows) == ("hiring", 400)
    assert job.method == {"name": "gbdt", "eta": 0.3}
    assert (job.decision.threshold, job.decision.folds) == ("own", 3)
    assert (job.fair_metric.learned, job.fair_metric.strength) == (["gender"], 0.5)
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(short | {"fair_metric": {"kind": "face"}}))
    assert merged(fair_metric={"n_directions": 2}).fair_metric.kind == "face"


def test_overrides_and_sweeps_change_the_merged_job(merged: Any, tmp_path: Path) -> None:
    job = merged("method.eta=0.4", "gates.auc.min=0.7", "decision.folds=2")
    assert job.method == {"name": "gbdt", "eta": 0.4, "n_steps": 5}
    assert job.gates["auc"] == {"min": 0.7, "bound": "interval"}
    assert (job.decision.threshold, job.decision.folds) == ("own", 2)
    grid = make_grid(str(tmp_path / "own.yaml"), ["method.eta=0.2,0.3"])
    methods = [point.resolved.job.method for point in grid.points]
    assert methods == [{"name": "gbdt", "eta": eta, "n_steps": 5} for eta in (0.2, 0.3)]


def test_bases_have_bases_and_may_be_shipped(merged: Any, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("base: hiring-blind\nmethod: {eta: 0.4}\n")
    shipped, _ = load_job("hiring-blind")
    job = merged(seed=3)
    assert job == shipped.model_copy(
        update={
            "name": "own",
            "description": "",
            "seed": 3,
            "method": shipped.method | {"eta": 0.4},
        }
    )


@pytest.mark.parametrize(
    ("base", "words"),
    [
        ("absent.yaml", "job .*own.yaml: base: there is no job file absent.yaml"),
        ("hiring-gbd", "base: there is no job 'hiring-gbd' .did you mean 'hiring-gbdt'"),
        ("../base.yaml", "base: '../base.yaml' is neither a shipped job nor the name of a file"),
        (3, "base: 3 is neither a shipped job nor"),
        ("own.yaml", "base: own.yaml is its own base"),
        ("circle.yaml", "base: own.yaml is its own base"),
        ("broken.yaml", "base: the job broken.yaml is not valid YAML at line 3"),
        ("list.yaml", "base: the job list.yaml must be a mapping"),
    ],
)
def test_a_wrong_base_gets_one_line(merged: Any, tmp_path: Path, base: Any, words: str) -> None:
    (tmp_path / "circle.yaml").write_text("base: own.yaml\n")
    (tmp_path / "broken.yaml").write_text("a: 1\nb: [\n")
    (tmp_path / "list.yaml").write_text("- a\n")
    with pytest.raises(InputError, match=words) as caught:
        merged(base=base)
    assert "\n" not in str(caught.value)


def test_a_later_base_has_its_keys_over_those_of_an_earlier_one(
    merged: Any, tmp_path: Path
) -> None:
    (tmp_path / "trees.yaml").write_text(
        "name: x\ntuned: 3\nseed: 4\nmethod: {eta: 0.6, max_depth: 2}\n"
    )
    job = merged(base=["base.yaml", "trees.yaml"], method={"n_steps": 9})
    # a method without a name is not another one, on either side
    assert job.method == {"name": "gbdt", "eta": 0.6, "max_depth": 2, "n_steps": 9}
    assert (job.seed, job.tuned, job.table.name) == (4, None, "hiring")
    job = merged(base=["trees.yaml", "base.yaml"])
    assert job.method == {"name": "gbdt", "eta": 0.1, "max_depth": 2, "n_steps": 5}
    with pytest.raises(InputError, match="base: own.yaml is its own base"):
        merged(base=["base.yaml", "own.yaml"])


def test_a_base_may_have_a_papers_table(merged: Any, tmp_path: Path) -> None:
    """A job shows the row of its method."""
    table = {"auc": [[0.7, 0.1], [0.8, None]], "ece": [[0.1, 0.0], [0.2, 0.0]]}
    paper = {"source": "a paper", "methods": ["reweigh", "gbdt"], "table": table}
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(BASE | {"paper": paper}))
    row = {"auc": (0.8, None), "ece": (0.2, 0.0)}
    assert merged().paper.model_dump() == {"source": "a paper", "row": row}
    assert merged(method="reweigh").paper.row["auc"] == (0.7, 0.1)
    assert merged(method="nn").paper is None
    own = merged(paper={"source": "another", "row": {"auc": [0.9, None]}}).paper
    assert own.model_dump() == {"source": "another", "row": {"auc": (0.9, None)}}
    for wrong in (
        {"table": None},
        {"table": {"auc": [[0.7, 0.1]]}},
        {"methods": 3},
        {"table": {"auc": 1}},
    ):
        with pytest.raises(
            InputError, match="paper: needs a list of methods, and a table of metrics"
        ):
            merged(paper=wrong)


def test_shipped_bases_are_no_jobs() -> None:
    bases = {path.stem for path in JOBS.glob("_*.yaml")}
    assert bases
    assert not bases & set(shipped_jobs())
    for name in bases:
        with pytest.raises(InputError, match=f"there is no job '{name}'"):
            load_job(name)


def split_in_two(bench: Bench) -> Path:
    """Write the bench's job as a base with all keys and a job with the name alone; return the job's
    path.
    """
    bench.write().rename(bench.folder / "base.yaml")
    path = bench.folder / "job.yaml"
    path.write_text(f"name: {bench.job['name']}\nbase: base.yaml\n")
    return path


def test_a_job_file_of_that_name_is_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.yaml").write_text("name: people\n")
    with pytest.raises(InputError, match=r"no job 'people' \(did you mean the file 'people.yaml'"):
        load_job("people")


@pytest.mark.long
def test_a_run_keeps_the_whole_job_and_shares_its_steps(
    bench: Bench,
) -> None:
    """It shares them with the same job in one file."""
    whole = bench.run("--json", "--set", "description=one").json
    done = bench.run("--json", "--set", "description=one", job=split_in_two(bench))
    assert set(done.json["cached"]) == set(done.json["seconds"]), done.err
    kept = yaml.safe_load(Path(done.json["artifacts"]["job"]).read_text())
    assert kept == yaml.safe_load(Path(whole["artifacts"]["job"]).read_text())
    assert "base" not in kept


def test_a_tuned_job_is_whole(bench: Bench) -> None:
    """Its paths are relative to the job's folder."""
    plan = make_plan(str(split_in_two(bench)))
    assert plan.target == bench.folder / "job.tuned.yaml"
    text = tuned_text(plan, Trial(0, JOB, "judged"), 300, {"study": "s", "digest": "0" * 64})
    assert "base" not in yaml.safe_load(text)
    plan.target.write_text(text)
    tuned, _ = load_job(str(plan.target))
    assert (tuned.table, tuned.method) == (plan.resolved.job.table, plan.resolved.job.method)
    assert plan.resolved.source()["path"] == str(bench.folder / "people.csv")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("peple.yaml", "there is no job file peple.yaml (did you mean 'people.yaml'?)"),
        ("people.csv", "people.csv is a table, and no job: `evenhand init people.csv"),
        ("people.parquet", "people.parquet is a table, and no job"),
        ("folder.yaml", "the job folder.yaml is a folder: give the job's file"),
        ("latin.yaml", "the job file latin.yaml cannot be read as UTF-8 text"),
    ],
)
def test_what_is_no_job_gets_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    (tmp_path / "people.yaml").write_text("name: people\n")
    (tmp_path / "people.csv").write_text("a,b\n1,2\n")
    (tmp_path / "people.parquet").write_bytes(b"PAR1\xff\xfe")
    (tmp_path / "latin.yaml").write_bytes("name: größe\n".encode("latin-1"))
    (tmp_path / "folder.yaml").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        load_job(name)
    assert says in str(caught.value)
