"""Masks replace values by the name of their kind."""

import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearkin as nk
from nearkin.settings.spec import MASK_STEPS, NORMALISATIONS, Spec
from nearkin.stages.shingle.masks import MASKS, mask_texts

LINES = [
    ("email", "from ann.b+c@mail.example.org: hello", "from email: hello"),
    ("email", "a @ b, c@d, @e.f", "a @ b, c@d, @e.f"),
    ("uuid", "job_123e4567-e89b-12d3-A456-426614174000.", "job_uuid."),
    ("uuid", "123e4567-e89b-12d3-a456-4266141740001", "123e4567-e89b-12d3-a456-4266141740001"),
    ("ip", "/10.250.19.102:54106 and 1.2.3.4", "/ip and ip"),
    ("ip", "fe80::1, 2001:db8::ff00:42:8329, 1:2:3:4:5:6:7:8", "ip, ip, ip"),
    ("ip", "12:34:56 1.2.3 v1.2.3.4", "12:34:56 1.2.3 v1.2.3.4"),
    ("date", "2026-01-31T23:59:59.123+01:00 a", "date a"),
    ("date", "[31/Jan/2026:23:59:59 +0100] b", "[date] b"),
    ("date", "Thu Jun 09 06:07:04 2005", "date"),
    ("date", "Jan  3 04:05:06 host", "date host"),
    ("date", "1/31/2026, 31.01.2026 and 3 January 2026", "date, date and date"),
    ("date", "took 00:01:07.5", "took date"),
    ("date", "may 5, a ratio of 3:10, 1.2.34", "may 5, a ratio of 3:10, 1.2.34"),
    ("path", "open /var/log/syslog: done", "open path: done"),
    ("path", "src/nearkin/settings/spec.py", "path"),
    ("path", r"C:\Users\Ann\a.txt", "path"),
    ("path", "see https://example.org/a?b=c#d now", "see path now"),
    ("path", "and/or, 5 km/h, /tmp", "and/or, 5 km/h, /tmp"),
    ("hex", "at 0x7f3a, commit_1a2b3c4d and deadbeef", "at hex, commit_hex and hex"),
    ("hex", "12345678, decade, 1a2b3c4", "12345678, decade, 1a2b3c4"),
    ("number", "blk_-160 of 3,000.50 in 35ms, 1e-5, a-7", "blk_0 of 0 in 0ms, 0, a-0"),
    ("number", "x86 and v2", "x86 and v2"),
]


@pytest.mark.parametrize(("step", "text", "masked"), LINES)
def test_mask_replaces_values_by_the_name_of_their_kind(step: str, text: str, masked: str) -> None:
    assert mask_texts(pa.array([text], pa.large_string()), [step]).to_pylist() == [masked]


MONTHS = "January February March April June July August September October November December"
MONTH = "|".join(
    [name for full in MONTHS.split() for name in (full, full[:3], full[:3].upper())]
    + ["May", "MAY", "Sept"]
)
ZONE = r"(?: ?(?:Z|UTC|GMT|[-+]\d{2}:?\d{2}))?"
ORACLES = {
    "email": r"[\w.%+-]+@[A-Za-z\d-]+(?:\.[A-Za-z\d-]+)+",
    "uuid": r"(?<![A-Za-z\d])[A-Fa-f\d]{8}(?:-[A-Fa-f\d]{4}){3}-[A-Fa-f\d]{12}\b",
    "ip": r"(?<![A-Za-z\d])(?:\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?|[A-Fa-f\d]{1,4}(?::[A-Fa-f\d]"
    r"{1,4}){7}|(?:[A-Fa-f\d]{1,4}:){1,6}(?::[A-Fa-f\d]{1,4}){1,6})\b",
    "date": rf"(?<![A-Za-z\d])(?:(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?(?:\d{{4}}[-/.]\d\d?[-/.]"
    rf"\d\d?|\d\d?[-/]\d\d?[-/](?:\d{{4}}|\d\d)|\d\d?\.\d\d?\.\d{{4}}|\d\d?[-/ ](?:{MONTH})"
    rf"[-/ ,]{{1,2}}\d{{4}}|(?:{MONTH}) {{1,2}}\d\d?(?:, \d{{4}})?)(?:[T:, ]{{1,2}}\d\d?:\d\d"
    rf"(?::\d\d(?:[.,]\d+)?)?{ZONE})?(?: \d{{4}})?|\d\d?:\d\d:\d\d(?:[.,]\d+)?{ZONE})\b",
    "path": r"[A-Za-z][A-Za-z\d+.-]*://[!-;=?-~]+|[\w.~+@%-]*(?:/[\w.~+@%-]+){2,}/?"
    r"|[A-Za-z]:(?:\\[\w.~+@%-]+)+\\?",
    "hex": r"(?<![A-Za-z\d])(?:0[xX][A-Fa-f\d]+|(?=\d*[A-Fa-f])[A-Fa-f\d]{8,})\b",
    "number": r"(?<![A-Za-z\d])[-+]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?",
}
PIECES = ["2026", "-", "01", "/", "31", ":", "59", ".", " ", ",", "T", "Z", "+", "Jan", "Thu "]
PIECES += ["a", "0x", "1f", "deadbeef", "@", "b.org", "://", "\\", "C:", "_", "1e5", "::", "\n"]
PIECES += ["12345678", "-1234-1234-1234-", "123456789abc", "10.0.0.1", "May ", "UTC", "<", "٣"]
PIECES += ["5", "x", "é"]


