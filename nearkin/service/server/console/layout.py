"""The Dash application of the console: a header and the content of the current page."""

import logging
from collections.abc import Collection, Mapping
from html import escape
from typing import Any
from urllib.parse import parse_qsl

from dash import Dash, Input, Output, dcc, html
from dash.development.base_component import Component
from fastapi import FastAPI

from nearkin.errors import NearkinError, StoreError
from nearkin.service.server.console import components as ui
from nearkin.service.server.console.pages import (
    audit,
    buckets,
    clusters,
    live,
    review,
    shadow,
    tuning,
)
from nearkin.service.server.console.pages import search as trying
from nearkin.service.server.console.visitor import ROOT, Page, Visit, current_visit, page_url
from nearkin.service.server.http.middleware import problem_from_error
from nearkin.service.server.http.problems import ProblemError

log = logging.getLogger("nearkin.server")

NAVIGATION = (
    live.PAGE,
    trying.PAGE,
    clusters.PAGE,
    review.PAGE,
    tuning.PAGE,
    buckets.PAGE,
    shadow.PAGE,
    audit.PAGE,
)
PAGES: Mapping[str, Page | None] = {"": None, **{page.path: page for page in NAVIGATION}}
"""The pages by path. The empty path stands for the first page that a token may open."""
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
<script src="{keys}" defer></script>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
{app_entry}
<noscript>
      The console needs JavaScript from this server. The HTTP API provides the same data.
    </noscript>
{config}
{scripts}
{renderer}
</body>
</html>"""


class ConsoleApp(Dash):
    """A Dash application with an HTML document of its own."""

    def __init__(self, static: Mapping[str, str]) -> None:
        # Dash declares a general type, but accepts only an application
        server: Any = FastAPI(openapi_url=None)
        super().__init__(
            "nearkin.service.server.console",
            server=server,
            url_base_pathname=ROOT,
            serve_locally=True,
            compress=True,
            include_assets_files=False,
            suppress_callback_exceptions=True,
            update_title="",
            add_log_handler=False,
            use_pages=False,
            on_error=show_error,
        )
        self._static = static
        # nothing is pushed to browsers, which would otherwise poll for it
        self.backend.websocket_capability = False

    def files(self) -> Mapping[str, Collection[str]]:
        """Returns the files of libraries that pages may load, by package."""
        self._generate_css_dist_html()  # type: ignore[no-untyped-call]
        self._generate_scripts_html()
        paths: Mapping[str, Collection[str]] = self.registered_paths
        return paths

    def interpolate_index(self, *_: Any, **parts: Any) -> str:
        """Returns the HTML document of the current page."""
        page = select_page(current_visit())
        title = "nearkin"
        if page is not None:
            title = f"{page.name} · {title}"
        return DOCUMENT.format(
            title=escape(title),
            icon=self._static["icon.svg"],
            page=self._static["page.css"],
            own=self._static["console.css"],
            keys=self._static["console.js"],
            css=parts["css"],
            app_entry=parts["app_entry"],
            config=parts["config"],
            scripts=parts["scripts"],
            renderer=parts["renderer"],
        )


def build_app(static: Mapping[str, str]) -> ConsoleApp:
    """Builds the application with all pages."""
    app = ConsoleApp(static)
    app.layout = html.Div(
        [
            dcc.Location(id="url", refresh=False),
            html.Header(id="head"),
            html.Main(id="main", tabIndex="-1"),
        ]
    )
    app.callback(Output("head", "children"), Input("url", "pathname"))(_show_head)
    app.callback(Output("main", "children"), Input("url", "pathname"), Input("url", "search"))(
        _show_page
    )
    for page in NAVIGATION:
        page.connect(app)
    return app


def select_page(visit: Visit, path: str | None = None) -> Page | None:
    """Returns the page of a path, or None if the token may open no page."""
    page_path = visit.path
    if path is not None:
        page_path = path.removeprefix(ROOT)
    named_page = PAGES.get(page_path)
    return named_page or next((page for page in NAVIGATION if visit.may_open(page)), None)


async def _show_head(pathname: str) -> list[Component]:
    visit = current_visit()
    current_page = select_page(visit, pathname)
    links = []
    for page in NAVIGATION:
        if visit.may_open(page):
            attributes = ui.aria_attributes(current="page") if page is current_page else {}
            links.append(html.Li(html.A(page.name, href=page_url(page.path), **attributes)))
    brand = html.P(["nearkin", html.Span("console")], className="brand")
    return [
        html.Div([brand, _account_menu(visit)], className="top"),
        html.Nav(html.Ul(links), **ui.aria_attributes(label="Pages")),
    ]


def _account_menu(visit: Visit) -> Component:
    """Returns the name and the rights of the token, and a button to log out."""
    who = visit.who
    if visit.authenticator.is_open:
        return html.P("no tokens: every local user has access", className="account")
    account = f"{who.name}: {', '.join(who.rights)} in {', '.join(who.scopes)}"
    leave = html.Form(
        html.Button("Log out", type="submit"), action=page_url("logout"), method="post"
    )
    return html.Div([html.Span(account), leave], className="account")


async def _show_page(pathname: str, search: str) -> list[Component]:
    visit = current_visit()
    page = select_page(visit, pathname)
    if page is None:
        return [
            *ui.page_heading("No pages available"),
            ui.note("The token has no right to read."),
        ]
    visit.require_page(page)
    visit.service.require_ready()
    return await page.build(visit, dict(parse_qsl((search or "").removeprefix("?"))))


def show_error(error: Exception) -> Component:
    """Returns the message that replaces content that failed."""
    visit = current_visit()
    instruments = visit.service.instruments
    if isinstance(error, (ProblemError, NearkinError, TimeoutError)):
        problem = problem_from_error(error)
    else:
        log.error("internal error", exc_info=error, extra={"request_id": visit.request_id})
        problem = ProblemError("internal", f"request {visit.request_id}")
    if isinstance(error, StoreError):
        instruments.record_store_error("console")
        log.warning("store failed", extra={"request_id": visit.request_id, "error": str(error)})
    # the response is a page with the status 200, so that the middleware does not count the problem
    instruments.record_problem(problem.code)
    return ui.alert(problem.title, problem.detail)
