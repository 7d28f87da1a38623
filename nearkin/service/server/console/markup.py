"""Pieces of pages. Texts of documents are escaped, and are never markup."""

import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment
from markupsafe import Markup, escape

from nearkin.reports.diff import MAX_CHARACTERS, DocumentRole, Piece, SpanKind, diff_sides
from nearkin.reports.page import make_environment
from nearkin.runtime.number_format import format_similarity
from nearkin.runtime.visible_text import make_visible
from nearkin.service.server.console.visitor import Visit, page_url

TEMPLATES = Path(__file__).parent / "templates"
EXCERPT_LENGTH = 140
"""Maximum number of characters of an excerpt."""
CHANGE_TAGS: Mapping[DocumentRole, str] = {
    DocumentRole.KEPT: "ins",
    DocumentRole.REMOVED: "del",
    DocumentRole.COMPARED: "mark",
}
"""The elements around the words that only one of two documents has, by its role."""


@cache
def _environment() -> Environment:
    environment = make_environment(TEMPLATES)
    environment.filters |= {"excerpt": excerpt, "time": format_time, "truncate": truncate_text}
    environment.globals |= {"page_url": page_url, "cluster_link": cluster_link}
    return environment


def render(template: str, **values: object) -> Markup:
    """Returns a template with values. A text that is not markup is escaped."""
    return Markup(_environment().get_template(template).render(**values))


async def render_in_thread(visit: Visit, template: str, **values: object) -> Markup:
    """Returns what `render` does. Rendering long texts takes time."""
    return await visit.service.run_overview(render, template, **values)


def excerpt(text: str | None) -> str:
    """Returns the beginning of a text on one line."""
    if text is None:
        return "(text not stored)"
    line = make_visible(" ".join(text[: 4 * EXCERPT_LENGTH].split()))
    if len(line) <= EXCERPT_LENGTH:
        return line
    return line[:EXCERPT_LENGTH] + "…"


def truncate_text(text: str) -> str:
    """Returns the first MAX_CHARACTERS characters of a text, and the number of the others."""
    hidden = len(text) - MAX_CHARACTERS
    if hidden <= 0:
        return text
    return f"{text[:MAX_CHARACTERS]}… ({hidden:,} characters more)"


class ShownText(NamedTuple):
    """A text that is shown beside another one, with its label and its role."""

    label: str
    text: str
    role: DocumentRole


def side_by_side(left: ShownText, right: ShownText, same: str) -> Markup:
    """Returns two texts side by side, with their differences marked."""
    left_pieces, right_pieces = diff_sides(left.text, right.text)
    sides = [(left.label, _mark_changes(left_pieces, left.role))]
    if right_pieces:
        sides.append((right.label, _mark_changes(right_pieces, right.role)))
    return render("sides.html", sides=sides, same=same)


def equality_remark(similarity: float) -> str:
    """Returns the remark beside two texts whose excerpts do not differ."""
    if similarity == 1:
        return "Both texts have the same words."
    return "The excerpts do not differ."


def _mark_changes(pieces: Sequence[Piece], role: DocumentRole) -> Markup:
    """Returns the pieces of a text. Changed ones become elements."""
    changed = Markup("<{0}>{1}</{0}>")
    elided = Markup('<span class="elided">{} characters</span>')
    content = Markup("")
    for kind, text in pieces:
        if kind is SpanKind.ELIDED:
            content += elided.format(f"{len(text):,}")
        elif kind is SpanKind.EQUAL:
            content += escape(text)
        else:
            content += changed.format(CHANGE_TAGS[role], text)
    return content


def id_label(id: str) -> Markup:
    """Returns an id as an element that isolates its writing direction."""
    return Markup('<bdi class="id">{}</bdi>').format(make_visible(id))


def cluster_link(scope: str, id: str) -> Markup:
    """Returns a link to the cluster of a document."""
    address = page_url("clusters", scope=scope, id=id)
    return Markup('<a href="{}">{}</a>').format(address, id_label(id))


def similarity_label(similarity: float) -> Markup:
    """Returns a similarity as a label."""
    return Markup('<span class="similarity">{} similar</span>').format(
        format_similarity(similarity)
    )


def format_time(seconds: float) -> str:
    """Returns a time in seconds since 1970 as local time of the server."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def time_label(seconds: float) -> Markup:
    """Returns a time as a label that is not wrapped."""
    return Markup('<span class="when">{}</span>').format(format_time(seconds))
