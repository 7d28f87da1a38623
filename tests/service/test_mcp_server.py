"""Tests of the server for agents, with the client of the MCP SDK."""

import asyncio
import json
import re
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver.exceptions import ToolError

import nearkin as nk
from nearkin.service.mcp_server import (
    MAX_TEXT,
    AgentAccess,
    RunTools,
    _with_tool_errors,
    make_server,
)
from tests.cli.conftest import nearkin
from tests.services import free_port

TEXT = "the council approved the new budget on tuesday evening after a long debate about schools"
OTHER = "a dog ran over the hill and far away from the town where it had lived with two cats"
READING = {"find_near_duplicates", "show_cluster", "explain_pair"}


@pytest.fixture
def index() -> nk.Index:
    index = nk.Index.open("memory://")
    for id, text in (("a", TEXT), ("b", TEXT.upper()), ("c", OTHER)):
        index.upsert("news", text, id=id)
    index.upsert("secret", TEXT, id="of another scope")
    return index


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agents")
    rows = [("a", TEXT), ("b", f"{TEXT} and roads"), ("c", OTHER)]
    lines = (json.dumps({"id": id, "text": text}) for id, text in rows)
    (folder / "docs.jsonl").write_text("\n".join(lines))
    nearkin("dedup", folder / "docs.jsonl", "--id", "id", "--out", folder / "run")
    return folder / "run"


def call(access: AgentAccess, *requests: tuple[str, dict[str, Any]]) -> list[Any]:
    """Calls tools, and returns the content of each answer; the text of an error."""

    async def call_all() -> list[Any]:
        async with Client(make_server(access)) as client:
            answers = [await client.call_tool(name, values) for name, values in requests]
        return [content_of(answer) for answer in answers]

    return asyncio.run(call_all())


def content_of(answer: Any) -> Any:
    if answer.is_error:
        return answer.content[0].text
    content = answer.structured_content
    return content["result"] if set(content) == {"result"} else content


def tools_of(access: AgentAccess) -> set[str]:
    async def list_tools() -> set[str]:
        async with Client(make_server(access)) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    return asyncio.run(list_tools())


def test_agents_search_one_scope_of_an_index(index: nk.Index) -> None:
    near, cluster, pair = call(
        AgentAccess(index, "news"),
        ("find_near_duplicates", {"text": TEXT + "!"}),
        ("show_cluster", {"id": "b"}),
        ("explain_pair", {"a": "a", "b": "c"}),
    )
    assert near == [{"id": "a", "cluster": "a", "similarity": 1.0, "exact": False}]
    assert (cluster["representative"], cluster["size"]) == ("a", 2)
    assert [member["id"] for member in cluster["members"]] == ["a", "b"]
    assert pair["verdict"] != "match"
    assert "texts" not in pair


@pytest.mark.promise("Agents do not see how nearly a search misses.")
def test_agents_do_not_see_how_nearly_a_search_misses(index: nk.Index, run: Path) -> None:
    """An agent that may store documents could try which words to change."""
    ((found, *_), of_index, of_run) = call(
        AgentAccess(index, "news", run=run),
        ("find_near_duplicates", {"text": TEXT + "!"}),
        ("explain_pair", {"a": "a", "b": "c"}),
        ("explain_pair_of_run", {"a": "a", "b": "b"}),
    )
    assert set(found) == {"id", "cluster", "similarity", "exact"}
    for explained in (of_index, of_run):
        for name in ("estimate", "agreeing", "shared_bands"):
            assert explained[name] is None
        assert "slots agree" not in explained["why"]


def test_agents_cannot_reach_another_scope_or_store_documents(index: nk.Index) -> None:
    access = AgentAccess(index, "news")
    assert tools_of(access) == READING
    missing, stored = call(
        access,
        ("show_cluster", {"id": "of another scope"}),
        ("store_document", {"text": "a new text"}),
    )
    assert "no document 'of another scope'" in missing
    assert "store_document" in stored
    assert index.get("news", "of another scope") is None
    assert index.query("news", "a new text") == []


def test_agents_store_documents_only_if_it_is_allowed(index: nk.Index) -> None:
    access = AgentAccess(index, "news", allow_write=True)
    assert tools_of(access) == {*READING, "store_document"}
    new, again = call(
        access,
        ("store_document", {"text": "one two three four five six", "id": "n"}),
        ("store_document", {"text": "One two three four five six!", "id": "m"}),
    )
    assert (new["kind"], again["kind"]) == ("new", "match")
    assert again["cluster"] == "n"
    assert index.get("news", "n") is not None


def test_agents_read_a_finished_run(run: Path) -> None:
    summary, cluster, pair, missing, negative = call(
        AgentAccess(run=run),
        ("summarize_run", {}),
        ("show_cluster_of_run", {"id": "a"}),
        ("explain_pair_of_run", {"a": "a", "b": "b"}),
        ("show_cluster_of_run", {"id": "x' or 1"}),
        ("show_cluster_of_run", {"id": "a", "start": -1}),
    )
    assert negative.endswith("start is -1; the first document has the position 0")
    assert (summary["counts"]["kept"], summary["threshold"]) == (2, 0.8)
    assert (cluster["kept"], cluster["size"]) == ("b", 2)
    assert {member["id"] for member in cluster["members"]} == {"a", "b"}
    assert pair["verdict"] == "match"
    assert missing.endswith('the run has no document "x\' or 1"')


