"""The review of doubtful pairs on a terminal. One key decides, and the decision is kept at once."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from rich.console import Console
from rich.text import Text

from nearkin.errors import UsageError
from nearkin.reports.terminal.clusters import print_question
from nearkin.runs.review_queue import DoubtfulPair, ReviewQueue
from nearkin.runtime.number_format import format_similarity
from nearkin.runtime.visible_text import make_visible
from nearkin.settings.decisions import Decision, Verdict
from nearkin.settings.decisions.files import DecisionFile

PROMPT = "[s]ame  [d]ifferent  [u]nsure  [q]uit: "
HELP = "Press s if both are the same, d if they are different, u to leave the pair, or q to stop."


class ReviewKey(StrEnum):
    """The keys of a review."""

    SAME = "s"
    DIFFERENT = "d"
    UNSURE = "u"
    QUIT = "q"


VERDICTS = {ReviewKey.SAME: Verdict.SAME, ReviewKey.DIFFERENT: Verdict.DIFFERENT}


@dataclass
class ReviewSession:
    """Questions about the pairs of a queue. A pair that is left is asked about the next time.

    Attributes:
        queue: The pairs.
        file: File of decisions.
        by: Name of who decides, or None.
        console: Console to print to.
        read_key: Returns the next key that is pressed, and an empty text at the end of the input.
    """

    queue: ReviewQueue
    file: DecisionFile
    by: str | None
    console: Console
    read_key: Callable[[], str]

    def ask_all(self) -> int:
        """Asks about all pairs, until the user quits. Returns the number of new decisions."""
        decided = 0
        for number, pair in enumerate(self.queue.pairs, 1):
            self._show_pair(number, pair)
            key = self._decide(pair)
            if key is ReviewKey.QUIT:
                break
            decided += key in VERDICTS
        return decided

    def _decide(self, pair: DoubtfulPair) -> ReviewKey:
        """Reads keys until one decides about a pair without a contradiction, and keeps it."""
        while True:
            key = self._read_key()
            verdict = VERDICTS.get(key)
            if verdict is None:
                return key
            try:
                self.file.append(Decision(pair.id_a, pair.id_b, verdict, self.by))
            except UsageError as error:
                self.console.print(Text(make_visible(str(error)), style="red"))
                continue
            return key

    def _show_pair(self, number: int, pair: DoubtfulPair) -> None:
        title = (
            f"Pair {number} of {len(self.queue.pairs)}: similarity "
            f"{format_similarity(pair.similarity)}, threshold {self.queue.threshold:g}"
        )
        ids, texts = (pair.id_a, pair.id_b), (pair.text_a, pair.text_b)
        print_question(self.console, title, ids, texts)

    def _read_key(self) -> ReviewKey:
        """Reads keys until one has a meaning. The end of the input quits."""
        while True:
            self.console.print(PROMPT, end="", markup=False, highlight=False)
            pressed = self.read_key().lower()
            self.console.print(make_visible(pressed), markup=False, highlight=False)
            if not pressed:
                return ReviewKey.QUIT
            if pressed in list(ReviewKey):
                return ReviewKey(pressed)
            self.console.print(HELP, markup=False, highlight=False)
