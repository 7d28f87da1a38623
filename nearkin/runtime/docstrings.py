"""Docstrings that users read: in help pages and in the OpenAPI description."""

import re

SECTIONS = ("Args:", "Returns:", "Raises:")
"""The sections of a docstring that are for readers of the code."""
ATTRIBUTE = re.compile(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)
"""An attribute in the docstring of a class: its name and its description."""


def remove_sections(docstring: str) -> str:
    r"""Returns a docstring without the sections that are for readers of the code.

    Examples:
        >>> remove_sections("Sends a file.\n\nArgs:\n    path: Its path.\n\nIt may be large.")
        'Sends a file.\n\nIt may be large.'
    """
    paragraphs = docstring.split("\n\n")
    return "\n\n".join(paragraph for paragraph in paragraphs if not paragraph.startswith(SECTIONS))


def read_attributes(docstring: str) -> dict[str, str]:
    r"""Returns the descriptions of the attributes in the docstring of a class, by their names.

    Examples:
        >>> read_attributes("A point.\n\nAttributes:\n    x: Its place\n        in metres.\n")
        {'x': 'Its place in metres.'}
    """
    attributes = docstring.partition("\nAttributes:\n")[2]
    return {name: " ".join(text.split()) for name, text in ATTRIBUTE.findall(attributes)}
