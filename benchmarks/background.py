"""Fits the similarities of unrelated texts, from which nearkin plan and tune expect candidates.

python -m benchmarks.background             prints the quantiles, and candidates of some bandings
python -m benchmarks.background --write     writes nearkin/quality/plan/background.json, too

The texts are the descriptions of installed Python distributions, and the README and NEWS files of
Debian packages and of packages of Node. One text of each family of projects is taken: projects
whose names begin with the same word. Two projects that quote each other or share their text are
related, and their number does not grow with a corpus as that of unrelated pairs does. So pairs that
share RELATED of their shingles of three words are left out.
"""

import argparse
import gzip
import itertools
import json
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from nearkin.quality.lab.measurements import describe_machine
from nearkin.quality.plan import background
from nearkin.settings.spec import Spec
from nearkin.stages.measures import measure_of
from nearkin.stages.packed_pairs import ScoredPairs, isin_sorted
from nearkin.stages.pair_scope import PairScope

RECORD = Path(background.__file__).with_name(background.BACKGROUND_FILE)
SHINGLES = (
    ("words", 1),
    ("words", 2),
    ("words", 3),
    ("words", 5),
    ("chars", 3),
    ("chars", 5),
    ("chars", 9),
)
MEASURES = ("jaccard", "simhash")
RELATED = 0.3
"""The similarity by shingles of three words from which two texts are related."""
SHARES = (0.5, 0.1, 0.01, 0.001, 0.0001)
"""The shares of pairs whose quantiles are recorded."""
LEAST_CHARACTERS = 1000
MOST_CHARACTERS = 50_000
BANDINGS = ((42, 3), (20, 5), (13, 7), (16, 8))
PLACES = (
    (Path("/usr/share/doc"), ("README*", "NEWS*", "*.txt", "*.txt.gz"), re.compile(r"[-.0-9]+")),
    (Path("/usr/lib/node_modules"), ("README.md",), re.compile(r"[-.]+")),
)
"""Folders, the names of text files in their packages, and what separates the words of a name."""


def read_descriptions() -> Iterator[tuple[str, str]]:
    """Yields the families and the descriptions of the installed Python distributions."""
    for path in sorted(Path(sysconfig.get_path("purelib")).glob("*.dist-info/METADATA")):
        _, _, text = path.read_text("utf-8", "replace").partition("\n\n")
        name = path.parent.name.partition("-")[0].lower()
        yield re.split(r"[_.]", name)[0], text


def read_packages(
    folder: Path, names: tuple[str, ...], words: re.Pattern[str]
) -> Iterator[tuple[str, str]]:
    """Yields the families and the texts of packages, each of which has a folder.

    Args:
        folder: Folder with the packages.
        names: Patterns of the names of text files.
        words: What separates the words of the name of a package.
    """
    for pattern in names:
        for path in sorted(folder.rglob(pattern)):
            if path.is_symlink() or not path.is_file():
                continue
            package = path.relative_to(folder).parts[0].removeprefix("lib")
            if folder.name == "node_modules":
                package = path.parent.name
            content = path.read_bytes()
            if path.suffix == ".gz":
                content = gzip.decompress(content)
            yield words.split(package)[0], content.decode("utf-8", "ignore")


def collect_texts() -> dict[str, str]:
    """Returns one text of each family of projects, by source and family."""
    texts: dict[str, str] = {}
    sources = [("python", read_descriptions())]
    sources += [(folder.name, read_packages(folder, *rest)) for folder, *rest in PLACES]
    for source, families in sources:
        for family, text in families:
            if len(text) >= LEAST_CHARACTERS:
                texts.setdefault(f"{source}/{family}", text[:MOST_CHARACTERS])
    return texts


def compare_texts(texts: pa.Array, spec: Spec) -> ScoredPairs:
    """Returns the pairs of texts that share a shingle, with their similarities."""
    measure = measure_of(spec)
    payload = measure.payload_builder().build(texts)
    scope = PairScope.of_all_pairs(len(texts))
    return ScoredPairs.concatenate(list(measure.compare_all(payload, scope, 1e-9, 1)))


def fit_quantiles(similarities: np.ndarray, pairs: int) -> list[list[float]]:
    """Returns the quantiles of similarities, as `share_above` of the background takes them.

    Args:
        similarities: Similarities of the pairs that share a shingle, float64 (m,).
        pairs: Number of all pairs.

    Examples:
        >>> fit_quantiles(np.arange(1, 1001) / 5000, 2000)
        [[0.0, 0.5], [0.16, 0.1], [0.196, 0.01], [0.1996, 0.001], [0.2, 0.0005]]
    """
    descending = np.sort(similarities)[::-1]
    quantiles = [[0.0, len(descending) / pairs]]
    for share in SHARES:
        rank = round(share * pairs)
        if 0 < rank < len(descending):
            quantiles.append([round(float(descending[rank]), 6), share])
    quantiles.append([round(float(descending[0]), 6), 1 / pairs])
    return quantiles


def main() -> None:
    """Prints the quantiles, and writes them if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    by_family = collect_texts()
    texts = pa.array(by_family.values(), pa.large_string())
    scored = compare_texts(texts, Spec())
    related = scored.select(scored.meets_threshold(RELATED)).pairs
    pairs = len(texts) * (len(texts) - 1) // 2 - len(related)
    kinds = {}
    for measure, (unit, n) in itertools.product(MEASURES, SHINGLES):
        spec = Spec(measure=measure, unit=unit, n=n)
        scored = compare_texts(texts, spec)
        unrelated = scored.select(~isin_sorted(scored.pairs, np.sort(related)))
        name = f"{measure} {spec.shingle}"
        kinds[name] = fit_quantiles(unrelated.similarity, pairs)
        print(name, kinds[name])
        for bands, rows in BANDINGS if measure == "jaccard" else ():
            counted = (1 - (1 - unrelated.similarity**rows) ** bands).sum() / pairs
            fitted = background.Background.from_quantiles(kinds[name], name)
            expected = fitted.shares @ (1 - (1 - fitted.similarities**rows) ** bands)
            print(f"  {bands} x {rows}: {counted:.3g} of the pairs, recorded {expected:.3g}")
    sources = [name.partition("/")[0] for name in by_family]
    record = {
        "about": "Quantiles of the similarities of unrelated texts: similarity, and share of the "
        "pairs that are more similar. Written by python -m benchmarks.background.",
        "machine": describe_machine(),
        "texts": {source: sources.count(source) for source in dict.fromkeys(sources)},
        "pairs": pairs,
        "related": len(related),
        "kinds": kinds,
    }
    if options.write:
        text = json.dumps(record, indent=1)
        # Each quantile is written on one line.
        text = re.sub(r"\[\s+([\d.e-]+),\s+([\d.e-]+)\s+\]", r"[\1, \2]", text)
        RECORD.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
