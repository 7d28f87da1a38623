"""The main text of HTML pages, without navigation, headers and footers.

The library resiliparse extracts it.
"""

from nearkin.errors import MissingExtraError

SUFFIXES = (".html", ".htm", ".xhtml", ".xml")
"""The suffixes of files whose main text is extracted if that is requested."""


def extract_main_text(content: bytes, charset: str | None = None) -> str:
    """Returns the main text of a page. It is empty if the page has none.

    Args:
        content: The page.
        charset: The encoding that the server named, or None to detect it.

    Raises:
        MissingExtraError: If resiliparse is not installed.
    """
    try:
        from resiliparse.extract.html2text import extract_plain_text
        from resiliparse.parse.encoding import bytes_to_str, detect_encoding
    except ImportError as error:
        raise MissingExtraError.for_extra(
            "the main text of pages requires resiliparse", "html"
        ) from error
    page = bytes_to_str(content, charset or detect_encoding(content))
    text: str = extract_plain_text(page, main_content=True)
    return text
