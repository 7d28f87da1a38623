"""The items that texts hold, by comparing all words of all texts with all words of all items."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from nearkin.texts.decontamination.request import GAP_WORDS, DecontaminationRequest

NEIGHBOUR_WORDS = 50
LEAST_WORDS = 4

Item = Mapping[str, str]


class Run(NamedTuple):
    start: int
    text_start: int
    length: int


def shared_runs(words: list[str], text: list[str], least: int) -> list[Run]:
    """Returns the maximal runs of equal words, ordered by place."""
    runs = []
    for i in range(len(words)):
        for j in range(len(text)):
            if i and j and words[i - 1] == text[j - 1]:
                continue
            length = 0
            while i + length < len(words) and j + length < len(text):
                if words[i + length] != text[j + length]:
                    break
                length += 1
            if length >= least:
                runs.append(Run(i, j, length))
    return runs


def best_score(runs: list[Run], weights: list[int], *, has_gap: bool) -> float:
    """Returns the largest share of the weights that a chain covers, or 0."""

    def weigh(start: int, end: int) -> int:
        return sum(weights[start:end])

    best = 0
    for number, first in enumerate(runs):
        end, text_end = first.start + first.length, first.text_start + first.length
        own = weigh(first.text_start, text_end)
        best = max(best, own)
        for second in runs[number + 1 :] if has_gap else ():
            shared = max(0, end - second.start, text_end - second.text_start)
            gap = second.start + shared - end
            text_gap = second.text_start + shared - text_end
            if shared < second.length and max(gap, text_gap) <= GAP_WORDS:
                added = weigh(second.text_start + shared, second.text_start + second.length)
                best = max(best, own + added)
    return best / sum(weights)


def find_items(
    texts: Sequence[str], items: Sequence[Item], request: DecontaminationRequest
) -> dict[tuple[int, int, str], float]:
    """Returns the score of each field of each item in each text, by their numbers and name.

    Args:
        texts: Texts of words between spaces.
        items: Different items of one suite.
        request: What counts as found.
    """
    documents = [text.split() for text in texts]
    fields = [{name: text.split() for name, text in item.items() if text} for item in items]
    with_words = sum(map(bool, fields))
    suite_counts: dict[str, int] = {}
    for item in fields:
        for word in {word for words in item.values() for word in words}:
            suite_counts[word] = suite_counts.get(word, 0) + 1

    def inverse(word: str) -> float:
        count = sum(word in document for document in documents)
        return math.log((len(documents) + 2) / (count + 1))

    def weight(word: str) -> int:
        rarity = math.log((with_words + 1) / suite_counts[word]) / math.log(with_words + 1)
        return max(1, round(65536 * inverse(word) * rarity))

    found = {}
    least = request.point.least
    for number, item in enumerate(fields):
        long = {name: words for name, words in item.items() if len(words) >= least}
        for name, words in long.items():
            weights = [weight(word) for word in words]
            for position, document in enumerate(documents):
                runs = shared_runs(document, words, least)
                score = best_score(runs, weights, has_gap=request.point.has_gap)
                if score >= request.threshold_of(name):
                    found[position, number, name] = score
        if long or sum(map(len, item.values())) < LEAST_WORDS:
            continue
        name = max(item, key=lambda field: len(item[field]))
        for position, document in enumerate(documents):
            if holds_short(document, item, name, inverse, math.log(max(1, len(texts)))):
                found[position, number, name] = 1.0
    return found


def holds_short(
    document: list[str],
    item: Mapping[str, list[str]],
    name: str,
    inverse: Callable[[str], float],
    least: float,
) -> bool:
    """Returns whether a text holds an item of few words, with another of its fields near."""
    words = item[name]
    others = [item[field] for field in item if field != name]
    for start in range(len(document) - len(words) + 1):
        if document[start : start + len(words)] != words:
            continue
        information = sum(map(inverse, words))
        near = 0
        for other in others:
            margin = NEIGHBOUR_WORDS + len(other)
            end = start + len(words)
            sides = document[max(0, start - margin) : start], document[end : end + margin]
            if any(
                side[place : place + len(other)] == other
                for side in sides
                for place in range(len(side))
            ):
                near += 1
                information += sum(map(inverse, other))
        if (near or not others) and information >= least:
            return True
    return False
