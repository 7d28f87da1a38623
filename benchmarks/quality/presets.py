"""The presets: a fixed setting for each kind of data."""

from collections.abc import Mapping

PRESETS: Mapping[str, Mapping[str, object]] = {
    "records": {"shingle": "chars:2", "measure": "idf-jaccard", "threshold": 0.42},
    "bibliography": {
        "shingle": "chars:3",
        "measure": "idf-jaccard",
        "threshold": 0.46,
        "cluster": "components",
    },
    "logs": {"shingle": "chars:2", "normalise": "nfkc,lower,digits", "threshold": 0.58},
    "code": {
        "shingle": "words:3",
        "normalise": "nfkc,lower,digits,punctuation",
        "measure": "idf-jaccard",
        "threshold": 0.38,
    },
    "titles": {"shingle": "chars:3", "measure": "idf-jaccard", "threshold": 0.5},
    "web": {"shingle": "words:3", "measure": "idf-jaccard", "threshold": 0.4},
}


def preset_settings(kind: str) -> Mapping[str, object]:
    """Returns the arguments of `nearkin.dedup` of a preset."""
    return PRESETS[kind]
