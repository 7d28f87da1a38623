"""The page of the API: its forms in a browser, and its content policy."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import httpx2
import pytest
from playwright.sync_api import Browser, Locator, Page

from nearkin.service.server.api_docs import read_script
from nearkin.service.server.http.tokens import Principal, TokenFile
from tests.conftest import PATIENCE
from tests.service.server.api_operations import TEXT
from tests.service.server.conftest import Serve
from tests.services import free_port, start_serving

HOSTILE_ID = "<img src=x onerror='window.pwned = 1'> \u202e, {\"a\": [1]} \\"
SEED = 2**60 + 1
"""A number that JavaScript cannot represent."""


@dataclass(frozen=True)
class Running:
    """A server with one document, and its token."""

    url: str
    token: str


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("api-docs")
    tokens = TokenFile(folder / "nearkin-tokens.json")
    token = tokens.create(Principal("ada", ("shop",), ("read", "write")))
    port = free_port()
    server = start_serving(folder, port)
    try:
        url = f"http://127.0.0.1:{port}"
        httpx2.post(
            f"{url}/v1/scopes/shop/documents",
            json={"id": HOSTILE_ID, "text": TEXT.format("woods")},
            headers={"Authorization": f"Bearer {token}"},
            timeout=300,
        ).raise_for_status()
        yield Running(url, token)
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def page(browser: Browser, running: Running) -> Iterator[Page]:
    """The page in a browser. A refused policy, an error, or a request to elsewhere is a failure."""
    messages: list[str] = []
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on(
        "request",
        lambda request: (
            messages.append(request.url) if not request.url.startswith(running.url) else None
        ),
    )
    page.goto(f"{running.url}/docs")
    yield page
    page.close()
    # a browser reports answers that are problems
    assert [text for text in messages if "status of 401" not in text] == []


def open_form(page: Page, operation: str) -> Locator:
    """Opens the form of an operation."""
    section = page.locator(f"section:has(#{operation})")
    section.get_by_text("Try it").click()
    return section.locator("form")


def test_query_is_sent_with_the_token_and_answered_as_text(page: Page, running: Running) -> None:
    page.get_by_label("Token").fill(running.token)
    form = open_form(page, "queryDocuments")
    assert form.get_by_label("scope").input_value() == "shop"
    body = json.loads(form.get_by_label("Body").input_value())
    form.get_by_label("Body").fill(json.dumps({**body, "text": TEXT.format("valley")}))
    form.get_by_role("button", name="Send").click()
    form.get_by_text("Status 200").wait_for()
    shown = form.locator("pre").inner_text()
    (match,) = json.loads(shown)["matches"]
    assert match["id"] == HOSTILE_ID
    assert '\n  "matches": [\n    {\n      "id": ' in shown
    assert "\\u202e" in shown
    assert page.evaluate("window.pwned") is None

    stored = page.evaluate(
        "[document.cookie, ...Object.values(localStorage), ...Object.values(sessionStorage)].join()"
    )
    assert stored == ""
    assert running.token not in page.url + page.content()


def test_parameters_are_parts_of_the_url(page: Page, running: Running) -> None:
    page.get_by_label("Token").fill(running.token)
    form = open_form(page, "getCluster")
    form.get_by_label("id").fill(HOSTILE_ID)
    form.get_by_label("limit").fill("1")
    with page.expect_request("**/clusters/**") as sent:
        form.get_by_label("limit").press("Enter")
    assert sent.value.url.endswith("?limit=1")
    form.get_by_text("Status 200").wait_for()
    assert json.loads(form.locator("pre").inner_text())["id"] == HOSTILE_ID


def test_problem_is_shown_without_a_token(page: Page) -> None:
    form = open_form(page, "queryDocuments")
    form.get_by_role("button", name="Send").click()
    status = form.get_by_text("Status 401")
    status.wait_for()
    problem = json.loads(form.locator("pre").inner_text())
    assert problem["code"] == "unauthenticated"
    assert f"{problem['title']}: {problem['detail']}" in status.inner_text()


def test_each_operation_has_a_form(page: Page) -> None:
    page.get_by_label("Token").wait_for()
    assert page.get_by_label("Token").get_attribute("type") == "password"
    operations = page.locator("section:has(h2[id])").count()
    assert page.locator("section > details > form").count() == operations > 10
    assert page.locator("details[open]").count() == 0


def test_numbers_and_empty_values_are_shown_unchanged(page: Page) -> None:
    sent = f'{{"seed":{SEED},"share":1.0,"none":[],"empty":{{}},"list":[[1],"a:,"]}}'
    page.route(
        "**/v1/spec", lambda route: route.fulfill(body=sent, content_type="application/json")
    )
    form = open_form(page, "getSpec")
    form.get_by_role("button", name="Send").click()
    form.get_by_text("Status 200").wait_for()
    shown = form.locator("pre").inner_text()
    assert shown == json.dumps(json.loads(sent), indent=2)


def test_page_without_scripts_has_no_forms(browser: Browser, running: Running) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{running.url}/docs")
    assert page.locator("#queryDocuments").is_visible()
    assert page.locator("form, details, input").count() == 0
    context.close()


@pytest.mark.promise("The page of the API runs its own script only.")
def test_page_runs_its_own_script_only(serve: Serve) -> None:
    client = serve(console=False)
    page = client.get("/docs")
    policy = dict(
        part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";")
    )
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "connect-src": "'self'",
        "style-src": "'unsafe-inline'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    address = page.text.partition('<script src="')[2].partition('"')[0]
    script = client.get(address)
    assert script.content == read_script()
    assert script.headers["content-type"].startswith("text/javascript")
    assert "immutable" in script.headers["cache-control"]
    for name in ("innerHTML", "eval(", "Function(", "localStorage", "sessionStorage", "http:"):
        assert name not in script.text
