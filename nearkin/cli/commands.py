"""Commands and groups of commands, with help pages for a terminal of 80 columns.

The help page of a command with many options shows the common ones. `--help-all` shows all of them.
"""

import os
import re
import textwrap
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import typer
from typer.core import MarkupMode, TyperCommand, TyperGroup

from nearkin.cli.command_line import decode_text
from nearkin.cli.given_options import COMMON, DEFAULT, HELP, SHOWS_ALL, is_path_name, is_text_name
from nearkin.errors import UsageError
from nearkin.runtime.environment import check_numba_settings
from nearkin.runtime.files import READABLE_BY, Readers, restrict_new_files
from nearkin.runtime.setting_names import flag_of

MARKUP: MarkupMode = "markdown"
"""The markup of docstrings and help texts."""
EXAMPLES = "Examples:"
HELP_NAMES = ["-h", "--help"]
PLACEHOLDERS: dict[Any, str] = {int: "N", float: "NUMBER", Path: "PATH"}
"""The placeholders of options by type, for options that have none of their own."""
EXPECTED: dict[Any, str] = {int: "a whole number", float: "a number"}
"""The names of types in messages."""
UNEXPECTED = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", re.DOTALL)
ABSENT_OPTIONS = {
    (
        "pairs",
        "--max-lost",
    ): "it decides which documents nearkin dedup removes; to list pairs under "
    "this condition, write it as --accept 'jaccard >= 0.8 and containment >= 0.95', for example",
    ("plan", "--across"): "memory, disk and time are those of a run that compares documents of all "
    "sources, which are upper bounds; leave it out, and pass it to nearkin dedup",
}
"""The reasons why a command does not have an option that its siblings have."""
SHORT_EXAMPLES = 3
"""The number of examples on a short help page."""
WIDTH = 79
"""The maximum width of a line of an example, in characters."""


