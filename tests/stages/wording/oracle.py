"""The wording of texts, and what one text says of another one, in plain and slow Python."""

import itertools
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from nearkin.stages.wording.negations import NEGATIONS

DASHES = "-‐‑‒–−﹣"
SIGNS = "+±∓"
JOINERS = {**dict.fromkeys(DASHES, "-"), "’": "'", "⁄": "/", "∕": "/", "٫": ".", "٬": ","}
JOINERS |= {sign: sign for sign in ".,:'·/"}
ENDS = ".!?…؟।"
ENDS_AT_ONCE = "。｡"
LINE_BREAKS = "\n\v\f\r\x85\u2028\u2029"
SYMBOLS_OF_PUNCTUATION = "#%&*/@\\§¶†‡‰′″"
NEGATIVE_WORDS = {word for line in NEGATIONS.values() for word in line.split()}
IGNORABLE = "\u00ad\u200b\u200d\ufe0f\ufeff"


class Said(NamedTuple):
    """A token of a wording."""

    kind: str
    """word, number or symbol."""
    content: str
    begins: bool
    """True if a sentence or a line begins with it."""
    is_attached: bool
    """True if no white space is before it, and no letter that is a word of its own is beside it."""


def is_numeral(character: str) -> bool:
    return unicodedata.category(character)[0] == "N" and not is_lone(character)


def is_lone(character: str) -> bool:
    name = unicodedata.name(character, "")
    is_letter = unicodedata.category(character)[0] in "LM"
    return is_letter and name.startswith(("CJK UNIFIED", "HIRAGANA", "KATAKANA", "THAI"))


def is_letter(character: str) -> bool:
    if unicodedata.decomposition(character).startswith(("<super>", "<sub>")):
        return False
    return (unicodedata.category(character)[0] in "LM" or character == "_") and not is_lone(
        character
    )


def is_symbol(character: str) -> bool:
    if unicodedata.decomposition(character).startswith(("<super>", "<sub>")):
        return not is_numeral(character)
    is_of_symbols = unicodedata.category(character)[0] == "S" and character not in "`´"
    return (is_of_symbols or character in SYMBOLS_OF_PUNCTUATION) and character not in DASHES


def fold(text: str) -> str:
    """Returns a text without ignorable characters, and with ASCII instead of fullwidth forms."""
    folded = (chr(ord(c) - 0xFEE0) if "！" <= c <= "～" else c for c in text if c not in IGNORABLE)
    return "".join(folded)


def starts_number(text: str) -> bool:
    if text[:1] in (".", ","):
        text = text[1:]
    return bool(text) and is_numeral(text[0])


def read_number(text: str) -> tuple[str, int]:
    """Returns the canonical form of the number at the beginning of a text, and its length."""
    content = ""
    at = 0
    while at < len(text):
        character, rest = text[at], text[at + 1 :]
        if character.isdecimal():
            content += str(unicodedata.decimal(character))
        elif is_numeral(character):
            content += character
        elif character in JOINERS and rest and is_numeral(rest[0]):
            content += JOINERS[character]
        elif character in "eE" and at and text[at - 1].isdecimal():
            sign = rest[:1] if rest[:1] and rest[0] in DASHES + SIGNS else ""
            if not rest[len(sign) : len(sign) + 1].isdecimal():
                break
            content += "e" + ("-" if sign and sign in DASHES else sign)
            at += len(sign)
        else:
            break
        at += 1
    return content, at


def starts_bracketed(text: str) -> bool:
    """Returns whether nothing but a number and perhaps a symbol is before the closing bracket."""
    if text and is_symbol(text[0]) and text[0] not in SIGNS and starts_number(text[1:]):
        text = text[1:]
    if not starts_number(text):
        return False
    rest = text[read_number(text)[1] :].lstrip(" \t\u00a0\u3000")
    if rest and is_symbol(rest[0]) and rest[0] not in SIGNS:
        rest = rest[1:]
    return rest.startswith(")")


def is_operator(character: str, previous: str, following: str) -> bool:
    """Returns whether a sign of sentences negates, as in `!=`, or is a unit, as in `5'`."""
    is_before_letter = bool(following) and (is_letter(following) or is_lone(following))
    if character == "!":
        is_after_word = bool(previous) and (
            is_letter(previous) or is_lone(previous) or is_numeral(previous)
        )
        is_first = not is_after_word and (is_before_letter or following == "(")
        return following == "=" or is_first
    is_after_number = bool(previous) and is_numeral(previous)
    return character in "'\"" and is_after_number and not is_before_letter


