"""Removal of markup: tags and invisible parts of pages are removed, and entities are decoded.

A text is read once from left to right, whatever it contains: a search for the end of a comment or
of a script goes on where the one before has ended.
"""

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

HTML_NAMES = (
    *("a", "abbr", "acronym", "address", "applet", "area", "article", "aside", "audio", "b"),
    *("base", "basefont", "bdi", "bdo", "bgsound", "big", "blink", "blockquote", "body", "br"),
    *("button", "canvas", "caption", "center", "cite", "code", "col", "colgroup", "data"),
    *("datalist", "dd", "del", "details", "dfn", "dialog", "dir", "div", "dl", "dt", "em", "embed"),
    *("fieldset", "figcaption", "figure", "font", "footer", "form", "frame", "frameset", "h1"),
    *("h2", "h3", "h4", "h5", "h6", "head", "header", "hgroup", "hr", "html", "i", "iframe", "img"),
    *("input", "ins", "isindex", "kbd", "keygen", "label", "legend", "li", "link", "listing"),
    *("main", "map", "mark", "marquee", "menu", "menuitem", "meta", "meter", "nav", "nobr"),
    *("noembed", "noframes", "noscript", "object", "ol", "optgroup", "option", "output", "p"),
    *("param", "picture", "plaintext", "pre", "progress", "q", "rb", "rp", "rt", "rtc", "ruby"),
    *("s", "samp", "script", "search", "section", "select", "slot", "small", "source", "span"),
    *("strike", "strong", "style", "sub", "summary", "sup", "table", "tbody", "td", "template"),
    *("textarea", "tfoot", "th", "thead", "time", "title", "tr", "track", "tt", "u", "ul", "var"),
    *("video", "wbr", "xmp"),
)
"""The elements of HTML, those of older versions included."""
SVG_NAMES = (
    *("animate", "animateMotion", "animateTransform", "circle", "clipPath", "defs", "desc"),
    *("ellipse", "feBlend", "feColorMatrix", "feComponentTransfer", "feComposite"),
    *("feConvolveMatrix", "feDiffuseLighting", "feDisplacementMap", "feDistantLight"),
    *("feDropShadow", "feFlood", "feFuncA", "feFuncB", "feFuncG", "feFuncR", "feGaussianBlur"),
    *("feImage", "feMerge", "feMergeNode", "feMorphology", "feOffset", "fePointLight"),
    *("feSpecularLighting", "feSpotLight", "feTile", "feTurbulence", "filter", "foreignObject"),
    *("g", "image", "line", "linearGradient", "marker", "mask", "metadata", "mpath", "path"),
    *("pattern", "polygon", "polyline", "radialGradient", "rect", "set", "stop", "svg", "switch"),
    *("symbol", "text", "textPath", "tspan", "use", "view"),
)
MATHML_NAMES = (
    *("annotation", "annotation-xml", "maction", "math", "menclose", "merror", "mfenced", "mfrac"),
    *("mi", "mmultiscripts", "mn", "mo", "mover", "mpadded", "mphantom", "mprescripts", "mroot"),
    *("mrow", "ms", "mspace", "msqrt", "mstyle", "msub", "msubsup", "msup", "mtable", "mtd"),
    *("mtext", "mtr", "munder", "munderover", "semantics"),
)
NAMES = {*HTML_NAMES, *SVG_NAMES, *MATHML_NAMES, *(name.upper() for name in HTML_NAMES)}
"""The names of tags. Those of HTML can also be in capitals."""
REST = r"""(?:(?:[^<>"']|"[^"<]*"|'[^'<]*')*+>|[^<>]*>)"""
"""The rest of a tag. A `>` in a quoted value does not end it, if all quotes are closed."""
BARE_NAMES = (
    *("allowfullscreen", "alt", "async", "autofocus", "autoplay", "checked", "class", "compact"),
    *("contenteditable", "controls", "crossorigin", "declare", "default", "defer", "disabled"),
    *("download", "draggable", "formnovalidate", "hidden", "href", "id", "inert", "ismap"),
    *("itemscope", "loop", "multiple", "muted", "name", "nohref", "nomodule", "nonce", "noresize"),
    *("noshade", "novalidate", "nowrap", "open", "playsinline", "popover", "readonly", "rel"),
    *("required", "reversed", "scoped", "seamless", "selected", "spellcheck", "style", "target"),
    *("title", "truespeed", "value"),
)
"""The attributes that can be without a value. Others are words of a text: `a <b and b> c`."""
ATTRIBUTES = re.compile(
    r"""(?:[\s/"',;]++|[A-Za-z_:@#*\[(][^\s"'<>/=,;&|!+%^~?]*+\s*+=(?!=)\s*+"""
    r"""(?:"[^"]*+"|'[^']*+'|(?!=)[^\s>]*+)"""
    rf"""|(?:{"|".join(BARE_NAMES)}|[a-z]+(?:-[a-z0-9]+)++)(?=[\s/"',;]|\Z))*+""",
    re.ASCII | re.IGNORECASE,
)
"""The attributes of a tag, with what can stand between them."""
LONG_NUMBER = re.compile(r"&#0*[1-9][0-9]{7,};?", re.ASCII)
LEADING_ZEROS = re.compile(r"&#0+(?=[0-9])", re.ASCII)


class HiddenPart(NamedTuple):
    """A part of a page that is removed with its content."""

    closing: re.Pattern[str]
    """The end of the part."""
    has_attributes: bool = False
    """Whether the content begins after the next `>`."""


