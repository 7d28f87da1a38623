"""Configuration of the documentation site.

`make docs` builds it into docs/_build/html, without access to the network.
"""

import os
import re
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.autodoc.preserve_defaults import update_default_value

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from nearkin import __version__  # noqa: E402
from scripts.reference_pages import write_reference  # noqa: E402

project = "nearkin"
author = "the nearkin authors"
project_copyright = author
# without the commit of a clone: 0.2.1.dev12+g1a2b3c4
release = version = __version__.partition("+")[0]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "scripts.search_words",
]
exclude_patterns = ["_build", "_generated", "Thumbs.db", ".DS_Store"]
source_suffix = {".md": "markdown"}
root_doc = "index"
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist", "attrs_block", "attrs_inline"]
myst_heading_anchors = 4
# a link to a file of the repository that is not a page of the site becomes a download
myst_all_links_external = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}
# `preserve_defaults` below shows defaults as the source writes them, where it can
autodoc_preserve_defaults = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
# single backquotes in docstrings are code
default_role = "code"
python_maximum_signature_line_length = 88

html_theme = "pydata_sphinx_theme"
html_title = f"nearkin {release}"
html_static_path = ["_static"]
html_css_files = ["nearkin.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options: dict[str, Any] = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "navigation_depth": 2,
    "show_toc_level": 2,
}
# The workflow that publishes the site sets the address of a list of its versions.
if switcher := os.environ.get("NEARKIN_DOCS_SWITCHER"):
    html_theme_options["switcher"] = {
        "json_url": switcher,
        "version_match": os.environ["NEARKIN_DOCS_VERSION"],
    }
    html_theme_options["check_switcher"] = False
    html_theme_options["navbar_end"] = ["version-switcher", "theme-switcher"]
html_sidebars = {"index": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


CODE_OR_TEXT = re.compile(r"(``[^`]+``|`[^`]+`)(\w?)|([^`]+|`)")
NAME_WITH_UNDERSCORE = re.compile(r"(\w)_(?=[\s.,;:)]|$)")


def escape_plain_text(line: str) -> str:
    """Returns a line of a docstring with code as literals and no other markup."""

    def escape(part: re.Match[str]) -> str:
        code, letter, text = part.groups()
        if code is not None:
            literal = code if code.startswith("``") else f"`{code}`"
            return f"{literal}\\ {letter}" if letter else literal
        return NAME_WITH_UNDERSCORE.sub(r"\1\_", text.replace("|", r"\|"))

    return CODE_OR_TEXT.sub(escape, line)


def escape_docstring(
    app: Sphinx, what: str, name: str, value: object, options: Any, lines: list[str]
) -> None:
    """Escapes the lines of a docstring in place, except for its examples."""
    in_example = False
    for number, line in enumerate(lines):
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        if not in_example:
            lines[number] = escape_plain_text(line)


def preserve_defaults(app: Sphinx, documented: Any, bound_method: Any) -> None:
    """Shows the defaults of a function as its source writes them.

    A signature that is made at run time, such as that of `nearkin.dedup`, has parameters that the
    source of the function does not name. Their defaults are shown as values.
    """
    if "__signature__" not in getattr(documented, "__dict__", {}):
        update_default_value(documented, bound_method)


def write_generated_pages(app: Sphinx) -> None:
    """Writes the parts and the pages of the reference that follow from the code."""
    docs = Path(app.srcdir)
    write_reference(docs / "_generated", docs / "reference" / "python")


def setup(app: Sphinx) -> None:
    """Connects the generated parts of the reference, and the conversion of docstrings."""
    app.connect("builder-inited", write_generated_pages)
    app.connect("autodoc-before-process-signature", preserve_defaults)
    # before napoleon, which turns sections into markup
    app.connect("autodoc-process-docstring", escape_docstring, priority=400)
