"""`nearkin serve`: the index over HTTP."""

import inspect
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from nearkin.cli.usage_errors import RedactingCommand

INSTALL = "nearkin serve needs the server's libraries: pip install 'nearkin[server]'"
ANY = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def serve(context: typer.Context) -> None:
    """Serve the index over HTTP, with an embedded store unless told otherwise; nearkin serve --help lists the settings."""
    # its flags are the server's settings, whose libraries no other command should wait for
    from nearkin.errors import MissingExtraError

    try:
        inner = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
        inner.command(cls=RedactingCommand)(with_flags(start))
    except ImportError as error:
        raise MissingExtraError(f"{INSTALL} ({error.name} is missing)") from error
    inner(context.args, prog_name="nearkin serve")


def start(config: Path | None, **flags: Any) -> None:
    """Serve the index over HTTP, with an embedded store unless told otherwise.

    Every setting is a flag, a variable NEARKIN_NAME, or a line of a TOML file.

    Examples:

        nearkin serve

        nearkin serve --store redis://localhost:6379/0 --workers 4

        nearkin serve --host 0.0.0.0 --tokens tokens.json --tls-cert chain.pem --tls-key key.pem
    """
    from nearkin.server.processes import serve as run
    from nearkin.server.settings import ServerSettings, pair

    given = {name: value for name, value in flags.items() if value is not None}
    named = dict(map(pair, given.pop("index", None) or []))
    run(ServerSettings.read(config, **given, **({"index": named} if named else {})))


def with_flags(command: Any) -> Any:
    """The command with a flag for every setting of the server, so that there is one list of them."""
    from nearkin.server.settings import ServerSettings

    config = typer.Option("--config", help="TOML file with settings.", envvar="NEARKIN_CONFIG", metavar="FILE")
    parameters = [_parameter("config", Annotated[Path | None, config])]
    for name, field in ServerSettings.model_fields.items():
        flag, plain = name.replace("_", "-"), _plain(field.annotation)
        default = "" if field.default is None or isinstance(field.default, dict) else f"  [default: {field.default}]"
        named = f"--{flag}/--no-{flag}" if plain is bool else f"--{flag}"
        option = typer.Option(named, help=f"{field.description}{default}", show_default=False)
        kind: Any = list[str] if name == "index" else plain if plain in (bool, int, float) else str
        parameters.append(_parameter(name, Annotated[kind | None, option]))
    command.__signature__ = inspect.Signature(parameters)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=None)


def _plain(annotation: Any) -> Any:
    """The type of a setting without None."""
    return next((kind for kind in get_args(annotation) if kind is not type(None)), annotation)
