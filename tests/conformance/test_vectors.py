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

from nearkin.settings.spec import (
    FAMILIES,
    FORMAT_VERSIONS,
    MEASURES,
    NORMALISATIONS,
    SLOT_BITS,
    Spec,
)
from nearkin.stages.lsh.band_keys import slot_layout, write_band_keys
from nearkin.stages.sketch.record import write_record
from nearkin.stages.sketch.sketcher import Sketcher

ROOT = Path(__file__).parents[2]
SUFFIXES = {1: "", 2: "-v2"}
VECTORS = {v: ROOT / "conformance" / f"vectors{end}.json" for v, end in SUFFIXES.items()}
UNICODE = {v: ROOT / "conformance" / f"unicode-15.1.0{end}.json" for v, end in SUFFIXES.items()}
RUN = str(ROOT / "conformance" / "node" / "run.js")
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")


def golden(version: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(VECTORS[version].read_text("utf-8"))
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


@pytest.mark.parametrize("version", FORMAT_VERSIONS)
def test_vectors_are_unchanged(version: int) -> None:
    make, kept = maker(), golden(version)
    assert kept["texts"] == make.texts_of(version)
    for spec, case in zip(make.specs_of(version), kept["cases"], strict=True):
        assert make.case_of(spec) == case, spec
    if version == 1:
        assert make.vector_case() == kept["vector_case"]
        assert make.keyed_vector_case() == kept["keyed_vector_case"]
    assert json.loads(UNICODE[version].read_text("utf-8")) == make.unicode_ranges(version)
    assert kept["step_texts"] == make.step_texts_of(version)
    for spec, case in zip(make.step_specs_of(version), kept["step_cases"], strict=True):
        assert make.step_case_of(spec) == case, spec


@pytest.mark.parametrize("version", FORMAT_VERSIONS)
def test_vectors_cover_every_step_of_normalization(version: int) -> None:
    kept = golden(version)
    cases = kept["cases"] + kept["step_cases"]
    steps = set(NORMALISATIONS) - ({"symbols"} if version == 1 else set())
    assert {step for case in cases for step in case["spec"]["normalise"]} == steps
    texts = list(kept["step_texts"].values())
    plain = maker().shingles_of(Spec(n=1, k=16, version=version), texts)
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
@pytest.mark.parametrize("version", FORMAT_VERSIONS)
def test_node_reader_gives_same_result(version: int) -> None:
    done = subprocess.run(
        [str(NODE), RUN, str(VECTORS[version]), str(UNICODE[version])],
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
    *("C++", "-5", "x-1", "−1", "10²", "½", "①", "!", "…", "=\u0338", "ı", "İ", "i\u0307", "ς"),
    *("ᾳ", "α\u0345\u0301", "ي", "ك", "\u0640", "か゛", "ꦏ", "བ", "\u0085", "\0", "\ue000"),
]


@needs_node
def test_node_gives_same_result_for_random_texts(full: bool) -> None:
    """Compares bytes of signatures, band keys and records, for the default Spec and another one."""
    rng = random.Random(4)
    texts = [
        "".join(rng.choice(PIECES) + rng.choice(["", " "]) for _ in range(rng.randint(0, 60)))
        for _ in range(400 if full else 60)
    ]
    steps = ("nfkc", "lower", "symbols")
    specs = (
        Spec(),
        Spec(unit="chars", n=4, k=32, scheme="classic", seed=5),
        Spec(n=2, k=32, normalise=steps),
        Spec(n=2, k=32, normalise=("lower",)),
        Spec(version=1),
        Spec(unit="chars", n=4, k=32, version=1),
    )
    for spec in specs:
        sketches = Sketcher(spec).sketch(pa.array(texts, pa.large_string()))
        keys = np.empty((4, len(texts)), np.uint64)
        write_band_keys(slot_layout(7), sketches.signatures, np.zeros(len(texts), np.uint64), keys)
        parameters = {"spec": json.loads(spec.to_json()), "bands": 4, "rows": 7}
        lines = "".join(json.dumps(parameters | {"text": text}) + "\n" for text in texts)
        done = subprocess.run(
            [str(NODE), RUN, "--stdin", str(UNICODE[spec.version])],
            input=lines,
            capture_output=True,
            text=True,
            check=True,
        )
        for i, line in enumerate(done.stdout.splitlines()):
            got = json.loads(line)
            assert got["signature"] == sketches.signatures[i].tolist(), texts[i]
            if spec.version > 1:
                content = [f"{word:016x}" for word in sketches.fingerprints[i].tolist()]
                assert got["content"] == content, texts[i]
            assert got["band_keys"] == [f"{key:016x}" for key in keys[:, i].tolist()]
            assert (
                got["record"]
                == write_record(sketches.signatures[i], int(sketches.shingles[i]), spec).hex()
            )
        assert i == len(texts) - 1