@pytest.mark.parametrize("step", MASK_STEPS)
@settings(max_examples=300, deadline=None)
@given(text=st.lists(st.sampled_from(PIECES), max_size=16).map("".join))
def test_masks_equal_a_plain_oracle(step: str, text: str) -> None:
    name = "0" if step == "number" else step
    expected = re.sub(ORACLES[step], name, text, flags=re.ASCII)
    assert mask_texts(pa.array([text], pa.large_string()), [step]).to_pylist() == [expected]


@pytest.mark.parametrize("step", MASK_STEPS)
@settings(max_examples=100, deadline=None)
@given(text=st.lists(st.sampled_from(PIECES), max_size=16).map("".join))
def test_masked_text_is_never_longer(step: str, text: str) -> None:
    masked = mask_texts(pa.array([text], pa.large_string()), [step])[0].as_py()
    assert len(masked) <= len(text)


def test_every_mask_is_a_step_of_the_spec() -> None:
    assert tuple(MASKS) == MASK_STEPS
    assert set(MASK_STEPS) < set(NORMALISATIONS)


def test_steps_are_applied_in_the_order_of_the_wire_format() -> None:
    text = pa.array(["http://10.0.0.7/2026-01-31/1a2b3c4d.txt 12"], pa.large_string())
    assert mask_texts(text, ("number", "hex", "path", "date", "ip"))[0].as_py() == "path 0"


@pytest.mark.parametrize(
    "piece", ["1.", "a/", "a@", "::", "1:", "0x1", "/", "1-", "Jan 1 ", "a@b.c-", "1,", "d"]
)
def test_hostile_text_takes_linear_time(piece: str) -> None:
    """A backtracking search would not end on texts of this size."""
    text = pa.array([piece * (1 << 18)], pa.large_string())
    assert len(mask_texts(text, MASK_STEPS)) == 1


def test_lines_of_one_template_are_duplicates() -> None:
    lines = [
        "2026-01-31 10:00:01 received block blk_1608 from /10.250.19.102:54106 in /var/a/b",
        "2026-02-01 11:30:59 received block blk_-77 from /10.251.7.3:9000 in /srv/data/c/d",
        "2026-02-01 11:31:00 deleted block blk_-77 on request",
    ]
    masks = ["nfkc", "lower", "ip", "date", "path", "number"]
    assert nk.dedup(lines).kept.tolist() == [True, True, True]
    assert nk.dedup(lines, normalise=masks).kept.tolist() == [True, False, True]


def test_masks_see_the_text_after_markup_was_removed() -> None:
    texts = ["<b>10.0</b>.0.7", "<i>8.8.8.8</i>"]
    spec = Spec(n=1, normalise=("nfkc", "lower", "markup", "ip"))
    assert nk.sketch(texts[1:], spec).tolist() == nk.sketch(["ip"], spec).tolist()


def test_masks_of_a_slice_of_texts() -> None:
    texts = pa.array(["1.2.3.4 a", "b 5.6.7.8", "c"], pa.large_string())
    spec = Spec(n=1, normalise=("lower", "ip"))
    whole = nk.sketch(texts, spec)
    assert nk.sketch(texts.slice(1), spec).tolist() == whole[1:].tolist()
    assert whole[1].tolist() == nk.sketch(["b ip"], spec)[0].tolist()
