"""The console in a browser, and the requests that it accepts."""

import importlib
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, Page

import nearkin as nk
from nearkin.runs.run_record import RUN
from nearkin.service.server.console.mount import COOKIE
from nearkin.service.server.console.pages.audit import read_audit
from nearkin.service.server.http.tokens import Principal, TokenFile
from tests.conftest import PATIENCE
from tests.service.server.conftest import Serve
from tests.service.server.console.documents import WORDS, variant
from tests.service.server.console.pages import AUDIT, SAME_ORIGIN, page_content, sent
from tests.services import free_port, start_serving, wait_until

PHONE, DESK = {"width": 360, "height": 800}, {"width": 1200, "height": 900}
PAGES = (
    "live",
    "try",
    "clusters",
    "clusters?scope=news&id=first",
    "review?scope=news",
    "tuning",
    "buckets",
    "shadow",
    "audit",
)
HOSTILE = (
    "</pre><script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'> "
    "\u202eleft to right {{7*7}}"
)


@dataclass(frozen=True)
class Running:
    """A server with documents, and its tokens."""

    url: str
    admin: str
    shopper: str
    writer: str


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("console")
    tokens = TokenFile(folder / "nearkin-tokens.json")
    admin = tokens.create(Principal("boss", ("*",), ("read", "write", "admin")))
    shopper = tokens.create(Principal("shopper", ("shop",), ("read",)))
    writer = tokens.create(Principal("writer", ("*",), ("write",)))
    (folder / "audit.json").write_text(json.dumps(AUDIT))
    port = free_port()
    server = start_serving(folder, port, "--audit", "audit.json")
    try:
        url = f"http://127.0.0.1:{port}"
        with httpx2.Client(
            base_url=url, headers={"Authorization": f"Bearer {admin}"}, timeout=300
        ) as client:
            for scope, id, text in (
                ("news", "first", variant()),
                ("news", "second", variant(30)),
                ("news", "third", variant(5)),
                ("news", "hostile <i>one</i>", f"{HOSTILE} {' '.join(WORDS[:40])}"),
                ("news", "hostile two", f"{HOSTILE} {' '.join(WORDS[:40])} more"),
                ("shop", "only", " ".join(reversed(WORDS))),
            ):
                client.post(
                    f"/v1/scopes/{scope}/documents", json={"id": id, "text": text}
                ).raise_for_status()
        yield Running(url, admin, shopper, writer)
    finally:
        server.terminate()
        server.wait()


Open = Callable[..., Page]
SignedIn = Callable[..., BrowserContext]


@pytest.fixture(scope="module")
def signed_in(browser: Browser, running: Running) -> SignedIn:
    """Returns browser contexts with the session of a token.

    Tests with the same token and options share one, because a new context loads and compiles the
    scripts of the console again, which takes longer than a test.
    """
    contexts: dict[str, BrowserContext] = {}

    def context_of(token: str, **options: object) -> BrowserContext:
        name = repr((token, options))
        if name not in contexts:
            context = browser.new_context(**{"viewport": DESK, **options})  # type: ignore[arg-type]
            context.set_default_timeout(PATIENCE)
            answer = context.request.post(
                f"{running.url}/console/login",
                form={"token": token},
                headers=SAME_ORIGIN,
                max_redirects=0,
            )
            assert answer.status == 303
            contexts[name] = context
        return contexts[name]

    return context_of


@pytest.fixture
def visit(browser: Browser, signed_in: SignedIn, running: Running) -> Iterator[Open]:
    """Opens a page of the console with a token.

    With `form=True` it logs in as a person does. A message on the browser's console, or a request
    to elsewhere, is a failure.
    """
    pages: list[Page] = []
    messages: list[str] = []

    def start(
        token: str | None = None, path: str = "", *, form: bool = False, **options: object
    ) -> Page:
        token = token or running.admin
        context = browser.new_context(viewport=DESK) if form else signed_in(token, **options)  # type: ignore[arg-type]
        page = context.new_page()
        pages.append(page)
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on(
            "request",
            lambda request: (
                messages.append(request.url) if not request.url.startswith(running.url) else None
            ),
        )
        page.goto(f"{running.url}/console/{path}")
        if form:
            page.get_by_label("Token").fill(token)
            page.keyboard.press("Enter")
        page.locator("main h1").wait_for()
        return page

    yield start
    # the browser warns if a test types before the focus of the page was set
    assert [
        message
        for message in messages
        if not message.startswith("Autofocus processing was blocked")
    ] == []
    for page in pages:
        page.close()


