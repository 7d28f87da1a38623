"""Describes the texts of a corpus, and names the kind of data that is nearest to them.

The description is made of a few numbers that everybody can check: lengths, digits, templates,
years, scripts and lines that look like code. The kind follows from them by the rule of `KINDS`,
which is a table of limits with a reason for each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.engine.advice import Advice, AdviceRecord, record_advice
from nearkin.runtime.number_format import format_percent
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.spec import Spec

PROFILE_CHARACTERS = 4000
"""The number of characters at the beginning of a text that are looked at."""
LENGTH_QUANTILES = (0.1, 0.5, 0.9)
"""The quantiles of the lengths that a profile has."""
SCRIPTS = (
    "Latin",
    "Cyrillic",
    "Greek",
    "Han",
    "Hiragana",
    "Katakana",
    "Hangul",
    "Arabic",
    "Hebrew",
    "Devanagari",
    "Bengali",
    "Gujarati",
    "Gurmukhi",
    "Kannada",
    "Malayalam",
    "Oriya",
    "Sinhala",
    "Tamil",
    "Telugu",
    "Thai",
    "Lao",
    "Khmer",
    "Myanmar",
    "Tibetan",
    "Armenian",
    "Ethiopic",
    "Georgian",
    "Mongolian",
)
"""The Unicode scripts that are distinguished, by the names of the Unicode Character Database."""
OTHER_SCRIPT = "other"
"""The name that stands for all further scripts."""
UNSPACED_SCRIPTS = ("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar")
"""The scripts without spaces between words, of which each character is a token."""
NOTABLE_UNSPACED_SHARE = 0.3
"""The share of letters of scripts without spaces from which a profile warns of words."""
UNSPACED_SHINGLE = 5
"""The smallest shingle of tokens for these scripts, whose words have about two characters."""
TOKEN = r"[\pL\pM\pN_]+"
TOKEN_WITH_DIGIT = r"[\pL\pM_]*\pN[\pL\pM\pN_]*"
"""Patterns of RE2, which knows the categories and the scripts of Unicode."""
FOLDED_TOKEN = r"[\pL\pM\pN_.:/-]*\pN[\pL\pM\pN_.:/-]*"
"""A token with a digit that is replaced before templates are counted, such as a time or an address.
"""
YEAR = r"\b(?:1[89]|20)[0-9]{2}\b"
FILLED_LINE = r"(?m)^.*\S.*$"
CODE_LINE = (
    r"(?m)^[ \t]*(?:"
    r"(?:def|class|if|elif|else|for|while|try|except|with|switch|case|public|private|protected"
    r"|static|func|function|fn|struct|impl|namespace)\b.*[:;{(,]"
    r"|import [\w.{]+.*|from [\w.]+ import\b.*|#include\b.*|package [\w.]+;?|return\b.*[^.]|@\w+.*"
    r"|(?:const|let|var|val|int|void|auto)? ?[\w.\[\]*]+ ?(?::=|[-+*/|&]?=) ?\S.*"
    r"|[\w.]+\(.*\)|//.*|/?\*.*|.*[{};]|[)\]]+,?"
    r")[ \t]*$"
)
"""A line that looks like code: a statement with its punctuation, an assignment, a call, a brace."""


class Lengths(NamedTuple):
    """The lengths of texts: a tenth is shorter than `low`, and a tenth is longer than `high`."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, lengths: np.ndarray) -> "Lengths":
        """Returns the quantiles of lengths.

        Args:
            lengths: Lengths, numbers (n,), at least one.
        """
        low, median, high = np.quantile(lengths, LENGTH_QUANTILES)
        return cls(float(low), float(median), float(high))


class ScriptShare(NamedTuple):
    """The share of the letters that belong to a script."""

    script: str
    share: float


@dataclass(frozen=True)
class DataProfile:
    """The numbers that describe the texts of a corpus, from a sample of them.

    Lengths are those of whole texts. All other numbers about the content look at the first
    `PROFILE_CHARACTERS` characters of a text.

    Attributes:
        sampled: Number of sampled texts.
        characters: Lengths in characters.
        shingles: Numbers of distinct shingles.
        single_shingle: Share of the texts that are not longer than one shingle.
        exact_copies: Share of the documents of the corpus that are copies of another one.
        digit_tokens: Share of tokens that contain a digit.
        distinct: Number of distinct sampled texts.
        templates: Number of distinct sampled texts after each token with a digit was replaced by 0.
        years: Share of the texts that contain a year from 1800 to 2099.
        lines: Mean number of lines of a text that are not empty.
        code_lines: Share of these lines that look like code.
        scripts: Shares of letters by Unicode script, the largest first.
    """

    sampled: int
    characters: Lengths
    shingles: Lengths
    single_shingle: float
    exact_copies: float
    digit_tokens: float
    distinct: int
    templates: int
    years: float
    lines: float
    code_lines: float
    scripts: tuple[ScriptShare, ...]

    @property
    def median_characters(self) -> float:
        """The median length in characters."""
        return self.characters.median

    @property
    def template_share(self) -> float:
        """The number of templates relative to the number of distinct texts."""
        return self.templates / max(self.distinct, 1)

    @property
    def unspaced(self) -> float:
        """The share of letters of scripts without spaces between words."""
        return sum(share for script, share in self.scripts if script in UNSPACED_SCRIPTS)


