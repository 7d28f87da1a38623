"""The OpenAPI description: examples, names and bounds are those of the server; the docs page."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from starlette.testclient import TestClient

from nearkin.service.server.http.tokens import Principal, TokenFile
from nearkin.service.server.routes import models
from tests.service.server.api_operations import JSON, TEXT, example_request, operations, success
from tests.service.server.conftest import Serve


@pytest.fixture
def client(serve: Serve, tmp_path: Path) -> TestClient:
    """A server with two documents, an unfinished one, and a shadow index."""
    shadow = {"shadow_store": f"sqlite:///{tmp_path}/b.db", "shadow_bands": 32, "shadow_rows": 4}
    settings = {"passages": "4", "history": "1000000"}
    client = serve(store=f"sqlite:///{tmp_path}/a.db", index=settings, **shadow)
    for id, word in (("one", "woods"), ("two", "valley")):
        body = {"id": id, "text": TEXT.format(word)}
        assert client.post("/v1/scopes/shop/documents", json=body).status_code == 200
    return client


def test_each_operation_has_examples_that_its_schemas_accept(client: TestClient) -> None:
    components = client.get("/openapi.json").json()["components"]
    for method, path, operation in operations(client):
        name = f"{method} {path}"
        if JSON in operation.get("requestBody", {}).get("content", {}):
            body = operation["requestBody"]["content"][JSON]
            schema = {**body["schema"], "components": components}
            jsonschema.validate(body["example"], schema)
        for content in success(operation).get("content", {}).values():
            jsonschema.validate(content["example"], {**content["schema"], "components": components})
        assert "content" in success(operation) or method == "delete", name


def shape(value: Any) -> Any:
    """Returns the names of the members of a JSON value."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value else None


def test_examples_of_requests_are_answered_like_their_examples(client: TestClient) -> None:
    shadow = client.app.state.service.shadow  # type: ignore[attr-defined]
    while not shadow.status()["filled"]:
        pass
    part = {"text": "the first chapter, of many words"}
    for method, path, operation in operations(client):
        if path.endswith(":close"):
            client.patch("/v1/scopes/shop/documents/two", json=part)
        answer = client.request(method, **example_request(path, operation))
        if path.endswith(":close"):
            # the finished document has no text to explain
            body = {"id": "two", "text": TEXT.format("valley")}
            client.post("/v1/scopes/shop/documents", json=body)
        assert answer.is_success, (method, path, answer.text)
        content = success(operation).get("content", {}).get(JSON)
        if content is not None:
            expected, actual = shape(content["example"]), shape(answer.json())
            assert expected.keys() == actual.keys(), (method, path)


def test_description_has_no_internal_names(client: TestClient) -> None:
    text = client.get("/openapi.json").text
    ids = [operation["operationId"] for _, _, operation in operations(client)]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", id) for id in ids), ids
    for name in (
        "ProblemError",
        "UsageError",
        "rincipal",
        "HTTPValidation",
        "nearkin.service.server",
    ):
        assert name not in text
    assert not re.search(r'"title": ?"(Response|[A-Z]\w+ V1)', text)
    assert not re.search(r"_v1_|__scope", text)


Bound = tuple[str, Any, Any]
"""Name of a bound, a value at the bound, and a value beyond it."""


