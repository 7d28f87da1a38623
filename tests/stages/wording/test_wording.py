"""Examples of numbers of texts, and of texts that say all that others say."""

import pyarrow as pa
import pytest

from nearkin.stages.wording import hash_wordings
from tests.stages.wording.test_kernels import said_of

EQUAL_NUMBERS = [
    ("at 500", "500, at least"),
    ("−500", "-500"),
    ("–500", "(-500)"),
    ("١٫٥ and ५", "1.5 and 5"),
    ("１，０００", "1,000"),
    ("pages 5–7", "pages 5-7"),
    ("1.5E−3", "1.5e-3"),
    ("COVID-19", "covid 19"),
    ("−$5", "-$5"),
    ("½", "½ cup"),
    ("ends in 5.", "5"),
    ("12’000", "12'000"),
    ("a1b2", "1 2"),
]
DIFFERENT_NUMBERS = [
    ("500", "(500)"),
    ("€ 500", "(500 €)"),
    ("−500", "500"),
    ("−$500", "$500"),
    ("+5", "5"),
    ("1.5", "15"),
    ("1.5", "1,5"),
    (".5", "5"),
    ("12 3", "1 23"),
    ("12 3", "123"),
    ("1/2", "12"),
    ("1/2", "1 2"),
    ("½", "12"),
    ("½", "1 2"),
    ("1½", "1 1/2"),
    ("10²", "102"),
    ("10²", "10"),
    ("1e5", "15"),
    ("1e-5", "1e5"),
    ("1,000", "1000"),
    ("1.2.3", "12.3"),
    ("2024-01-02", "2024-010-2"),
    ("12:30", "1230"),
    ("5 -3", "5 3"),
    ("0", ""),
    ("007", "7"),
    ("Ⅳ", "Ⅵ"),
]


def have_equal_numbers(first: str, second: str) -> bool:
    numbers = hash_wordings(pa.array([first, second], pa.large_string())).numbers
    return bool((numbers[0] == numbers[1]).all())


@pytest.mark.parametrize(("first", "second"), EQUAL_NUMBERS)
def test_numbers_are_equal_if_they_are_written_equally(first: str, second: str) -> None:
    assert have_equal_numbers(first, second)


@pytest.mark.parametrize(("first", "second"), DIFFERENT_NUMBERS)
def test_numbers_differ_by_all_that_belongs_to_a_number(first: str, second: str) -> None:
    assert not have_equal_numbers(first, second)


def test_lists_of_tokens_have_the_numbers_of_their_tokens() -> None:
    tokens = [["no", "12", "of", "3"], ["12", "3"], ["1", "23"], ["12 3"], []]
    lists = pa.array(tokens, pa.large_list(pa.large_string()))
    numbers = [tuple(row) for row in hash_wordings(lists).numbers.tolist()]
    assert [numbers.index(row) for row in numbers] == [0, 0, 2, 0, 4]
    hashes = hash_wordings(lists.slice(1, 2))
    assert hashes.numbers.tolist() == [list(numbers[1]), list(numbers[2])]