class Limits(NamedTuple):
    """The range of a number of a profile in which a kind of data has it."""

    number: str
    """The name of the attribute of `DataProfile`."""
    low: float
    high: float
    reason: str

    def includes(self, profile: DataProfile) -> bool:
        """Returns whether a profile has the number within the limits, which are included."""
        value: float = getattr(profile, self.number)
        return self.low <= value <= self.high


class DataKind(NamedTuple):
    """A kind of data, and the limits that decide it."""

    name: str
    """The name, which is also that of a preset."""
    description: str
    limits: tuple[Limits, ...]


ANY = float("inf")
KINDS = (
    DataKind(
        "code",
        "source code",
        (
            Limits("code_lines", 0.4, 1, "less than half of the lines are comments or prose"),
            Limits("lines", 3, ANY, "a function has a signature, a body and an end"),
        ),
    ),
    DataKind(
        "logs",
        "lines of logs",
        (
            Limits("template_share", 0, 0.75, "lines differ in numbers, and some also in names"),
            Limits("digit_tokens", 0.1, 1, "a line has a time, a number or an address"),
            Limits("lines", 0, 3, "a message is a line, rarely one with a few more"),
        ),
    ),
    DataKind(
        "bibliography",
        "references to publications",
        (
            Limits("years", 0.5, 1, "a reference has the year of the publication"),
            Limits("median_characters", 60, 600, "authors, a title and a venue fill a line or two"),
            Limits("digit_tokens", 0, 0.3, "a year, a volume and pages beside many words"),
            Limits("lines", 0, 3, "a reference is one entry"),
        ),
    ),
    DataKind(
        "records",
        "records with several fields, such as names and addresses",
        (
            Limits("digit_tokens", 0.1, 1, "house numbers, postcodes, dates or model numbers"),
            Limits("median_characters", 0, 250, "the fields of a record fit into a few lines"),
            Limits("code_lines", 0, 0.4, "a short function is code"),
        ),
    ),
    DataKind(
        "titles",
        "titles, names and other single lines",
        (
            Limits("median_characters", 0, 150, "a title fits into a line"),
            Limits("lines", 0, 1.2, "a title has no second line"),
        ),
    ),
    DataKind(
        "web",
        "running text, such as web pages, news and documentation",
        (
            Limits("median_characters", 300, ANY, "a paragraph has more than 50 words of 6"),
            Limits("code_lines", 0, 0.4, "more is code"),
            Limits("digit_tokens", 0, 0.3, "more are tables and logs"),
        ),
    ),
)
"""The kinds of data, in the order in which they are tried. The first of which all limits hold is
the nearest kind. Special kinds come before those that would include them."""


class DataRecord(TypedDict):
    """A description of texts as a JSON object. `DataProfile` documents the numbers.

    Attributes:
        scripts: Share of the letters by Unicode script.
        template_share: Number of templates relative to the number of distinct texts.
        kind: Name of the nearest kind of data, or None.
        pairs: Number of pairs of a document at each similarity and above.
        crowding: Density of pairs around the threshold (see `Distribution.crowding`), or None if
            too few pairs were compared.
        warnings: Reasons for which the settings cannot work well.
        advice: What to run next.
    """

    sampled: int
    characters: dict[str, float]
    shingles: dict[str, float]
    single_shingle: float
    exact_copies: float
    digit_tokens: float
    distinct: int
    templates: int
    template_share: float
    years: float
    lines: float
    code_lines: float
    scripts: dict[str, float]
    kind: str | None
    pairs: dict[str, float]
    crowding: float | None
    warnings: list[str]
    advice: AdviceRecord