# -- in the browser


def test_session_cookie_does_not_contain_the_token(visit: Open, running: Running) -> None:
    page = visit(form=True)
    assert page.title() == "Live · nearkin"
    (cookie,) = page.context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == (COOKIE, True, "Strict")
    secret = running.admin.split("_", 2)[2]
    stored = page.evaluate(
        "[document.cookie, ...Object.values(localStorage), ...Object.values(sessionStorage)].join()"
    )
    for where in (cookie["value"], stored, page.content(), page.url):
        assert secret not in where
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("heading", name="Log in").wait_for()
    assert page.context.cookies() == []
    page.goto(f"{running.url}/console/live")
    assert page.get_by_role("heading", name="Log in").is_visible()


def test_invalid_token_is_reported_on_sign_in(browser: Browser, running: Running) -> None:
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{running.url}/console/clusters")
    page.get_by_label("Token").fill("nk_boss_wrong")
    page.get_by_role("button", name="Log in").click()
    assert page.get_by_role("alert").text_content() == "This token is not valid."
    page.close()


def test_search_page_links_to_the_cluster(visit: Open) -> None:
    page = visit(path="try")
    page.get_by_label("Text", exact=True).fill(variant(50))
    # by keyboard alone
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    found = page.locator("#try-found article")
    found.first.wait_for()
    assert "1 representative is 0.800 similar or more" in (
        page.locator("#try-found").text_content() or ""
    )
    assert found.locator("ins").all_text_contents() == ["word50"]
    assert found.locator("del").all_text_contents() == ["other50"]
    found.get_by_role("link", name="first").click()
    page.get_by_role("heading", name="Beside the representative").wait_for()
    assert page.locator("main h1").text_content() == "first"
    # only the words of the member would be lost with it
    assert page.locator("#beside ins").all_text_contents() == ["word30"]
    assert page.locator("#beside del").all_text_contents() == ["other30"]
    page.get_by_text("Why they match").click()
    assert page.get_by_text("candidate probability").is_visible()
    page.locator("#members").get_by_role("link", name="third").click()
    page.locator("#beside h3", has_text="third").wait_for()
    assert page.locator("#beside del").all_text_contents() == ["other5"]


def test_search_page_reports_no_match(visit: Open) -> None:
    page = visit(path="try")
    page.get_by_label("Text", exact=True).fill("nothing of the kind was ever heard of here before")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("heading", name="No match").wait_for()


def test_near_misses_are_shown_against_the_threshold(visit: Open) -> None:
    page = visit(path="try?scope=news")
    page.get_by_label("Text", exact=True).fill(variant(*range(0, 12, 3)))
    page.get_by_role("button", name="Search").click()
    page.get_by_role("heading", name="No match").wait_for()
    page.get_by_role("heading", name="Near misses").wait_for()
    article = page.locator("#try-found article").first
    similarity = float((article.locator(".similarity").text_content() or "").split()[0])
    assert 0.4 < similarity < 0.8
    assert "less similar than the threshold 0.800" in (
        page.locator("#try-found").text_content() or ""
    )
    assert article.locator("mark").count() > 0
    assert article.locator("del").count() == 0


def test_scopes_are_a_menu_with_counts(visit: Open) -> None:
    page = visit(path="clusters")
    menu = page.get_by_label("Scope")
    options = menu.locator("option").all_text_contents()
    assert options == ["news (5 documents)", "shop (1 document)"]
    menu.select_option("shop")
    page.get_by_role("button", name="Show").click()
    page.locator("caption", has_text="clusters of shop").wait_for()
    assert page.get_by_label("Scope").input_value() == "shop"


@pytest.mark.parametrize("path", ["clusters", "tuning", "try"])
def test_unknown_scope_is_reported(visit: Open, path: str) -> None:
    page = visit(path=f"{path}?scope=nowhere")
    alarm = page.get_by_role("alert")
    alarm.wait_for()
    assert "Unknown scope nowhere" in (alarm.text_content() or "")


