"""Two thousand odd files: each ends with one line and no internal fault, and leaves no half result."""

from __future__ import annotations

import http.server
import random
import resource
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.attempts import attempt, make_folder
from tests.chaos.fuzz import document_case, predict_case, table_case

LEFT = {"people.csv", "people.yaml", "people.contract.yaml", "loop.csv", "loop.yaml", "store"}
MEMORY_KB = 2_000_000
# Cases of each kind in the long test; they are 2,000.
TABLES = 900
DOCUMENTS = 700
PREDICTIONS = 200
ANSWERS = 100
BUNDLES = 100


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("fuzzing") / "w"
    make_folder(place)
    return place


def check(folder: Path, case: dict[str, Any]) -> None:
    """Nothing but a result or one line, and nothing half-written."""
    code, out, err = attempt(folder, case)
    described = (case["command"], out[-300:], err[-500:])
    assert code in (0, 1, 2, 3), described
    assert "Traceback" not in err, described
    assert not (folder / "pwned").exists()
    output = folder / "out"
    if code == 2:
        last = err.strip().splitlines()[-1]
        assert last.startswith("evenhand: "), described
        assert last.isprintable(), described
        assert "internal fault" not in err, described
        made = [path for path in output.rglob("*") if path.is_file()]
        assert not [path for path in made if path.parent.name != "_evenhand"], described
    shutil.rmtree(output, ignore_errors=True)
    left = {path.name for path in folder.iterdir()}
    assert left <= LEFT, described


def check_all(folder: Path, cases: Iterator[tuple[int, dict[str, Any]]]) -> None:
    """All cases; the message has the numbers of those that fail."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    failures = []
    for number, case in cases:
        try:
            check(folder, case)
        except AssertionError as error:
            failures.append((number, str(error).splitlines()[0][:700]))
            shutil.rmtree(folder / "out", ignore_errors=True)
    assert failures == [], "\n".join(map(str, failures))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY_KB


def test_a_few_odd_files(folder: Path) -> None:
    check_all(folder, ((number, table_case(number)) for number in range(6)))
    check_all(folder, ((number, document_case(number)) for number in range(6)))


@pytest.mark.long
def test_odd_tables(folder: Path) -> None:
    check_all(folder, ((number, table_case(number)) for number in range(TABLES)))


@pytest.mark.long
def test_odd_jobs_and_contracts(folder: Path) -> None:
    check_all(folder, ((number, document_case(number)) for number in range(DOCUMENTS)))


@pytest.mark.long
def test_odd_rows_for_a_model(folder: Path) -> None:
    assert attempt(folder, {"command": ["run", "people.yaml", "--direct"]})[0] == 0
    check_all(folder, ((number, predict_case(number)) for number in range(PREDICTIONS)))


@pytest.mark.long
def test_odd_model_folders(folder: Path) -> None:
    """One damaged file each; none is used to predict with other numbers."""
    from tests.chaos.fuzz import damaged

    assert attempt(folder, {"command": ["run", "people.yaml", "--direct"]})[0] == 0
    models = [path.parent for path in (folder / "store").rglob("MLmodel")]
    files = [path for path in sorted(models[0].rglob("*")) if path.is_file()]
    copy = folder / "store" / "copy"
    for number in range(BUNDLES):
        chance = random.Random(number)
        shutil.copytree(models[0], copy)
        place = copy / chance.choice(files).relative_to(models[0])
        place.write_bytes(damaged(place.read_bytes(), chance))
        command = ["predict", str(copy), "--direct", "--input", "people.csv", "--output", "out"]
        try:
            check(folder, {"command": command})
        finally:
            shutil.rmtree(copy)
            shutil.rmtree(folder / "out", ignore_errors=True)


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers with odd states, headers and bodies, by the number in the address."""

    table: bytes = b""

    def do_GET(self) -> None:
        number = int(self.path.split("/")[1])
        chance = random.Random(number)
        kind = chance.randrange(8)
        body = self.table
        if kind == 0:
            self.send_error(chance.choice((400, 403, 404, 410, 429)))
            return
        if kind == 1:
            self.wfile.write(chance.randbytes(200))
            self.close_connection = True
            return
        self.send_response(200)
        if kind == 2:
            self.send_header("Content-Length", str(len(body) + 1000))
        elif kind == 3:
            self.send_header("Content-Length", "minus one")
        elif kind == 4:
            self.send_header("Content-Encoding", chance.choice(("gzip", "br", "odd")))
        elif kind == 5:
            self.send_header("Transfer-Encoding", "chunked")
            body = b"zz\r\n" + body
        elif kind == 6:
            body = b"<html>" + chance.randbytes(300)
        else:
            self.send_header("X" * 9000, "y")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    do_HEAD = do_GET

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.mark.long
def test_odd_answers_of_a_server(folder: Path) -> None:
    Answers.table = (folder / "people.csv").read_bytes()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        for number in range(ANSWERS):
            address = f"http://127.0.0.1:{server.server_port}/{number}/people.csv"
            command = ["init", address, "--label", "paid", "--sensitive", "sex", "--output", "out"]
            code, out, err = attempt(folder, {"command": command})
            assert code in (0, 2, 4), (number, out, err)
            assert "internal fault" not in err, (number, err)
            assert "Traceback" not in err, (number, err)
            assert code == 0 or not (folder / "out").exists(), (number, err)
            shutil.rmtree(folder / "out", ignore_errors=True)
    finally:
        server.shutdown()
        server.server_close()
