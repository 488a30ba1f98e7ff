"""Reading an MLflow server without MLflow, whose import takes longer than all else that a scheduled
run with nothing to do does.

`read_registry` of ``client.py`` asks by :class:`RestReader` where it can. Every answer that is not
the expected one ends that attempt, and MLflow's own client asks again: it knows all settings, and
its errors say what is wrong. Nothing is written here.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from evenhand.fairlib.file_digests import ListedFile

API = "/api/2.0/mlflow"
ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts"
PROXIED = "mlflow-artifacts:/"
TIMEOUT_S = 20.0
# of the headers of an answer that is read here, and those of an answer that is not
LINE_BYTES = 65_536
HEAD_BYTES = 4 * LINE_BYTES
OF_OTHER_FORMS = (b"transfer-encoding", b"content-encoding", b"connection")
# Settings that MLflow's client alone knows: who has one of them is served by it.
OF_MLFLOW_ALONE = (
    "MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD",
    "MLFLOW_TRACKING_AUTH",
    "MLFLOW_TRACKING_AWS_SIGV4",
    "MLFLOW_TRACKING_CLIENT_CERT_PATH",
    "MLFLOW_TRACKING_INSECURE_TLS",
    "MLFLOW_WORKSPACE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
)
CERTIFICATES = ("MLFLOW_TRACKING_SERVER_CERT_PATH", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


class UnusualAnswer(Exception):
    """The server did not give the expected answer: MLflow's client must ask."""


class Model(NamedTuple):
    """A registered model, as MLflow's client has it."""

    name: str
    tags: dict[str, str]
    aliases: dict[str, str]


class Version(NamedTuple):
    """A version of a registered model, as MLflow's client has it."""

    version: str
    status: str
    tags: dict[str, str]
    creation_timestamp: int
    run_id: str


class Page(list[Version]):
    """A part of the versions, and the token of the next part."""

    token: str | None = None


def can_read(uri: str) -> bool:
    """Whether the registry is a server which needs no setting that only MLflow's client knows."""
    if not uri.startswith(("http://", "https://")) or "@" in uri:
        return False
    for name in OF_MLFLOW_ALONE:
        if os.environ.get(name) or os.environ.get(name.lower()):
            return False
    return not (Path.home() / ".mlflow" / "credentials").is_file()


@contextmanager
def rest_reader(uri: str) -> Iterator[RestReader]:
    """Open a connection to the server, and close it at the end."""
    reader = RestReader(uri)
    try:
        yield reader
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        raise UnusualAnswer(type(error).__name__) from error
    finally:
        reader.close()


class RestReader:
    """The reading methods of MLflow's client that this project needs, over one connection."""

    def __init__(self, uri: str) -> None:
        parts = urlsplit(uri)
        self._base = parts.path.rstrip("/")
        self._headers = _authorisation()
        self._answers: IO[bytes] | None = None
        self._is_plain = True
        host = parts.hostname or ""
        if parts.scheme == "https":
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, parts.port, timeout=TIMEOUT_S, context=_tls()
            )
        else:
            self._connection = http.client.HTTPConnection(host, parts.port, timeout=TIMEOUT_S)

    def close(self) -> None:
        """Close the connection."""
        if self._answers is not None:
            self._answers.close()
        self._answers = None
        self._connection.close()

    def get_registered_model(self, name: str) -> Model:
        """Return a model with its tags and aliases."""
        model = self._ask("registered-models/get", name=name)["registered_model"]
        aliases = {item["alias"]: str(item["version"]) for item in model.get("aliases", ())}
        return Model(model["name"], _tags(model), aliases)

    def get_model_version(self, name: str, version: str) -> Version:
        """Return a version of a model."""
        answer = self._ask("model-versions/get", name=name, version=version)
        return _version(answer["model_version"])

    def get_model_version_by_alias(self, name: str, alias: str) -> Version:
        """Return the version that has an alias now."""
        answer = self._ask("registered-models/alias", name=name, alias=alias)
        return _version(answer["model_version"])

    def get_model_version_download_uri(self, name: str, version: str) -> str:
        """Return the address of a version's files."""
        answer = self._ask("model-versions/get-download-uri", name=name, version=version)
        return str(answer["artifact_uri"])

    def search_model_versions(
        self, filter_string: str, max_results: int = 10_000, page_token: str | None = None
    ) -> Page:
        """Return a part of the versions that a filter chooses."""
        parameters = {"filter": filter_string, "max_results": str(max_results)}
        if page_token:
            parameters["page_token"] = page_token
        answer = self._ask("model-versions/search", **parameters)
        page = Page(_version(item) for item in answer.get("model_versions", ()))
        page.token = answer.get("next_page_token") or None
        return page

    def files_at(self, address: str) -> ServedFiles:
        """Return the files at an address that the server itself serves."""
        if not address.startswith(PROXIED) or address.startswith(f"{PROXIED}/"):
            raise UnusualAnswer("the server does not serve the files")
        return ServedFiles(self, address.removeprefix(PROXIED).strip("/"))

    def copy_files(self, address: str, folder: Path) -> None:
        """Copy all files at an address that the server itself serves into a folder."""
        files = self.files_at(address)
        entries, _ = files.entries()
        folder.mkdir(parents=True, exist_ok=True)
        for path, is_folder in entries.items():
            if is_folder:
                (folder / path).mkdir()
            else:
                (folder / path).write_bytes(files.content(path))

    def listed(self, path: str) -> list[Mapping[str, Any]]:
        """Return what the server says of the files and folders in one of its folders."""
        answer = json.loads(self._get(f"{ARTIFACTS}?{urlencode({'path': path})}"))
        return list(answer.get("files", ()))

    def content(self, path: str) -> bytes:
        """Return the bytes of a file that the server serves."""
        return self._get(f"{ARTIFACTS}/{quote(path)}")

    def _ask(self, endpoint: str, **parameters: str) -> Mapping[str, Any]:
        answer = json.loads(self._get(f"{API}/{endpoint}?{urlencode(parameters)}"))
        if not isinstance(answer, dict):
            raise UnusualAnswer("no object")
        return answer

    def _get(self, path: str) -> bytes:
        """Return the content of an answer; a model has some 200 files, each of which is asked for.

        Most of an answer's cost in the standard library is the parsing of its headers as those of a
        mail. So answers in their usual form are read here; the first one in another form is asked
        for again, as are all that follow, by the standard library.
        """
        if self._is_plain:
            content = self._plain_answer(f"{self._base}{path}")
            if content is not None:
                return content
            self._is_plain = False
            self.close()
        self._connection.request("GET", f"{self._base}{path}", headers=self._headers)
        response = self._connection.getresponse()
        content = response.read()
        if response.status != http.HTTPStatus.OK:
            raise UnusualAnswer(f"status {response.status}")
        return content

    def _plain_answer(self, address: str) -> bytes | None:
        """Return the content of an answer of HTTP/1.1 with a length and a connection that stays
        open; None for an answer in any other form.
        """
        if self._answers is None:
            self._connection.connect()
            self._answers = self._connection.sock.makefile("rb")
        host = self._connection.host
        if ":" in host:
            host = f"[{host}]"
        lines = [f"GET {address} HTTP/1.1", f"Host: {host}:{self._connection.port}"]
        lines += ["Accept-Encoding: identity"]
        lines += [f"{name}: {value}" for name, value in self._headers.items()]
        self._connection.sock.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))
        length = _length(_head(self._answers))
        if length is None:
            return None
        content = self._answers.read(length)
        if len(content) != length:
            raise UnusualAnswer("the answer is not whole")
        return content