def test_tuning_is_scaled_to_an_expected_size_and_names_the_command(visit: Open) -> None:
    page = visit(path="tuning?scope=news")
    candidates = page.locator("#tune-result dl div", has_text="Candidates per document")
    before = candidates.locator("dd").text_content() or ""
    assert "These are the settings" in (page.locator("#tune-apply").text_content() or "")
    page.get_by_label("Expected documents in the scope").fill("4001")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "before => document.querySelector('#tune-result').textContent.includes('Candidates')"
        " && ![...document.querySelectorAll('#tune-result dd')]"
        ".some(item => item.textContent === before)",
        arg=before,
    )
    after = candidates.locator("dd").text_content() or ""
    # five documents become 4,001: a thousand times as many pairs
    assert float(after.replace(",", "")) == pytest.approx(1000 * float(before), rel=0.01)
    page.get_by_label("k, length of the signatures").fill("256")
    command = "nearkin index rebuild --store URL --to NEW_URL --k 256 --cut-over"
    page.locator("#tune-apply pre", has_text=command).wait_for()


def test_clusters_are_listed_and_searched(visit: Open) -> None:
    page = visit(path="clusters?scope=news")
    rows = page.locator("main table tbody tr")
    assert "first" in (rows.first.text_content() or "")
    assert rows.first.locator("td").first.text_content() == "3"
    page.get_by_role("link", name="Newest").click()
    page.locator("caption", has_text="Newest").wait_for()
    assert "hostile" in (rows.first.text_content() or "")
    box = page.get_by_label("Document id, or words of a text")
    for search, expected in (
        ("third", "third"),
        ("OTHER30", "second"),
        (variant(), "first"),
        ("no such words", ""),
    ):
        box.fill(search)
        page.get_by_role("button", name="Search").click()
        found = page.locator("#search-found")
        if search == "no such words":
            found.get_by_text("No documents found").wait_for()
        else:
            found.locator("tbody th", has_text=expected).first.wait_for()
            assert found.locator("tbody th").first.text_content() == expected


def test_pairs_are_decided_by_keys_and_buttons(visit: Open, running: Running) -> None:
    headers = {"Authorization": f"Bearer {running.admin}"}
    with httpx2.Client(base_url=running.url, headers=headers, timeout=300) as client:
        for id in ("one", "two", "three", "four"):
            body = {"id": id, "text": f"{variant()} {id}"}
            client.post("/v1/scopes/reviewed/documents", json=body).raise_for_status()
    page = visit(path="review?scope=reviewed")
    panel = page.locator("#review-panel")
    panel.get_by_role("heading", name="Pair 1 of 3").wait_for()
    assert panel.locator("mark").count() == 2
    page.get_by_label("Use the keys s, d and u").uncheck()
    page.keyboard.press("d")
    page.get_by_label("Use the keys s, d and u").check()
    page.keyboard.press("u")
    panel.get_by_role("heading", name="Pair 2 of 3").wait_for()
    page.keyboard.press("d")
    panel.get_by_role("heading", name="Pair 3 of 3").wait_for()
    assert ": different. " in (panel.get_by_role("status").text_content() or "")
    page.get_by_role("button", name="Same").click()
    panel.get_by_text("These were all pairs").wait_for()
    page.get_by_role("link", name="Search for more pairs").click()
    panel.get_by_role("heading", name="Pair 1 of 1").wait_for()


def test_sliders_update_the_curve_and_the_figures(visit: Open) -> None:
    page = visit(path="tuning?scope=news")
    curve = page.locator("#tune-curve polyline.orange")
    curve.wait_for()
    numbers = page.locator("#tune-result [role=status]")
    before = curve.get_attribute("points"), numbers.text_content()
    assert page.locator("#tune-threshold-value").text_content() == "0.8"
    slider = page.get_by_label("Threshold")
    slider.focus()
    for _ in range(20):
        page.keyboard.press("ArrowLeft")
    numbers.get_by_text("Found at 0.60").wait_for()
    page.locator("#tune-threshold-value", has_text="0.6").wait_for()
    page.wait_for_function(
        "points => document.querySelector('#tune-curve polyline.orange').getAttribute('points') "
        "!== points",
        arg=before[0],
    )
    lower = numbers.text_content()
    assert lower != before[1]
    page.get_by_label("k, length of the signatures").fill("256")
    numbers.get_by_text("1,024").wait_for()
    assert numbers.text_content() != lower
    page.get_by_label("Threshold").fill("0.3")
    page.get_by_label("Recall").fill("0.99")
    page.get_by_label("k, length of the signatures").fill("8")
    alarm = page.get_by_role("alert")
    alarm.wait_for()
    assert "out of reach with signatures of length 8" in (alarm.text_content() or "")


