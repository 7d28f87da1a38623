"""Writes the golden vectors of each format version to conformance/.

The vectors are texts with their shingle hashes, signatures, band keys and records, and in version 2
with their content hashes. A second file has the properties of code points in Unicode 15.1, for
readers in languages with newer tables.

The vectors change only with a new format version. Run: python scripts/make_golden.py, and check the
diff.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nearkin.runs.api import frequencies
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import FORMAT_VERSIONS, MASK_STEPS, UNICODE_VERSION, Spec
from nearkin.stages.lsh import kernels as lsh
from nearkin.stages.lsh.band_keys import sign_layout, slot_band_keys, slot_layout, write_band_keys
from nearkin.stages.lsh.sign_bands import masks_of
from nearkin.stages.measures import measure_of
from nearkin.stages.shingle import Shingler, text_buffers
from nearkin.stages.shingle.normalization import kernels
from nearkin.stages.shingle.normalization.kernels import CodePointTables
from nearkin.stages.shingle.unicode_tables import SYMBOL, tables_for
from nearkin.stages.sketch.hyperplanes import VectorSketcher
from nearkin.stages.sketch.record import write_record
from nearkin.stages.sketch.resources import SpecResources, weighted_by
from nearkin.stages.sketch.sketcher import BandKeyBuilder

FOLDER = Path(__file__).parent.parent / "conformance"
MOST_SHINGLES = 100
CODE_POINTS = 0x110000
SALT = 0x0123456789ABCDEF
KINDS = {
    "word": kernels.WORD,
    "single": kernels.SINGLE,
    "ignorable": kernels.SKIP,
    "space": kernels.SPACE,
}
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
    "step 4": "J\u030c \u0130\u0301 a",
    "ignorable inside a composite": "e\u00ad\u0301 x\u00ady",
    "white space": "a\u00a0b\u3000c\u0085d\u2028e \u200b f",
    "newer than 15.1": "\ua7dc \u1c89 \U0001e5d0 \U00016d40",
    "long tokens": "x" * 200 + " " + "y" * 300 + " " + "z" * 17 + " end",
    "unassigned": "left \U000e0fff alone \u0378 here",
}
"""The texts of version 1."""
MORE_TEXTS = {
    "symbols": "C++ and C#, x+1 or x-1, -5 and \u22125 or 10-5, 50 % of #tag @me & $9 _",
    "only symbols": "!!! \u2014 \U0001f621",
    "other symbols": "!!! \u2014 \U0001f600",
    "signs": "10² 10₂ 2½ ① ⑴ ㎡ ™ ⁺3 ²²x xⁿ",
    "folds to one": "ς ẞ ı İ I\u0307 i\u0307 i\u0323\u0307 Ꭰ ꭰ ᲀ",
    "folds to several": "ß ᾀ ᾼ α\u0345\u0301 ﬃ ŉ և ΐ",
    "ya, kaf and tatweel": "علي كتاب ئ ي\u0654 ـــک",
    "voiced marks": "か゛ ｶﾞ ハ゜ ゛",
    "scripts without spaces": "ꦏꦧ ᬆ བོད་ ꀀꀁ",
    "compositions of symbols": "=\u0338 ≠ … ！ ¨ x",
}
"""The further texts of version 2."""
KEY_HEX = bytes(range(16)).hex()
KEY = HashKey(bytes.fromhex(KEY_HEX))
"""A public key, which must not be used for anything else."""
IDF_SPEC = Spec(measure="idf-jaccard", n=1, k=16, version=1)
FREQUENCIES = frequencies(list(TEXTS.values()), spec=IDF_SPEC)
"""The document frequencies of the words of the texts."""
MORE_SPECS = [
    Spec(k=16, normalise=("nfkc", "lower", "symbols")),
    Spec(n=1, k=16, normalise=("nfkc", "lower", "symbols")),
    Spec(n=2, k=16, normalise=("lower", "symbols", "punctuation")),
    Spec(unit="chars", n=3, k=16, normalise=("nfkc", "lower", "symbols")),
]
"""The further Specs of version 2."""
SPECS = [
    Spec(),
    Spec(k=16),
    Spec(n=1, k=16, scheme="classic"),
    Spec(unit="chars", n=5, k=16),
    Spec(n=2, k=16, normalise=("nfkc", "lower", "digits", "punctuation", "marks")),
    Spec(n=2, k=16, normalise=()),
    Spec(k=16, seed=2**63 + 5, hash_seed=12345),
    Spec(n=1, k=512, base_hash="murmur3", hash_seed=7),
    Spec(k=16, base_hash="fnv1a"),
    Spec(k=16, base_hash="siphash", key_id=KEY.id),
    Spec(n=1, k=64, slot_bits=1),
    Spec(k=16, slot_bits=2),
    Spec(k=16, slot_bits=4),
    Spec(k=16, slot_bits=8),
    Spec(k=16, slot_bits=16),
    Spec(measure="weighted-jaccard", n=1, k=16),
    Spec(measure="simhash"),
    Spec(measure="simhash", k=128, seed=3),
    weighted_by(FREQUENCIES, IDF_SPEC),
]
"""The Specs of version 1."""
COMMON_SPECS = 6
"""The number of the first Specs that version 2 has, too. The others differ in hashes and schemes,
which both versions have in common."""


STEP_TEXTS = {
    "HTML": "<!DOCTYPE html><p class='a b'>Tom &amp; Jerry &lt;3 <b>caf&eacute;</b></p>\n<br/>x<y",
    "hidden parts of HTML": "a<script>if (x < y) z();</script>b<style>p {}</style>c<!-- d -->e",
    "broken HTML": "1 < 2 <p <b>bold &nosuch; &#65;&#x42; <unclosed",
    "C": "int x = 1; // one\nchar *s = \"// kept\"; /* two\nlines */ return 'c';",
    "Python": 'x = 1  # one\ns = "# kept"\n"""docstring"""\ny = 2',
    "SQL and shell": "select 1 -- one\n# two\necho a#b",
    "unterminated": "left /* right\n'open # string",
    "values": "At 2024-01-31T10:20:30Z ann@example.org (10.0.0.7) moved /var/log/a.txt 3 times, "
    "0x7ffe12ab, 550e8400-e29b-41d4-a716-446655440000, 1,234.5 and 42.",
    "words only": "nothing here is masked",
}
"""The texts of steps of normalization that depend on more than single code points."""
STEP_SPECS = [
    *(
        Spec(n=1, k=16, normalise=("nfkc", "lower", step))
        for step in ("markup", "comments", *MASK_STEPS)
    ),
    Spec(n=1, k=16, normalise=("nfkc", "lower", *MASK_STEPS)),
    Spec(unit="chars", n=3, k=16, normalise=("nfkc", "lower", "markup")),
    Spec(unit="chars", n=3, k=16, normalise=("nfkc", "lower", "comments")),
]
MORE_STEP_TEXTS = {
    "no tags": "Ann <ann@example.org>, vector<int>, a<b>c</b>, <T> and <![CDATA[<p>kept</p>]]>",
    "optional marks": "e\u0301 בּ بَ ข่าว क\u093c が 각",
}
"""The further texts of steps of version 2."""
MORE_STEP_SPECS = [Spec(n=1, k=16, normalise=("nfkc", "lower", "marks"))]
VECTOR_SPEC = Spec(measure="cosine", unit="vector", n=3, k=128)
VECTORS = [
    [1.0, 2.0, 3.0],
    [-1.0, -2.0, -3.0],
    [2.0, 4.0, 6.0],
    [0.5, -0.25, 0.0],
    [1e-30, 2e30, -3.0],
]


def texts_of(version: int) -> dict[str, str]:
    """Returns the texts of a version by their names."""
    return TEXTS if version == 1 else TEXTS | MORE_TEXTS


def step_texts_of(version: int) -> dict[str, str]:
    """Returns the texts of steps of normalization of a version by their names."""
    return STEP_TEXTS if version == 1 else STEP_TEXTS | MORE_STEP_TEXTS


def specs_of(version: int) -> list[Spec]:
    """Returns the Specs of a version."""
    specs = SPECS if version == 1 else SPECS[:COMMON_SPECS] + MORE_SPECS
    return [replace(spec, version=version) for spec in specs]


def step_specs_of(version: int) -> list[Spec]:
    """Returns the Specs of steps of normalization of a version."""
    specs = STEP_SPECS if version == 1 else STEP_SPECS + MORE_STEP_SPECS
    return [replace(spec, version=version) for spec in specs]


def resources_of(spec: Spec) -> SpecResources:
    """Returns the key and the document frequencies for a Spec that names them."""
    return SpecResources(
        KEY if spec.key_id else None,
        FREQUENCIES if spec.frequencies is not None else None,
    )


def shingles_of(spec: Spec, texts: list[str]) -> list[list[str]]:
    """Returns the shingle hashes of texts in hexadecimal.

    Args:
        spec: Spec of the shingles.
        texts: Texts to split.
    """
    shingler = Shingler(spec, resources_of(spec).secret)
    found = shingler.texts(*text_buffers(pa.array(texts, pa.large_string())))
    return [
        [f"{h:016x}" for h in found.hashes[a:b].tolist()]
        for a, b in zip(found.offsets, found.offsets[1:], strict=False)
    ]


def band_keys(spec: Spec, signatures: np.ndarray, kept: np.ndarray | None, salt: int) -> np.ndarray:
    """Returns band keys, uint64 (b, n): of 7 in 8 slots, or of 16 consecutive bits.

    Args:
        spec: Spec of the signatures.
        signatures: Signatures, (n, w).
        kept: Band keys of the whole slots, uint64 (n, b), or None if signatures are not truncated.
        salt: Salt of the keys of all documents.
    """
    bands, rows = shape_of(spec)
    keys, salts = (
        np.empty((bands, len(signatures)), np.uint64),
        np.full(len(signatures), salt, np.uint64),
    )
    if kept is not None:
        lsh.salt_keys(kept, salts, keys)
    elif spec.measure == "simhash":
        masks = masks_of([np.arange(i * rows, i * rows + rows) for i in range(bands)], spec.k)
        write_band_keys(sign_layout(masks), signatures, salts, keys)
    else:
        write_band_keys(slot_layout(rows), signatures, salts, keys)
    return keys


def shape_of(spec: Spec) -> tuple[int, int]:
    """Returns the numbers of bands and rows."""
    return (spec.k // 16, 16) if spec.measure == "simhash" else (spec.k // 8, 7)


def case_of(spec: Spec) -> dict[str, Any]:
    """Returns the vectors of a Spec for all texts.

    Band keys are of no block. Those of the last text are also in the block SALT.
    """
    texts = texts_of(spec.version)
    documents_column = pa.array(list(texts.values()), pa.large_string())
    bands, rows = shape_of(spec)
    measure = measure_of(spec, resources_of(spec))
    sketches = measure.sketcher(
        BandKeyBuilder(bands, lambda slots, _: slot_band_keys(slots, bands, rows))
        if spec.truncated
        else None
    ).sketch(documents_column)
    keys, salted = (band_keys(spec, sketches.signatures, sketches.keys, salt) for salt in (0, SALT))
    documents = [
        {
            "name": name,
            "shingles": hashes if len(hashes) <= MOST_SHINGLES else None,
            "signature": signature.tolist(),
            "band_keys": [f"{key:016x}" for key in column],
            "record": write_record(signature, count, spec).hex(),
        }
        for name, hashes, signature, count, column in zip(
            texts,
            shingles_of(spec, list(texts.values())),
            sketches.signatures,
            sketches.shingles.tolist(),
            keys.T.tolist(),
            strict=True,
        )
    ]
    if spec.version > 1:
        for document, content in zip(documents, sketches.fingerprints.tolist(), strict=True):
            document["content"] = [f"{word:016x}" for word in content]
    documents[-1]["salted_band_keys"] = [f"{key:016x}" for key in salted[:, -1].tolist()]
    case = {
        "spec": json.loads(spec.to_json()),
        "fingerprint": spec.fingerprint,
        "bands": bands,
        "rows": rows,
        "documents": documents,
    }
    if spec.frequencies is not None:
        case["frequencies"] = {
            "documents": FREQUENCIES.documents,
            "hashes": [f"{h:016x}" for h in FREQUENCIES.hashes.tolist()],
            "counts": FREQUENCIES.counts.tolist(),
        }
    return case


def step_case_of(spec: Spec) -> dict[str, Any]:
    """Returns the vectors of a Spec for the texts of steps of normalization."""
    names = step_texts_of(spec.version)
    texts = list(names.values())
    sketches = measure_of(spec).sketcher().sketch(pa.array(texts, pa.large_string()))
    return {
        "spec": json.loads(spec.to_json()),
        "fingerprint": spec.fingerprint,
        "documents": [
            {"name": name, "shingles": hashes, "signature": signature.tolist()}
            for name, hashes, signature in zip(
                names, shingles_of(spec, texts), sketches.signatures, strict=True
            )
        ],
    }


def vector_case() -> dict[str, Any]:
    """Returns vectors and their signatures, with words in hexadecimal."""
    return vector_case_of(VECTOR_SPEC)


def keyed_vector_case() -> dict[str, Any]:
    """Returns the same vectors with signatures under the key of the texts."""
    return vector_case_of(VECTOR_SPEC.keyed_with(KEY))


def vector_case_of(spec: Spec) -> dict[str, Any]:
    """Returns the vectors and their signatures of a Spec."""
    signatures = VectorSketcher(spec, KEY).sketch_matrix(np.array(VECTORS, np.float32)).signatures
    words = [[f"{word:016x}" for word in row] for row in signatures.tolist()]
    return {"spec": json.loads(spec.to_json()), "vectors": VECTORS, "signatures": words}


def unicode_ranges(version: int) -> dict[str, Any]:
    """Returns inclusive ranges of code points by kind, and the mappings of version 2.

    The kind `frozen` has the code points that normalization and lower case must not change,
    whatever a newer Unicode defines: unassigned ones, private ones, surrogates and controls.

    Args:
        version: Version of the format.
    """
    tables = tables_for(("nfkc", "marks"), version)
    properties = by_point(tables, tables.properties & ~kernels.BASE)
    kinds = {name: (properties & kernels.KIND) == kind for name, kind in KINDS.items()}
    found: dict[str, Any] = {"version": UNICODE_VERSION} | {
        name: ranges(which) for name, which in (kinds | {"frozen": properties == 0}).items()
    }
    if version == 1:
        return found
    found["digit"] = ranges(properties & kernels.DIGIT != 0)
    found["symbol"] = ranges(properties & SYMBOL != 0)
    order = properties >> kernels.CLASS_SHIFT & kernels.CLASS_MASK
    found["below_230"] = ranges((order > 0) & (order < 230))
    return found | mappings(version)


def by_point(tables: CodePointTables, values: np.ndarray) -> np.ndarray:
    """Returns the value of each code point of Unicode.

    Args:
        tables: Tables of code points.
        values: Values in the layout of the properties.
    """
    blocks = tables.stage[: CODE_POINTS // 128].astype(np.int64)[:, None] * 128 + np.arange(128)
    return np.asarray(values[blocks.reshape(-1)])


def mappings(version: int) -> dict[str, list[list[int]]]:
    """Returns the case folds and the decompositions with signs, each as a list of code points.

    Args:
        version: Version of the format.
    """
    form = tables_for(("nfkc",), version)
    folds = tables_for(("lower",), version)
    lower = by_point(folds, folds.lower)
    folded, signed = [], []
    several = by_point(folds, folds.decomposed)
    entries = by_point(form, form.decomposed)
    for c in range(CODE_POINTS):
        if several[c]:
            folded.append([c, *decomposition(folds, several[c])])
        elif lower[c]:
            folded.append([c, (c + int(lower[c])) % 2**32])
        parts = decomposition(form, entries[c])
        if c in (0x309B, 0x309C) or max(parts, default=0) >= CODE_POINTS:
            signed.append([c, *parts])
    return {"folds": folded, "signs": signed}


def decomposition(tables: CodePointTables, entry: np.uint32) -> list[int]:
    """Returns the code points of an entry of `CodePointTables.decomposed`."""
    first = int(entry) >> 5
    parts: list[int] = tables.data[first : first + (int(entry) & 31)].tolist()
    return parts


def ranges(which: np.ndarray) -> list[list[int]]:
    """Returns inclusive ranges of true entries."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], which.astype(np.int8), [0]])))
    return [[int(first), int(end) - 1] for first, end in edges.reshape(-1, 2)]