def bounds_of(schema: dict[str, Any]) -> Iterator[Bound]:
    """Yields values at and beyond each bound of a schema."""
    for part in schema.get("anyOf", ()):
        yield from bounds_of(part)
    step = 1 if schema.get("type") == "integer" else 0.001
    step = schema.get("multipleOf", step)
    if "maximum" in schema:
        yield "maximum", schema["maximum"], schema["maximum"] + step
    if "minimum" in schema:
        yield "minimum", schema["minimum"], schema["minimum"] - step
    if "exclusiveMaximum" in schema:
        yield "exclusiveMaximum", schema["exclusiveMaximum"] - step, schema["exclusiveMaximum"]
    if "exclusiveMinimum" in schema:
        yield "exclusiveMinimum", schema["exclusiveMinimum"] + step, schema["exclusiveMinimum"]
    if "maxLength" in schema:
        yield "maxLength", "x" * schema["maxLength"], "x" * (schema["maxLength"] + 1)
    if "minLength" in schema:
        yield "minLength", "x" * schema["minLength"], "x" * (schema["minLength"] - 1)
    if "maxItems" in schema:
        item: Any = 0.5 if schema["items"].get("type") == "number" else "a"
        if schema["items"].get("$ref", "").endswith("NewDecision"):
            item = {"id_a": "one", "id_b": "two", "decision": "same"}
        yield "maxItems", [item] * schema["maxItems"], [item] * (schema["maxItems"] + 1)
    if "multipleOf" in schema:
        yield "multipleOf", schema["multipleOf"], schema["multipleOf"] + 1


def test_documented_bounds_are_those_that_the_server_enforces(client: TestClient) -> None:
    """Every bound of every parameter and member is walked, at the bound and beyond it."""
    components = client.get("/openapi.json").json()["components"]["schemas"]
    walked = 0
    for method, path, operation in operations(client):
        cases: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
        request = example_request(path, operation)
        for parameter in operation.get("parameters", ()):
            name = parameter["name"]
            for bound, inside, outside in bounds_of(parameter["schema"]):
                if parameter["in"] == "path":
                    # an empty segment is another path
                    if bound == "minLength":
                        continue
                    values = {"scope": "shop", "id": "two"}
                    pair = [
                        {**request, "url": path.format(**{**values, name: value})}
                        for value in (inside, outside)
                    ]
                else:
                    pair = [{**request, "params": {name: value}} for value in (inside, outside)]
                cases.append((f"{name} {bound}", pair[0], pair[1]))
        if request["json"] is not None:
            reference = operation["requestBody"]["content"][JSON]["schema"]["$ref"]
            schema = components[reference.rpartition("/")[2]]
            for name, member in schema["properties"].items():
                for bound, inside, outside in bounds_of(member):
                    others = dict(request["json"])
                    if name in ("vector", "tokens"):
                        others.pop("text")
                    pair = [{**request, "json": {**others, name: v}} for v in (inside, outside)]
                    cases.append((f"{name} {bound}", pair[0], pair[1]))
        for case, inside_request, outside_request in cases:
            name = case.split()[0]
            beyond = client.request(method, **outside_request)
            assert beyond.status_code == 422, (method, path, case, beyond.text[:300])
            assert name in beyond.json()["field"], (method, path, case)
            at = client.request(method, **inside_request)
            detail = at.json().get("detail", "") if at.content and at.status_code >= 400 else ""
            assert detail != beyond.json()["detail"], (method, path, case)
            walked += 1
    assert walked > 40


def test_more_matches_than_max_top_are_refused(serve: Serve) -> None:
    client = serve(max_top=5, index={"passages": "2"})
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    for schema, route in (
        ("QueryRequest", "query"),
        ("NearMissRequest", "near-misses"),
        ("PassagesRequest", "passages"),
    ):
        assert schemas[schema]["properties"]["top"]["maximum"] == 5
        url = f"/v1/scopes/shop/{route}"
        for top, status in ((5, 200), (6, 422), (10**9, 422), (0, 422)):
            answer = client.post(url, json={"text": "the cat", "top": top})
            assert answer.status_code == status
            assert ("max_top=5" in answer.text) == (top > 5)
        # without a number, the server chooses one that it allows
        assert client.post(url, json={"text": "the cat"}).status_code == 200


