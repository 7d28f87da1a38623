"""The pages' application: a head with the navigation, and the content of the page that the address names."""

import logging
from collections.abc import Collection, Mapping
from html import escape
from typing import Any
from urllib.parse import parse_qsl

from dash import Dash, Input, Output, dcc, html
from dash.development.base_component import Component
from fastapi import FastAPI

from nearkin.errors import NearkinError, StoreError
from nearkin.server.console import components as shown
from nearkin.server.console.pages import audit, buckets, clusters, live, shadow, tuning
from nearkin.server.console.pages import search as trying
from nearkin.server.console.visitor import ROOT, Page, Visit, address, current
from nearkin.server.http.middleware import problem_from_error
from nearkin.server.http.problems import ProblemError

log = logging.getLogger("nearkin.server")

CHOSEN = (live.PAGE, trying.PAGE, clusters.PAGE, tuning.PAGE, buckets.PAGE, shadow.PAGE, audit.PAGE)
PAGES: Mapping[str, Page | None] = {"": None, **{page.path: page for page in CHOSEN}}
"""By path; the first is whichever comes first of those that one may see."""
DOCUMENT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="{icon}" type="image/svg+xml">
<link rel="stylesheet" href="{page}">
<link rel="stylesheet" href="{own}">
{css}
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
{app_entry}
<noscript>The console needs JavaScript, of this server only; the same is to be had from its API.</noscript>
{config}
{scripts}
{renderer}
</body>
</html>"""


class Frame(Dash):
    """Dash with a document of our own around it."""

    def __init__(self, static: Mapping[str, str]) -> None:
        # Dash says that servers can be called, and takes nothing else than an application
        server: Any = FastAPI(openapi_url=None)
        super().__init__(
            "nearkin.server.console",
            server=server,
            url_base_pathname=ROOT,
            serve_locally=True,
            compress=True,
            include_assets_files=False,
            suppress_callback_exceptions=True,
            update_title="",
            add_log_handler=False,
            use_pages=False,
            on_error=tell,
        )
        self._static = static
        # nothing here is pushed, and a worker of the browser would keep asking for it
        self.backend.websocket_capability = False

    def files(self) -> Mapping[str, Collection[str]]:
        """Returns the files of all libraries that a page may load, by package; Dash lists them when it writes a page."""
        self._generate_css_dist_html()  # type: ignore[no-untyped-call]
        self._generate_scripts_html()
        found: Mapping[str, Collection[str]] = self.registered_paths
        return found

    def interpolate_index(self, *_: Any, **parts: Any) -> str:
        """The document of every page; it is the head that differs."""
        page = select_page(current())
        title = f"{page.name} · nearkin" if page is not None else "nearkin"
        css, icon = self._static, self._static["icon.svg"]
        named = {
            name: parts[name] for name in ("css", "app_entry", "config", "scripts", "renderer")
        }
        return DOCUMENT.format(
            title=escape(title), icon=icon, page=css["page.css"], own=css["console.css"], **named
        )


def build_app(static: Mapping[str, str]) -> Frame:
    """The application.

    Args:
        static: Addresses of the style sheets and the icon.
    """
    app = Frame(static)
    app.layout = html.Div(
        [
            dcc.Location(id="url", refresh=False),
            html.Header(id="head"),
            html.Main(id="main", tabIndex="-1"),
        ]
    )
    app.callback(Output("head", "children"), Input("url", "pathname"))(_head)
    app.callback(Output("main", "children"), Input("url", "pathname"), Input("url", "search"))(
        _main
    )
    for page in CHOSEN:
        page.connect(app)
    return app


def select_page(visit: Visit, path: str | None = None) -> Page | None:
    """What a path shows; None if there is nothing that this token may see."""
    named = PAGES.get(visit.path if path is None else path.removeprefix(ROOT))
    return named or next((page for page in CHOSEN if visit.may_open(page)), None)


async def _head(pathname: str) -> list[Component]:
    visit = current()
    shown_page = select_page(visit, pathname)
    links = []
    for page in CHOSEN:
        if visit.may_open(page):
            here = shown.aria(current="page") if page is shown_page else {}
            links.append(html.Li(html.A(page.name, href=address(page.path), **here)))
    brand = html.P(["nearkin", html.Span("console")], className="brand")
    return [
        html.Div([brand, _account(visit)], className="top"),
        html.Nav(html.Ul(links), **shown.aria(label="Pages")),
    ]


def _account(visit: Visit) -> Component:
    """Who looks, and the way out."""
    who = visit.who
    if visit.authenticator.is_open:
        return html.P("no tokens: everybody on this machine", className="account")
    told = f"{who.name}: {', '.join(who.rights)} in {', '.join(who.scopes)}"
    leave = html.Form(
        html.Button("Log out", type="submit"), action=address("logout"), method="post"
    )
    return html.Div([html.Span(told), leave], className="account")


async def _main(pathname: str, search: str) -> list[Component]:
    visit = current()
    page = select_page(visit, pathname)
    if page is None:
        return [
            *shown.heading("Nothing to look at"),
            shown.note("This token may write, and not read."),
        ]
    visit.require_page(page)
    visit.service.require_ready()
    return await page.build(visit, dict(parse_qsl((search or "").removeprefix("?"))))


def tell(error: Exception) -> Component:
    """What is shown in place of what failed."""
    visit = current()
    instruments = visit.service.instruments
    if isinstance(error, (ProblemError, NearkinError, TimeoutError)):
        problem = problem_from_error(error)
    else:
        log.error("internal error", exc_info=error, extra={"request_id": visit.request_id})
        problem = ProblemError("internal", f"request {visit.request_id}")
    if isinstance(error, StoreError):
        instruments.record_store_error("console")
        log.warning("store failed", extra={"request_id": visit.request_id, "error": str(error)})
    # the answer to the browser is a page, with the status 200: nobody else counts it
    instruments.record_problem(problem.code)
    return shown.alert(problem.title, problem.detail)