def test_live_page_updates_itself(visit: Open, running: Running) -> None:
    page = visit(path="live")
    tile = page.locator("#live dl div", has_text="Upserts per second").locator("dd")
    with httpx2.Client(
        base_url=running.url, headers={"Authorization": f"Bearer {running.admin}"}, timeout=300
    ) as client:

        def shows_upserts() -> bool:
            # the page shows the last seconds, which a slow browser may have missed
            document = {"id": "first", "text": variant()}
            client.post("/v1/scopes/news/documents", json=document).raise_for_status()
            return float(tile.text_content() or 0) > 0

        wait_until(shows_upserts, "the page shows the upserts")
    page.locator("#live-rates svg").wait_for()


def test_audit_page_shows_result(visit: Open) -> None:
    page = visit(path="audit")
    text = page.locator("main").text_content() or ""
    assert "96.0%" in text
    assert "Recall is 90.0% to 98.0% of 100" in text
    page.locator("figure svg").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_readable_in_light_and_dark_schemes(visit: Open, scheme: str) -> None:
    page = visit(path="tuning?scope=news", color_scheme=scheme)
    page.locator("#tune-curve text.tick").first.wait_for()
    ground, ink, muted = (
        ("rgb(255, 255, 255)", "rgb(26, 31, 38)", "rgb(89, 99, 111)")
        if scheme == "light"
        else ("rgb(20, 23, 28)", "rgb(228, 232, 237)", "rgb(156, 167, 180)")
    )
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ground
    assert page.evaluate("getComputedStyle(document.querySelector('#scope')).color") == ink
    assert (
        page.evaluate("getComputedStyle(document.querySelector('#tune-curve text.tick')).fill")
        == muted
    )
    assert (
        page.evaluate("getComputedStyle(document.querySelector('#tune-curve svg')).backgroundColor")
        == "rgba(0, 0, 0, 0)"
    )


def test_console_fits_narrow_screens(visit: Open, running: Running) -> None:
    page = visit(viewport=PHONE)
    fields = "[...document.querySelectorAll('input:not([type=hidden]), textarea, button')]"
    for path in PAGES:
        page.goto(f"{running.url}/console/{path}")
        page.locator("main h1").wait_for()
        if path in ("live", "tuning", "audit"):
            page.locator("figure svg").first.wait_for()
        assert (
            page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            <= 0
        ), path
        assert (
            page.evaluate(f"{fields}.filter(e => !e.labels?.length && !e.textContent).length") == 0
        )
        # the navigation has no page of a part that the server does not have
        current = 0 if path == "shadow" else 1
        assert page.evaluate("document.querySelectorAll('[aria-current=page]').length") == current


def test_console_is_usable_by_keyboard(visit: Open) -> None:
    page = visit(path="tuning?scope=news")
    page.locator("#tune-curve svg").wait_for()
    page.evaluate("document.activeElement.blur()")
    reached = []
    for _ in range(15):
        page.keyboard.press("Tab")
        seen = page.evaluate(
            "(() => { const e = document.activeElement;"
            " return [e.className === 'skip' ? 'skip' : e.id || e.textContent, "
            "getComputedStyle(e).outlineStyle]; })()"
        )
        reached.append(seen)
    names = [name for name, _ in reached]
    assert names[0] == "skip"
    assert {
        "Log out",
        "Live",
        "Search",
        "Review",
        "scope",
        "Show",
        "tune-threshold",
        "tune-recall",
        "tune-k",
    } <= set(names)
    assert all(style != "none" for _, style in reached)


def test_token_is_limited_to_its_scopes_and_rights(visit: Open, running: Running) -> None:
    page = visit(running.shopper)
    assert page.title() == "Search · nearkin"
    assert page.locator("nav[aria-label=Pages] a").all_text_contents() == [
        "Search",
        "Clusters",
        "Tuning",
    ]
    options = page.get_by_label("Scope").locator("option").all()
    assert [option.get_attribute("value") for option in options] == ["shop"]
    refused = [
        "try?scope=news",
        "clusters?scope=news",
        "clusters?scope=news&id=first",
        "tuning?scope=news",
        "live",
        "buckets",
        "shadow",
        "audit",
    ]
    for path in refused:
        page.goto(f"{running.url}/console/{path}")
        page.get_by_role("alert").wait_for()
        assert "word" not in (page.locator("body").text_content() or "")
        assert "Forbidden" in (page.get_by_role("alert").text_content() or "")
    page.goto(f"{running.url}/console/clusters?scope=shop&id=first")
    page.get_by_text("Not found").wait_for()
    page.goto(f"{running.url}/console/clusters")
    page.get_by_role("link", name="only").click()
    page.get_by_role("heading", name="No similar documents").wait_for()


