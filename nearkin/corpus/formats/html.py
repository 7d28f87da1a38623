"""The main text of HTML pages, without navigation, headers and footers.

The library resiliparse extracts it.
"""

from typing import Any

from nearkin.corpus.columns import Columns
from nearkin.corpus.input_file import InputFile
from nearkin.errors import MissingExtraError

MAX_DEPTH = 500
"""The depth to which elements may be nested. The time for a page grows with size times depth."""
UNCHECKED_TAGS = 5000
"""The number of start tags up to which the depth is not measured, because it takes longer."""
SUFFIXES = (".html", ".htm", ".xhtml", ".xml")
"""The suffixes of files whose main text is extracted if that is requested."""


def extract_main_text(content: bytes, charset: str | None = None) -> str:
    """Returns the main text of a page. It is empty if the page has none."""
    try:
        from resiliparse.extract.html2text import extract_plain_text
        from resiliparse.parse.encoding import (
            bytes_to_str,
            detect_encoding,
            map_encoding_to_html5,
        )
        from resiliparse.parse.html import HTMLTree
    except ImportError as error:
        raise MissingExtraError.for_extra(
            "the main text of pages requires resiliparse", "html"
        ) from error
    # Python also has encodings, such as raw_unicode_escape, whose texts are not valid in UTF-8.
    known = None if charset is None else map_encoding_to_html5(charset, fallback_utf8=False)
    page = bytes_to_str(content, known or detect_encoding(content))
    tree = HTMLTree.parse(page)
    if page.count("<") - page.count("</") > UNCHECKED_TAGS and _measure_depth(tree) > MAX_DEPTH:
        raise ValueError(f"the elements of the page are nested more than {MAX_DEPTH} deep")
    text: str = extract_plain_text(tree, main_content=True)
    return text


def is_page(file: InputFile, columns: Columns) -> bool:
    """Returns whether the main text of a file is read."""
    return columns.main_text and file.suffix in SUFFIXES


def decode_page(content: bytes) -> str:
    """Returns the source of a page in any encoding.

    Examples:
        >>> decode_page("Köln".encode())
        'Köln'
    """
    try:
        return content.decode()
    except UnicodeDecodeError:
        from resiliparse.parse.encoding import bytes_to_str, detect_encoding

        text: str = bytes_to_str(content, detect_encoding(content))
        return text


def _measure_depth(tree: Any) -> int:
    from resiliparse.parse.html import traverse_dom

    deepest = 0

    def visit(context: Any) -> None:
        nonlocal deepest
        deepest = max(deepest, context.depth)

    traverse_dom(tree.document, visit)
    return deepest
