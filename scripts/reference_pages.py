"""Generates the parts of the reference that follow from the code.

They are Markdown files, which pages in docs/reference include.

Run: python -m scripts.reference_pages    (the documentation build calls it; it writes
    docs/_generated and docs/reference/python)
"""

import inspect
import logging
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from nearkin import errors
from nearkin.cli.app import app as command_line
from nearkin.cli.commands import Command
from nearkin.cli.serve import _with_server_options, start
from nearkin.service.server.app import create_app
from nearkin.service.server.settings import ServerSettings
from scripts.python_pages import write_changed, write_python_pages
from scripts.server_metrics import declared_metrics
from scripts.server_tables import bounds, index_settings, problem_codes, server_settings, table

REPEATED_BLANKS = re.compile(r"\n{3,}")


def write_reference(folder: Path, python: Path) -> None:
    """Writes every generated part. A file whose content is unchanged is left alone.

    Args:
        folder: The folder of the parts; it is created if it does not exist.
        python: The folder of the pages about functions and classes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = logging.getLogger("nearkin")
    level = log.level
    # a server that is only described warns about missing tokens as one that is started does
    log.setLevel(logging.ERROR)
    try:
        for name, make in (PARTS | {"python": lambda: write_python_pages(python)}).items():
            text = REPEATED_BLANKS.sub("\n\n", make()).strip() + "\n"
            write_changed(folder / f"{name}.md", text)
    finally:
        log.setLevel(level)


# -- command line


def command_pages() -> str:
    """Returns a section for each command, with its usage, its arguments and its options."""
    group = get_command(command_line)
    context = typer.Context(group, info_name="nearkin")  # type: ignore[arg-type]
    return "\n".join(
        describe_command(command, inner) for command, inner in leaf_commands(group, context)
    )


def leaf_commands(group: Any, context: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the commands below a group, with a context that knows their full name.

    Args:
        group: Group of commands, of click.
        context: Context of the group.
    """
    for name in group.list_commands(context):
        command = serve_command() if name == "serve" else group.get_command(context, name)
        inner = typer.Context(command, parent=context, info_name=name)
        if hasattr(command, "list_commands"):
            yield from leaf_commands(command, inner)
        else:
            yield command, inner


def serve_command() -> Any:
    """Returns the command behind `nearkin serve`, whose options are the settings of the server."""
    application = typer.Typer(add_completion=False)
    application.command(cls=Command)(_with_server_options(start))
    return get_command(application)


def describe_command(command: Any, context: Any) -> str:
    """Returns the section of one command.

    Args:
        command: Command, of click.
        context: Context of the command.
    """
    usage = f"{context.command_path} {' '.join(command.collect_usage_pieces(context))}"
    parts = [f"## {context.command_path}", plain_help(command.help or ""), f"```text\n{usage}\n```"]
    panels: dict[str, list[tuple[str, ...]]] = {}
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None and parameter.name != "help":
            panels.setdefault(panel_of(parameter), []).append(parameter_row(*record))
    for title, rows in panels.items():
        parts.append(f"**{title}**\n\n{table((title.lower(), 'meaning', 'default'), rows)}")
    return "\n\n".join(parts) + "\n"


def panel_of(parameter: Any) -> str:
    """Returns the name of the help panel that a parameter belongs to."""
    usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
    return getattr(parameter, "rich_help_panel", None) or usual


def parameter_row(names: str, text: str) -> tuple[str, ...]:
    """Returns the cells of a parameter: its names and placeholder, its meaning, its default.

    Args:
        names: The names as the terminal shows them.
        text: The help text, with the default in brackets at its end.
    """
    facts = TAIL.search(text)
    meaning = plain_help(TAIL.sub("", text)).replace("\n", " ")
    default = (
        ""
        if facts is None
        else "; ".join(fact.removeprefix("default: ") for fact in facts[1].split("; "))
    )
    return f"`{names}`", meaning, default if default in ("", "required") else f"`{default}`"


TAIL = re.compile(r"\s*\[((?:default: |required|env var: |x>=|\d)[^\]]*)\]\s*$")


def plain_help(text: str) -> str:
    """Returns a help text as Markdown, in which example commands are code."""
    text = inspect.cleandoc(text).replace("\b", "").replace("<", "\\<")
    return "\n".join(
        f"    {line.replace(chr(92), '')}" if line.startswith("nearkin ") else line
        for line in text.splitlines()
    )


# -- HTTP