def test_write_only_token_has_no_pages(visit: Open, running: Running) -> None:
    page = visit(running.writer)
    assert page.locator("main h1").text_content() == "No pages available"
    assert page.locator("nav[aria-label=Pages] a").count() == 0


def test_hostile_documents_are_text(visit: Open, running: Running) -> None:
    page = visit(path="clusters?scope=news&id=hostile+two")
    page.locator("#beside pre").first.wait_for()
    assert page.locator("main h1").text_content() == "hostile <i>one</i>"
    text = page.locator("#beside pre").first.text_content() or ""
    assert text.startswith("</pre><script>window.pwned = 1</script><img src=x")
    assert "‹U+202E›left" in text
    page.goto(f"{running.url}/console/clusters?scope=news")
    page.locator("main table").first.wait_for()
    page.goto(f"{running.url}/console/try?scope=news")
    page.get_by_label("Text", exact=True).fill(f"{HOSTILE} {' '.join(WORDS[:40])} again")
    page.get_by_role("button", name="Search").click()
    page.locator("#try-found article").wait_for()
    page.goto(
        f"{running.url}/console/clusters?scope=news&id=%3Cimg%20src%3Dx%20onerror%3D%22window.pwned%3D3%22%3E"
    )
    page.get_by_role("alert").wait_for()
    assert page.evaluate("window.pwned") is None
    assert page.locator("main img, main script, main i").count() == 0


# -- what is let in


def test_console_requires_session(running: Running) -> None:
    with httpx2.Client(base_url=f"{running.url}/console/", timeout=300) as client:
        for path in ("", "live", "clusters?scope=news&id=first"):
            answer = client.get(path)
            assert (answer.status_code, answer.headers["location"]) == (303, "/console/login")
        response = client.post("try", json={"text": "x", "scope": "a"}, headers=SAME_ORIGIN)
        assert response.status_code == 401
        for path in (
            "nope",
            "docs",
            "openapi.json",
            "static/login.html",
            "static/../mount.py",
        ):
            assert client.get(path).status_code in (401, 404), path
        client.cookies.set(COOKIE, "WyJib3NzIiwibWFyayJd.aSBjbQ.forged", path="/console/")
        assert client.get("live").status_code == 303


def test_cross_origin_requests_to_the_console_are_rejected(running: Running) -> None:
    host = running.url.removeprefix("http://")
    with httpx2.Client(base_url=f"{running.url}/console/", timeout=300) as client:
        form = {"token": running.admin}
        for headers in (
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {},
        ):
            for path in ("login", "logout", "review"):
                assert client.post(path, data=form, headers=headers).status_code == 403
        assert (
            client.post("login", data=form, headers={"Origin": f"http://{host}"}).status_code == 303
        )
        assert client.get("").status_code == 200


