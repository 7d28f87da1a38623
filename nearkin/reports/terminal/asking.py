"""Asks about pairs on a terminal, or through a pipe with one answer a line."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from rich.console import Console
from rich.text import Text

from nearkin.quality.fit.answer_file import Answer, AnswerFile
from nearkin.quality.fit.asking import AskedSettings, AskSession, Suggestion, format_bound
from nearkin.reports.terminal.clusters import print_question
from nearkin.reports.terminal.tables import text_table
from nearkin.runtime.number_format import format_fraction

ROUND = 10
"""The number of answers after which the settings are chosen again."""
PROMPT = "Same? [y]es [n]o [s]kip [u]ndo [q]uit: "


class Reply(Enum):
    """A reply to a question."""

    SAME = "y"
    DIFFERENT = "n"
    SKIP = "s"
    UNDO = "u"
    STOP = "q"


REPLIES = {
    "y": Reply.SAME,
    "yes": Reply.SAME,
    "same": Reply.SAME,
    "n": Reply.DIFFERENT,
    "no": Reply.DIFFERENT,
    "different": Reply.DIFFERENT,
    "s": Reply.SKIP,
    "skip": Reply.SKIP,
    "u": Reply.UNDO,
    "undo": Reply.UNDO,
    "q": Reply.STOP,
    "quit": Reply.STOP,
    "stop": Reply.STOP,
}
"""The replies by what is typed, in lower case."""


@dataclass
class Questionnaire:
    """Questions about pairs, whose answers are kept in a file.

    Attributes:
        session: Pairs and answers.
        answers: File of the answers.
        wanted: Number of answers, earlier ones included, after which nothing more is asked.
        console: Console to print to.
        read_line: Returns the next line of the input, and an empty text at its end.
    """

    session: AskSession
    answers: AnswerFile
    wanted: int
    console: Console
    read_line: Callable[[], str]
    _history: list[int] = field(default_factory=list)
    _queue: deque[int] = field(default_factory=deque)

    def ask_all(self) -> None:
        """Asks until there are enough answers, the input ends, or the user stops.

        After each round of `ROUND` answers, it says which settings the answers suggest.
        """
        while len(self.session.answers) < self.wanted:
            if not self._queue:
                missing = self.wanted - len(self.session.answers)
                self._queue.extend(self.session.choose_pairs(min(ROUND, missing)))
                if not self._queue:
                    self.console.print("There are no further pairs to ask about.")
                    return
            if not self._ask_next():
                return
            if not self._queue:
                self.console.print(Text(describe_suggestion(self.session), style="bold"))

    def _ask_next(self) -> bool:
        """Asks about the first pair of the queue. Returns False if the user stops."""
        number = self._queue.popleft()
        self._show_pair(number)
        match self._read_reply():
            case Reply.STOP:
                return False
            case Reply.UNDO:
                self._queue.appendleft(number)
                self._undo()
            case Reply.SKIP:
                self.session.skipped.add(number)
                self._history.append(number)
            case reply:
                is_duplicate = reply is Reply.SAME
                first, second = self.session.pool.pairs[number].tolist()
                ids = self.session.pool.documents.ids
                self.answers.append(Answer(ids[first], ids[second], is_duplicate))
                self.session.answers[number] = is_duplicate
                self._history.append(number)
        return True

    def _undo(self) -> None:
        """Forgets the last answer, and asks about its pair again."""
        if not self._history:
            self.console.print("There is nothing to undo.")
            return
        last = self._history.pop()
        self._queue.appendleft(last)
        if last in self.session.skipped:
            self.session.skipped.remove(last)
            return
        del self.session.answers[last]
        self.answers.remove_last()

    def _show_pair(self, number: int) -> None:
        documents = self.session.pool.documents
        positions = self.session.pool.pairs[number].tolist()
        ids = [documents.ids[position] for position in positions]
        texts = [documents.contents[position].as_py() for position in positions]
        title = f"Pair {len(self.session.answers) + 1} of {self.wanted}"
        print_question(self.console, title, ids, texts)

    def _read_reply(self) -> Reply:
        """Reads lines until one is a reply. The end of the input stops."""
        while True:
            # A program that reads whole lines must see the question before it answers.
            ending = "" if self.console.is_terminal else "\n"
            self.console.print(PROMPT, end=ending, markup=False, highlight=False)
            line = self.read_line()
            if not line:
                return Reply.STOP
            reply = REPLIES.get(line.strip().lower())
            if reply is not None:
                return reply
            self.console.print(
                "Type y if both are the same, n if they are different, s to skip the pair, u to "
                "change the last answer, or q to stop.",
                highlight=False,
            )


def describe_suggestion(session: AskSession) -> str:
    """Returns which settings the answers suggest, and how sure that is."""
    suggestion = session.suggest()
    answers = f"{len(session.answers)} answers"
    if suggestion is None:
        return f"{answers}, all of them alike: more are needed to choose settings."
    return f"{answers}: {describe_settings(suggestion)}"


def describe_settings(suggestion: Suggestion) -> str:
    """Returns settings with their expected F1, and how many others may be better."""
    return (
        f"{suggestion.definition} at {suggestion.threshold:g}, F1 {format_bound(suggestion.f1)}; "
        f"{suggestion.alive} of {suggestion.competing} definitions may be the best"
    )


def print_asked(asked: AskedSettings, console: Console) -> None:
    """Prints the settings that answers suggest, with their expected scores."""
    suggestion = asked.suggestion
    rows = [
        (name, format_fraction(score.value), format_fraction(score.low))
        for name, score in (
            ("precision", suggestion.precision),
            ("recall", suggestion.recall),
            ("F1", suggestion.f1),
        )
    ]
    title = (
        f"{suggestion.definition} at {suggestion.threshold:g}, from {asked.duplicates} pairs of "
        f"duplicates and {asked.distinct} distinct pairs among {asked.searched_documents:,} of "
        f"{asked.corpus_documents:,} documents"
    )
    console.print(Text(title, style="italic"))
    console.print(text_table(None, ("expected", "score", "at least"), rows))
