"""An invented run with content in every section of its report."""

import pytest

from nearkin.quality.evaluate.audit import Audit
from nearkin.quality.evaluate.boilerplate import Boilerplate, Phrase, SourceShare
from nearkin.quality.evaluate.intervals import Proportion
from nearkin.quality.evaluate.overlap import Overlap
from nearkin.quality.evaluate.recall import RecallBin
from nearkin.reports.model import (
    BorderlinePair,
    ClusterExcerpt,
    Counts,
    Parameters,
    QuotedBucket,
    ReasonCount,
    RemovedExample,
    ReportData,
    SizeCount,
    SourceCount,
    StageSeconds,
    ThresholdStep,
)
from nearkin.reports.similarity_bins import BINS, Histogram
from nearkin.stages.lsh.curve import candidate_probability

AUDIT = Audit(
    Proportion.from_counts(180, 180),
    Proportion.from_counts(97, 100),
    0.95,
    (
        RecallBin(0.8, 0.9, Proportion.from_counts(47, 50), 0.97),
        RecallBin(0.9, 1.0, Proportion.from_counts(50, 50), 0.999),
    ),
    500,
    12,
    3.0,
    1,
    "the interval of the recall contains the requested 0.95",
)
LONG = "a sentence that both documents have in common. " * 30


@pytest.fixture
def parameters() -> Parameters:
    curve = tuple(float(candidate_probability(s / 100, 13, 7)) for s in range(101))
    return Parameters(
        0.8, 0.95, 13, 7, 128, "binned", "words:3", "exact", "leaders", "length desc", curve=curve
    )


@pytest.fixture
def data(parameters: Parameters) -> ReportData:
    clusters = (
        ClusterExcerpt(
            "left/a.py:f:1",
            LONG + "old end",
            3,
            (
                RemovedExample("right/a.py:f:1", 0.91, LONG + "new end"),
                RemovedExample("x:2", 1.0, LONG),
            ),
        ),
        ClusterExcerpt(
            "exact/a.txt:0",
            "the same words",
            2,
            (RemovedExample("exact/b.txt:0", 1.0, "the same words"),),
        ),
    )
    return ReportData(
        title="crawl/*.jsonl",
        parameters=parameters,
        counts=Counts(1000, 700, 100, 180, empty=5, rejected=20, repeated_ids=2, clusters=150),
        seconds=(StageSeconds("read", 1.5), StageSeconds("sketch", 2.5)),
        peak_memory=1_340_000_000,
        cluster_sizes=(SizeCount(2, 100), SizeCount(3, 45), SizeCount(120, 1)),
        verified=Histogram((0,) * 40 + (30,) * 10),
        estimated=Histogram((0,) * 20 + (7,) * (BINS - 20)),
        sources=(SourceCount("web", 800, 100), SourceCount("mirror", 200, 190)),
        hot_buckets=(QuotedBucket(3, 5000, ("all rights reserved", "terms of service")),),
        rejected=(ReasonCount("invalid UTF-8", 20),),
        clusters=clusters,
        warnings=("2 rows share an id",),
        audit=AUDIT,
        boilerplate=Boilerplate(
            700, (Phrase("we use cookies", 9, 0.4, (SourceShare("web", 0.45),), True),), 57
        ),
        overlap=Overlap(
            "source", ("web", "mirror"), (800, 200), ((90, 10), (190, 5)), ((40, 1), (100, 0))
        ),
        leakage=Overlap(
            "split", ("train", "test"), (900, 100), ((90, 12), (14, 0)), ((9, 3), (4, 0))
        ),
        what_if=(
            ThresholdStep(0.8, 700, 300),
            ThresholdStep(0.9, 800, 120),
            ThresholdStep(1.0, 880, 0),
        ),
        borderline=(
            BorderlinePair(0.8, 0.801, "p", "q", "one and two", "one and three"),
            BorderlinePair(0.9, 0.902, "v", "w", "up and down", "up and away"),
        ),
    )
