"""The results of exhaustive searches, which are kept in a folder because they take minutes."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from benchmarks.quality import exhaustive
from benchmarks.quality.exhaustive import ScoredSetting, Setting, search_settings
from benchmarks.quality.labelled_set import LabelledSet


def fingerprint_search(labelled: LabelledSet) -> str:
    """Returns a name for the search over a set, which depends on its documents and the settings."""
    facts = [
        labelled.texts,
        labelled.clusters.tolist(),
        labelled.documents["source"].to_pylist() if labelled.across else None,
        exhaustive.WORD_SIZES,
        exhaustive.CHARACTER_SIZES,
        exhaustive.NORMALISATIONS,
        exhaustive.MEASURES,
        exhaustive.THRESHOLDS,
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:20]


def search_set(labelled: LabelledSet, folder: Path) -> list[ScoredSetting]:
    """Returns the scores of every setting over a set, the best one first.

    Args:
        labelled: The set.
        folder: Folder in which the results of searches are kept.
    """
    path = folder / f"{fingerprint_search(labelled)}.json"
    if path.exists():
        return [
            ScoredSetting(Setting(**row["setting"]), row["precision"], row["recall"])
            for row in json.loads(path.read_text("utf-8"))
        ]
    sources = labelled.documents["source"].to_pylist() if labelled.across else None
    scored = search_settings(labelled.texts, labelled.clusters, sources)
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"setting": asdict(one.setting), "precision": one.precision, "recall": one.recall}
        for one in scored
    ]
    path.write_text(json.dumps(rows), "utf-8")
    return scored
