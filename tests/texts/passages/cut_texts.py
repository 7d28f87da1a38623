"""Texts from which repeated passages are cut, and what must hold for them."""

from collections import defaultdict

import pyarrow as pa

import nearkin
from nearkin.texts.passages.cutting.run import remove_spans
from tests.texts.passages.oracle import TOKENS, find_repeated_tokens, locate_tokens


class CutTexts:
    """The words of texts, and which of them a cut left in their places."""

    def __init__(self, texts: list[str], least: int, **options: object) -> None:
        self.texts = texts
        self.least = least
        spec = options.get("spec")
        self.unit = spec.unit if isinstance(spec, nearkin.Spec) else "words"
        numbers = range(len(texts))
        rows = pa.table(
            {
                "id": pa.array([f"{number:06}" for number in numbers], pa.string()),
                "text": pa.array(texts, pa.string()),
                "rank": pa.array(numbers, pa.int64()),
            }
        )
        options = {"keep": "rank asc", "cut_unit": "passage", **options}
        result = nearkin.passages(rows, id="id", min_tokens=least, **options)  # type: ignore[arg-type]
        self.result = result
        self.cuts = result.cuts.to_pylist()
        self.kept = {int(row["id"]): row for row in result.kept_documents.to_pylist()}
        self.words = [TOKENS[self.unit].findall(text.lower()) for text in texts]
        self.stays = [self._words_left(number) for number in range(len(texts))]

    def _words_left(self, number: int) -> list[bool]:
        bounds = locate_tokens(self.texts[number], self.unit)
        if number not in self.kept:
            return [False] * len(bounds)
        spans = [(span["start"], span["end"]) for span in self.kept[number]["cut_spans"]]
        for start, end in spans:
            for first, last in bounds:
                assert last <= start or first >= end or (start <= first and last <= end)
        return [not any(start <= first < end for start, end in spans) for first, _ in bounds]

    def complete_places(self) -> dict[tuple[str, ...], list[tuple[int, int]]]:
        """Returns the places at which each run of `least` words is complete after the cut."""
        places = defaultdict(list)
        for number, words in enumerate(self.words):
            for start in range(len(words) - self.least + 1):
                end = start + self.least
                if all(self.stays[number][start:end]):
                    places[tuple(words[start:end])].append((number, start))
        return places

    def require_restorable(self) -> None:
        for number, text in enumerate(self.texts):
            rows = [row for row in self.cuts if row["document"] == number]
            content = text.encode()
            for row in rows:
                assert content[row["start"] : row["end"]] == row["text"].encode()
            if number not in self.kept:
                assert [row["text"] for row in rows] == [text]
                continue
            spans = [(row["start"], row["end"]) for row in rows]
            assert spans == [(s["start"], s["end"]) for s in self.kept[number]["cut_spans"]]
            assert remove_spans(content, spans).decode() == self.kept[number]["text"]
            restored = self.kept[number]["text"].encode()
            for row in rows:
                at = row["start"]
                restored = restored[:at] + row["text"].encode() + restored[at:]
            assert restored == content

    def require_nothing_vanished(self) -> None:
        """Requires that each cut word is in a run of words that is complete at another place."""
        places = self.complete_places()
        for number, words in enumerate(self.words):
            for at in range(len(words)):
                if number in self.kept and not self.stays[number][at]:
                    starts = range(
                        max(0, at - self.least + 1), min(at, len(words) - self.least) + 1
                    )
                    assert any(
                        set(places[tuple(words[start : start + self.least])]) - {(number, start)}
                        for start in starts
                    )

    def require_only_repetitions_are_cut(self) -> None:
        repeated = find_repeated_tokens(self.texts, self.least, self.unit)
        for number in self.kept:
            cut = {at for at, stays in enumerate(self.stays[number]) if not stays}
            assert cut <= repeated[number]