def test_no_document_is_kept_in_place_of_a_blocked_or_empty_one(tmp_path: Path) -> None:
    texts = {"a": TEXT, "b": f"{TEXT} today", "c": "", "d": "another text of five words"}
    blocklist = nk.Blocklist()
    blocklist.add([TEXT], ["request"])
    table = {"id": list(texts), "text": list(texts.values())}
    result = nk.dedup(table, id="id", blocklist=blocklist, empty="drop")
    result.write(tmp_path / "run")
    tools = RunTools(tmp_path / "run", None)
    kept = [tools.show_cluster_of_run(id)["kept"] for id in texts]
    assert kept[0] is None
    assert kept[2:] == [None, "d"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (nk.UsageError("no such file: /srv/data/in.jsonl"), "no such file: in.jsonl"),
        (nk.UsageError("'/srv/data/out' cannot be used"), "'out' cannot be used"),
        (nk.StoreError("sqlite:////srv/data/kin.db: full"), "sqlite:///kin.db: full"),
        (nk.StoreError("redis://db:6379/0: lost"), "redis://db:6379/0: lost"),
        (FileNotFoundError(2, "no such file", "/srv/data/clusters.parquet"), "'clusters.parquet'"),
        (FileNotFoundError("/srv/data/clusters.parquet"), "'clusters.parquet'"),
    ],
)
def test_agents_learn_no_folders(error: Exception, told: str) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(ToolError, match=re.escape(told)) as answer:
        _with_tool_errors(fail)()
    assert "/srv" not in str(answer.value)


def test_what_agents_send_is_bounded(index: nk.Index) -> None:
    answers = call(
        AgentAccess(index, "news"),
        ("find_near_duplicates", {"text": "x" * (MAX_TEXT + 1)}),
        ("find_near_duplicates", {"text": TEXT, "top": 101}),
        ("find_near_duplicates", {"text": TEXT, "top": 0}),
        ("show_cluster", {"id": "a" * 5000}),
        ("show_cluster", {"id": "a", "start": -5}),
    )
    assert "start=-5 is negative" in answers[4]
    assert "at most 1,048,576 are accepted" in answers[0]
    assert "must be 1 to 100" in answers[1]
    assert "must be 1 to 100" in answers[2]
    assert "too long" in answers[3] or "bytes" in answers[3]


def test_access_to_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(nk.UsageError, match="nothing to serve"):
        AgentAccess()
    with pytest.raises(nk.UsageError, match="leave out allow_write=True"):
        AgentAccess(run=tmp_path, allow_write=True)
    with pytest.raises(nk.UsageError, match=r"run\.json"):
        AgentAccess(run=tmp_path)


def command(*words: object) -> Sequence[str]:
    return ["-m", "nearkin", "mcp", *map(str, words)]


def test_command_serves_a_run_over_standard_input_and_output(run: Path) -> None:
    async def summarize() -> Any:
        parameters = StdioServerParameters(
            command=sys.executable, args=list(command("--run", run)), env=None
        )
        async with Client(parameters) as client:
            return content_of(await client.call_tool("summarize_run", {}))

    assert asyncio.run(summarize())["counts"]["read"] == 3


def test_server_answers_over_http_but_not_to_pages_of_other_sites(run: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"

    async def summarize() -> tuple[Any, list[int]]:
        app = make_server(AgentAccess(run=run)).streamable_http_app(host="127.0.0.1")
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        async with Client(url) as client:
            answer = await client.call_tool("summarize_run", {})
        async with httpx.AsyncClient() as browser:
            refused = [
                (await browser.post(url, headers=headers, json={})).status_code
                for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"})
            ]
        server.should_exit = True
        await serving
        return content_of(answer), refused

    summary, refused = asyncio.run(summarize())
    assert summary["counts"]["read"] == 3
    assert refused == [421, 403]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "there is nothing to serve"),
        (("--store", "sqlite:///none.db"), "none.db"),
        (("--run", "none"), "none"),
        (("--run", "none", "--http", "8081", "--host", "0.0.0.0"), "asks nobody for a token"),
        (("--run", "none", "--http", "8081", "--host", "127.0.0.2"), "--host 127.0.0.2 is not"),
        (("--run", "none", "--http", "0"), "--http"),
    ],
)
def test_command_refuses_what_it_cannot_serve(
    words: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from nearkin.cli import app

    monkeypatch.chdir(tmp_path)
    assert app.run(["mcp", *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


def test_port_of_another_program_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from nearkin.cli import app

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert app.run(["mcp", "--run", str(run), "--http", str(port)]) == app.USAGE
    assert f"cannot listen on port {port} of 127.0.0.1" in capsys.readouterr().err
