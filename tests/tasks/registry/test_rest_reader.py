"""Reading an MLflow server without MLflow: by a server that answers as MLflow's does."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from evenhand.fairlib.file_digests import ListedFile
from evenhand.tasks.registry import client as registry
from evenhand.tasks.registry.rest_reader import UnusualAnswer, can_read, rest_reader

FILES = {"m/a.json": b"{}", "m/code/b c.py": b"x = 1\n"}
PAGES = {
    "": {"model_versions": [{"version": 2, "status": "READY"}], "next_page_token": "more"},
    "more": {"model_versions": [{"version": "1", "tags": [{"key": "k", "value": "v"}]}]},
}
MODEL = {"name": "m", "aliases": [{"alias": "champion", "version": "2"}]}
LISTED = {
    "m": [{"path": "a.json"}, {"path": "code", "is_dir": True}],
    "m/code": [{"path": "b c.py"}],
}


class Server(http.server.ThreadingHTTPServer):
    """Answers some of MLflow's questions, and keeps the headers that it got."""

    def __init__(self) -> None:
        self.authorisations: list[str | None] = []
        self.asked: list[str] = []
        self.form = "plain"
        self.listed: dict[str, Any] = dict(LISTED)
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.authorisations.append(self.headers["Authorization"])
                content = server.answer(self.path)
                status = 200
                if content is None:
                    status = 404
                    content = b"{}"
                self.send_response(status)
                if server.form == "chunked":
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    self.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(content), content))
                    return
                length = len(content) + (server.form == "cut")
                self.send_header("Content-Length", str(length))
                if server.form != "plain":
                    self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        super().__init__(("127.0.0.1", 0), Handler)

    def answer(self, address: str) -> bytes | None:
        """Return the bytes of an address; None if there is nothing."""
        self.asked.append(address.rpartition("/")[2])
        parts = urlsplit(address)
        query = parse_qs(parts.query)
        path = parts.path.removeprefix("/base")
        if path.endswith("/registered-models/get") and query["name"] == ["m"]:
            return json.dumps({"registered_model": MODEL}).encode()
        if path.endswith("/model-versions/search"):
            return json.dumps(PAGES[query.get("page_token", [""])[0]]).encode()
        if path == "/api/2.0/mlflow-artifacts/artifacts":
            return json.dumps({"files": self.listed.get(query["path"][0], [])}).encode()
        name = path.removeprefix("/api/2.0/mlflow-artifacts/artifacts/").replace("%20", " ")
        return FILES.get(name)


