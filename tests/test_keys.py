"""Keys never show."""

import pickle
from pathlib import Path

import pytest

from nearkin.errors import KeyRequiredError, UsageError
from nearkin.keys import HashKey
from nearkin.spec import Spec

SECRET = bytes(range(16))


def test_read_from_file_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "key"
    path.write_text(SECRET.hex() + "\n")
    monkeypatch.setenv("NEARKIN_TEST_KEY", SECRET.hex().upper())
    assert HashKey.read(str(path)) == HashKey.read("env:NEARKIN_TEST_KEY") == HashKey(SECRET)


@pytest.mark.parametrize("content", ["", "00ff", "zz" * 16, SECRET.hex() * 2, "ü" * 32])
def test_malformed_content_is_not_repeated(tmp_path: Path, content: str) -> None:
    path = tmp_path / "key"
    path.write_text(content, "utf-8")
    with pytest.raises(UsageError, match="hexadecimal digits") as caught:
        HashKey.read(str(path))
    assert not content or content not in str(caught.value)


def test_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEARKIN_NO_KEY", raising=False)
    with pytest.raises(UsageError, match="NEARKIN_NO_KEY is not set"):
        HashKey.read("env:NEARKIN_NO_KEY")
    with pytest.raises(UsageError, match="cannot be read"):
        HashKey.read(str(tmp_path / "none"))


def test_never_shows() -> None:
    key = HashKey(SECRET)
    assert SECRET.hex() not in repr(key) + str(key) + key.id
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(key)


def test_generate() -> None:
    key, line = HashKey.generate()
    assert HashKey(bytes.fromhex(line)) == key
    assert HashKey.generate()[0] != key


def test_spec_names_the_key() -> None:
    key, other = HashKey(SECRET), HashKey(SECRET[::-1])
    spec = Spec(base_hash="siphash", key_id=key.id)
    assert spec.fingerprint != Spec(base_hash="siphash", key_id=other.id).fingerprint
    assert spec.require_key(key) is key
    assert SECRET.hex() not in spec.to_json()
    with pytest.raises(KeyRequiredError, match=other.id):
        spec.require_key(other)
    with pytest.raises(KeyRequiredError, match="--key-file"):
        spec.require_key(None)
    with pytest.raises(UsageError, match="siphash is keyed"):
        Spec(key_id=key.id)