class Command(TyperCommand):
    """A command whose help page begins with the common options, and ends with examples."""

    def __init__(self, *arguments: Any, **fields: Any) -> None:
        super().__init__(*arguments, **fields)
        name_values(self.params)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses arguments, and refuses empty paths, which the current folder would replace."""
        try:
            _prepare(self, ctx)
        except UsageError:
            if not _asks_for_help(self, ctx, args):
                raise
        if any(not argument or argument.endswith("=") for argument in args):
            _require_paths(self, ctx, args)
        given = list(args)
        rest: list[str] = super().parse_args(ctx, args)
        _refuse_repeated_columns(self, ctx, given)
        for name, value in ctx.params.items():
            if not is_text_name(name):
                continue
            if isinstance(value, str):
                ctx.params[name] = decode_text(value)
            elif isinstance(value, list):
                ctx.params[name] = [decode_text(text) for text in value]
        return rest

    def get_help_option(self, ctx: Any) -> Any:
        """Returns the option that prints the help page."""
        option = describe_help_option(super().get_help_option(ctx))
        if option is not None:
            option.rich_help_panel = HELP
        return option

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Returns the parts of the usage line, for example `[OPTIONS]` and `INPUTS...`."""
        pieces: list[str] = ["[OPTIONS]"]
        for parameter in self.params:
            if parameter.param_type_name == "argument":
                piece = str(parameter.metavar)
                pieces.append(piece if parameter.required else f"[{piece}]")
        return pieces

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints the help page."""
        description, _, examples = (self.help or "").partition(EXAMPLES)
        page = copy(self)
        page.help = description.strip()
        page.params = [_one_name(parameter) for parameter in self.params]
        lines = [wrap_example(text) for text in examples.split("\n\n") if text.strip()]
        common = [_shorten_help(parameter) for parameter in page.params if is_common(parameter)]
        is_short = any(map(_is_in_common_panel, common)) and SHOWS_ALL not in ctx.meta
        if is_short:
            page.add_help_option = False
            page.help = description.strip().partition("\n\n")[0]
            page.params = common
            lines = lines[:SHORT_EXAMPLES]
        super(Command, page).format_help(ctx, formatter)
        if lines:
            typer.echo("\n".join([f" {EXAMPLES}", *lines, ""]))
        if is_short:
            # --help-all is one of the parameters.
            more = len(self.params) - len(common) - 1
            typer.echo(f" {more} more options: {ctx.command_path} --help-all")


def _prepare(command: Command, ctx: Any) -> None:
    """Applies the environment variables and the file with defaults to a command."""
    from nearkin.cli.config_file import apply_defaults

    check_numba_settings()
    restrict_new_files(os.environ.get(READABLE_BY) or Readers.OWNER.value)
    apply_defaults(command, ctx)


def _asks_for_help(command: Command, ctx: Any, arguments: list[str]) -> bool:
    """Returns whether arguments ask for a help page, which needs no valid defaults."""
    if ctx.ignore_unknown_options:
        return not {*HELP_NAMES, "--help-all"}.isdisjoint(arguments)
    values, _, _ = command.make_parser(ctx).parse_args(list(arguments))
    return command.name == "help" or bool(values.get("help") or values.get("help_all"))


def _require_paths(command: Command, ctx: Any, arguments: list[str]) -> None:
    """Raises UsageError if an argument or an option that names files is empty."""
    values, _, _ = command.make_parser(ctx).parse_args(list(arguments))
    parameters: list[Any] = command.params
    for parameter in parameters:
        is_path = "Path" in str(parameter.type_descriptor.annotation)
        value = values.get(parameter.name)
        given = value if isinstance(value, list | tuple) else [value]
        if "" in given and (is_path or is_path_name(parameter.name)):
            name = parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.metavar
            raise UsageError(f"{name} is empty; give a path")


def _refuse_repeated_columns(command: Command, ctx: Any, arguments: list[str]) -> None:
    """Refuses an option for a column that is given twice, of which the last one would count."""
    _, _, order = command.make_parser(ctx).parse_args(arguments)
    options = [parameter for parameter in order if is_text_name(str(parameter.name))]
    for option in options:
        if not option.multiple and options.count(option) > 1:
            flag = flag_of(str(option.name))
            remedy = "give it once"
            if flag == "--text":
                remedy = "write --text a,b to compare several columns"
            raise UsageError(
                f"{flag} is given {options.count(option)} times, and only the last one would "
                f"count; {remedy}"
            )


class CommandGroup(TyperGroup):
    """A group of commands that names the group of a command that is not its own."""

    def get_help_option(self, ctx: Any) -> Any:
        """Returns the option that prints the help page."""
        return describe_help_option(super().get_help_option(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints the help page."""
        # The options of shell completion are added after the group was made.
        name_values(self.params)
        super().format_help(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Returns the name and the command that arguments call, and the other arguments."""
        from nearkin.runtime.suggestions import did_you_mean

        name = args[0]
        if name in self.commands or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        root = ctx.find_root()
        elsewhere = [f"{root.info_name} {path}" for path in root.command.find_paths(name)]
        if elsewhere:
            advice = f"; use: {' or '.join(elsewhere)}"
        else:
            advice = did_you_mean(name, self.commands) or see_help(ctx)
        raise UsageError(f"unknown command {name!r}{advice}")


def make_group(name: str, description: str) -> typer.Typer:
    """Returns a group to which commands can be added."""
    return typer.Typer(
        name=name,
        cls=CommandGroup,
        help=description,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=MARKUP,
    )


def see_help(context: Any) -> str:
    """Returns the end of an error message, which names the help page of a command."""
    return f"; see {context.command_path} --help"


def first_sentence(text: str) -> str:
    r"""Returns the first sentence of a help text.

    Examples:
        >>> first_sentence("Column of texts,\nfor example body. May be repeated.")
        'Column of texts, for example body.'
    """
    sentence, end, _ = " ".join(text.split()).partition(". ")
    return sentence + end.rstrip()


def name_values(parameters: list[Any]) -> None:
    """Gives every parameter a placeholder that says what to enter. Flags have none."""
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            many = "..." if parameter.nargs != 1 else ""
            parameter.metavar = f"{parameter.metavar or parameter.name.upper()}{many}"
            parameter.display_type_rich = show_no_type
        elif parameter.is_flag or parameter.count:
            parameter.metavar = ""
        elif parameter.metavar is None:
            annotation = parameter.type_descriptor.annotation
            default = parameter.name.rpartition("_")[2].upper()
            parameter.metavar = PLACEHOLDERS.get(annotation, default)


def show_no_type(ctx: Any) -> None:
    """Shows no type of an argument, because its name says what to enter."""


def describe_help_option(option: Any) -> Any:
    """Returns the option that prints the help page, without a placeholder."""
    if option is not None:
        option.help = "Show this page."
        option.metavar = ""
    return option


def is_common(parameter: Any) -> bool:
    """Returns whether a short help page shows a parameter."""
    if parameter.param_type_name == "argument" or parameter.required:
        return True
    return _is_in_common_panel(parameter)


def _is_in_common_panel(parameter: Any) -> bool:
    return getattr(parameter, "rich_help_panel", None) == COMMON


def _shorten_help(parameter: Any) -> Any:
    """Returns a parameter for the short help page, with the first sentence of its help text."""
    text, separator, default = (parameter.help or "").partition(DEFAULT)
    shown = copy(parameter)
    shown.help = f"{first_sentence(text)}{separator}{default}"
    if parameter.default and not parameter.required:
        # In a line of its own, it would make the page longer.
        shown.help += f"{DEFAULT}{parameter.default}]"
        shown.show_default = False
    return shown


def _one_name(parameter: Any) -> Any:
    """Returns a parameter for the help page; a flag with an opposite is shown as `--[no-]NAME`."""
    if parameter.param_type_name != "option" or not parameter.secondary_opts:
        return parameter
    shown = copy(parameter)
    shown.opts = [f"--[no-]{parameter.opts[0].removeprefix('--')}"]
    shown.secondary_opts = []
    return shown


def wrap_example(example: str) -> str:
    r"""Returns an example command of a help page, in lines that can be pasted into a shell.

    Examples:
        >>> print(wrap_example("nearkin pairs " + "a-long-name/" * 5 + " --out pairs.parquet"))
          nearkin pairs a-long-name/a-long-name/a-long-name/a-long-name/a-long-name/ \
            --out pairs.parquet
    """
    words = example.split()
    # a break inside of quotes would change the value
    pieces: list[str] = []
    quoted = False
    for word in words:
        if quoted or (pieces and not word.startswith("-") and pieces[-1].startswith("--")):
            pieces[-1] += f" {word}"
        else:
            pieces.append(word)
        if word.count('"') % 2:
            quoted = not quoted
    text = " ".join(piece.replace(" ", "\0") for piece in pieces)
    lines = textwrap.wrap(
        text,
        WIDTH - 2,
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return " \\\n".join(lines).replace("\0", " ")


def usage_message(error: Any) -> str:
    """Returns a usage error of the parser of the command line as one sentence."""
    from nearkin.runtime.suggestions import did_you_mean

    context = error.ctx
    see = "" if context is None else see_help(context)
    parameter = getattr(error, "param", None)
    kind = type(error).__name__
    if kind == "NoSuchOption":
        names = [name for declared in context.command.get_params(context) for name in declared.opts]
        command = "" if context is None else context.command_path.partition(" ")[2]
        reason = ABSENT_OPTIONS.get((command, error.option_name))
        if reason is not None:
            return f"{error.option_name} is not an option of nearkin {command}: {reason}"
        advice = did_you_mean(error.option_name, names)
        return f"no such option {error.option_name!r}{advice or see}"
    if kind == "MissingParameter" and parameter is not None:
        return f"missing {name_of(parameter)}{see}"
    if kind == "BadParameter" and parameter is not None:
        name = name_of(parameter).partition(" ")[2].partition(" ")[0]
        for fault in getattr(error.__cause__, "errors", list)():
            expected = EXPECTED.get(parameter.type_descriptor.annotation)
            if expected:
                return f"{name} {fault['input']!r} is not {expected}{see}"
        return f"{name}: {error.message.rstrip('.')}{see}"
    # A group without a command prints its help page, and reports no message.
    message = error.format_message().strip().rstrip(".") or "missing command"
    extra = UNEXPECTED.fullmatch(message)
    if extra is not None:
        return f"unexpected argument {extra[1]!r}{see}"
    return f"{message[:1].lower()}{message[1:]}{see}"


def name_of(parameter: Any) -> str:
    """Returns the name of a parameter and its placeholder, for example `--out PATH`."""
    if parameter.param_type_name == "argument":
        return f"argument {parameter.metavar}"
    long_name = max(parameter.opts, key=len)
    return f"option {long_name} {parameter.metavar or ''}".strip()


def run_typer(run: Callable[..., Any], arguments: list[str], name: str) -> int | None:
    """Runs a typer application, whose errors are raised."""
    try:
        code = run(arguments, prog_name=name, standalone_mode=False)
    except PARSER_ERROR as error:
        raise UsageError(usage_message(error)) from error
    return code if isinstance(code, int) else None


# typer exports only subclasses of this error.
PARSER_ERROR: Any = typer.BadParameter.__mro__[1]