def _head(answers: IO[bytes]) -> bytes:
    """Read the status and the headers of an answer; empty if they are not whole, or too long."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = answers.readline(LINE_BYTES)
        head += line
        if not line or len(head) > HEAD_BYTES:
            return b""
    return head.lower()


def _length(head: bytes) -> int | None:
    """Return how many bytes follow the headers; None for an answer in another form."""
    status, *headers = head.split(b"\r\n")
    if not status.startswith(b"http/1.1 "):
        return None
    if not status.startswith(b"http/1.1 200 "):
        raise UnusualAnswer(status.decode("ascii", "replace"))
    length = None
    for header in headers:
        name, _, value = header.partition(b":")
        if name in OF_OTHER_FORMS:
            return None
        if name == b"content-length":
            length = int(value)
    return length


class ServedFiles:
    """The files of a model on a server, for `model_faults`; none is written to a disk."""

    def __init__(self, reader: RestReader, place: str) -> None:
        self._reader = reader
        self._place = place
        self._sizes: dict[str, int] = {}

    def entries(self) -> tuple[dict[str, bool], dict[str, str]]:
        """List all files and folders; a server has nothing else."""
        entries: dict[str, bool] = {}
        waiting = [""]
        while waiting:
            inner = waiting.pop()
            for item in self._reader.listed(f"{self._place}/{inner}".rstrip("/")):
                name = item["path"].rpartition("/")[2]
                if name in ("", ".", "..") or "\\" in name or "\0" in name:
                    raise UnusualAnswer("a file's name leads elsewhere")
                path = f"{inner}/{name}" if inner else name
                entries[path] = bool(item.get("is_dir"))
                if entries[path]:
                    waiting.append(path)
                elif item.get("file_size") is not None:
                    self._sizes[path] = int(item["file_size"])
        return entries, {}

    def content(self, path: str) -> bytes:
        """Fetch a file."""
        return self._reader.content(f"{self._place}/{path}")

    def is_listed(self, path: str, listed: ListedFile, target: Path | None) -> bool:
        """Whether a file is the one that a list has; its bytes are also written to `target`."""
        # a file of another size is not fetched
        if listed.size is not None and self._sizes.get(path, listed.size) != listed.size:
            return False
        content = self.content(path)
        if target is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return hashlib.sha256(content).hexdigest() == listed.sha256


def _authorisation() -> dict[str, str]:
    """Return the header by MLflow's variables for a name and a password, or for a token."""
    user = os.environ.get("MLFLOW_TRACKING_USERNAME")
    password = os.environ.get("MLFLOW_TRACKING_PASSWORD")
    token = os.environ.get("MLFLOW_TRACKING_TOKEN")
    if user and password:
        pair = base64.b64encode(f"{user}:{password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    if token:
        return {"Authorization": f"Bearer {token}"}
    return {}


def _tls() -> ssl.SSLContext:
    """Return the settings of TLS with the certificates that MLflow's client trusts."""
    for name in CERTIFICATES:
        place = os.environ.get(name)
        if place:
            if Path(place).is_dir():
                return ssl.create_default_context(capath=place)
            return ssl.create_default_context(cafile=place)
    import certifi

    return ssl.create_default_context(cafile=certifi.where())


def _tags(entity: Mapping[str, Any]) -> dict[str, str]:
    return {item["key"]: item.get("value", "") for item in entity.get("tags", ())}


def _version(entity: Mapping[str, Any]) -> Version:
    return Version(
        version=str(entity["version"]),
        status=entity.get("status", ""),
        tags=_tags(entity),
        creation_timestamp=int(entity.get("creation_timestamp", 0)),
        run_id=entity.get("run_id", ""),
    )