class MarkupRules(NamedTuple):
    """The markup of a version of the contract of texts."""

    opening: re.Pattern[str]
    """The beginnings of hidden parts, each in a group of its own."""
    hidden: tuple[HiddenPart, ...]
    """The hidden parts, in the order of the groups."""
    tag: re.Pattern[str]
    """A tag or a declaration. Tags have the groups `end`, `name` and `rest` from version 2 on."""
    unwraps_cdata: bool
    """Whether sections of character data lose their marks and keep their content."""


END_OF_TAG = re.compile(">")
CDATA = re.compile(r"<!\[CDATA\[")
END_OF_CDATA = re.compile(r"\]\]>")
RULES = {
    1: MarkupRules(
        opening=re.compile(r"(<!--)|(<script\b)|(<style\b)", re.IGNORECASE),
        hidden=(
            HiddenPart(re.compile("-->")),
            HiddenPart(re.compile(r"</script\s*>", re.IGNORECASE), has_attributes=True),
            HiddenPart(re.compile(r"</style\s*>", re.IGNORECASE), has_attributes=True),
        ),
        tag=re.compile(r"</?[A-Za-z][^<>]*>|<![^<>]*>|<\?[^<>]*\?>"),
        unwraps_cdata=False,
    ),
    2: MarkupRules(
        opening=re.compile(
            r"(<!--)|(<script(?=[\s/>]))|(<style(?=[\s/>]))|(<\?[A-Za-z])",
            re.IGNORECASE | re.ASCII,
        ),
        hidden=(
            HiddenPart(re.compile("-->")),
            HiddenPart(re.compile(r"</script\s*>", re.IGNORECASE | re.ASCII), has_attributes=True),
            HiddenPart(re.compile(r"</style\s*>", re.IGNORECASE | re.ASCII), has_attributes=True),
            HiddenPart(re.compile(r"\?>")),
        ),
        tag=re.compile(
            rf"<(?P<end>/?)(?P<name>[A-Za-z][A-Za-z0-9-]*)(?=[\s/>])(?P<rest>{REST})"
            rf"|<!(?i:doctype|element|attlist|entity|notation)(?=[\s>]){REST}",
            re.ASCII,
        ),
        unwraps_cdata=True,
    ),
}
"""The rules of each version."""


class ForwardSearch:
    """A search for the first match from a position on, which reads a text once."""

    def __init__(self, pattern: re.Pattern[str], text: str) -> None:
        self._pattern = pattern
        self._text = text
        self._match = pattern.search(text)

    def find(self, start: int) -> re.Match[str] | None:
        """Returns the first match from a position on."""
        if self._match is not None and self._match.start() < start:
            self._match = self._pattern.search(self._text, start)
        return self._match


def without_markup(text: str, version: int = 2) -> str:
    """Replaces comments, scripts, styles and tags by spaces, and decodes entities.

    Examples:
        >>> without_markup("<p>fish &amp; <b>chips</b> 1 < 2, Ann <ann@example.org></p>").split()
        ['fish', '&', 'chips', '1', '<', '2,', 'Ann', '<ann@example.org>']
    """
    rules = RULES[version]
    if "<" in text:
        if rules.unwraps_cdata:
            text = _unwrap_cdata(text)
        text = "".join(_visible_parts(text, rules))
        text = rules.tag.sub(_replace_tag, text)
    return _decode_entities(text)


def _unwrap_cdata(text: str) -> str:
    """Returns a text in which spaces replace the marks of sections of character data."""
    ends = ForwardSearch(END_OF_CDATA, text)
    parts = []
    at = 0
    for opening in CDATA.finditer(text):
        if opening.start() < at:
            continue
        end = ends.find(opening.end())
        if end is None:
            break
        parts += [text[at : opening.start()], text[opening.end() : end.start()]]
        at = end.end()
    return " ".join([*parts, text[at:]])


def _visible_parts(text: str, rules: MarkupRules) -> Iterator[str]:
    """Yields a text without its hidden parts, with spaces in their places."""
    openings = ForwardSearch(rules.opening, text)
    ends_of_tags = ForwardSearch(END_OF_TAG, text)
    closings = [ForwardSearch(part.closing, text) for part in rules.hidden]
    at = start = 0
    while (opening := openings.find(start)) is not None:
        start = opening.end()
        number = (opening.lastindex or 1) - 1
        content = start
        if rules.hidden[number].has_attributes:
            end_of_tag = ends_of_tags.find(start)
            if end_of_tag is None:
                continue
            content = end_of_tag.end()
        closing = closings[number].find(content)
        if closing is not None:
            yield text[at : opening.start()]
            yield " "
            at = start = closing.end()
    yield text[at:]


def _replace_tag(match: re.Match[str]) -> str:
    """Returns a space for a tag, and the text itself if its name or its rest is not of a tag."""
    parts = match.groupdict()
    name = parts.get("name")
    if name is None:
        return " "
    is_tag = name in NAMES and (parts["end"] or ATTRIBUTES.fullmatch(parts["rest"][:-1]))
    return " " if is_tag else match[0]


def _decode_entities(text: str) -> str:
    """Returns a text with decoded entities. Numbers of any length take linear time."""
    if "&#" in text:
        text = LEADING_ZEROS.sub("&#", LONG_NUMBER.sub("\ufffd", text))
    return html.unescape(text)


def strip_markup(data: np.ndarray, offsets: np.ndarray, version: int) -> pa.Array:
    """Returns texts of UTF-8 bytes and offsets without markup, large_string (n,)."""
    bounds = zip(offsets.tolist(), offsets[1:].tolist(), strict=False)
    texts = (without_markup(data[start:end].tobytes().decode(), version) for start, end in bounds)
    # html.unescape can produce surrogates (&#xD800;), which are not valid in UTF-8.
    return pa.array([text.encode("utf-8", "replace").decode() for text in texts], pa.large_string())
