"""Commands whose parameters are groups of options: dataclasses filled from the command line.

A command declares a parameter of a group's type. `with_option_groups` replaces it with one option
for each field of the group, which is what typer sees, and passes the filled group to the command.
"""

import inspect
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from functools import wraps
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from nearkin.cli.completion import completion_of
from nearkin.cli.given_options import COMMON, DEFAULT, HELP, SHOWS_ALL, GivenOptions
from nearkin.cli.standard_streams import require_open_stdout
from nearkin.cli.verbosity import Color, Verbose, set_quiet
from nearkin.runtime.docstrings import remove_sections
from nearkin.runtime.files import restrict_new_files
from nearkin.runtime.setting_names import flag_of
from nearkin.settings.setting import (
    ADVANCED,
    CANDIDATES,
    CLUSTERING,
    DECLARED,
    INPUT,
    OUTPUT,
    RUN,
    SIMILARITY,
    VERIFICATION,
    Need,
    Setting,
    is_optional,
    plain_type,
    setting_of,
)
from nearkin.settings.table import SETTINGS

PANELS = (
    COMMON,
    INPUT,
    SIMILARITY,
    CANDIDATES,
    VERIFICATION,
    CLUSTERING,
    OUTPUT,
    RUN,
    ADVANCED,
    HELP,
)
"""The panels of the help page, in the order in which they are shown."""
WITHOUT_VALUE = ("help_all", "verbose", "color")
"""The options of many commands whose callbacks do all their work."""
MOST_OPTIONS = 23
"""The number of options that a help page shows. A command with more has a short page, too."""


def show_all_options(context: typer.Context, *, requested: bool) -> None:
    """Prints the help page with all options and ends the command, if that was requested."""
    if requested and not context.resilient_parsing:
        context.meta[SHOWS_ALL] = True
        context.get_help()
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option(
        "--help-all",
        callback=show_all_options,
        is_eager=True,
        expose_value=False,
        help="Show all options.",
        rich_help_panel=HELP,
    ),
]


def with_option_groups(
    command: Callable[..., None],
    needs: Mapping[str, Need] = MappingProxyType({}),
) -> Callable[..., None]:
    """Returns a command that typer can register, with one parameter for each field of its groups.

    A parameter whose annotation is a plain type is the setting of the table with its name. `needs`
    has the options that have an effect in this command only with certain values of another one.

    A parameter of type `GivenOptions` receives the names of the options that were given.
    Options are ordered by the panel of the help page in which they are shown. If there are many,
    the common ones are in the first panel, which the short help page shows. The help page begins
    with the docstring of the command, without its sections for readers of the code.
    """
    hints = get_type_hints(command, include_extras=True)
    option_parameters: list[inspect.Parameter] = []
    groups: dict[str, type] = {}
    names_of_given_options: list[str] = []
    for name, parameter in inspect.signature(command).parameters.items():
        kind = hints[name]
        if kind is GivenOptions:
            names_of_given_options.append(name)
        elif is_dataclass(kind) and isinstance(kind, type):
            groups[name] = kind
            option_parameters.extend(_group_parameters(kind))
        else:
            option_parameters.append(_to_keyword(name, kind, parameter.default))

    @wraps(command)
    def run_command(context: typer.Context, **options: Any) -> None:
        from nearkin.cli.contradictions import names_to_yield, require_consistent, require_in_range

        command_name = context.command_path.partition(" ")[2]
        given_options = GivenOptions.read(context)
        for name in WITHOUT_VALUE:
            options.pop(name, None)
        configured = GivenOptions.read(context, "DEFAULT_MAP")
        origins: dict[str, str] = {}
        with ExitStack() as sources:
            if configured.names:
                from nearkin.cli.config_file import USED, defaults_named_in_errors

                config = context.meta[USED]
                sources.enter_context(defaults_named_in_errors(config, configured.names))
                _choose_source_of_settings(options, given_options, defaults)
            if options.get("settings") is not None or options.get("preset") is not None:
                from nearkin.cli.settings_option import apply_settings, name_source

                on_command_line = given_options.names
                settings, given_options = apply_settings(options, given_options, command_name)
                of_settings = given_options.names - on_command_line
                origins.update(dict.fromkeys(of_settings, name_source(options)))
                sources.enter_context(settings.named_in_errors())
            if configured.names:
                yielding = names_to_yield(configured, given_options, options, known_settings, needs)
                options.update({name: defaults[name] for name in yielding})
                configured = GivenOptions(configured.names - yielding - given_options.names)
            chosen = GivenOptions(given_options.names | configured.names)
            require_in_range(chosen, options, known_settings)
            require_consistent(chosen, options, known_settings, needs)
            if configured.names:
                origins.update(dict.fromkeys(configured.names, str(config.path)))
            given_options = replace(given_options, sources=origins)
            arguments: dict[str, object] = dict.fromkeys(names_of_given_options, given_options)
            for name, group in groups.items():
                group_values = {field.name: options.pop(field.name) for field in fields(group)}
                arguments[name] = group(**group_values)
            command(**arguments, **options)

    defaults = {parameter.name: parameter.default for parameter in option_parameters}
    known_settings = {
        parameter.name: setting
        for parameter in option_parameters
        if (setting := find_setting(parameter)) is not None
    }
    parameters = _arrange_parameters(option_parameters)
    run_command.__doc__ = remove_sections(inspect.getdoc(command) or "")
    run_command.__dict__.update(settings=known_settings, needs=needs)
    run_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run_command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run_command


