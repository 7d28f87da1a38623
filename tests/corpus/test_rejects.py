"""The quarantine."""

import json
from pathlib import Path

from nearkin.corpus import QuarantineWriter, Rejection, count_reasons
from nearkin.corpus.batches import WHOLE_FILE
from nearkin.corpus.rejects import count_rejections


def test_run_of_rows_is_one_line_that_counts_as_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "rejected.jsonl"
    rejected = [
        Rejection(30, "it is damaged: here", rows=10),
        Rejection(WHOLE_FILE, "it is damaged: there"),
        Rejection(2, "text is null", "raw", line=4, file=1),
    ]
    with path.open("wb") as file:
        quarantine = QuarantineWriter(file, ["a.arrow", "b.csv"])
        quarantine.add(rejected)
        assert quarantine.flush() == path.stat().st_size
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"file": "a.arrow", "row": 30, "rows": 10, "reason": "it is damaged: here", "raw": ""},
        {"file": "a.arrow", "reason": "it is damaged: there", "raw": ""},
        {"file": "b.csv", "row": 2, "line": 4, "reason": "text is null", "raw": "raw"},
    ]
    assert count_reasons(path) == {"it is damaged": 11, "text is null": 1}
    assert count_rejections(rejected) == count_reasons(path)
