"""`nearkin serve`: the index over HTTP."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from nearkin.cli.commands import HELP_NAMES, MARKUP, Command, run_typer
from nearkin.cli.given_options import COMMON
from nearkin.cli.option_groups import HelpAll
from nearkin.runtime.docstrings import remove_sections

ACCESS = "Access"
LIMITS = "Limits"
OBSERVATION = "Observation"
PANELS = {
    COMMON: (
        "host",
        "port",
        "store",
        "kind",
        "index",
        "settings",
        "preset",
        "key_file",
        "tokens",
        "tls_cert",
        "tls_key",
        "workers",
    ),
    ACCESS: ("keyed", "spec_resources", "decisions", "allow_anonymous", "trusted_proxies"),
    OBSERVATION: (
        "golden",
        "golden_every",
        "live_probes",
        "live_probe_every",
        "shadow_store",
        "shadow_bands",
        "shadow_rows",
        "shadow_probes",
        "audit",
        "run",
        "console",
        "metrics",
        "otlp",
        "log_level",
        "log_format",
    ),
}
"""The settings of the server by panels of the help page. All others are limits."""
PLACEHOLDERS = {
    "store": "URL",
    "shadow_store": "URL",
    "limits_store": "URL",
    "otlp": "URL",
    "index": "NAME=VALUE",
    "settings": "FILE",
    "preset": "KIND",
    "decisions": "SCOPE=FILE",
    "key_file": "FILE",
    "tokens": "FILE",
    "tls_cert": "FILE",
    "tls_key": "FILE",
    "golden": "FILE",
    "audit": "FILE",
    "run": "DIR",
    "spec_resources": "DIR",
    "trusted_proxies": "ADDRESSES",
}
"""The placeholders of settings whose names do not say what to enter."""


def serve(context: typer.Context) -> None:
    """Serve an index over HTTP."""
    inner = typer.Typer(
        add_completion=False, rich_markup_mode=MARKUP, pretty_exceptions_enable=False
    )
    inner.command(cls=Command, context_settings={"help_option_names": HELP_NAMES})(
        _with_server_options(start)
    )
    run_typer(inner, context.args, "nearkin serve")


def start(config: Path | None, **options: Any) -> None:
    """Serve an index over HTTP.

    By default, its store is embedded. Every setting is an option, a variable NEARKIN_NAME, or a
    line of a TOML file.

    Examples:
        nearkin serve

        nearkin serve --store redis://localhost:6379/0 --workers 4

        nearkin serve --host 0.0.0.0 --tokens tokens.json --tls-cert chain.pem --tls-key key.pem
    """
    from nearkin.errors import MissingExtraError, NearkinError

    try:
        from nearkin.service.server.processes import serve as run_server
        from nearkin.service.server.settings import ServerSettings
    except NearkinError:
        raise
    except ImportError as error:
        raise MissingExtraError.for_extra(
            f"a server requires the package {error.name}", "server"
        ) from error

    given = {name: value for name, value in options.items() if value not in (None, [])}
    run_server(ServerSettings.read(config, **given))


def _with_server_options(command: Callable[..., None]) -> Callable[..., None]:
    """Returns the command with an option for every setting of the server."""
    from nearkin.service.server.setting_fields import ServerFields

    config = typer.Option(
        "--config",
        help="TOML file with settings.",
        envvar="NEARKIN_CONFIG",
        metavar="FILE",
        rich_help_panel=COMMON,
    )
    parameters = [_optional_parameter("config", Annotated[Path | None, config])]
    parameters.append(_optional_parameter("help_all", HelpAll))
    for name, field in ServerFields.model_fields.items():
        kind = _without_none(field.annotation)
        flag = name.replace("_", "-")
        names = f"--{flag}/--no-{flag}" if kind is bool else f"--{flag}"
        description = str(field.description)
        if field.default is not None and not isinstance(field.default, dict):
            description += f"  [default: {field.default}]"
        option = typer.Option(
            names,
            help=description,
            show_default=False,
            metavar=PLACEHOLDERS.get(name),
            rich_help_panel=panel_of_setting(name),
        )
        parameters.append(_optional_parameter(name, Annotated[_option_type(name, kind), option]))
    command.__doc__ = remove_sections(inspect.getdoc(command) or "")
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def panel_of_setting(name: str) -> str:
    """Returns the panel of the help page that shows a setting of the server."""
    for panel, names in PANELS.items():
        if name in names:
            return panel
    return LIMITS


def _optional_parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=None
    )


def _option_type(name: str, kind: Any) -> Any:
    """Returns the type of the option for a setting. Values of other types are given as text."""
    if name in ("index", "decisions"):
        return list[str] | None
    if kind in (bool, int, float):
        return kind | None
    return str | None


def _without_none(annotation: Any) -> Any:
    """Returns the type of a setting without None."""
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
    return kinds[0] if kinds else annotation