@contextmanager
def serving() -> Iterator[tuple[Server, str]]:
    server = Server()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}/base"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[Server, str]]:
    """A server, and nothing set that only MLflow's client knows."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving() as (server, address):
        yield server, address


def test_versions_aliases_and_pages_are_those_of_the_server(mlflow: tuple[Server, str]) -> None:
    _, uri = mlflow
    tags = registry.read_registry(uri, lambda client: registry.tags_of_versions(client, "m"))
    assert tags == {"2": {}, "1": {"k": "v"}}
    model = registry.read_registry(uri, lambda client: client.get_registered_model("m"))
    assert model.aliases == {"champion": "2"}
    assert model.tags == {}


def test_files_are_copied_with_their_folders(mlflow: tuple[Server, str], tmp_path: Path) -> None:
    _, uri = mlflow
    with rest_reader(uri) as reader:
        reader.copy_files("mlflow-artifacts:/m", tmp_path / "copy")
    copied = {path.name: path.read_bytes() for path in (tmp_path / "copy").rglob("*.*")}
    assert copied == {"a.json": b"{}", "b c.py": b"x = 1\n"}


@pytest.mark.parametrize("form", ["chunked", "closing"])
def test_answers_in_other_forms_are_read_too(
    mlflow: tuple[Server, str], tmp_path: Path, form: str
) -> None:
    server, uri = mlflow
    server.form = form
    with rest_reader(uri) as reader:
        reader.copy_files("mlflow-artifacts:/m", tmp_path)
        assert reader.get_registered_model("m").name == "m"
    assert (tmp_path / "code" / "b c.py").read_bytes() == b"x = 1\n"


def test_an_answer_that_is_cut_off_counts_for_nothing(mlflow: tuple[Server, str]) -> None:
    server, uri = mlflow
    server.form = "cut"
    with pytest.raises(UnusualAnswer), rest_reader(uri) as reader:
        reader.get_registered_model("m")


def listed_file(content: bytes) -> ListedFile:
    return ListedFile(hashlib.sha256(content).hexdigest(), len(content))


def test_a_served_file_is_compared_by_its_bytes(mlflow: tuple[Server, str], tmp_path: Path) -> None:
    _, uri = mlflow
    with rest_reader(uri) as reader:
        files = reader.files_at("mlflow-artifacts:/m")
        assert files.entries() == ({"a.json": False, "code": True, "code/b c.py": False}, {})
        assert files.is_listed("a.json", listed_file(b"{}"), tmp_path / "copy" / "a.json")
        assert not files.is_listed("a.json", listed_file(b"[]"), None)
    assert (tmp_path / "copy" / "a.json").read_bytes() == b"{}"


def test_a_served_file_of_another_size_is_not_fetched(mlflow: tuple[Server, str]) -> None:
    server, uri = mlflow
    server.listed["m"] = [{"path": "a.json", "file_size": 10**12}]
    with rest_reader(uri) as reader:
        files = reader.files_at("mlflow-artifacts:/m")
        files.entries()
        assert not files.is_listed("a.json", listed_file(b"{}"), None)
    assert "a.json" not in server.asked


@pytest.mark.parametrize("name", ["..", "a/..", "", "a\\b"])
def test_a_name_that_leads_elsewhere_is_not_followed(
    mlflow: tuple[Server, str], tmp_path: Path, name: str
) -> None:
    server, uri = mlflow
    server.listed["m"] = [{"path": name, "is_dir": True}]
    with pytest.raises(UnusualAnswer), rest_reader(uri) as reader:
        reader.copy_files("mlflow-artifacts:/m", tmp_path / "copy")


def test_what_is_absent_is_asked_of_mlflow_again(
    mlflow: tuple[Server, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow's client raises the error that callers expect."""
    _, uri = mlflow

    @contextmanager
    def client(address: str) -> Iterator[str]:
        assert address == uri
        yield "the client of MLflow"

    monkeypatch.setattr(registry, "registry_client", client)

    def read(asked: Any) -> Any:
        if asked == "the client of MLflow":
            return "its answer"
        return asked.get_registered_model("absent")

    assert registry.read_registry(uri, read) == "its answer"


@pytest.mark.parametrize(
    ("variables", "header"),
    [
        ({"MLFLOW_TRACKING_USERNAME": "u", "MLFLOW_TRACKING_PASSWORD": "p"}, "Basic dTpw"),
        ({"MLFLOW_TRACKING_TOKEN": "t"}, "Bearer t"),
        ({}, None),
    ],
)
def test_names_and_tokens_are_sent_as_mlflow_does(
    mlflow: tuple[Server, str],
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    header: str | None,
) -> None:
    server, uri = mlflow
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    registry.read_registry(uri, lambda client: client.get_registered_model("m"))
    assert server.authorisations == [header]


@pytest.mark.parametrize(
    "variable", ["MLFLOW_TRACKING_AWS_SIGV4", "MLFLOW_TRACKING_INSECURE_TLS", "https_proxy"]
)
def test_settings_that_only_mlflow_knows_are_left_to_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert can_read("https://mlflow.example.org")
    assert not can_read("https://user:secret@mlflow.example.org")
    assert not can_read("sqlite:///mlflow.db")
    monkeypatch.setenv(variable, "true")
    assert not can_read("https://mlflow.example.org")
