"""`nearkin fit --ask`: settings from answers about pairs, without labels."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nearkin.cli.given_options import GivenOptions

if TYPE_CHECKING:
    from nearkin.corpus import Columns, Corpus
    from nearkin.quality.fit.asking import AskedSettings
    from nearkin.quality.fit.objective import Objective
    from nearkin.runtime.progress import Progress

ANSWERS = Path("labels.csv")
"""The file of answers, unless --labels names one."""

WITHOUT_EFFECT = {
    "labelled": "whose answers are labelled pairs",
    "sample": "which chooses its documents itself",
    "page": "which shows its questions at the terminal; answer them, then run nearkin fit --page "
    "with the file of answers as --labels",
    "across": "which asks about pairs of all sources; for pairs of different sources, label them "
    "in a file and pass --labels",
}
"""The options that have no effect with questions, with the reason and what to do instead."""


def check_ask_options(given: GivenOptions, columns: "Columns") -> None:
    """Requires that texts are compared, and that no option is given that has no effect."""
    from nearkin.errors import UsageError

    for name, reason in WITHOUT_EFFECT.items():
        given.require_unused((name,), f"with --ask, {reason}")
    if columns.text is None:
        raise UsageError("--ask shows texts; omit it for tokens and vectors, and pass --labels")


def ask_for_settings(
    corpus: "Corpus",
    columns: "Columns",
    labels: Path,
    wanted: int,
    objective: "Objective",
    *,
    seed: int,
    workers: int,
    progress: "Progress",
    prints_json: bool,
) -> "AskedSettings":
    """Asks about pairs, and returns the settings that the answers suggest."""
    from rich.console import Console

    from nearkin.quality.fit.answer_file import AnswerFile
    from nearkin.quality.fit.asking import AskedSettings, open_session
    from nearkin.reports.terminal.asking import Questionnaire
    from nearkin.runtime.files import disk_errors

    answers = AnswerFile.open(labels)
    try:
        session = open_session(
            corpus,
            columns,
            answers.earlier,
            objective,
            seed=seed,
            workers=workers,
            progress=progress,
        )
    finally:
        progress.close()
    console = Console(stderr=prints_json)
    questionnaire = Questionnaire(session, answers, wanted, console, sys.stdin.readline)
    with disk_errors(labels.parent):
        questionnaire.ask_all()
    return AskedSettings.of_session(session)
