"""Writes the golden vectors of format version 1 (conformance/): texts, shingle hashes, signatures, band keys, records; and what
Unicode 15.1 says of each code point, for readers in languages whose own tables are newer.

They change only with a new format version. Run: python scripts/make_golden.py (and look at the difference).
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nearkin.lsh.bands import make_keys, slot_form
from nearkin.shingle import Shingler, kernels, text_buffers
from nearkin.shingle.tables import tables_for
from nearkin.sketch.sketcher import Sketcher
from nearkin.sketch.wire import write_record
from nearkin.spec import UNICODE_VERSION, Spec

FOLDER = Path(__file__).parent.parent / "conformance"
MOST_SHINGLES = 100
KINDS = {"word": kernels.WORD, "single": kernels.SINGLE, "ignorable": kernels.SKIP, "space": kernels.SPACE}
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
    "long": " ".join(f"word{i * i % 1009} and" for i in range(1200)),
    "unassigned": "left \U000e0fff alone \u0378 here",
}
SPECS = [
    Spec(),
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


def case_of(spec: Spec) -> dict[str, Any]:
    """One Spec over all texts; band keys of k / 8 bands of 7 slots, without a block."""
    texts = pa.array(list(TEXTS.values()), pa.large_string())
    sketches = Sketcher(spec).sketch(texts)
    bands, rows = spec.k // 8, 7
    keys = np.empty((bands, len(texts)), np.uint64)
    make_keys(slot_form(rows), sketches.signatures, np.zeros(len(texts), np.uint64), keys)
    documents = [
        {
            "name": name,
            "shingles": hashes if len(hashes) <= MOST_SHINGLES else None,
            "signature": signature.tolist(),
            "band_keys": [f"{key:016x}" for key in column],
            "record": write_record(signature, count, spec).hex(),
        }
        for name, hashes, signature, count, column in zip(
            TEXTS,
            shingles_of(spec, list(TEXTS.values())),
            sketches.signatures,
            sketches.shingles.tolist(),
            keys.T.tolist(),
            strict=True,
        )
    ]
    fields = json.loads(spec.to_json())
    return {"spec": fields, "fingerprint": spec.fingerprint, "bands": bands, "rows": rows, "documents": documents}


def unicode_ranges() -> dict[str, Any]:
    """Inclusive ranges of code points by kind, and `frozen`: those that normalisation and lower case leave alone whatever a
    newer Unicode says (unassigned, private, surrogates, controls)."""
    tables = tables_for(("nfkc", "lower", "marks"))
    blocks = tables.stage.astype(np.int64)[:, None] * 128 + np.arange(128)
    properties = tables.properties[blocks.reshape(-1)]
    kinds = {name: (properties & kernels.KIND) == kind for name, kind in KINDS.items()}
    return {"version": UNICODE_VERSION} | {name: ranges(which) for name, which in (kinds | {"frozen": properties == 0}).items()}


def ranges(which: np.ndarray) -> list[list[int]]:
    """Inclusive runs of true entries."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], which.astype(np.int8), [0]])))
    return [[int(first), int(end) - 1] for first, end in edges.reshape(-1, 2)]


def write(name: str, value: dict[str, Any]) -> None:
    """One line a case or range list: small, and differences can be read."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / name).write_text(json.dumps(value, ensure_ascii=False, indent=None, separators=(",", ":")) + "\n", "utf-8")


def main() -> None:
    """Writes both files."""
    write("vectors.json", {"texts": TEXTS, "cases": [case_of(spec) for spec in SPECS]})
    write(f"unicode-{UNICODE_VERSION}.json", unicode_ranges())


if __name__ == "__main__":
    main()