def http_pages() -> str:
    """Returns a section for each path of the OpenAPI document, and for each form of a body."""
    with tempfile.TemporaryDirectory() as folder:
        settings = ServerSettings.read(
            store="memory://",
            tokens=Path(folder) / "tokens.json",
            key_file=str(Path(folder) / "key"),
            console=False,
        )
        document = create_app(settings).openapi()
    parts = ["## Paths"]
    for path, operations in document["paths"].items():
        parts += [
            describe_operation(path, method, operation) for method, operation in operations.items()
        ]
    parts.append("## Forms of bodies")
    schemas = document["components"]["schemas"]
    parts += [
        describe_schema(name, schemas[name])
        for name in sorted(schemas)
        if name not in UNUSED_SCHEMAS
    ]
    return "\n\n".join(parts) + "\n"


UNUSED_SCHEMAS = ("HTTPValidationError", "ValidationError")
"""Forms that FastAPI adds to every document, and that the server never answers with."""


def describe_operation(path: str, method: str, operation: dict[str, Any]) -> str:
    """Returns the section of one method of one path.

    Args:
        path: Path of the route, for example `/v1/stats`.
        method: HTTP method in lower case.
        operation: Description of the operation in the OpenAPI document.
    """
    parts = [
        f"### {method.upper()} `{path}`",
        f"{operation.get('summary', '')}.",
        operation.get("description", ""),
    ]
    rows = [
        (f"`{one['name']}`", one["in"], schema_type(one["schema"]), one.get("description", ""))
        for one in operation.get("parameters", ())
    ]
    if rows:
        parts.append(table(("parameter", "place", "type", "meaning"), rows))
    body = operation.get("requestBody", {}).get("content", {})
    answers = {
        code: one.get("content", {})
        for code, one in operation["responses"].items()
        if code.startswith("2")
    }
    forms = [("request", media, one.get("schema", {})) for media, one in body.items()]
    for code, content in answers.items():
        forms += [(code, media, one.get("schema", {})) for media, one in content.items()] or [
            (code, "", {})
        ]
    if forms:
        rows = [
            (kind, f"`{media}`" if media else "no body", schema_type(schema, name_description=True))
            for kind, media, schema in forms
        ]
        parts.append(table(("body of", "content type", "form"), rows))
    return "\n\n".join(part for part in parts if part.strip("."))


def describe_schema(name: str, schema: dict[str, Any]) -> str:
    """Returns the section of one form of a body.

    Args:
        name: Name of the schema.
        schema: JSON Schema of the body.
    """
    required = schema.get("required", ())
    rows = [
        (f"`{key}`", schema_type(one), "yes" if key in required else "", one.get("description", ""))
        for key, one in schema.get("properties", {}).items()
    ]
    members = table(("member", "type", "required", "meaning"), rows) if rows else ""
    return f"### {name}\n\n{schema.get('description', '')}\n\n{members}"


def schema_type(schema: dict[str, Any], *, name_description: bool = False) -> str:
    """Returns the type of a JSON schema in words.

    Args:
        schema: The schema.
        name_description: Whether the description of a plain type follows it.
    """
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(schema_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"array of {schema_type(schema.get('items', {}))}"
    kind = str(schema.get("format", schema.get("type", "any value")))
    described = schema.get("description", "") if name_description else ""
    return f"{kind}: {described}" if described else kind


# -- errors and exit codes


def error_classes() -> str:
    """Returns a table of the exceptions that nearkin raises, with the exit code of each."""
    rows = []
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, errors.NearkinError):
            parents = ", ".join(f"`{base.__name__}`" for base in value.__bases__)
            first = inspect.cleandoc(value.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
            meaning = first.removeprefix("An error: ")
            exit_code = "2" if issubclass(value, errors.UsageError) else "1"
            rows.append((f"`{name}`", parents, exit_code, meaning[:1].upper() + meaning[1:]))
    return table(("class", "base classes", "exit code", "meaning"), rows)


def metrics_table() -> str:
    """Returns a table of the metrics of a server."""
    rows = [(f"`{one.name}`", one.kind, one.description) for one in declared_metrics()]
    return table(("metric", "type", "meaning"), rows)


PARTS: dict[str, Callable[[], str]] = {
    "cli": command_pages,
    "http": http_pages,
    "server-settings": server_settings,
    "index-settings": index_settings,
    "problems": problem_codes,
    "bounds": bounds,
    "errors": error_classes,
    "metrics": metrics_table,
}
"""The generated parts: the name of the file without its suffix, and the function that makes its
text."""


if __name__ == "__main__":
    DOCS = Path(__file__).parent.parent / "docs"
    write_reference(DOCS / "_generated", DOCS / "reference" / "python")
