"""Docstrings that users read: in help pages and in the OpenAPI description."""

SECTIONS = ("Args:", "Returns:", "Raises:")
"""The sections of a docstring that are for readers of the code."""


def remove_sections(docstring: str) -> str:
    r"""Returns a docstring without the sections that are for readers of the code.

    Examples:
        >>> remove_sections("Sends a file.\n\nArgs:\n    path: Its path.\n\nIt may be large.")
        'Sends a file.\n\nIt may be large.'
    """
    paragraphs = docstring.split("\n\n")
    return "\n\n".join(paragraph for paragraph in paragraphs if not paragraph.startswith(SECTIONS))