def write(name: str, value: dict[str, Any]) -> None:
    """Writes a value to a file of the folder as compact JSON.

    Args:
        name: Name of the file.
        value: JSON object to write.
    """
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / name).write_text(
        json.dumps(value, ensure_ascii=False, indent=None, separators=(",", ":")) + "\n", "utf-8"
    )


def vectors_of(version: int) -> dict[str, Any]:
    """Returns the golden vectors of a version."""
    cases = [case_of(spec) for spec in specs_of(version)]
    known = {"key": KEY_HEX, "salt": f"{SALT:016x}"}
    # vectors have version 1 only
    vectors = {"vector_case": vector_case(), "keyed_vector_case": keyed_vector_case()}
    steps = {
        "step_texts": step_texts_of(version),
        "step_cases": [step_case_of(spec) for spec in step_specs_of(version)],
    }
    of_vectors = vectors if version == 1 else {}
    return {"texts": texts_of(version), **known, "cases": cases, **of_vectors, **steps}


def suffix_of(version: int) -> str:
    """Returns the end of the names of the files of a version."""
    return "" if version == 1 else f"-v{version}"


def main() -> None:
    """Writes the files of all versions."""
    for version in FORMAT_VERSIONS:
        suffix = suffix_of(version)
        write(f"vectors{suffix}.json", vectors_of(version))
        write(f"unicode-{UNICODE_VERSION}{suffix}.json", unicode_ranges(version))


if __name__ == "__main__":
    main()
