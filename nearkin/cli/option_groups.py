"""Commands whose parameters are groups of options: dataclasses filled from the command line.

A command declares a parameter of a group's type. `with_option_groups` replaces it with one option
for each field of the group, which is what typer sees, and passes the filled group to the command.
"""

import inspect
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from copy import copy
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from nearkin.cli.completion import completion_of
from nearkin.cli.given_options import COMMON, HELP, SHOWS_ALL, GivenOptions
from nearkin.cli.standard_streams import require_open_stdout
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
    common: tuple[str, ...] = (),
    needs: Mapping[str, Need] = MappingProxyType({}),
) -> Callable[..., None]:
    """Returns a command that typer can register, with one parameter for each field of its groups.

    A parameter whose annotation is a plain type is the setting of the table with its name. `needs`
    has the options that have an effect in this command only with certain values of another one.

    A parameter of type `GivenOptions` receives the names of the options that were given.
    Options are ordered by the panel of the help page in which they are shown. The help page begins
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
        options.pop("help_all", None)
        configured = GivenOptions.read(context, "DEFAULT_MAP")
        with ExitStack() as sources:
            if configured.names:
                from nearkin.cli.config_file import USED, defaults_named_in_errors

                config = context.meta[USED]
                sources.enter_context(defaults_named_in_errors(config, configured.names))
                _choose_source_of_settings(options, given_options, defaults)
            if options.get("settings") is not None or options.get("preset") is not None:
                from nearkin.cli.settings_option import apply_settings

                settings, given_options = apply_settings(options, given_options, command_name)
                sources.enter_context(settings.named_in_errors())
            if configured.names:
                yielding = names_to_yield(configured, given_options, options, known_settings, needs)
                options.update({name: defaults[name] for name in yielding})
                configured = GivenOptions(configured.names - yielding - given_options.names)
            chosen = GivenOptions(given_options.names | configured.names)
            require_in_range(chosen, options, known_settings)
            require_consistent(chosen, options, known_settings, needs)
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
    parameters = _arrange_parameters(list(map(to_option, option_parameters)), common)
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


def _arrange_parameters(
    option_parameters: list[inspect.Parameter], common: tuple[str, ...]
) -> list[inspect.Parameter]:
    """Returns the parameters that typer sees: the context, and options in the order of the help."""
    arranged = option_parameters
    if common:
        arranged = [
            _move_to_common_panel(parameter) if parameter.name in common else parameter
            for parameter in arranged
        ]
        arranged.append(
            inspect.Parameter(
                "help_all", inspect.Parameter.KEYWORD_ONLY, annotation=HelpAll, default=False
            )
        )
        positions = {name: position for position, name in enumerate(common)}
        arranged.sort(key=lambda parameter: positions.get(parameter.name, len(common)))
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    return [context, *sorted(arranged, key=_panel_number)]


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


def _move_to_common_panel(parameter: inspect.Parameter) -> inspect.Parameter:
    """Returns a parameter whose option is in the panel of the common options."""
    return _with_option(parameter, rich_help_panel=COMMON)


def find_setting(parameter: inspect.Parameter) -> Setting | None:
    """Returns the setting of an option: that of its annotation, or that of the table."""
    annotation = parameter.annotation
    if get_origin(annotation) is Annotated:
        return setting_of(annotation)
    declared = SETTINGS.get(parameter.name)
    return None if declared is None else declared.setting


def to_option(parameter: inspect.Parameter) -> inspect.Parameter:
    """Returns the parameter that typer sees: an option with the facts of its setting."""
    setting = find_setting(parameter)
    if setting is None:
        return parameter
    flag = flag_of(parameter.name)
    name = f"{flag}/--no-{flag.removeprefix('--')}" if setting.negatable else flag
    short = [setting.short] if setting.short else []
    help = setting.help
    if setting.shown_default:
        help = f"{help}  [default: {setting.shown_default}]"
    option = typer.models.OptionInfo(
        default=...,
        param_decls=[name, *short],
        help=help,
        metavar=setting.metavar,
        show_default=not setting.shown_default,
        rich_help_panel=setting.panel or None,
        autocompletion=completion_of(setting),
        envvar=setting.variable or None,
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
    "readable_by": restrict_new_files,
}
"""The functions that receive the value of an option when the command line is read."""


def _with_option(parameter: inspect.Parameter, **fields: object) -> inspect.Parameter:
    """Returns a parameter whose option has other fields.

    Other commands that share it keep theirs.
    """
    kind, *extras = get_args(parameter.annotation)
    changed: list[object] = []
    for extra in extras:
        if isinstance(extra, typer.models.OptionInfo):
            extra = copy(extra)
            for name, value in fields.items():
                setattr(extra, name, value)
        changed.append(extra)
    return parameter.replace(annotation=Annotated[(kind, *changed)])


def _panel_number(parameter: inspect.Parameter) -> int:
    """Returns the position of a parameter's panel. Arguments come before options."""
    if get_origin(parameter.annotation) is not Annotated:
        return len(PANELS)
    for extra in get_args(parameter.annotation)[1:]:
        if isinstance(extra, typer.models.OptionInfo) and extra.rich_help_panel in PANELS:
            return PANELS.index(extra.rich_help_panel)
    return -1
