"""Requests that are generated from the OpenAPI description. None may cause an internal error."""

import json

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.service.server.conftest import Serve

REQUESTS, MANY = 500, 10_000


@pytest.fixture
def client(serve: Serve) -> TestClient:
    return serve(timeout=20.0)


def test_generated_requests_cause_no_internal_error(client: TestClient, full: bool) -> None:
    # imported by the process that runs this test, and not by all that collect it
    import schemathesis

    description = client.get("/openapi.json").json()
    assert description["openapi"].startswith("3.1")
    schema = schemathesis.openapi.from_dict(description)
    operations = [found.ok() for found in schema.get_all_operations()]
    each = -(-(MANY if full else REQUESTS) // len(operations))
    statuses: dict[int, int] = {}
    for operation in operations:
        cases = operation.as_strategy()

        @settings(
            max_examples=each,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=cases, data=st.data())
        def ask(case: schemathesis.Case, data: st.DataObject) -> None:
            request = case.as_transport_kwargs(base_url="http://localhost")
            answer = client.request(
                **{name: value for name, value in request.items() if name in KNOWN}
            )
            statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
            assert answer.status_code < 500, (request, answer.text)
            if answer.status_code >= 400:
                assert answer.headers["content-type"] == "application/problem+json"
                json.loads(answer.text)

        ask()
    assert sum(statuses.values()) >= REQUESTS * 0.8
    assert statuses.get(200, 0) > 20, statuses


KNOWN = ("method", "url", "params", "headers", "cookies", "json", "data", "content")


def test_openapi_description_is_complete(client: TestClient) -> None:
    description = client.get("/openapi.json").json()
    paths = set(description["paths"])
    for path in (
        "/v1/scopes/{scope}/documents",
        "/v1/scopes/{scope}/documents/{id}",
        "/v1/scopes/{scope}",
        "/v1/scopes/{scope}/query",
        "/v1/query",
        "/v1/scopes/{scope}/near-misses",
        "/v1/scopes/{scope}/passages",
        "/v1/scopes/{scope}/removals",
        "/v1/scopes/{scope}/decisions",
        "/v1/scopes/{scope}/clusters",
        "/v1/scopes/{scope}/clusters/{id}",
        "/v1/explain",
        "/v1/tune",
        "/v1/spec",
        "/healthz",
        "/readyz",
        "/metrics",
    ):
        assert path in paths
    text = json.dumps(description)
    named = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert named <= set(description["components"]["schemas"])
    for path in description["paths"].values():
        for operation in path.values():
            assert "application/problem+json" in json.dumps(operation["responses"])
