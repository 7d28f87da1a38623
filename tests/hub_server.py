"""A server that answers like the Hugging Face Hub, with dataset repositories in memory.

It knows what huggingface_hub requests to read files and to commit small ones. Commits with Git LFS
and Xet, which the hub chooses for large files, are not a part of it.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

TOKEN = "hf_" + "aSecretOfTheHub" * 2
"""The token that may read private repositories, and write."""


@dataclass
class Repository:
    """A dataset repository: its commits, and the branches that name them."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    private: bool = False
    gated: bool = False
    ignored: tuple[str, ...] = ()
    """The paths that a .gitignore of the repository leaves out."""

    def commit(self, files: dict[str, bytes], branch: str = "main") -> str:
        """Makes files the content of a branch, and returns the new commit."""
        before = self.branches.get(branch, "")
        content = json.dumps([before, sorted((name, data.hex()) for name, data in files.items())])
        sha = hashlib.sha1(content.encode()).hexdigest()
        self.commits[sha] = dict(files)
        self.branches[branch] = sha
        return sha

    def resolve(self, revision: str) -> str | None:
        """Returns the commit of a branch, or of its own number."""
        sha = self.branches.get(revision, revision)
        return sha if sha in self.commits else None

    @property
    def files(self) -> dict[str, bytes]:
        """The files of the main branch."""
        return self.commits[self.branches["main"]]


@dataclass
class Hub:
    """The repositories and the faults of a server."""

    address: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    """The methods and paths of all requests."""
    token_only_reads: bool = False
    loses_next_answer: bool = False
    """Whether the connection breaks after the next commit."""

    def add(self, name: str, files: dict[str, bytes], **facts: Any) -> Repository:
        """Adds a repository with one commit."""
        repository = self.repositories.setdefault(name, Repository(**facts))
        repository.commit(files)
        return repository


class RefusalError(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, code: str, message: str = "") -> None:
        super().__init__(message or code)
        self.status = status
        self.code = code