@lru_cache(4096)  # a text is compared with many
def read_wording(text: str) -> list[Said]:
    """Returns the tokens of a text."""
    text = fold(text)
    tokens: list[Said] = []
    begins, may_end = True, False
    at = 0
    end = 0

    def add(kind: str, content: str, size: int) -> None:
        nonlocal at, end, begins, may_end
        has_space = any(character.isspace() for character in text[end:at])
        is_attached = bool(tokens) and not has_space
        is_attached &= not is_lone(text[end - 1 : end] or " ") and not is_lone(text[at])
        tokens.append(Said(kind, content, begins, is_attached))
        begins, may_end = False, False
        at += size
        end = at

    while at < len(text):
        character, rest = text[at], text[at + 1 :]
        previous = text[at - 1 : at]
        is_attached = bool(previous) and (
            is_letter(previous) or is_lone(previous) or is_numeral(previous)
        )
        if character.isspace():
            begins |= may_end or character in LINE_BREAKS
            at += 1
        elif is_lone(character):
            add("word", unicodedata.normalize("NFKC", character), 1)
        elif is_letter(character):
            size = len(list(itertools.takewhile(is_letter, text[at:])))
            word = unicodedata.normalize("NFKC", text[at : at + size]).lower()
            add("word", unicodedata.normalize("NFKC", word), size)
        elif is_numeral(character) or (
            character in ".," and starts_number(text[at:]) and not is_attached and previous != "."
        ):
            add("number", *read_number(text[at:]))
        elif character in DASHES + SIGNS and not is_attached and starts_number(rest):
            content, size = read_number(rest)
            sign = "-" if character in DASHES else character
            add("number", sign + content, 1 + size)
        elif is_symbol(character) or is_operator(character, previous, rest[:1]):
            add("symbol", character, 1)
        elif character in DASHES:
            if (
                not is_attached
                and rest
                and is_symbol(rest[0])
                and rest[0] not in SIGNS
                and (starts_number(rest[1:]))
            ):
                add("number", "-", 1)
            elif character == "−" or starts_number(rest.lstrip(" \t\u00a0\u3000")):
                add("symbol", "-", 1)
            else:
                at += 1
        elif character == "(" and not is_attached and starts_bracketed(rest):
            add("number", "(", 1)
        else:
            if character in ENDS:
                last = tokens[-1] if tokens else None
                is_abbreviation = (
                    character == "."
                    and is_attached
                    and last is not None
                    and (last.kind == "number" or (is_letter(previous) and len(last.content) <= 2))
                )
                may_end |= not is_abbreviation
            begins |= character in ENDS_AT_ONCE
            at += 1
    return tokens


def numbers(text: str) -> list[str]:
    return [token.content for token in read_wording(text) if token.kind == "number"]


def _sentences(tokens: Sequence[Said]) -> list[list[tuple[str, str]]]:
    sentences: list[list[tuple[str, str]]] = []
    for token in tokens:
        if token.begins:
            sentences.append([])
        sentences[-1].append(token[:2])
    return sentences


def _changes(outside: Said, inside: Said, later: Said) -> bool:
    is_number = inside.kind == "number" or (outside.kind == "number" and inside.kind != "word")
    is_negation = outside.kind == "word" and outside.content in NEGATIVE_WORDS
    is_changed = outside.kind == "symbol" or is_number or is_negation or later.is_attached
    return is_changed and not later.begins


def says_all(kept: str, removed: str) -> bool:
    """Returns whether one text says all that another one says."""
    ours, theirs = read_wording(kept), read_wording(removed)
    said, wanted = ([token[:2] for token in tokens] for tokens in (ours, theirs))
    for start in range(len(ours) - len(wanted) + 1):
        end = start + len(wanted)
        if said[start:end] != wanted:
            continue
        if not wanted:
            return True
        is_changed = start > 0 and _changes(ours[start - 1], ours[start], ours[start])
        is_changed |= end < len(ours) and _changes(ours[end], ours[end - 1], ours[end])
        if not is_changed:
            return True
    remaining = iter(_sentences(ours))
    return all(sentence in remaining for sentence in _sentences(theirs))
