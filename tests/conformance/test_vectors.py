"""Tests of the golden vectors, also with an independent reader in another language."""

import importlib.util
import json
import random
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nearkin.lsh.band_keys import slot_layout, write_band_keys
from nearkin.sketch.record import write_record
from nearkin.sketch.sketcher import Sketcher
from nearkin.spec import FAMILIES, MEASURES, NORMALISATIONS, SLOT_BITS, Spec

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "conformance" / "vectors.json"
UNICODE = ROOT / "conformance" / "unicode-15.1.0.json"
RUN = str(ROOT / "conformance" / "node" / "run.js")
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")


def golden() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(VECTORS.read_text("utf-8"))
    return found


def maker() -> ModuleType:
    """Returns the module of the script that writes the vectors."""
    module_spec = importlib.util.spec_from_file_location(
        "make_golden", ROOT / "scripts" / "make_golden.py"
    )
    assert module_spec is not None
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    return module


def test_vectors_are_unchanged() -> None:
    make, kept = maker(), golden()
    assert kept["texts"] == make.TEXTS
    for spec, case in zip(make.SPECS, kept["cases"], strict=True):
        assert make.case_of(spec) == case, spec
    assert make.vector_case() == kept["vector_case"]
    assert make.keyed_vector_case() == kept["keyed_vector_case"]
    assert json.loads(UNICODE.read_text("utf-8")) == make.unicode_ranges()
    assert kept["step_texts"] == make.STEP_TEXTS
    for spec, case in zip(make.STEP_SPECS, kept["step_cases"], strict=True):
        assert make.step_case_of(spec) == case, spec


def test_vectors_cover_every_step_of_normalization() -> None:
    kept = golden()
    cases = kept["cases"] + kept["step_cases"]
    assert {step for case in cases for step in case["spec"]["normalise"]} == set(NORMALISATIONS)
    plain = maker().shingles_of(Spec(n=1, k=16), list(kept["step_texts"].values()))
    for case in kept["step_cases"]:
        if case["spec"]["unit"] == "words":
            hashes = [document["shingles"] for document in case["documents"]]
            assert hashes != plain, f"no text shows what {case['spec']['normalise']} does"


def test_vectors_cover_every_family_scheme_and_width() -> None:
    specs = [Spec.from_json(json.dumps(case["spec"])) for case in golden()["cases"]]
    assert {spec.base_hash for spec in specs} == set(FAMILIES)
    assert {spec.measure for spec in specs} == set(MEASURES) - {"cosine", "hamming"}
    assert {"binned", "classic", "darts", "signs"} == {spec.scheme for spec in specs}
    assert {spec.slot_bits for spec in specs} == set(SLOT_BITS)
    assert {16, 64, 128, 512} <= {spec.k for spec in specs}


@needs_node
def test_node_reader_gives_same_result() -> None:
    done = subprocess.run(
        [str(NODE), str(ROOT / "conformance/node/run.js"), str(VECTORS), str(UNICODE)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed  case") >= 6


PIECES = [
    *(
        "the",
        "Cat",
        "ÉTÉ",
        "e\u0301",
        "ß",
        "東京",
        "ﬁn",
        "İ",
        "\u200b",
        "\u00ad",
        " ",
        "  ",
        "\n",
        ".",
        "9",
        "٣",
        "한",
    ),
    *("\u1112\u1161", "x" * 40, "ǅ", "Σ", "ﷺ", "👩\u200d👩", "_", "ｱ", "\u0378", "a\u0323\u0307"),
]


@needs_node
def test_node_gives_same_result_for_random_texts(full: bool) -> None:
    """Compares bytes of signatures, band keys and records, for the default Spec and another one."""
    rng = random.Random(4)
    texts = [
        "".join(rng.choice(PIECES) + rng.choice(["", " "]) for _ in range(rng.randint(0, 60)))
        for _ in range(400 if full else 60)
    ]
    for spec in (Spec(), Spec(unit="chars", n=4, k=32, scheme="classic", seed=5)):
        sketches = Sketcher(spec).sketch(pa.array(texts, pa.large_string()))
        keys = np.empty((4, len(texts)), np.uint64)
        write_band_keys(slot_layout(7), sketches.signatures, np.zeros(len(texts), np.uint64), keys)
        parameters = {"spec": json.loads(spec.to_json()), "bands": 4, "rows": 7}
        lines = "".join(json.dumps(parameters | {"text": text}) + "\n" for text in texts)
        done = subprocess.run(
            [str(NODE), RUN, "--stdin", str(UNICODE)],
            input=lines,
            capture_output=True,
            text=True,
            check=True,
        )
        for i, line in enumerate(done.stdout.splitlines()):
            got = json.loads(line)
            assert got["signature"] == sketches.signatures[i].tolist(), texts[i]
            assert got["band_keys"] == [f"{key:016x}" for key in keys[:, i].tolist()]
            assert (
                got["record"]
                == write_record(sketches.signatures[i], int(sketches.shingles[i]), spec).hex()
            )
        assert i == len(texts) - 1