class HubHandler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._serve("GET")

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def _serve(self, method: str) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.hub.requests.append(f"{method} {unquote(parts.path)}")
        try:
            answer = self._answer(method, parts.path, parse_qs(parts.query), body)
        except RefusalError as error:
            data = json.dumps({"error": str(error)}).encode()
            facts = {"X-Error-Code": error.code, "X-Error-Message": str(error)}
            self._send(error.status, data, facts)
            return
        if isinstance(answer, bytes):
            self._send_content(answer)
        elif answer is not None:
            self._send(200, json.dumps(answer).encode(), {})

    def _answer(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> Any:
        if path == "/api/whoami-v2":
            self._require_writer()
            role = "read" if self.hub.token_only_reads else "write"
            return {"name": "kin", "auth": {"accessToken": {"role": role}}}
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if path == "/api/validate-yaml":
            return {"warnings": [], "errors": []}
        found = re.fullmatch(r"(?:/api)?/datasets/([^/]+/[^/]+)(?:/([^/]+)(?:/(.*))?)?", path)
        if found is None:
            raise RefusalError(404, "", f"unknown path {path}")
        name = found.group(1)
        verb = found.group(2) or "revision"
        rest = found.group(3) or "main"
        repository = self._repository(name)
        if verb == "tree":
            revision, _, folder = rest.partition("/")
            sha = self._commit_of(repository, unquote(revision))
            return list_tree(
                repository.commits[sha], unquote(folder), recursive="recursive" in query
            )
        if verb == "paths-info":
            sha = self._commit_of(repository, unquote(rest))
            return describe_paths(repository.commits[sha], parse_qs(body.decode())["paths"])
        if verb == "resolve":
            revision, _, file = rest.partition("/")
            return self._resolve(repository, unquote(revision), unquote(file))
        if verb == "preupload":
            self._require_writer()
            return preupload(repository, json.loads(body)["files"])
        if verb == "commit":
            self._require_writer()
            return self._commit(name, repository, unquote(rest), body)
        return {"id": name, "sha": self._commit_of(repository, unquote(rest)), "siblings": []}

    def _repository(self, name: str) -> Repository:
        repository = self.hub.repositories.get(name)
        if repository is None or (repository.private and not self._has_token()):
            # The hub does not say which of the two it is.
            raise RefusalError(404 if self._has_token() else 401, "RepoNotFound", "no repository")
        return repository

    def _commit_of(self, repository: Repository, revision: str) -> str:
        sha = repository.resolve(revision)
        if sha is None:
            raise RefusalError(404, "RevisionNotFound", f"no revision {revision}")
        return sha

    def _has_token(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _require_writer(self) -> None:
        if not self._has_token():
            raise RefusalError(401, "", "Invalid username or password.")

    def _create(self, request: dict[str, Any]) -> dict[str, str]:
        self._require_writer()
        name = f"{request['organization']}/{request['name']}"
        private = request.get("private") or request.get("visibility") == "private"
        if name in self.hub.repositories:
            raise RefusalError(409, "", "You already created this dataset repo")
        self.hub.add(name, {".gitattributes": b""}, private=bool(private))
        return {"url": f"{self.hub.address}/datasets/{name}"}

    def _resolve(self, repository: Repository, revision: str, file: str) -> bytes:
        content = repository.commits[self._commit_of(repository, revision)].get(file)
        if content is None:
            raise RefusalError(404, "EntryNotFound", f"no file {file}")
        if repository.gated and not self._has_token():
            raise RefusalError(403, "GatedRepo", "Access to this dataset is restricted.")
        return content

    def _commit(self, name: str, repository: Repository, branch: str, body: bytes) -> Any:
        header, *operations = map(json.loads, body.splitlines())
        parent = header["value"].get("parentCommit")
        before = repository.branches[branch]
        if parent is not None and parent != before:
            raise RefusalError(
                412, "", "A commit has happened since. Please refresh and try again."
            )
        files = dict(repository.commits[before])
        for operation in operations:
            value = operation["value"]
            if operation["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif operation["key"] == "deletedFile":
                del files[value["path"]]
            else:
                raise RefusalError(400, "", f"unknown operation {operation['key']}")
        sha = repository.commit(files, branch)
        if self.hub.loses_next_answer:
            self.hub.loses_next_answer = False
            self.close_connection = True
            self.connection.close()
            return None
        url = f"{self.hub.address}/datasets/{name}/commit/{sha}"
        return {"success": True, "commitOid": sha, "commitUrl": url}

    def _send_content(self, content: bytes) -> None:
        given = self.headers.get("Range")
        if given is None:
            self._send(200, content, {"ETag": f'"{git_id(content)}"'})
            return
        first, _, last = given.removeprefix("bytes=").partition("-")
        part = content[int(first) : int(last or len(content)) + 1]
        where = f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}"
        self._send(206, part, {"Content-Range": where, "ETag": f'"{git_id(content)}"'})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def git_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def describe_file(path: str, content: bytes) -> dict[str, Any]:
    return {"type": "file", "path": path, "size": len(content), "oid": git_id(content)}


def describe_folder(path: str) -> dict[str, Any]:
    return {
        "type": "directory",
        "path": path,
        "size": 0,
        "oid": hashlib.sha1(path.encode()).hexdigest(),
    }


def list_tree(files: dict[str, bytes], folder: str, *, recursive: bool) -> list[dict[str, Any]]:
    """Returns the entries of a folder, as the hub lists them."""
    prefix = f"{folder}/" if folder else ""
    below = [path for path in sorted(files) if path.startswith(prefix)]
    if not below:
        raise RefusalError(404, "EntryNotFound", f"{folder} does not exist")
    folders = {
        "/".join(path.split("/")[:depth])
        for path in below
        for depth in range(prefix.count("/") + 1, path.count("/") + 1)
    }
    entries = [*map(describe_folder, sorted(folders))]
    entries += [describe_file(path, files[path]) for path in below]
    if recursive:
        return entries
    return [entry for entry in entries if "/" not in entry["path"][len(prefix) :]]


def describe_paths(files: dict[str, bytes], paths: list[str]) -> list[dict[str, Any]]:
    entries = [describe_file(path, files[path]) for path in paths if path in files]
    folders = [path for path in paths if any(name.startswith(f"{path}/") for name in files)]
    return [*entries, *map(describe_folder, folders)]


def preupload(repository: Repository, files: list[dict[str, Any]]) -> dict[str, Any]:
    answers = []
    for file in files:
        known = repository.files.get(file["path"])
        answer = {
            "path": file["path"],
            "uploadMode": "regular",
            "shouldIgnore": file["path"] in repository.ignored,
            "oid": None if known is None else git_id(known),
        }
        answers.append(answer)
    return {"files": answers}


def point_to(address: str, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Makes this process and those that it starts use a hub, without a token."""
    monkeypatch.setenv("HF_ENDPOINT", address)
    monkeypatch.setenv("HF_HOME", str(home))
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(home / "token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)


@contextmanager
def serve_hub() -> Iterator[Hub]:
    """Yields a hub without repositories. They may be changed while it runs."""
    hub = Hub()
    handler = type("Handler", (HubHandler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        hub.address = f"http://127.0.0.1:{server.server_port}"
        yield hub
        server.shutdown()
