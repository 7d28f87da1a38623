"""Pages of the documentation: every command, name, route and metric is described, and examples run
against a server."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.index.scope_names import ScopeNames
from nearkin.service.server.app import create_app
from nearkin.service.server.settings import ServerSettings
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import KEYED, Spec
from nearkin.stages.sketch.resources import SpecResources
from scripts.python_pages import names_of
from scripts.reference_pages import write_reference
from tests.deploy.conftest import QUANTILES, ROOT, WORDS, Live
from tests.services import found

OURS = re.compile(
    r"^<!-- not run: [^\n]*tests/deploy runs ([^\n]*) -->\n```bash\n(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
STRICT = 'set -euo pipefail\ncurl() { command curl --fail-with-body "$@"; }\n'


def examples(page: str, how: str = "them against one") -> list[str]:
    """Returns the blocks of a page that the tests run against a server, or as `how` says."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    blocks = [block for note, block in OURS.findall(text) if note == how]
    assert blocks
    return blocks


def run(block: str, folder: Path, **variables: str) -> str:
    """Runs a block like a reader. The test fails if a command fails."""
    if found("curl") is None:
        pytest.skip(
            "curl is not installed (apt-get install curl); the examples of docs/ were not run"
        )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", STRICT + block],
        cwd=folder,
        env={**os.environ, "PATH": path, **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generated parts of the reference."""
    folder = tmp_path_factory.mktemp("reference")
    write_reference(folder, folder / "python")
    return folder


def test_reference_includes_every_generated_part(reference: Path) -> None:
    pages = "".join(path.read_text("utf-8") for path in (ROOT / "docs" / "reference").glob("*.md"))
    for part in reference.glob("*.md"):
        assert f"{{include}} ../_generated/{part.name}" in pages, part.name


def test_every_command_and_option_is_described(reference: Path) -> None:
    page = (reference / "cli.md").read_text("utf-8")
    for name in ("dedup", "index rotate-key", "server token create", "serve", "stream"):
        assert f"## nearkin {name}\n" in page
    for option in ("--threshold", "--resume", "--max-inflight", "--new-key-file", "--rights"):
        assert re.search(rf"`{option}\b|`-\w,? {option}\b|`{option}, -", page), option


def test_every_public_name_is_described(reference: Path) -> None:
    texts = [path.read_text("utf-8") for path in (reference / "python").glob("*.md")]
    pages = (reference / "python.md").read_text("utf-8") + "".join(texts)
    modules = (nk, nk.errors, nk.index_types, nk.results, nk.signatures)
    names = [one for module in modules for one in names_of(module)]
    assert len(names) > 80
    for one in names:
        # the errors of nk are described with the other ones
        assert re.search(rf":: ({one.module}|nearkin.errors)\.{one.name}\n", pages), one.name


def test_every_route_is_described(tmp_path: Path) -> None:
    settings = ServerSettings.read(
        store="memory://", tokens=tmp_path / "tokens", key_file=str(tmp_path / "key")
    )
    page = (ROOT / "docs" / "reference" / "http.md").read_text("utf-8")
    for path, operations in create_app(settings).openapi()["paths"].items():
        rows = [line for line in page.splitlines() if line.startswith(f"| `{path}` |")]
        assert rows, path
        assert all(any(method.upper() in row for row in rows) for method in operations), path


def test_every_metric_is_described(exposed: Mapping[str, set[str]], reference: Path) -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8") + (
        reference / "metrics.md"
    ).read_text("utf-8")
    described = set(re.findall(r"`((?:nearkin|process)_[a-z0-9_]+)`", page))
    names = {
        re.sub(f"({'|'.join(QUANTILES)})$", "", name)
        for name in exposed
        if not name.endswith("_created")
    }
    assert names == described


def test_examples_of_pages_run_against_a_server(live: Live, tmp_path: Path) -> None:
    variables = {"URL": live.url, "TOKEN": live.token, "ADMIN": live.admin}
    answers = "".join(run(block, tmp_path, **variables) for block in examples("reference/http.md"))
    assert '"kind":"match"' in answers
    assert '"field":"/texd"' in answers
    with live.client(live.token) as client:
        assert (
            client.post("/v1/scopes/shop/documents", json={"id": "two", "text": WORDS}).status_code
            == 200
        )
    for block in examples("how-to/operate.md"):
        run(block, tmp_path, **variables)


@pytest.fixture
def keyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An index whose key is lost."""
    secret, _ = HashKey.generate()
    spec = Spec(base_hash=KEYED, key_id=secret.id)
    url = f"sqlite:///{tmp_path / 'kin.db'}"
    with nk.Index.open(url, spec, 0.8, resources=SpecResources(secret)) as index:
        # scopes of a version that took any name
        monkeypatch.setattr(ScopeNames, "require", lambda self, scope: None)
        for scope in (" a b ", "shop", "shop "):
            index.upsert_many(
                scope,
                [f"{WORDS} {number}" for number in range(3)],
                [str(number) for number in range(3)],
            )
    return url


def test_new_key_is_created(keyed: str, tmp_path: Path) -> None:
    """The steps of docs/how-to/operate.md: an index of the same documents, for the new key."""
    (block,) = examples("how-to/operate.md", "it on an index of its own")
    following = f"sqlite:///{tmp_path / 'next.db'}"
    run(block, tmp_path, STORE=keyed, NEXT=following)
    secret = HashKey.read(str(tmp_path / "new.key"))
    spec = Spec(base_hash=KEYED, hash_seed=0, key_id=secret.id)
    with nk.Index.open(following, spec, 0.8, resources=SpecResources(secret)) as index:
        assert index.scopes() == [" a b ", "shop", "shop "]
        assert [match.id for match in index.query(" a b ", f"{WORDS} 0")] == ["0"]
        entry = index.get("shop", "2")
        assert entry is not None
        assert entry.text == f"{WORDS} 2"
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".parquet") == []
