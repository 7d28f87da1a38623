"""Tests of hash keys: they are read, required, fingerprinted, and never shown."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.errors import IncompatibleError, KeyRequiredError, UsageError
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import Spec
from nearkin.stages.sketch.resources import SpecResources

SECRET = bytes(range(16))


def test_key_is_read_from_file_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "key"
    path.write_text(SECRET.hex() + "\n")
    monkeypatch.setenv("NEARKIN_TEST_KEY", SECRET.hex().upper())
    assert HashKey.read(str(path)) == HashKey.read("env:NEARKIN_TEST_KEY") == HashKey(SECRET)


@pytest.mark.parametrize("content", ["", "00ff", "zz" * 16, SECRET.hex() * 2, "ü" * 32])
def test_error_does_not_repeat_a_malformed_key(tmp_path: Path, content: str) -> None:
    path = tmp_path / "key"
    path.write_text(content, "utf-8")
    with pytest.raises(UsageError, match="hexadecimal digits") as caught:
        HashKey.read(str(path))
    assert not content or content not in str(caught.value)


def test_missing_key_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEARKIN_NO_KEY", raising=False)
    with pytest.raises(UsageError, match="NEARKIN_NO_KEY is not set"):
        HashKey.read("env:NEARKIN_NO_KEY")
    with pytest.raises(UsageError, match="cannot be read"):
        HashKey.read(str(tmp_path / "none"))


def test_key_is_not_shown_or_pickled() -> None:
    key = HashKey(SECRET)
    assert SECRET.hex() not in repr(key) + str(key) + key.id
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(key)


def test_generated_keys_differ() -> None:
    key, line = HashKey.generate()
    assert HashKey(bytes.fromhex(line)) == key
    assert HashKey.generate()[0] != key


def test_spec_contains_the_fingerprint_of_the_key() -> None:
    key, other = HashKey(SECRET), HashKey(SECRET[::-1])
    spec = Spec(base_hash="siphash", key_id=key.id)
    assert spec.fingerprint != Spec(base_hash="siphash", key_id=other.id).fingerprint
    assert spec.require_key(key) is key
    assert SECRET.hex() not in spec.to_json()
    with pytest.raises(KeyRequiredError, match=other.id):
        spec.require_key(other)
    with pytest.raises(KeyRequiredError, match="with `key`"):
        spec.require_key(None)
    with pytest.raises(UsageError, match="siphash is keyed"):
        Spec(key_id=key.id)


def crafted_copy(words: list[str], spec: Spec, edits: int) -> list[str]:
    """A near-copy whose edits hit the shingles that own most slots, with words whose shingles
    displace further minima."""

    def agreeing(candidates: list[list[str]]) -> np.ndarray:
        signatures = nk.sketch([" ".join(c) for c in [words, *candidates]], spec)
        return (signatures[1:] == signatures[0]).sum(axis=1)

    best = list(words)
    for edit in range(edits):
        candidates = []
        for at in range(len(words)):
            if best[at] == words[at]:
                for word in range(6):
                    candidates.append([*best[:at], f"q{edit}x{at}y{word}", *best[at + 1 :]])
        best = candidates[int(np.argmin(agreeing(candidates)))]
    return best


def test_edits_crafted_for_a_known_hash_are_found_with_a_key() -> None:
    rng = np.random.default_rng(3)
    words = [f"w{x}" for x in rng.integers(0, 5000, 160)]
    public = Spec()
    copy = crafted_copy(words, public, 5)
    texts = [" ".join(words), " ".join(copy)]
    grams = [{tuple(w[i : i + 3]) for i in range(len(w) - 2)} for w in (words, copy)]
    similarity = len(grams[0] & grams[1]) / len(grams[0] | grams[1])
    assert similarity >= 0.8
    assert nk.estimate(*nk.sketch(texts, public)) < 0.7
    banded = {"threshold": 0.8, "bands": 13, "rows": 7}
    assert nk.dedup(texts, spec=public, **banded).kept.tolist() == [True, True]

    key, _ = HashKey.generate()
    keyed = Spec(base_hash="siphash", key_id=key.id)
    assert nk.estimate(*nk.sketch(texts, keyed, resources=SpecResources(key))) > similarity - 0.12
    # A band can miss a pair at the threshold by chance, so the recall is as high as possible.
    sure = {"threshold": 0.8, "bands": 30, "rows": 4}
    assert nk.dedup(texts, spec=keyed, key=key, **sure).kept.sum() == 1


def test_keyed_run_requires_its_key_and_does_not_show_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    key, line = HashKey.generate()
    (tmp_path / "key").write_text(line + "\n")
    (tmp_path / "docs.jsonl").write_text(
        '{"text": "one two three four"}\n{"text": "one two three four five"}\n'
    )
    out = tmp_path / "out"
    common = ["dedup", str(tmp_path / "docs.jsonl"), "--save-signatures", "--threshold", "0.6"]
    assert run([*common, "--key-file", str(tmp_path / "key"), "--out", str(out)]) == 0
    written = b"".join(path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file())
    printed = "".join(capfd.readouterr()).encode()
    assert key.id.encode() in written
    assert line.encode() not in written + printed
    assert bytes.fromhex(line) not in written + printed
    record = json.loads((out / "run.json").read_bytes())
    assert record["spec"]["base_hash"] == "siphash"
    assert record["counts"]["kept"] == 1
    # The saved run is an input only with its key.
    assert run(["dedup", str(out), "--out", str(tmp_path / "again")]) == 2
    assert f"pass the key {key.id}" in capfd.readouterr().err
    other, other_line = HashKey.generate()
    (tmp_path / "other").write_text(other_line)
    assert (
        run(
            [
                "dedup",
                str(out),
                "--key-file",
                str(tmp_path / "other"),
                "--out",
                str(tmp_path / "again2"),
            ]
        )
        == 2
    )
    assert other.id in capfd.readouterr().err
    assert (
        run(
            [
                "dedup",
                str(out),
                "--key-file",
                str(tmp_path / "key"),
                "--out",
                str(tmp_path / "again3"),
            ]
        )
        == 0
    )


def test_different_keys_have_different_fingerprints() -> None:
    specs = [Spec(base_hash="siphash", key_id=HashKey.generate()[0].id) for _ in range(2)]
    assert specs[0].fingerprint != specs[1].fingerprint
    with pytest.raises(IncompatibleError, match="key_id"):
        specs[0].require(specs[1], "a file")


def test_key_can_come_from_an_environment_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, line = HashKey.generate()
    monkeypatch.setenv("NEARKIN_TEST_KEY", line)
    (tmp_path / "docs.jsonl").write_text('{"text": "one two three four"}\n')
    signatures = tmp_path / "s.arrow"
    assert (
        run(
            [
                "lab",
                "sketch",
                str(tmp_path / "docs.jsonl"),
                "--key-file",
                "env:NEARKIN_TEST_KEY",
                "--out",
                str(signatures),
            ]
        )
        == 0
    )
    assert line.encode() not in signatures.read_bytes()
    assert (
        run(
            [
                "lab",
                "sketch",
                str(tmp_path / "docs.jsonl"),
                "--key-file",
                "env:NOT_SET",
                "--out",
                str(tmp_path / "t.arrow"),
            ]
        )
        == 2
    )


def test_key_file_without_an_end_is_an_error() -> None:
    with pytest.raises(UsageError, match="hexadecimal digits"):
        HashKey.read("/dev/zero")
