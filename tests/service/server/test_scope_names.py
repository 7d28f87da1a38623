"""Every route that writes refuses a new scope whose name looks like another one."""

import json

import pytest

from tests.service.server.conftest import Serve

TEXT = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"


@pytest.mark.parametrize("scope", ["acme%20", "%C2%A0acme", "cafe%CC%81"])
def test_routes_reject_scopes_that_look_like_others(scope: str, serve: Serve) -> None:
    client = serve()
    document = {"id": "x", "text": TEXT}
    assert client.post("/v1/scopes/acme/documents", json=document).status_code == 200
    answers = [
        client.post(f"/v1/scopes/{scope}/documents", json=document),
        client.patch(f"/v1/scopes/{scope}/documents/x", json={"text": TEXT}),
    ]
    for answer in answers:
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request"), answer.text
        assert "is new" in answer.json()["detail"]
    headers = {"content-type": "application/x-ndjson"}
    streamed = client.post(
        f"/v1/scopes/{scope}/documents", content=json.dumps(document) + "\n", headers=headers
    )
    assert "invalid-request" in streamed.text
    assert client.get(f"/v1/scopes/{scope}/documents/x").status_code == 404
    assert client.get("/v1/scopes/acme/documents/x").status_code == 200
