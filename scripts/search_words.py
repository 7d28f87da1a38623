"""Adds the words of users to the search of the documentation site.

People search for *leakage*, *jupyter* or *fastapi*, and the pages call these things by other names.
`docs/search-words.toml` lists such words for each page. They become entries of the index of the
page: the search shows a page with such an entry before pages that have the word in their text.
"""

import tomllib
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

FILE = "search-words.toml"


def read_words(docs: Path) -> dict[str, list[str]]:
    """Returns the words of each page.

    Args:
        docs: The folder of the documentation.

    Returns:
        The words by the name of the page without its suffix, for example `how-to/vectors`.
    """
    words: dict[str, list[str]] = tomllib.loads((docs / FILE).read_text("utf-8"))["words"]
    return words


class AddSearchWords(SphinxTransform):
    """A transform that adds the words of a page to its index, before the index is collected."""

    default_priority = 600

    def apply(self, **kwargs: Any) -> None:
        """Adds the entries after the title of the page."""
        words = read_words(Path(self.env.srcdir)).get(self.env.docname, ())
        section = next(iter(self.document.findall(nodes.section)), None)
        if words and section is not None:
            target = section["ids"][0]
            entries = [("single", word, target, "", None) for word in words]
            section.insert(1, addnodes.index(entries=entries, inline=False))


def warn_about_missing_pages(app: Sphinx, env: BuildEnvironment) -> None:
    """Warns about words of pages that do not exist."""
    for page in read_words(Path(app.srcdir)):
        if page not in env.found_docs:
            logging.getLogger(__name__).warning("%s: there is no page %r", FILE, page)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connects the extension."""
    app.add_transform(AddSearchWords)
    app.connect("env-check-consistency", warn_about_missing_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
