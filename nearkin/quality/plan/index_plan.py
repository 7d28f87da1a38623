"""Plans the memory, the disk and the traffic of an online index."""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nearkin.errors import UsageError
from nearkin.quality.plan.index_sizes import (
    INDEX_SIZES,
    OWN_NAME_BYTES,
    PACKED_BYTES,
    SQLITE_PAGE_CACHE,
    IndexShape,
    IndexSize,
)
from nearkin.quality.plan.plan_lines import PlanLines
from nearkin.quality.plan.run_plan import RunRequest, format_megabytes
from nearkin.quality.plan.throughput import sketching_seconds
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.spec import IDF_JACCARD, Spec
from nearkin.stages.measures import BandingRequest, measure_of

CACHE_ENTRY_BYTES = 225
"""The size of an entry of the resolution cache: ids of 20 bytes, and rows of dictionaries."""
CACHE_ENTRIES = 480_000
"""The number of entries that fit into the resolution cache by default (`cache_bytes`)."""
QUERY_SECONDS = 200e-6
"""The CPU time of a query of an index in memory apart from text and comparisons, in seconds
(measured: 0.25 ms for texts of 100 words)."""
MAX_COMPARED = 100
"""The number of candidates that a query compares by default (`max_candidates`)."""
MAX_REPRESENTATIVES = 1000
"""The number of representatives of a bucket above which an index is slow."""
BYTES_PER_WORD = 6
"""The size of a word with a space, in bytes, approximately."""
FINGERPRINTS_PER_PASSAGE = 4
"""The number of fingerprints that are stored for as many words as the smallest passage has."""


class _IndexBuckets(NamedTuple):
    """The expected buckets of an online index."""

    occupied: float
    """The number of buckets with at least one posting."""
    representatives: float
    """The number of representatives of a bucket."""


def add_index(lines: PlanLines, run: RunRequest) -> None:
    """Adds memory, disk and network traffic of an online index, and the time of a query."""
    work = run.workload
    payload = _payload_bytes(run)
    has_texts = work.store_text and run.spec.unit != "vector"
    content = work.document_bytes if has_texts else payload
    buckets = _add_counts(lines, run)
    shape = IndexShape(
        documents=work.documents,
        representatives=work.kept,
        content=run.signature_bytes + content,
        member_content=content if has_texts else 0,
        keys=run.keys,
        buckets=buckets.occupied,
    )
    vectors = ""
    if work.vector_dimensions is not None:
        shape = _add_vectors(lines, run, shape, content, work.vector_dimensions)
        vectors = f" and vectors with {4 * work.vector_dimensions:,}"
    if work.passages is not None:
        shape = _add_passages(lines, run, shape, work.passages)
    size = INDEX_SIZES[work.store](shape)
    kept = "text" if has_texts else "payload"
    formula = (
        f"{work.kept:,} representatives with signature {run.signature_bytes} and {kept} "
        f"{content:,.0f}{vectors}, {shape.members:,} others with "
        f"{shape.member_content:,.0f}, as {work.store} stores them"
    )
    lines.add("index", "bytes of records", size.records, "B", formula)
    formula = "in the records" if work.store == "sqlite" else f"as {work.store} stores them"
    lines.add("index", "bytes of postings", size.postings, "B", formula)
    formula = f"min(documents, {CACHE_ENTRIES:,}) · {CACHE_ENTRY_BYTES}, with the default settings"
    cached = min(work.documents, CACHE_ENTRIES)
    cache = lines.add("index", "resolved cache", cached * CACHE_ENTRY_BYTES, "B", formula)
    read = run.banding.bands * buckets.representatives
    compared = min(run.candidates.candidates.total, MAX_COMPARED)
    record = PACKED_BYTES + OWN_NAME_BYTES + shape.content
    network = run.banding.bands * 8 + read * 20 + compared * record + payload
    formula = (
        f"8·b + 20 per posting + records of candidates, at most {MAX_COMPARED} + one payload, "
        f"{read:,.3g} postings, {compared:,.3g} candidates"
    )
    lines.add("index", "network of a query", network, "B", formula)
    disk = size.total if size.on_disk else 0.0
    formula = f"records + postings in {work.store}" if disk else f"none over {work.store}"
    lines.add("index", "disk", disk, "B", formula)
    memory, formula = _index_memory(size, cache)
    lines.add("index", "memory", memory, "B", formula)
    lines.add_limit(
        "memory",
        work.memory,
        memory,
        "B",
        f"postings on {math.ceil(memory / work.memory)} shards",
        "store postgres" if disk else "a store on disk (sqlite, postgres)",
    )
    lines.add_limit("disk", work.disk, disk, "B", f"{disk / 1e9:,.0f} GB of disk")
    if buckets.representatives > MAX_REPRESENTATIVES:
        more_rows = math.ceil(math.log2(max(work.kept, 2) / 100))
        lines.add_limit(
            "representatives of a bucket",
            MAX_REPRESENTATIVES,
            buckets.representatives,
            "",
            f"r = {more_rows} rows, with 100 representatives in a bucket",
        )
    _add_latency(lines, run, compared)


