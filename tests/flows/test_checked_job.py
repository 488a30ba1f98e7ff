"""What is kept of a checked job, and what makes a job checked, or a model trained, anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evenhand.flows import checked_job, resolved_job
from evenhand.flows.checked_job import answer_by_code, method_traits
from evenhand.flows.engine import DirectEngine
from evenhand.flows.job_file import load_job
from evenhand.flows.resolved_job import resolve
from evenhand.flows.unchanged import find_unchanged
from evenhand.tasks.errors import InputError
from evenhand.tasks.execution.store import Store
from evenhand.tasks.registry import client


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    checked_job.method_traits.cache_clear()
    return tmp_path / "cache" / "evenhand" / "checked"


class Asked:
    """Counts how often it was asked."""

    def __init__(self, answer: Any = 1) -> None:
        self.answer = answer
        self.times = 0

    def __call__(self) -> Any:
        self.times += 1
        return self.answer


@pytest.mark.parametrize("changed", ["code", "library", "python", "question", "module"])
def test_any_change_of_code_or_question_asks_again(
    kept: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    ask = Asked({"eta": 0.1, "n": 3})
    question: Any = ["arguments", "gbdt", {"n": 3}]
    modules = ["evenhand.fairlib.methods.gbdt"]
    for _ in range(2):
        assert answer_by_code(question, modules, ask) == {"eta": 0.1, "n": 3}
    assert ask.times == 1
    if changed == "code":
        monkeypatch.setattr(checked_job, "code_digest", lambda modules: "another")
    elif changed == "library":
        monkeypatch.setattr(checked_job, "library_versions", lambda names: {"pydantic": "0"})
    elif changed == "python":
        monkeypatch.setattr(checked_job.platform, "python_version", lambda: "9.9.9")
    elif changed == "module":
        modules = ["evenhand.fairlib.methods.sensei"]
    else:
        question = ["arguments", "gbdt", {"n": 3.0}]
    answer_by_code(question, modules, ask)
    assert ask.times == 2


def test_two_installations_keep_an_answer_each(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they shared one, every run of either asked anew, and took twice as long."""
    asked = {"old": Asked("a"), "new": Asked("b")}
    for _ in range(3):
        for release, ask in asked.items():
            monkeypatch.setattr(checked_job, "ROOT", Path("/opt") / release)
            code = f"code of {release}"
            monkeypatch.setattr(checked_job, "code_digest", lambda modules, code=code: code)
            assert answer_by_code("a question", [], ask) == ask.answer
    assert [ask.times for ask in asked.values()] == [1, 1]


def test_what_json_would_change_is_not_kept(kept: Path) -> None:
    for answer in ((1, 2), {"a": {1, 2}}, float("nan"), {1: "a"}):
        ask = Asked(answer)
        for _ in range(2):
            assert answer_by_code("tuple", [], ask) is answer
        assert ask.times == 2
    for question in ({1: "a"}, {"when": kept}):
        ask = Asked()
        for _ in range(2):
            answer_by_code(question, [], ask)
        assert ask.times == 2
    assert not kept.exists()


def test_a_damaged_or_closed_cache_is_none(kept: Path) -> None:
    ask = Asked("yes")
    answer_by_code("a question", [], ask)
    (file,) = kept.iterdir()
    for text in ("", "{", "[]", "null", '{"answer": "no"}', "\xff"):
        file.write_bytes(text.encode("latin-1"))
        assert answer_by_code("a question", [], ask) == "yes"
    assert json.loads(file.read_text())["answer"] == "yes"
    file.unlink()
    kept.rmdir()
    kept.write_text("a file in place of the folder")
    assert answer_by_code("a question", [], ask) == "yes"


def test_a_refused_argument_is_refused_each_time(kept: Path, bench: Any) -> None:
    for _ in range(2):
        with pytest.raises(InputError, match=r"method\.n_steps"):
            resolve(*load_job(str(bench.write()), ["method.n_steps=many"]))
        with pytest.raises(InputError, match="unknown key"):
            resolve(*load_job(str(bench.write()), ["method.steps=3"]))


def test_traits_are_those_of_the_class(kept: Path) -> None:
    assert "perturbation_budget" in method_traits("sensei").parameters
    assert "perturbation_budget" not in method_traits("gbdt").parameters
    assert method_traits("gbdt").parameters[0] == "self"


def test_a_checked_job_imports_no_method_again(
    kept: Path, champion: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = str(champion.write())
    first = resolve(*load_job(job))
    assert _unchanged(champion, job) == ("1", "1")
    checked_job.method_traits.cache_clear()

    def refused(*_: Any) -> Any:
        raise AssertionError("a library is imported")

    monkeypatch.setattr(checked_job, "method_class", refused)
    monkeypatch.setattr(resolved_job, "method_class", refused)
    # MLflow too: the registry's answers are kept with the state of its file
    monkeypatch.setattr(client, "registry_client", refused)
    assert resolve(*load_job(job)) == first
    assert _unchanged(champion, job) == ("1", "1")


def _unchanged(bench: Any, job: str, *overrides: str) -> tuple[str, str | None] | None:
    store = Store(str(bench.store))
    engine = DirectEngine(store)
    unchanged = find_unchanged(resolve(*load_job(job, overrides)), store, engine)
    return unchanged and unchanged[:2]


def test_every_kind_of_change_is_noticed_one_at_a_time(
    kept: Path, champion: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = str(champion.write())
    for _ in range(2):
        assert _unchanged(champion, job) == ("1", "1")
    # the job
    for override in ("seed=7", "method.n_steps=3", "gates.auc.min=0.4", "split.test=0.4"):
        assert _unchanged(champion, job, override) is None, override
    # the code and the environment, each of them also a part of the keys of the steps
    for name in ("code_digest", "library_versions"):
        with monkeypatch.context() as patch:
            patch.setattr(resolved_job, name, lambda *_: "another")
            assert _unchanged(champion, job) is None, name
    # the data, by one byte of the same length and time
    table = champion.folder / "people.csv"
    content = table.read_bytes()
    changed = content[:-2] + bytes([content[-2] ^ 1]) + content[-1:]
    table.write_bytes(changed)
    assert _unchanged(champion, job) is None
    table.write_bytes(content)
    assert _unchanged(champion, job) == ("1", "1")
    # the contract
    contract = next(champion.folder.glob("*contract*"))
    text = contract.read_text()
    contract.write_text(text.replace("version: 1.0.0", "version: 1.0.1"))
    assert contract.read_text() != text
    assert _unchanged(champion, job) is None
    contract.write_text(text)
    # the registry: the version is damaged
    assert _unchanged(champion, job) == ("1", "1")