def _choose_source_of_settings(
    options: dict[str, Any], given: GivenOptions, defaults: dict[str, Any]
) -> None:
    """Lets a given settings file replace the default of a preset, and a preset that of a file."""
    for name, other in (("settings", "preset"), ("preset", "settings")):
        if name in given and other in options and other not in given:
            options[other] = defaults[other]


def _arrange_parameters(declared: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """Returns the parameters that typer sees: the context, and options in the order of the help."""
    has_short_page = len(declared) > MOST_OPTIONS
    options = [to_option(parameter, has_short_page=has_short_page) for parameter in declared]
    added: dict[str, tuple[Any, object]] = {"color": (Color, "auto")}
    if any(parameter.name == "quiet" for parameter in declared):
        added["verbose"] = (Verbose, False)
    if has_short_page:
        added["help_all"] = (HelpAll, False)
    for name, (annotation, default) in added.items():
        keyword = inspect.Parameter.KEYWORD_ONLY
        options.append(inspect.Parameter(name, keyword, annotation=annotation, default=default))
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    return [context, *sorted(options, key=_panel_number)]


def _group_parameters(group: type) -> list[inspect.Parameter]:
    """Returns the parameters of a group, one for each field."""
    hints = get_type_hints(group, include_extras=True)
    return [_to_keyword(field.name, hints[field.name], field) for field in fields(group)]


def _to_keyword(name: str, kind: Any, default: Any) -> inspect.Parameter:
    """Returns a parameter with its setting in the annotation, if `setting` declares it."""
    if isinstance(default, Field):
        declared = default.metadata.get(DECLARED)
        kind = kind if declared is None else Annotated[kind, declared]
        default = inspect.Parameter.empty if default.default is MISSING else default.default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)


def find_setting(parameter: inspect.Parameter) -> Setting | None:
    """Returns the setting of an option: that of its annotation, or that of the table."""
    annotation = parameter.annotation
    if get_origin(annotation) is Annotated:
        return setting_of(annotation)
    declared = SETTINGS.get(parameter.name)
    return None if declared is None else declared.setting


def to_option(parameter: inspect.Parameter, *, has_short_page: bool) -> inspect.Parameter:
    """Returns the parameter that typer sees: an option with the facts of its setting."""
    setting = find_setting(parameter)
    if setting is None:
        return parameter
    flag = flag_of(parameter.name)
    name = f"{flag}/--no-{flag.removeprefix('--')}" if setting.negatable else flag
    short = [setting.short] if setting.short else []
    help = setting.help
    if setting.shown_default:
        help = f"{help}{DEFAULT}{setting.shown_default}]"
    option = typer.models.OptionInfo(
        default=...,
        param_decls=[name, *short],
        help=help,
        metavar=setting.metavar,
        show_default=not setting.shown_default,
        rich_help_panel=COMMON if has_short_page and setting.common else setting.panel or None,
        autocompletion=completion_of(setting),
        envvar=setting.variable or None,
        count=setting.is_counted,
        callback=CALLBACKS.get(parameter.name),
    )
    kind = setting.option_type or plain_type(parameter.annotation)
    if setting.option_type is not None and is_optional(plain_type(parameter.annotation)):
        kind = kind | None
    return parameter.replace(annotation=Annotated[kind, option])


def require_stdout_for_json(as_json: bool) -> bool:  # noqa: FBT001 - typer passes the value
    """Requires that standard output is open if a command prints JSON, and returns the value."""
    if as_json:
        require_open_stdout()
    return as_json


CALLBACKS: dict[str, Callable[..., Any]] = {
    "json": require_stdout_for_json,
    "quiet": set_quiet,
    "readable_by": restrict_new_files,
}
"""The functions that receive the value of an option when the command line is read."""


def _panel_number(parameter: inspect.Parameter) -> int:
    """Returns the position of a parameter's panel. Arguments come before options."""
    if get_origin(parameter.annotation) is not Annotated:
        return len(PANELS)
    for extra in get_args(parameter.annotation)[1:]:
        if isinstance(extra, typer.models.OptionInfo) and extra.rich_help_panel in PANELS:
            return PANELS.index(extra.rich_help_panel)
    return -1
