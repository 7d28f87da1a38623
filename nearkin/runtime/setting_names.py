"""The names of settings in messages, in the form in which the reader of the message can set them.

The same check is reached from Python, where a setting is a keyword, from the command line, where it
is an option, and from the HTTP API, where it is a field of a JSON object. A message is read where
its process was started, so the form belongs to the process: it is that of Python, until the command
line or the server chooses another one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

OPTIONS = {
    "fields": "--field",
    "field_thresholds": "--field-threshold",
    "key": "--key-file",
    "cut_unit": "--cut",
    "cuts_over": "--cut-over",
    "hash_seed": "--seed",
    "version": "--spec-version",
    "min_tokens": "--min",
    "most_pairs": "--max",
    "target": "--to",
    "id_field": "--id",
    "list_file": "--list",
}
"""The options that are not named as the keyword is."""


class SettingForm(Enum):
    """The form in which messages name settings."""

    KEYWORD = "keyword"
    OPTION = "option"
    FIELD = "field"


_CHOSEN: list[SettingForm] = []
"""The forms that the process has chosen and not yet given back. The latest one holds."""


@contextmanager
def settings_named_as(form: SettingForm) -> Iterator[None]:
    """Names settings in another form, in messages of every thread of the process.

    Contexts need not end in the reverse order: a process can have several servers.
    """
    _CHOSEN.append(form)
    try:
        yield
    finally:
        _CHOSEN.remove(form)


def current_form() -> SettingForm:
    """Returns the form of the process, for other processes that work for it."""
    return _CHOSEN[-1] if _CHOSEN else SettingForm.KEYWORD


def name_setting(name: str, value: str | float | list[str] | None = None) -> str:
    """Returns the name of a setting, with a value if one is advised, for a message.

    Examples:
        >>> name_setting("hot_bucket_size"), name_setting("shingle", "chars:3")
        ('`hot_bucket_size`', "shingle='chars:3'")
        >>> with settings_named_as(SettingForm.OPTION):
        ...     name_setting("hot_bucket_size"), name_setting("shingle", "chars:3")
        ('--hot-bucket-size', '--shingle chars:3')
        >>> with settings_named_as(SettingForm.FIELD):
        ...     name_setting("hot_bucket_size"), name_setting("shingle", "chars:3")
        ('"hot_bucket_size"', '"shingle": "chars:3"')
    """
    # Only a message needs them, and every command imports this module.
    import json
    import shlex

    match current_form():
        case SettingForm.OPTION:
            option = OPTIONS.get(name) or f"--{name.replace('_', '-')}"
            if value is None:
                return option
            if value is False:
                return option.replace("--", "--no-", 1)
            values = value if isinstance(value, list) else [str(value)]
            return " ".join(f"{option} {shlex.quote(text)}" for text in values)
        case SettingForm.FIELD:
            return f'"{name}"' if value is None else f'"{name}": {json.dumps(value)}'
        case SettingForm.KEYWORD:
            return f"`{name}`" if value is None else f"{name}={value!r}"


def flag_of(name: str) -> str:
    """Returns the option of a parameter.

    Examples:
        >>> flag_of("id_column"), flag_of("block_by"), flag_of("min_tokens")
        ('--id', '--block-by', '--min')
    """
    return OPTIONS.get(name) or f"--{name.removesuffix('_column').replace('_', '-')}"


def name_flag(name: str) -> str:
    """Returns a setting that is turned on, for a message.

    Examples:
        >>> name_flag("overwrite")
        'overwrite=True'
        >>> with settings_named_as(SettingForm.OPTION):
        ...     name_flag("overwrite")
        '--overwrite'
    """
    if current_form() is SettingForm.OPTION:
        return name_setting(name)
    return name_setting(name, value=True)


def describe_setting(name: str, value: str | float | list[str] | None) -> str:
    """Returns a setting with its value, or that there is none, for a message.

    Examples:
        >>> describe_setting("bands", 20), describe_setting("bands", None)
        ('bands=20', 'no `bands`')
    """
    return f"no {name_setting(name)}" if value is None else name_setting(name, value)


def is_named_in(message: str, name: str) -> bool:
    """Returns whether an error message names a setting, in one of the usual forms.

    Examples:
        >>> is_named_in("--max-df 2 is out of range", "max_df"), is_named_in("max_dfs=2", "max_df")
        (True, False)
    """
    import re

    flag = OPTIONS.get(name) or f"--{name.replace('_', '-')}"
    pattern = rf"(?<![\w-]){flag}(?![\w-])|\b{name}=|`{name}`|^{name} "
    return re.search(pattern, message) is not None