SENTENCES = "The clerk paid 500 $ to Anna. She had asked twice. It rained in May"
SAID = [
    ("", SENTENCES),
    ("...", "a"),
    (SENTENCES, SENTENCES),
    (SENTENCES.upper(), SENTENCES),
    (SENTENCES.replace(".", ""), SENTENCES),
    (SENTENCES, SENTENCES.replace(". ", ", ")),
    (SENTENCES.replace(" ", "\n\t"), SENTENCES),
    (SENTENCES, f"{SENTENCES} and in June"),
    (SENTENCES, f"In short: {SENTENCES}"),
    (SENTENCES, SENTENCES.replace("She", "He came. She")),
    (SENTENCES, SENTENCES.replace("It", "Nobody knows why! It")),
    ("She had asked twice.", SENTENCES),
    ("paid 500 $ to", SENTENCES),
    ("first\nsecond", "first\nadded line\nsecond\nlast"),
    ("“dash—and (quotes)”", "'Dash', and quotes"),
    ("soft\u00adware", "software"),
    ("re\u0301sume\u0301 ﬁn", "RÉSUMÉ FIN"),
    ("我们明天去北京", "我们明天去北京，后天回来。"),
    ("He agreed", "He agreed. Not all did"),
    ("He agreed", "He agreed with nobody"),
    ("a loss of (500)", "It was a loss of (500)"),
    ("cost 5", "cost 5! Millions came"),
    ("a loss", "a loss (of 500)"),
    ("Stop! He agreed", "Stop. He agreed"),
    ("¡Stop! ¿He agreed?", "Stop! He agreed?"),
    ("停！他同意", "停。他同意"),
    ("in the '90s", "in the 90s"),
    ("in the 1990's", "in the 1990s’ s"),
    ('he said "yes" to it', "he said yes to it"),
]
NOT_SAID = [
    ("Anna paid Bert", "Bert paid Anna"),
    (SENTENCES, SENTENCES.replace("Anna", "Berta")),
    (SENTENCES, SENTENCES.replace("500", "-500")),
    (SENTENCES, SENTENCES.replace("500", "500,000")),
    (SENTENCES, SENTENCES.replace("$", "€")),
    (SENTENCES, SENTENCES.replace(" $", "")),
    (SENTENCES, SENTENCES.replace("had", "had not")),
    (SENTENCES, SENTENCES.replace("twice", "thrice")),
    (SENTENCES, "It rained in May. She had asked twice. The clerk paid 500 $ to Anna."),
    ("She had not asked", "She had asked"),
    ("if i = 1 then", "if i != 1 then"),
    ("if i != 1 then", "if i = 1 then"),
    ("if (ready) go", "if (!ready) go"),
    ("if (!ready) go", "if (ready) go"),
    ("go if !(a)", "go if (a)"),
    ("a board of 5' length", 'a board of 5" length'),
    ('a board of 5" length', "a board of 5 length"),
    ("it is 5'10\"", "it is 5'10"),
    ("at 5", "at 5 %"),
    ("at 5", "at 5²"),
    ("5 left", "$5 left"),
    ("5 left", "− 5 left"),
    ("it is 5", "it is 5 000"),
    ("5 left", "1 5 left"),
    ("great", "great 😀"),
    ("10 m", "10 m²"),
    ("a = b", "a ≠ b"),
    ("x-3", "x 3"),
    ("xⁿ", "xn"),
    ("C", "C++"),
    ("see No. 5", "see No. 4. No. 5"),
    ("can", "cannot"),
    ("we can", "we can't"),
    ("smoking areas", "non-smoking areas"),
    ("it weighs 5", "it weighs 5kg"),
    ("type A", "type A5"),
    ("we're", "were"),
    ("snake_case", "snake case"),
    ("He agreed", "He agreed not"),
    ("agreed", "He never agreed"),
    ("agreed", "He didn't agreed"),
    ("Er kommt", "Er kommt NICHT mit"),
    ("Il vient", "Il vient pas"),
    ("Он придёт", "Не он придёт"),
    ("同意", "他不同意"),
    ("أرسلت الرسالة", "ما أرسلت الرسالة"),
    ("เขาไป", "ไม่เขาไป"),
    ("送る", "送るな"),
    ("we ship", "we ship unless it rains"),
    ("we ship", "we dont we ship"),
    ("Er zahlt", "Er zahlt keineswegs"),
    ("cost 5", "cost 5 million"),
    ("5 boxes", "over 5 boxes"),
    ("a loss of 500", "a loss of (500)"),
    ("a loss of (500)", "a loss of 500"),
    ("500 $", "(500 $)"),
    ("$500", "a loss ($500)"),
    ("a loss of 5 %", "a loss of (5 %)"),
]


@pytest.mark.parametrize(("removed", "kept"), SAID)
def test_a_text_is_said_with_other_case_punctuation_space_and_additions(
    removed: str, kept: str
) -> None:
    assert said_of(removed, kept)


@pytest.mark.parametrize(("removed", "kept"), NOT_SAID)
def test_a_text_is_not_said_if_anything_is_missing_or_put_between(removed: str, kept: str) -> None:
    assert not said_of(removed, kept)


def test_a_long_periodic_text_is_compared_in_linear_time() -> None:
    """The naive search would take 10^11 steps."""
    removed = "a " * 300_000 + "b"
    assert not said_of(removed, "a " * 600_000)
    assert said_of(removed, "a " * 300_000 + removed)