def _add_counts(lines: PlanLines, run: RunRequest) -> _IndexBuckets:
    work = run.workload
    bands = run.banding.bands
    rows = run.banding.rows
    lines.add("index", "records", work.documents, "", "one for each document")
    formula = "clusters: documents that others are resolved to"
    lines.add("index", "representatives", work.kept, "", formula)
    formula = f"representatives · keys = {work.kept:,} · {run.keys}"
    postings = lines.add("index", "postings", work.kept * run.keys, "", formula)
    if run.spec.has_slots:
        formula = "at most one for each posting"
        occupied = lines.add("index", "buckets", postings, "", formula)
        formula = "candidates of a query / b"
        per_bucket = run.candidates.candidates.total / bands
    else:
        formula = f"at most b · 2^r = {bands} · 2^{rows}"
        # Rows of a long signature have more buckets than a float can hold.
        buckets = float(min(bands * 2**rows, round(postings)))
        lines.add("index", "buckets", buckets, "", formula)
        formula = f"representatives / 2^r = {work.kept:,} / 2^{rows}"
        per_bucket = work.kept / 2**rows
        occupied = buckets * -math.expm1(-postings / buckets) if buckets else 0.0
    lines.add("index", "representatives of a bucket", per_bucket, "", formula)
    return _IndexBuckets(occupied, per_bucket)


def _add_vectors(
    lines: PlanLines, run: RunRequest, shape: IndexShape, content: float, dimensions: int
) -> IndexShape:
    """Returns the shape of an index of texts of some bytes that have vectors besides.

    All documents of such an index keep their text or its shingles, and their vector.
    """
    work = run.workload
    spec = Spec(measure="cosine", unit="vector", n=dimensions)
    request = BandingRequest(work.vector_threshold, work.recall, documents=work.documents)
    vectors = run._replace(spec=spec, banding=measure_of(spec).banding(request))
    formula = f"representatives · keys of vectors = {shape.representatives:,} · {vectors.keys}"
    postings = lines.add(
        "index", "postings of vectors", shape.representatives * vectors.keys, "", formula
    )
    places = min(vectors.banding.bands * 2.0**vectors.banding.rows, max(postings, 1))
    vector = 4.0 * dimensions
    return IndexShape(
        documents=shape.documents,
        representatives=shape.representatives,
        content=shape.content + vectors.signature_bytes + vector,
        member_content=content + vector,
        keys=shape.keys + vectors.keys,
        buckets=shape.buckets + places * -math.expm1(-postings / places),
    )


def _add_passages(lines: PlanLines, run: RunRequest, shape: IndexShape, least: int) -> IndexShape:
    """Returns the shape of an index that has the fingerprints of all of its texts."""
    if run.spec.unit == "vector":
        raise UsageError(
            f"{name_setting('passages', least)} is for texts, and these documents are vectors; "
            "leave it out"
        )
    words = run.workload.document_bytes / BYTES_PER_WORD
    own = 0.0
    formula = f"none: a document of {words:,.0f} words has no passage of {least}"
    if words >= least:
        own = FINGERPRINTS_PER_PASSAGE * words / least
        formula = (
            f"documents · {FINGERPRINTS_PER_PASSAGE} · words / {least} = "
            f"{shape.documents:,} · {FINGERPRINTS_PER_PASSAGE} · {words:,.0f} / {least}, with "
            f"{BYTES_PER_WORD} bytes a word"
        )
    postings = lines.add("index", "postings of passages", shape.documents * own, "", formula)
    return replace(shape, fingerprints=postings, buckets=shape.buckets + postings)


def _payload_bytes(run: RunRequest) -> float:
    columns = measure_of(run.spec).column_types
    row_bytes = sum(np.dtype(kind).itemsize * (width or 1) for kind, width in columns)
    return row_bytes if run.spec.unit == "vector" else row_bytes * run.workload.shingles


def _index_memory(size: IndexSize, cache: float) -> tuple[float, str]:
    """Returns the memory of an index in bytes, of the process and of a server, and its formula."""
    if not size.on_disk:
        return size.total + cache, "records + postings + resolved cache"
    if not size.bucket_memory:
        return cache, "resolved cache; the database has its own memory"
    pages = min(size.total, SQLITE_PAGE_CACHE)
    formula = (
        f"buckets in each process + page cache of at most {format_megabytes(SQLITE_PAGE_CACHE)} + "
        f"resolved cache = {format_megabytes(size.bucket_memory)} + {format_megabytes(pages)} + "
        f"{format_megabytes(cache)}"
    )
    return size.bucket_memory + pages + cache, formula


def _add_latency(lines: PlanLines, run: RunRequest, compared: float) -> None:
    """Adds the CPU time of a query, without the network and the round trips of a store."""
    if run.spec.measure == IDF_JACCARD:
        return
    work = run.workload
    sketching = sketching_seconds(work, run.spec, run.rates)
    # A comparison takes time in proportion to the shingles; the rate is that of 250.
    comparison = work.shingles / 250 / run.rates.exact
    seconds = QUERY_SECONDS + sketching + compared * comparison
    formula = (
        f"{QUERY_SECONDS * 1e6:.0f} µs + sketching {sketching * 1e6:.0f} µs + {compared:,.3g} "
        f"comparisons of {comparison * 1e6:.2f} µs, in memory"
    )
    lines.add("index", "CPU of a query", seconds, "s", formula)
    fewer = ""
    if compared > 1:
        fewer = f"{name_setting('max_candidates')} below {compared:,.0f}, which compares fewer"
    lines.add_limit("latency", work.latency, seconds, "s", "fewer slots (k)", fewer)