@pytest.mark.promise("Answers of the console carry security headers.")
def test_console_sends_security_headers(running: Running) -> None:
    with httpx2.Client(base_url=f"{running.url}/console/", timeout=300) as client:
        door = client.get("login")
        assert "script" not in door.headers["content-security-policy"]
        answer = client.post("login", data={"token": running.admin}, headers=SAME_ORIGIN)
        assert re.search(r"HttpOnly.*Path=/console/.*SameSite=strict", answer.headers["set-cookie"])
        page = client.get("live")
        policy = dict(
            part.strip().split(" ", 1)
            for part in page.headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'none'"
        assert "unsafe" not in policy["script-src"]
        assert not re.search(r"https?:|\*", page.headers["content-security-policy"])
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["x-frame-options"] == "DENY"
        addresses = re.findall(r'(?:src|href)="([^"]*)"', page.text)
        assert len(addresses) > 5
        assert all(
            address == "/docs" or address.startswith(("/console/", "#")) for address in addresses
        )
        style = client.get(re.findall(r'href="/console/(static/page\.css[^"]*)"', page.text)[0])
        assert "immutable" in style.headers["cache-control"]


def test_failed_authentications_are_limited(serve: Serve, tmp_path: Path) -> None:
    TokenFile(tmp_path / "tokens.json").create(Principal("one", ("*",), ("read",)))
    client = serve(failures="2/minute")
    tries = [
        client.post("/console/login", data={"token": "nk_one_x"}, headers=SAME_ORIGIN)
        for _ in range(4)
    ]
    assert [one.status_code for one in tries] == [401, 401, 429, 429]
    assert "Try again in a minute" in tries[-1].text


def test_revoked_token_ends_session(serve: Serve, tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    token = tokens.create(Principal("one", ("*",), ("read",)))
    client = serve()
    client.post("/console/login", data={"token": token}, headers=SAME_ORIGIN)
    assert client.get("/console/try", follow_redirects=False).status_code == 200
    tokens.revoke("one")
    tokens.create(Principal("one", ("*",), ("read",)))
    client.app.state.authenticator.tokens.refresh()  # type: ignore[attr-defined]
    assert client.get("/console/try", follow_redirects=False).status_code == 303


def test_console_without_tokens_needs_no_sign_in(serve: Serve) -> None:
    client = serve()
    assert client.get("/console/", follow_redirects=False).status_code == 200
    assert client.get("/console/login", follow_redirects=False).headers["location"] == "/console/"
    page = page_content(client, "try")
    assert "no tokens" in page
    assert "logout" not in page
    assert client.get("/console/", headers={"Host": "rebound.example"}).status_code == 403


def test_pages_of_absent_parts_are_not_offered(
    serve: Serve, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("run")
    run = folder / "deduped"
    nk.dedup([variant(), variant(30), " ".join(reversed(WORDS))], threshold=0.6, out=run)
    page = page_content(serve(), "try")
    assert 'href="/docs"' in page
    assert ">Audit<" not in page
    assert ">Shadow<" not in page
    client = serve(run=run)
    assert ">Audit<" in page_content(client, "try")
    assert "Nothing was audited yet" in page_content(client, "audit")
    (folder / "audit.json").write_text(json.dumps(AUDIT), "utf-8")
    record = json.loads((run / RUN).read_bytes())
    record["audit"] = read_audit(folder / "audit.json").to_dict()
    (run / RUN).write_text(json.dumps(record), "utf-8")
    assert "at 95% confidence" in page_content(client, "audit")


def test_metrics_right_opens_only_the_live_page(serve: Serve, tmp_path: Path) -> None:
    token = TokenFile(tmp_path / "tokens.json").create(Principal("one", ("*",), ("metrics",)))
    client = serve()
    client.post("/console/login", data={"token": token}, headers=SAME_ORIGIN)
    assert "Upserts per second" in page_content(client, "live")
    for page in ("try", "clusters", "tuning", "buckets", "shadow", "audit"):
        assert "needs the right" in page_content(client, page)


def test_hot_buckets_are_shown_with_their_oldest_document(serve: Serve) -> None:
    client = serve(index={"postings": "all"})
    for i in range(50):
        new = {"id": f"copy {i}", "text": f"{variant()} end{i}"}
        client.post("/v1/scopes/a/documents", json=new).raise_for_status()
    text = page_content(client, "buckets")
    assert "copy 0" in text
    assert "id=copy+0" in text
    assert "Largest first" in text


def test_search_page_accepts_vectors_as_json(serve: Serve) -> None:
    client = serve(kind="vector", index={"dimensions": "3"})
    client.post(
        "/v1/scopes/a/documents", json={"id": "one", "vector": [1, 2, 3]}
    ).raise_for_status()
    assert "A vector, as JSON" in page_content(client, "try")
    found = sent(client, "try", text="[1, 2, 3]", scope="a")
    assert "1 representative is 0.800 similar or more" in found
    for wrong in ("words", "[1, 2]", "[1, null, 2]", "5", f"[1, 2, {10**400}]"):
        assert "warnings" in sent(client, "try", text=wrong, scope="a")
    assert "The text is not stored" in page_content(client, "clusters?scope=a&id=one")
    assert "Candidate probability" in page_content(client, "tuning?scope=a")


def test_invalid_requests_are_reported(serve: Serve, capfd: pytest.CaptureFixture[str]) -> None:
    client = serve()
    client.post("/v1/scopes/a/documents", json={"id": "one", "text": variant()}).raise_for_status()
    for page in (
        "clusters?scope=a&id=%00",
        "clusters?scope=%1fserver",
        "clusters?scope=a&id=none",
        "tuning?scope=%00",
    ):
        assert "warnings" in page_content(client, page), page
    for start in ("-1", "x", "99999999999999999999", "²"):
        assert "one" in page_content(client, f"clusters?scope=a&order=none&start={start}")
    for wrong in ({"threshold": "2"}, {"recall": "x"}, {"k": "1" * 9}, {"k": "12.5"}):
        values = {"threshold": "0.8", "recall": "0.9", "k": "128", "scope": "a", **wrong}
        assert "Invalid request" in sent(client, "tuning", **values), wrong
    assert "Invalid request" in sent(client, "tuning", recall="0.9", k="128", scope="a")
    assert "internal error" not in capfd.readouterr().err


def test_requests_of_pages_are_counted_and_bounded_like_those_of_the_api(
    serve: Serve, tmp_path: Path
) -> None:
    token = TokenFile(tmp_path / "tokens.json").create(Principal("reader", ("a",), ("read",)))
    client = serve()
    memory = client.app.state.service.memory  # type: ignore[attr-defined]
    memory.caller_share = 10_000_000
    client.post("/console/login", data={"token": token}, headers=SAME_ORIGIN)
    headers = {**SAME_ORIGIN, "Content-Type": "application/json"}
    path = "/console/try"
    beyond_the_share = client.post(path, content=b" " * 10_000_001, headers=headers)
    assert (beyond_the_share.status_code, beyond_the_share.json()["code"]) == (429, "rate-limited")
    many_values = client.post(
        path, content=b'{"text": [' + b"[]," * 1_000_000 + b"[]]}", headers=headers
    )
    assert "Invalid request" in many_values.text
    long_text = "word " * 1_000_000
    assert "No match" in sent(client, "try", text=long_text, scope="a")
    assert memory.used == 0


def test_malformed_input_is_an_invalid_request(
    serve: Serve, capfd: pytest.CaptureFixture[str]
) -> None:
    client = serve()
    headers = {**SAME_ORIGIN, "Content-Type": "application/json"}
    for body in (b"", b"{", b"[]", b"null", b'"x"', b"\xff"):
        answer = client.post("/console/try", content=body, headers=headers)
        assert "Invalid request" in answer.text, body
    for values in ({}, {"text": 5}, {"text": None, "scope": ["a"]}):
        answer = client.post("/console/try", json=values, headers=SAME_ORIGIN)
        assert "Invalid request" in answer.text, values
    assert client.post("/console/buckets", json={}, headers=SAME_ORIGIN).status_code == 200
    assert "Traceback" not in capfd.readouterr().err


def test_hostile_vectors_are_rejected_before_parsing(
    serve: Serve, capfd: pytest.CaptureFixture[str]
) -> None:
    client = serve(kind="vector", index={"dimensions": "3"})
    for text in ("[" * 100_000, "[0" + ",0" * 1_000_000 + "]"):
        assert "Invalid request" in sent(client, "try", text=text, scope="a")
    assert "internal error" not in capfd.readouterr().err


def test_server_without_console_does_not_import_it(serve: Serve) -> None:
    client = serve(console=False)
    assert client.get("/console/").status_code == 404
    code = (
        "import sys, nearkin.service.server.processes; "
        "sys.exit('nearkin.service.server.console' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "work",
    [
        "clusters.find_documents",
        "clusters._beside_representative",
        "clusters.explain_match",
        "search._beside_input",
        "tuning.tune",
    ],
)
def test_slow_pages_use_overview_threads(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    """Searches and comparisons never use the threads of short requests."""
    client = serve()
    for at in range(2):
        client.post(
            "/v1/scopes/a/documents", json={"id": f"d{at}", "text": f"{variant()} end{at}"}
        ).raise_for_status()
    module, _, name = work.partition(".")
    path = f"nearkin.service.server.console.pages.{module}"
    original = getattr(importlib.import_module(path), name)
    threads: list[str] = []

    def recording(*arguments: object, **fields: object) -> object:
        threads.append(threading.current_thread().name)
        return original(*arguments, **fields)

    monkeypatch.setattr(f"{path}.{name}", recording)
    page_content(client, "clusters?scope=a&id=d0")
    page_content(client, "tuning?scope=a")
    sent(client, "try", text=f"{variant()} end5", scope="a")
    sent(client, "clusters", text="word1", scope="a")
    assert threads
    assert all(name.startswith("nearkin-overview") for name in threads)