def profile_texts(texts: pa.Array, shingles: np.ndarray, exact_copies: float = 0.0) -> DataProfile:
    """Describes sampled texts, large_string (n,), of some distinct shingles each, by a few numbers.

    Examples:
        >>> texts = pa.array(["call 17 done", "call 18 done", "end"], pa.large_string())
        >>> profile = profile_texts(texts, np.array([1, 1, 1]))
        >>> profile.distinct, profile.templates, round(profile.digit_tokens, 2)
        (3, 2, 0.29)
    """
    beginnings = pc.utf8_slice_codeunits(texts, 0, PROFILE_CHARACTERS)
    tokens = _count_matches(beginnings, TOKEN)
    filled_lines = _count_matches(beginnings, FILLED_LINE)
    folded = pc.replace_substring_regex(beginnings, FOLDED_TOKEN, "0")
    lengths = pc.utf8_length(texts).to_numpy(zero_copy_only=False)
    return DataProfile(
        sampled=len(texts),
        characters=Lengths.of(lengths),
        shingles=Lengths.of(shingles),
        single_shingle=float(np.mean(shingles == 1)),
        exact_copies=exact_copies,
        digit_tokens=_count_matches(beginnings, TOKEN_WITH_DIGIT) / max(tokens, 1),
        distinct=int(pc.count_distinct(beginnings).as_py()),
        templates=int(pc.count_distinct(folded).as_py()),
        years=float(np.mean(_contains_match(beginnings, YEAR))),
        lines=filled_lines / len(texts),
        code_lines=_count_matches(beginnings, CODE_LINE) / max(filled_lines, 1),
        scripts=count_scripts(beginnings.to_pylist()),
    )


def _count_matches(texts: pa.Array, pattern: str) -> int:
    return int(pc.sum(pc.count_substring_regex(texts, pattern)).as_py() or 0)


def count_scripts(texts: Sequence[str]) -> tuple[ScriptShare, ...]:
    """Returns the shares of the letters of texts by Unicode script, the largest first.

    The scripts are those of RE2 (the regular expressions of Arrow). Marks and digits do not count.

    Examples:
        >>> count_scripts(["abc", "д1"])
        (ScriptShare(script='Latin', share=0.75), ScriptShare(script='Cyrillic', share=0.25))
    """
    points = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
    numbers, counts = np.unique(points, return_counts=True)
    characters = pa.array([chr(number) for number in numbers], pa.string())
    remaining = np.where(_contains_match(characters, r"\pL"), counts, 0)
    letters = int(remaining.sum())
    shares = []
    for script in SCRIPTS:
        in_script = _contains_match(characters, rf"\p{{{script}}}")
        shares.append(ScriptShare(script, int(remaining[in_script].sum()) / max(letters, 1)))
        remaining[in_script] = 0
    shares.append(ScriptShare(OTHER_SCRIPT, int(remaining.sum()) / max(letters, 1)))
    used = [share for share in shares if share.share > 0]
    return tuple(sorted(used, key=lambda share: -share.share))


def _contains_match(texts: pa.Array, pattern: str) -> np.ndarray:
    return np.asarray(pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False))


def find_kind(profile: DataProfile) -> DataKind | None:
    """Returns the first kind of `KINDS` whose limits all hold, or None."""
    for kind in KINDS:
        if all(limits.includes(profile) for limits in kind.limits):
            return kind
    return None


def warn_of_unspaced_scripts(profile: DataProfile, spec: Spec) -> str | None:
    """Returns a warning if short shingles of words are used for scripts without spaces, or None."""
    is_suitable = spec.unit != "words" or spec.n >= UNSPACED_SHINGLE
    if is_suitable or profile.unspaced < NOTABLE_UNSPACED_SHARE:
        return None
    shingle = name_setting("shingle", f"chars:{UNSPACED_SHINGLE}")
    return (
        f"{format_percent(profile.unspaced)} of the letters are of scripts without spaces between "
        f"words, of which each character is a token, so shingles {spec.shingle} have {spec.n} "
        f"characters there. For long texts, use {shingle}."
    )


def to_record(
    profile: DataProfile,
    pairs: dict[str, float],
    crowding: float | None,
    warnings: Sequence[str],
    advice: Advice,
) -> DataRecord:
    """Returns a description of texts as a JSON object."""
    kind = find_kind(profile)
    return {
        "sampled": profile.sampled,
        "characters": profile.characters._asdict(),
        "shingles": profile.shingles._asdict(),
        "single_shingle": profile.single_shingle,
        "exact_copies": profile.exact_copies,
        "digit_tokens": profile.digit_tokens,
        "distinct": profile.distinct,
        "templates": profile.templates,
        "template_share": profile.template_share,
        "years": profile.years,
        "lines": profile.lines,
        "code_lines": profile.code_lines,
        "scripts": dict(profile.scripts),
        "kind": None if kind is None else kind.name,
        "pairs": pairs,
        "crowding": crowding,
        "warnings": list(warnings),
        "advice": record_advice(advice),
    }
