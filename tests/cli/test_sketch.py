"""`nearkin sketch`, `nearkin merge` and `nearkin info` over signature files."""

import json
from pathlib import Path

from tests.cli.conftest import nearkin


def test_signature_files_are_written_merged_and_described(corpus: Path, tmp_path: Path) -> None:
    parts = sorted((corpus / "documents").iterdir())
    for name, part in zip("ab", parts, strict=True):
        nearkin("sketch", part, "--id", "id", "--k", 64, "--out", tmp_path / f"{name}.arrow")
    nearkin("merge", tmp_path / "a.arrow", tmp_path / "b.arrow", "--out", tmp_path / "c.arrow")
    facts = json.loads(nearkin("info", tmp_path / "c.arrow", "--json").stdout)
    assert (facts["documents"], facts["spec"]["k"]) == (5999, 64)
    nearkin(
        "sketch", corpus / "documents", "--id", "id", "--k", 64, "--out", tmp_path / "whole.arrow"
    )
    assert json.loads(nearkin("info", tmp_path / "whole.arrow", "--json").stdout) == facts
    nearkin("sketch", parts[0], "--k", 128, "--out", tmp_path / "d.arrow")
    ended = nearkin(
        "merge", tmp_path / "a.arrow", tmp_path / "d.arrow", "--out", tmp_path / "e.arrow", code=2
    )
    assert "was made with k=128, this with 64" in ended.stderr
    assert "fingerprint" in nearkin("info", tmp_path / "a.arrow").stdout
