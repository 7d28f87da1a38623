"""Tests of problem documents and of the responses that contain them."""

import json

import pytest

from nearkin.service.server.http.problems import MEDIA_TYPE, PROBLEM_KINDS, ProblemError


@pytest.mark.parametrize("code", sorted(PROBLEM_KINDS))
def test_response_is_a_problem_document_with_the_status_of_its_kind(code: str) -> None:
    response = ProblemError(code, "what happened").response("0" * 32)
    members = json.loads(response.body)
    kind = PROBLEM_KINDS[code]
    assert 400 <= response.status_code == members["status"] == kind.status
    assert response.headers["content-type"] == MEDIA_TYPE
    assert members == {
        "type": f"urn:nearkin:problem:{code}",
        "title": kind.title,
        "status": kind.status,
        "code": code,
        "detail": "what happened",
        "instance": f"urn:uuid:{'0' * 32}",
    }


def test_field_and_instance_are_left_out_if_they_are_unknown() -> None:
    members = ProblemError("not-found", "gone").to_dict()
    assert not {"field", "instance"} & set(members)
    assert ProblemError("invalid-request", "bad", field="/text").to_dict()["field"] == "/text"


def test_only_missing_authentication_names_its_scheme() -> None:
    responses = {code: ProblemError(code, "x").response() for code in PROBLEM_KINDS}
    challenged = {code for code, each in responses.items() if "www-authenticate" in each.headers}
    assert challenged == {"unauthenticated"}


@pytest.mark.parametrize(
    ("wait", "header"), [(None, None), (0.05, "1"), (1.0, "1"), (1.4, "2"), (59.2, "60")]
)
def test_retry_after_is_never_earlier_than_there_is_room(
    wait: float | None, header: str | None
) -> None:
    response = ProblemError("rate-limited", "too many", retry_after=wait).response()
    assert response.headers.get("retry-after") == header
