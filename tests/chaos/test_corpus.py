"""Bad input as data: every case of corpus.yaml gets exit code 2 and one line, and leaves nothing
behind.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chaos.attempts import attempt, make_folder

CORPUS: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "corpus.yaml").read_text())


def cases() -> list[tuple[str, dict[str, Any], str]]:
    """Name, command with its files, and words of the expected line of each case."""
    run = ["run", "people.yaml", "--direct", "--set"]
    found = [(name, {"command": [*run, name]}, says) for name, says in CORPUS["settings"].items()]
    for name, case in CORPUS["job_files"].items():
        files = {"bad.yaml": case["text"]}
        found.append(
            (name, {"command": ["run", "bad.yaml", "--direct"], "files": files}, case["says"])
        )
    for name, case in CORPUS["tables"].items():
        given = {"command": [*run, "table.path=bad.csv"], "files": {"bad.csv": case["bytes"]}}
        found.append((name, given, case["says"]))
    found += [(" ".join(case["command"]), case, case["says"]) for case in CORPUS["commands"]]
    return found


ALL = cases()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("corpus") / "w"
    make_folder(made)
    return made


def check(folder: Path, case: dict[str, Any], says: str) -> None:
    before = sorted(path.name for path in folder.iterdir())
    code, out, err = attempt(folder, case)
    lines = err.splitlines()
    assert (code, len(lines), out) == (2, 1, ""), (code, out, err)
    assert lines[0].startswith("evenhand: ")
    assert says in lines[0], lines[0]
    assert "\x1b" not in err
    assert sorted(path.name for path in folder.iterdir() if path.name != "store") == [
        name for name in before if name != "store"
    ]
    assert not list((folder / "store" / "steps").glob("publish/*"))
    assert not (folder / "pwned").exists()


def test_there_are_three_hundred() -> None:
    assert len(ALL) >= 300
    assert len({str(case) for _, case, _ in ALL}) == len(ALL)


@pytest.mark.parametrize(
    ("name", "case", "says"), ALL[::17], ids=[name for name, _, _ in ALL[::17]]
)
def test_a_sample_of_bad_input(folder: Path, name: str, case: dict[str, Any], says: str) -> None:
    check(folder, case, says)


@pytest.mark.long
@pytest.mark.parametrize(("name", "case", "says"), ALL, ids=[name for name, _, _ in ALL])
def test_all_bad_input(folder: Path, name: str, case: dict[str, Any], says: str) -> None:
    check(folder, case, says)
