"""Writes the golden vectors of format version 1: texts, their shingle hashes and their slots.

They change only with a new format version. Run: python scripts/make_golden.py (and look at the difference).
"""

import json
from pathlib import Path

import pyarrow as pa

from nearkin.shingle import Shingler, text_buffers
from nearkin.sketch.minhash import Sketcher
from nearkin.spec import Spec

TESTS = Path(__file__).parent.parent / "tests"
TEXTS = {
    "ascii": "The quick brown fox jumps over the lazy dog, twice; snake_case and CamelCase 42.",
    "empty": "",
    "no token": " .,;!\n",
    "one token": "alone",
    "final sigma": "ΟΔΥΣΣΕΥΣ ὀδυσσεύς ΣΑΣ",
    "dotted capital I": "İstanbul ISPARTA ırmak",
    "sharp s": "STRASSE Straße GROẞE",
    "prolonged sound mark": "コーヒー スーパー ｺｰﾋｰ",
    "combining marks": "e\u0301te\u0301 \u00e9t\u00e9 a\u0323\u0307 a\u0307\u0323",
    "Hangul jamo": "\u1112\u1161\u11ab\u1100\u1173\u11af 한글",
    "emoji": "I 👩‍👩‍👧 love ❤️ it 😀",
    "ligatures and widths": "ﬁne ＦＵＬＬ width ㌀ ﷺ ½ Ⅻ",
    "unspaced scripts": "日本語の文章 ภาษาไทย ພາສາລາວ ខ្មែរ မြန်မာ",
    "spaced scripts": "Привет, мир! مرحبا بالعالم नमस्ते दुनिया שלום",
    "soft hyphen and joiners": "co\u00adoperate zero\u200bwidth non\u200cjoiner",
    "unassigned": "left \U000e0fff alone \u0378 here",
}
SPECS = [
    Spec(k=16),
    Spec(n=1, k=16, scheme="classic"),
    Spec(unit="chars", n=5, k=16),
    Spec(n=2, k=16, normalise=("nfkc", "lower", "digits", "punctuation", "marks")),
    Spec(n=2, k=16, normalise=()),
    Spec(k=16, seed=2**63 + 5, hash_seed=12345),
]


def shingles_of(spec: Spec, texts: list[str]) -> list[list[str]]:
    """Shingle hashes in hexadecimal."""
    found = Shingler(spec).texts(*text_buffers(pa.array(texts, pa.large_string())))
    return [[f"{h:016x}" for h in found.hashes[a:b].tolist()] for a, b in zip(found.offsets, found.offsets[1:], strict=False)]


def main() -> None:
    """Writes both files."""
    texts = list(TEXTS.values())
    shingles, slots = [], []
    for spec in SPECS:
        fields = json.loads(spec.to_json())
        rows = Sketcher(spec).sketch(pa.array(texts, pa.large_string())).signatures.tolist()
        named = zip(TEXTS, texts, shingles_of(spec, texts), rows, strict=True)
        documents = [{"name": name, "text": text, "shingles": hashes, "slots": row} for name, text, hashes, row in named]
        shingles.append({"spec": fields, "documents": [{k: d[k] for k in ("name", "text", "shingles")} for d in documents]})
        slots.append({"spec": fields, "documents": [{k: d[k] for k in ("name", "text", "slots")} for d in documents]})
    for path, cases in (("shingle", shingles), ("sketch", slots)):
        (TESTS / path / "golden.json").write_text(json.dumps(cases, ensure_ascii=False, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
