"""The advice of runs, tuning, fits and profiles: the command or the call to run next.

An advice is a whole command that can be pasted into a shell, or a call in Python, with the inputs
and the options that read them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypedDict

from nearkin.corpus import Columns, Corpus, FileCorpus
from nearkin.corpus.file_names import hide_password
from nearkin.corpus.inputs import Selection
from nearkin.runtime.setting_names import SettingForm, current_form, flag_of
from nearkin.runtime.shell_quoting import join_command

ANSWERS = 50
"""The number of pairs about which an advised fit asks."""
INDENT = "  "
"""The beginning of a line of a message that is a command. Such a line is printed unbroken."""
DATA = "data"
"""The name of documents in memory in an advised call."""
UNKNOWN_FILES = "FILES"
"""The name of inputs in an advised command if they are not files."""
REPEATED = ("include", "exclude")
"""The options of reading that are repeated for each value."""
CODE = "code"
"""The kind of data, and the preset, that needs no choice."""


class NextStep(Enum):
    """The next step with documents."""

    DEDUP = "dedup"
    CHOOSE = "choose"
    ASK = "ask"


SETTINGS_FILE = {"out": "settings.toml"}
OPTIONS_OF_STEPS: Mapping[NextStep, tuple[str, Mapping[str, object]]] = {
    NextStep.DEDUP: ("dedup", {"out": "deduped/"}),
    NextStep.CHOOSE: ("fit", SETTINGS_FILE),
    NextStep.ASK: ("fit", {"ask": ANSWERS, **SETTINGS_FILE}),
}
"""The command of each step, and its options beside those that read the inputs."""


class AdviceRecord(TypedDict):
    """An advice as a JSON object. `Advice` documents the members."""

    step: str
    reason: str
    settings: dict[str, object]


@dataclass(frozen=True)
class Advice:
    """A command or a call to run next over documents, and the reason.

    Attributes:
        step: Next step.
        reason: Reason, as a sentence without an end.
        settings: Settings of the step.
    """

    step: NextStep
    reason: str
    settings: Mapping[str, object] = field(default_factory=dict)


def describe_advice(advice: Advice, corpus: Corpus | None, columns: Columns) -> str:
    """Returns the command or the call of an advice, in the form in which the reader can run it.

    Examples:
        >>> advice = Advice(NextStep.CHOOSE, "")
        >>> print(describe_advice(advice, None, Columns("name", joined=("city",))))
        nk.choose(data, text=['name', 'city'])
    """
    is_call = current_form() is not SettingForm.OPTION
    if is_call and advice.step is not NextStep.ASK:
        arguments = {**_list_columns(columns), **advice.settings}
        return _write_call(advice.step.value, corpus, arguments)
    command, options = OPTIONS_OF_STEPS[advice.step]
    return write_command(command, corpus, columns, {**advice.settings, **options})


def explain_advice(advice: Advice, corpus: Corpus | None, columns: Columns) -> str:
    """Returns the reason of an advice, and the command on a line of its own."""
    return f"{advice.reason}:\n{INDENT}{describe_advice(advice, corpus, columns)}"


def split_advice(message: str) -> tuple[str, str]:
    r"""Returns a message without the command that `explain_advice` ends it with, and the command.

    Examples:
        >>> split_advice("The texts are short. To choose settings:\n  nearkin fit a.csv")
        ('The texts are short. To choose settings:', 'nearkin fit a.csv')
        >>> split_advice("The texts are short.")
        ('The texts are short.', '')
    """
    text, _, command = message.partition(f"\n{INDENT}")
    return text, command


def record_advice(advice: Advice) -> AdviceRecord:
    """Returns an advice as a JSON object."""
    return {
        "step": advice.step.value,
        "reason": advice.reason,
        "settings": dict(advice.settings),
    }


def advise(kind: str | None, *, are_short: bool, have_gap: bool = True) -> Advice:
    """Returns what to run over documents of a kind.

    Args:
        kind: Name of the nearest kind of data (`nearkin.quality.plan.data_kind`), or None.
        are_short: Whether most texts are too short for the settings that they are compared with.
        have_gap: Whether few pairs are about as similar as the threshold. Otherwise, only a person
            can tell duplicates and similar documents apart.

    Examples:
        >>> advise("records", are_short=True).step, dict(advise("code", are_short=False).settings)
        (<NextStep.CHOOSE: 'choose'>, {'preset': 'code'})
    """
    if kind == CODE:
        return Advice(NextStep.DEDUP, "Source code has settings of its own", {"preset": CODE})
    if not have_gap:
        return Advice(NextStep.ASK, f"Answers about {ANSWERS} pairs decide what a duplicate is")
    if are_short:
        return Advice(NextStep.CHOOSE, "nearkin can choose settings for short texts")
    return Advice(NextStep.DEDUP, "The defaults suit these texts")


def write_command(
    command: str, corpus: Corpus | None, columns: Columns, options: Mapping[str, object]
) -> str:
    """Returns a command over the inputs of a corpus, in one line. Passwords in URLs are hidden.

    Examples:
        >>> write_command("fit", None, Columns("title"), {"ask": 50, "out": "settings.toml"})
        'nearkin fit FILES --text title --ask 50 --out settings.toml'
    """
    inputs: Sequence[str] = (UNKNOWN_FILES,)
    selection: Mapping[str, object] = {}
    if isinstance(corpus, FileCorpus):
        inputs = [hide_password(given) for given in corpus.inputs]
        selection = _list_given(corpus.selection)
    given = {**_list_columns(columns), **selection, **options}
    words = [word for name, value in given.items() for word in _write_option(name, value)]
    return join_command(["nearkin", command, *inputs, *words])


def _list_columns(columns: Columns) -> dict[str, object]:
    """Returns the settings of columns that are not the default."""
    text: object = [columns.text, *columns.joined] if columns.joined else columns.text
    settings = {
        "text": None if text == Columns().text else text,
        "tokens": columns.tokens,
        "vector": columns.vector,
        "id": columns.id,
        "delimiter": columns.delimiter,
        "encoding": columns.encoding,
        "main_text": columns.main_text,
        "lines": columns.lines,
    }
    return {name: value for name, value in settings.items() if value}


def _list_given(selection: Selection) -> dict[str, object]:
    """Returns the rules of a selection that are not the default."""
    default = vars(Selection())
    return {name: value for name, value in vars(selection).items() if value != default[name]}


def _write_option(name: str, value: object) -> list[str]:
    if value is True:
        return [flag_of(name)]
    if name in REPEATED and isinstance(value, tuple):
        return [word for pattern in value for word in (flag_of(name), pattern)]
    return [flag_of(name), ",".join(value) if isinstance(value, list) else str(value)]


def _write_call(function: str, corpus: Corpus | None, arguments: Mapping[str, object]) -> str:
    data = DATA
    if isinstance(corpus, FileCorpus) and corpus.inputs:
        inputs = [hide_password(given) for given in corpus.inputs]
        data = repr(inputs[0] if len(inputs) == 1 else inputs)
    written = "".join(f", {name}={value!r}" for name, value in arguments.items())
    return f"nk.{function}({data}{written})"