def test_times_are_in_the_form_of_rfc_3339(client: TestClient) -> None:
    document = client.get("/v1/scopes/shop/documents/one").json()
    listing = client.get("/v1/scopes/shop/clusters").json()
    scopes = client.get("/v1/scopes").json()
    times = [
        document["created"],
        document["seen"],
        listing["as_of"],
        listing["clusters"][0]["created"],
        scopes["scopes"][0]["as_of"],
    ]
    for time in times:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", time)
        age = datetime.now(UTC) - datetime.fromisoformat(time)
        assert timedelta(0) <= age < timedelta(hours=1)
    assert models.format_time(0.0) == "1970-01-01T00:00:00.000000Z"


def test_scopes_are_listed_with_counts_in_pages(client: TestClient) -> None:
    for scope in ("a", "b", "c"):
        client.post(f"/v1/scopes/{scope}/documents", json={"text": TEXT.format(scope)})
    client.patch("/v1/scopes/unfinished/documents/part", json={"text": "some words of it"})
    first = client.get("/v1/scopes?limit=3").json()
    assert [row["name"] for row in first["scopes"]] == ["a", "b", "c"]
    second = client.get(f"/v1/scopes?limit=3&cursor={first['next']}").json()
    assert (second["next"], second["complete"]) == (None, True)
    (row,) = second["scopes"]
    assert (row["name"], row["documents"], row["clusters"]) == ("shop", 2, 1)


def test_scopes_that_a_token_has_no_access_to_are_not_listed(serve: Serve, tmp_path: Path) -> None:
    held = TokenFile(tmp_path / "tokens.json")
    rights = {
        "boss": Principal("boss", ("*",), ("admin",)),
        "team": Principal("team", ("team-*",), ("read",)),
        "shop": Principal("shop", ("shop",), ("read",)),
        "none": Principal("none", ("other",), ("read",)),
        "writer": Principal("writer", ("*",), ("write",)),
    }
    headers = {
        name: {"authorization": f"Bearer {held.create(principal)}"}
        for name, principal in rights.items()
    }
    client = serve()
    for scope in ("shop", "team-a", "team-b", "secret"):
        body = {"text": TEXT.format(scope)}
        client.post(f"/v1/scopes/{scope}/documents", json=body, headers=headers["boss"])

    def listed(name: str) -> list[str]:
        rows = client.get("/v1/scopes", headers=headers[name]).json()["scopes"]
        return [row["name"] for row in rows]

    assert listed("boss") == ["secret", "shop", "team-a", "team-b"]
    assert listed("team") == ["team-a", "team-b"]
    assert listed("shop") == ["shop"]
    assert listed("none") == []
    assert client.get("/v1/scopes", headers=headers["writer"]).status_code == 403
    assert client.get("/v1/scopes").status_code == 401


class Links(HTMLParser):
    """Collects what a page loads or links to."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.targets += [value or "" for name, value in attrs if name in ("href", "src", "action")]


def test_api_docs_describe_each_operation_without_external_requests(client: TestClient) -> None:
    answer = client.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    page = Links()
    page.feed(answer.text)
    assert not page.tags & {"link", "img", "iframe", "object", "form"}
    assert answer.text.count("<script") == 1
    (script,) = (target for target in page.targets if target.startswith("/docs.js?v="))
    others = {target for target in page.targets if not target.startswith("#")}
    assert others == {"/openapi.json", script}
    assert "@import" not in answer.text
    assert "url(" not in answer.text
    for method, path, operation in operations(client):
        assert f"{method.upper()} {path}" in answer.text
        assert f'id="{operation["operationId"]}"' in answer.text
    anchors = {target[1:] for target in page.targets if target.startswith("#")}
    assert all(f'id="{anchor}"' in answer.text for anchor in anchors)
    assert json.dumps("valley")[1:-1] in answer.text


@pytest.mark.parametrize(("console", "page"), [(True, "/console/"), (False, "/docs")])
def test_root_leads_to_the_console_or_the_docs(serve: Serve, console: bool, page: str) -> None:
    answer = serve(console=console).get("/", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, page)
