"""The stages over a cluster, as DataFrames: what the local engine does to arrays of ordinals, done to rows."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from nearkin.engine.local.clustering import EMPTY, EXACT, KEPT, KINDS, NEAR, UNIQUE
from nearkin.engine.local.hot_buckets import MOST_ROUNDS
from nearkin.engine.local.sketching import latency
from nearkin.engine.options import SMALL_CORPUS, SMALL_SHINGLES, RunOptions
from nearkin.engine.spark.arrow_columns import numbers
from nearkin.engine.spark.banding import BUCKETS, HOT, KEYS, Banded
from nearkin.engine.spark.clustering import ELECTED, Election, connected
from nearkin.engine.spark.document_parts import Merging
from nearkin.engine.spark.keep_order import Resolved, keep_order
from nearkin.engine.spark.materialized import Tables
from nearkin.engine.spark.rereading import PayloadRows, Rows
from nearkin.engine.spark.saved import DealtRows, Saved, require_saved_keys, split_known, with_verdicts
from nearkin.engine.spark.session import work_of
from nearkin.engine.spark.sketching import FILE_SHIFT, Request
from nearkin.engine.spark.sources import FileSource, Source
from nearkin.engine.spark.verification import AGREED, SCORED, Scoring, binned, needed, scored_in_bins
from nearkin.errors import UsageError
from nearkin.lsh.slot_bands import Banding
from nearkin.measures import Measure
from nearkin.runtime.progress import Progress
from nearkin.sketch.resources import SpecResources

PART_BYTES = 32 << 20
"""Of keys and documents in a part of a band: a task holds one, and what sorting it takes."""
BIN_BYTES = 64 << 20
"""Of what pairs of a bin are compared by."""
BYTES_OF_KEY = 16
PAIRS_IN_ONE_TASK = 4_000_000
"""Scored pairs up to which one task clusters all of them; beyond, connected components are found first."""
SHOWN = 3


class Found(NamedTuple):
    """What banding found."""

    pairs: DataFrame
    """(a, b, agree): documents that share a bucket and pass the margin."""
    many: int
    hot: DataFrame | None
    """Documents that were in a bucket that was clustered inside itself; None if there was none."""
    facts: dict[str, Any]


@dataclass
class SparkRun:
    """One corpus, one request, one session.

    Attributes:
        spark: The session.
        source: Where documents come from; read again to verify.
        request: What is asked.
        progress: Who is told.
        tables: Where intermediate tables go.
        before: What a run over the documents that are not new left; the source reads the new ones, and all of them again.
        stages: What each stage recorded.
    """

    spark: SparkSession
    source: Source
    request: Request
    progress: Progress
    tables: Tables
    before: Saved | None = None
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)

    def keep(self, frame: DataFrame, name: str) -> DataFrame:
        """Computes a table that is used more than once."""
        return self.tables.keep(frame, name)

    @property
    def options(self) -> RunOptions:
        """The request."""
        return self.request.options

    @property
    def resources(self) -> SpecResources:
        """What the Spec names but does not hold."""
        return self.request.resources

    @property
    def measure(self) -> Measure:
        """How documents are compared."""
        return self.request.measure

    def recorded(self, stage: str) -> dict[str, Any]:
        """The facts of a stage; none if it did not run."""
        return self.stages.get(stage, {})

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, Any]]:
        """Records the facts put into the yielded dictionary, and the seconds."""
        self.progress.stage(name, None)
        facts: dict[str, Any] = {}
        began = time.perf_counter()
        group = f"nearkin {name} {self.tables.folder}"
        self.spark.sparkContext.setJobGroup(group, f"nearkin: {name}")
        yield facts
        facts["seconds"] = round(time.perf_counter() - began, 3)
        facts.update(work_of(self.spark, group))
        self.stages[name] = facts

    @cached_property
    def table(self) -> DataFrame:
        """What sketching makes: documents, rejected rows, facts."""
        return self.keep(self.source.documents(), "sketched")

    @cached_property
    def rejected(self) -> DataFrame:
        """place (JSON), reason, raw, in corpus order of `doc`."""
        found = self.table.where(f.col("reason").isNotNull())
        return found.select("doc", f.col("facts").alias("place"), "reason", "raw")

    @cached_property
    def documents(self) -> DataFrame:
        """The documents, with the bytes that they are sorted by."""
        documents = self.table.where(f.col("reason").isNull() & f.col("facts").isNull())
        if self.request.merge_parts:
            documents = self._merged(documents)
        documents = self._sorted(documents.drop("reason", "raw", "facts"))
        if self.before is not None:
            self.before.require(self.request)
            if self.types != self.before.about["types"]:
                raise UsageError(f"columns of keep={self.options.keep!r} are of other types than in {self.before.folder}")
            documents = self.before.documents.select(*documents.columns).unionByName(documents)
        return documents if self.request.merge_parts else self._told_apart(documents)

    @cached_property
    def resolved(self) -> Resolved:
        """What the keep policy's columns are."""
        unfit = frozenset((name, kind) for facts in self.task_facts for name, kind in facts["unfit"])
        return Resolved.of(self.request.riding, unfit)

    @property
    def types(self) -> str:
        """Of the keep policy's columns: what the bytes that documents are sorted by depend on."""
        kinds = self.resolved.kinds
        names = [str(pa.large_string() if kind is None else kind) for kind in kinds.values()]
        return f"{names} {sorted(name for name, kind in kinds.items() if kind is not None)}"

    def _sorted(self, documents: DataFrame) -> DataFrame:
        if not self.request.riding:
            return documents
        names = [name for name in documents.columns if not name.startswith("riding")]
        sort = SortRows(self.request, self.resolved, tuple(names))
        schema = ",".join(part for part in self.request.schema.split(",") if part.split()[0] in names)
        return self.keep(documents.mapInArrow(sort, schema), "documents")

    def _merged(self, rows: DataFrame) -> DataFrame:
        """Rows of one id as one document; `parts` (doc, head) are the rows that are merged into another one's document."""
        heads = rows.groupBy("id").agg(f.min("doc").alias("head"), f.count("*").alias("times")).where(f.col("times") > 1)
        parts, seen = self.tables.counted(rows.select("id", "doc").join(heads.drop("times"), "id"), "parts")
        self.stages["sketch"] = {"repeated_ids": 0, "parts": seen["rows"]}
        self.parts = parts.select("doc", "head")
        bins = max(1, seen["rows"] * self.request.options.spec.k * 4 // BIN_BYTES)
        merging = Merging(self.request)
        many = rows.join(parts.select("id", "head").distinct(), "id").withColumn("bin", f.pmod(f.xxhash64("id"), f.lit(bins)))
        merged = many.groupBy("bin").applyInArrow(merging.group(), merging.schema)
        alone = rows.join(parts.select("id").distinct(), "id", "left_anti").select(*rows.columns)
        return self.keep(alone.unionByName(merged), "merged")

    @cached_property
    def task_facts(self) -> list[dict[str, Any]]:
        """What each task of the sketch stage saw."""
        return facts_of(self.table.where(f.col("reason").isNull()))

    def _told_apart(self, documents: DataFrame) -> DataFrame:
        """Ids that occur more than once get their place appended, in the local engine's form."""
        if self.request.columns.id is None:
            return documents
        if not isinstance(self.source, FileSource):
            return self._require_unique(documents)
        repeated = self.keep(documents.groupBy("id").count().where(f.col("count") > 1).select("id", "count"), "repeated")
        if (count := repeated.agg(f.sum("count")).first()[0]) is None:
            return documents
        self.stages.setdefault("sketch", {})["repeated_ids"] = int(count)
        names = self.source.files().select("number", "name")
        marked = documents.join(repeated.withColumnRenamed("count", "times"), "id", "left")
        marked = marked.withColumn("number", f.shiftright("doc", FILE_SHIFT).cast("int")).join(f.broadcast(names), "number")
        row = f.lpad(f.col("doc").bitwiseAND(f.lit((1 << FILE_SHIFT) - 1)).cast("string"), 10, "0")
        place = f.concat(f.lit("#"), "name", f.lit(":"), row)
        twice = f.col("times").isNotNull()
        sort = f.when(twice, f.concat(f.col("sort"), place.cast("binary"))).otherwise(f.col("sort"))
        told = marked.withColumn("sort", sort).withColumn("id", f.when(twice, f.concat("id", place)).otherwise(f.col("id")))
        return self.keep(told.select(*documents.columns), "told-apart")

    def _require_unique(self, documents: DataFrame) -> DataFrame:
        twice = documents.groupBy("doc").agg(f.count("*").alias("times"), f.min("id").alias("id"), f.max("id").alias("other"))
        found = twice.where(f.col("times") > 1).orderBy("id").limit(SHOWN).collect()
        if found:
            shown = ", ".join(sorted({repr(row[name]) for row in found for name in ("id", "other")}))
            raise UsageError(
                f"ids occur more than once in column {self.request.columns.id!r} ({shown}), and rows of a DataFrame have no "
                "place to tell them apart by: make ids unique, or declare that rows of one id are parts of a document "
                "with merge_parts=True"
            )
        return documents

    def sketch(self) -> None:
        """Stage 1: signatures, fingerprints, ids and columns that ride along."""
        with self.stage("sketch") as facts:
            tasks = self.task_facts
            documents, nothing = self.documents, (f.col("fp0") == 0) & (f.col("fp1") == 0)
            facts.update(self.stages.pop("sketch", {"repeated_ids": 0}))
            none = f.col("shingles") == 0
            wanted = [f.count("*"), f.sum("shingles"), f.sum("length"), f.sum(f.length("signature")), f.count(f.when(none, 1))]
            counted = documents.agg(*wanted, f.count(f.when(none & nothing, 1))).first()
            names = ("documents", "shingles", "text_bytes", "signature_bytes", "matchless", "empty")
            facts.update({name: int(value or 0) for name, value in zip(names, counted, strict=True)})
            loaded = [task["warm"] for task in tasks]
            shares = np.sum([task["shares"] for task in tasks], axis=0) if tasks else np.zeros(3)
            empty, completed = shares[:2] / shares[2] if shares[2] else (0.0, 0.0)
            facts.update(
                rejected=sum(task["rejected"] for task in tasks),
                document_limit=self.request.columns.document_limit,
                empty_bin_rate=round(float(empty), 6),
                completed_slot_rate=round(float(completed), 6),
                build_latency=latency([(seconds, count) for task in tasks for seconds, count in task["latency"]]),
                kernels_loaded=[round(max(loaded, default=0.0), 3), round(sum(loaded), 3)],
            )

    def collapse(self) -> None:
        """Stage 2: `copies` (doc, head), exact duplicates of another document, the first of their group in keep order."""
        with self.stage("collapse") as facts:
            self.copies, seen = self.tables.counted(self._copies(), "copies")
            sketched = self.stages["sketch"]
            facts.update(exact=seen["rows"], empty=sketched["empty"], all_cut=sketched["matchless"] - sketched["empty"])

    def _copies(self) -> DataFrame:
        group = ["fp0", "fp1", "block"]
        some = self.documents.where((f.col("fp0") != 0) | (f.col("fp1") != 0)).select("doc", "sort", *group)
        heads = some.groupBy(*group).agg(f.min(f.struct("sort", "doc")).alias("first"), f.count("*").alias("times"))
        heads = heads.where(f.col("times") > 1).select(*group, f.col("first.doc").alias("head"))
        return some.join(heads, group).where(f.col("doc") != f.col("head")).select("doc", "head")

    @property
    def brute_force(self) -> bool:
        """Whether the corpus is small enough to compare everything; asked bands and rows are always honoured."""
        facts = self.stages["sketch"]
        few = facts["documents"] < SMALL_CORPUS and facts["shingles"] <= SMALL_SHINGLES
        return few and self.request.options.bands is None

    @cached_property
    def banding(self) -> Banding:
        """Bands and rows, for this corpus' size where that matters."""
        return self.request.options.banding(self.request.measure, self.stages["sketch"]["documents"])

    @cached_property
    def banded(self) -> Banded:
        """How documents are banded."""
        each = self.stages["sketch"]["documents"] * (1 + self.banding.probes) * BYTES_OF_KEY
        return Banded(self.request, self.banding, max(1, -(-each // PART_BYTES)))

    @cached_property
    def scoring(self) -> Scoring:
        """How pairs are scored."""
        return Scoring(self.request, self.banding, self.banded.limits.margin)

    @cached_property
    def active(self) -> DataFrame:
        """Documents that are compared: the first of each exact group, if they have a shingle to compare."""
        return self.documents.where(f.col("shingles") > 0).join(self.copies, "doc", "left_anti")

    def candidates(self) -> None:
        """Stage 3: bands, buckets, candidates that pass the estimate's margin."""
        if self.brute_force:
            return
        with self.stage("candidates") as facts:
            self.found = self._find(self.active)
            facts.update(self.found.facts, survivors=self.found.many)
            facts["key_bytes"] = 8 * self.stages["sketch"]["documents"] * self.banding.bands * (1 + self.banding.probes)

    def _find(self, active: DataFrame) -> Found:
        """Documents that share a bucket."""
        keys = self._keys(active)
        buckets = self.keep(keys.groupBy("part").applyInArrow(of_table(self.banded.buckets), BUCKETS), "buckets")
        parts = facts_of(buckets)
        cold = buckets.where(f.col("a").isNotNull()).select("a", "b").distinct()
        largest = self.request.options.hot_bucket_size
        sizes = (bucket for part in parts for bucket in part["sizes"])
        most = sum(times * size * (size - 1) // 2 for size, times in sizes if size <= largest)
        agreed, seen = self.tables.counted(self._agreed(cold, most), "agreed", pairs=f.count("a"))
        tasks, count = facts_of(agreed), seen["pairs"]
        pairs, hot = agreed.where(f.col("a").isNotNull()).select("a", "b", "agree"), None
        if sum(part["hot"] for part in parts):
            members = buckets.where(f.col("doc").isNotNull()).select("band", "key", "doc")
            clustered = self.keep(self._clustered_inside(members), "hot-pairs")
            tasks += facts_of(clustered)
            inside = clustered.where(f.col("a").isNotNull()).select("a", "b", "agree")
            pairs, seen = self.tables.counted(pairs.unionByName(inside).dropDuplicates(["a", "b"]), "survivors")
            hot, count = members.select("doc").distinct(), seen["rows"]
        return Found(pairs, count, hot, candidate_facts(parts, tasks, self.request.options.spec.k))

    def _keys(self, active: DataFrame) -> DataFrame:
        """KEYS: of documents that a run before has banded, as it did."""
        if self.before is None:
            return active.select("doc", "block", "signature", "keys").mapInArrow(self.banded.keys, KEYS)
        stored = self.before.keys(self.banding)
        fresh = active.join(self.before.documents.select("doc"), "doc", "left_anti")
        made = fresh.select("doc", "block", "signature", "keys").mapInArrow(self.banded.keys, KEYS)
        return (
            stored.join(active.select("doc"), "doc", "left_semi")
            .select("band", "key", "doc")
            .mapInArrow(DealtRows(self.banded), KEYS)
            .unionByName(made)
        )

    def _agreed(self, cold: DataFrame, most: int) -> DataFrame:
        spec = self.request.options.spec
        size = spec.signature_width * np.dtype(spec.signature_type).itemsize
        pairs = binned(cold, most, max(1, BIN_BYTES // (2 * size)))
        documents = needed(pairs).join(self.documents.select("doc", "signature"), "doc")
        return scored_in_bins(pairs, documents, self.scoring.estimated, AGREED)

    def _clustered_inside(self, members: DataFrame) -> DataFrame:
        """Hot buckets, one after the other in each task: what a task holds is a bucket's leaders."""
        ordered = members.join(self.documents.select("doc", "sort", "signature"), "doc").repartition("band", "key")
        return ordered.sortWithinPartitions("band", "key", "sort").mapInArrow(self.banded.hot, HOT)

    def verify(self) -> None:
        """Stage 4: scored pairs at or above the threshold."""
        options = self.request.options
        with self.stage("verify") as facts:
            facts.update(brute_force=self.brute_force, threshold=options.threshold)
            if self.brute_force:
                self._score_all(self._everything())
            else:
                self.compared = self.found.pairs
                self._score_all(self._score(self.found.pairs, self.found.many))
                facts.update(compared=self.found.many, passed=self.pairs)
                facts["hot_kept"] = self._thin()

    def _score_all(self, scored: DataFrame) -> None:
        self.scored, seen = self.tables.counted(scored, "scored")
        self.pairs = seen["rows"]

    def _everything(self) -> DataFrame:
        documents = self.active.select("doc", "block", "signature")
        payloads = self._payloads(documents.select("doc"))
        joined = documents.join(payloads, "doc").withColumn("bin", f.lit(0))
        return joined.groupBy("bin").applyInArrow(of_table(self.scoring.everything), SCORED)

    def _score(self, pairs: DataFrame, count: int) -> DataFrame:
        """Pairs (a, b, agree) to those that count; what a run before has compared is not compared again."""
        if self.before is None:
            return self._compared(pairs, count)
        known, rest = split_known(pairs, self.before.pairs)
        return known.unionByName(self._compared(self.keep(rest, "new-pairs"), count))

    def _compared(self, pairs: DataFrame, count: int) -> DataFrame:
        if self.request.options.verify != "exact":
            return pairs.mapInArrow(of_batches(self.scoring.by_estimate), SCORED)
        in_bins = binned(pairs, count, max(1, BIN_BYTES // (2 * self._payload_bytes)))
        wanted = needed(in_bins)
        payloads = self._payloads(wanted.select("doc").distinct())
        return scored_in_bins(in_bins, wanted.join(payloads, "doc"), self.scoring.exactly, SCORED)

    @property
    def _payload_bytes(self) -> int:
        """Of a document, on average."""
        facts, spec = self.stages["sketch"], self.request.options.spec
        rows = 1 if spec.unit == "vector" or self.request.options.distance is not None else facts["shingles"]
        each = sum(np.dtype(kind).itemsize * (width or 1) for kind, width in self.request.measure.column_types)
        return max(1, rows * each // max(facts["documents"] if rows > 1 else 1, 1))

    def _payloads(self, docs: DataFrame) -> DataFrame:
        """(doc, payload0 …) of some documents."""
        return self.again(docs, PayloadRows(self.request))

    def again(self, docs: DataFrame, rows: Rows) -> DataFrame:
        """Rows made of documents (`doc`, each once) that are read again."""
        if not isinstance(self.source, FileSource):
            return self.source.again(docs.join(self.documents.select("doc", "id"), "doc"), rows)
        if not self.request.merge_parts:
            return self.source.again(docs, rows)
        heads = self.parts.select("doc", "head")
        wanted = docs.join(heads.withColumnsRenamed({"doc": "part", "head": "doc"}), "doc", "left")
        found = self.source.again(wanted.select(f.coalesce("part", "doc").alias("doc")), rows)
        return found.join(heads, "doc", "left").withColumn("doc", f.coalesce("head", "doc")).drop("head")

    def _thin(self) -> list[int]:
        """What hot buckets leave over, as the local engine's `HotBuckets.thin`: kept documents are banded again, in rounds."""
        hot, kept = self.found.hot, list[int]()
        if hot is None:
            return kept
        among = self.keep(self.active.join(hot, "doc", "left_semi"), "hot")
        while len(kept) < MOST_ROUNDS:
            removed = self.elected(chains=False).select("doc")
            active, seen = self.tables.counted(among.join(removed, "doc", "left_anti"), "active")
            kept.append(seen["rows"])
            if (len(kept) > 1 and kept[-1] == kept[-2]) or not self._round(active):
                break
        return kept

    def _round(self, active: DataFrame) -> bool:
        """Whether new pairs were found among the active documents."""
        found = self._find(active)
        known = self.scored.select("a", "b")
        self.compared = self.compared.unionByName(found.pairs).dropDuplicates(["a", "b"])
        fresh = self._score(found.pairs.join(known, ["a", "b"], "left_anti"), found.many)
        fresh, seen = self.tables.counted(fresh, "fresh")
        if not seen["rows"]:
            return False
        self._score_all(self.scored.unionByName(fresh))
        return True

    @property
    def exact(self) -> bool:
        """Whether similarities are exact ones."""
        return self.brute_force or self.request.options.verify == "exact"

    def elected(self, chains: bool) -> DataFrame:
        """(doc, leader, similarity) of documents that are removed for another one, exact copies apart."""
        pairs = self._with_components(self.scored.select("a", "b", "shared", "joint"))
        members = needed(pairs)
        compared = ["signature"] if chains and not self.exact else []
        documents = members.join(self.documents.select("doc", "sort", *compared), "doc")
        if chains and self.exact:
            documents = documents.join(self._payloads(members.select("doc").distinct()), "doc")
        election = Election(self.scoring, self.exact, chains)
        return self.keep(scored_in_bins(pairs, documents, election.elect, ELECTED), "elected")

    def _with_components(self, pairs: DataFrame) -> DataFrame:
        """Pairs with a bin each, no component in two of them."""
        count = self.pairs
        if count <= PAIRS_IN_ONE_TASK:
            return pairs.withColumn("bin", f.lit(0))
        found = connected(pairs, lambda edges: self.keep(edges, "edges"))
        bins = max(1, -(-count // max(PAIRS_IN_ONE_TASK, 1)), self.spark.sparkContext.defaultParallelism)
        share = found.select(f.col("doc").alias("a"), f.pmod(f.xxhash64("component"), f.lit(bins)).cast("int").alias("bin"))
        return pairs.join(share, "a")

    def cluster(self) -> None:
        """Stage 5: the kept document of each document."""
        with self.stage("cluster") as facts:
            removed = self.elected(self.request.options.cluster == "components")
            self.removed = self.keep(self._follow(removed), "removed")
            by_kind = {kind: f.count(f.when(f.col("kind") == kind, 1)) for kind in KINDS}
            kept = f.count(f.when(f.col("kept"), 1))
            self.clusters, seen = self.tables.counted(self._clusters(), "clusters", documents_kept=kept, **by_kind)
            facts.update(seen, documents=seen["rows"], documents_removed=seen["rows"] - seen["documents_kept"])
            del facts["rows"]

    def _follow(self, elected: DataFrame) -> DataFrame:
        """(doc, leader, similarity, kind, cluster): exact duplicates follow their representative."""
        heads = elected.select(f.col("doc").alias("head"), f.col("leader").alias("next"), "similarity")
        copies = self.copies.join(heads, "head", "left").select(
            "doc",
            f.coalesce("next", "head").alias("leader"),
            f.coalesce("similarity", f.lit(1.0)).alias("similarity"),
            f.when(f.col("next").isNull(), KINDS[EXACT]).otherwise(KINDS[NEAR]).alias("kind"),
        )
        both = elected.withColumn("kind", f.lit(KINDS[NEAR])).unionByName(copies)
        names = self.documents.select(f.col("doc").alias("leader"), f.col("id").alias("cluster"))
        return both.join(names, "leader").select("doc", "leader", "similarity", "kind", "cluster")

    def _clusters(self) -> DataFrame:
        """doc, id, cluster, kept, similarity, kind of each document."""
        empty = (f.col("fp0") == 0) & (f.col("fp1") == 0) & (f.col("shingles") == 0)
        heads = self.removed.select(f.col("leader").alias("doc")).distinct().withColumn("head", f.lit(True))
        found = self.documents.select("doc", "id", empty.alias("empty"))
        found = found.join(self.removed.drop("leader"), "doc", "left").join(heads, "doc", "left")
        dropped = f.col("empty") & f.lit(self.request.options.empty == "drop")
        alone = f.when(f.col("empty"), KINDS[EMPTY]).when(f.col("head"), KINDS[KEPT]).otherwise(KINDS[UNIQUE])
        return found.select(
            "doc",
            "id",
            f.coalesce("cluster", "id").alias("cluster"),
            (f.col("cluster").isNull() & ~dropped).alias("kept"),
            f.when(dropped, f.lit(None)).otherwise(f.coalesce("similarity", f.lit(1.0))).alias("similarity"),
            f.coalesce("kind", alone).alias("kind"),
        )

    @property
    def rows(self) -> DataFrame:
        """The clusters table with a row for each row of the input: of a document in parts, alike."""
        if not self.request.merge_parts:
            return self.clusters
        more = self.parts.where(f.col("doc") != f.col("head")).withColumnsRenamed({"doc": "part", "head": "doc"})
        parts = self.clusters.join(more, "doc").withColumn("doc", f.col("part")).drop("part")
        return self.clusters.unionByName(parts.select(*self.clusters.columns))

    @property
    def further_parts(self) -> int:
        """Rows that are no document of their own."""
        if not self.request.merge_parts:
            return 0
        return int(self.parts.where(f.col("doc") != f.col("head")).count())

    @property
    def pair_table(self) -> DataFrame:
        """The pairs, as the local engine lists them, in the order of their documents (a, b)."""
        names = self.documents.select("doc", "id")
        first, second = (names.withColumnsRenamed({"doc": end, "id": f"id_{end}"}) for end in ("a", "b"))
        both = self.scored.join(first, "a").join(second, "b")
        return both.mapInArrow(self.scoring.named, self.scoring.pairs_schema)

    def save(self, folder: str) -> Saved:
        """Signatures, band keys and verdicts, for a run over these documents and further ones.

        Raises:
            UsageError: Everything was compared, or keys do not follow from signatures.
        """
        require_saved_keys(self.request)
        if self.brute_force:
            raise UsageError("a small corpus was compared whole, so it has no bands to go on from; ask for bands and rows")
        about = {
            "spec": json.loads(self.options.spec.to_json()),
            "parameters": self.options.parameters(),
            "types": self.types,
        }
        saved = Saved.write(self.spark, folder, about, self.documents, with_verdicts(self.compared, self.scored))
        saved.write_keys(self.request, self.banding)
        return saved

    def to_clusters(self) -> None:
        """Everything up to clusters."""
        self.sketch()
        self.collapse()
        self.candidates()
        self.verify()
        self.cluster()


@dataclass(frozen=True)
class SortRows:
    """Fills in what documents are sorted by, once it is known how the keep policy's columns are sorted."""

    request: Request
    resolved: Resolved
    names: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        riding = self.request.riding
        for batch in batches:
            columns = pa.table({name: batch[f"riding{i}"].cast(pa.large_string()) for i, name in enumerate(riding)})
            ids, lengths = batch["id"], numbers(batch["length"])
            sort = keep_order(self.request.options.keep_policy, columns, lengths, ids, self.resolved.kinds)
            arrays = [sort.cast(pa.binary()) if name == "sort" else batch[name] for name in self.names]
            yield pa.record_batch(arrays, list(self.names))


def of_table(work: Callable[[pa.Table], pa.Table]) -> Callable[[pa.Table], pa.Table]:
    """A plain function, whose arguments Spark can count."""

    def group(rows: pa.Table) -> pa.Table:
        return work(rows)

    return group


def of_batches(work: Callable[[pa.Table], pa.Table]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function of tables over batches."""

    def over(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from work(pa.Table.from_batches([batch])).to_batches()

    return over


def facts_of(frame: DataFrame) -> list[dict[str, Any]]:
    """What tasks recorded: a row for each task or part, never one for a document."""
    return [json.loads(row.facts) for row in frame.where(f.col("facts").isNotNull()).select("facts").collect()]


def candidate_facts(parts: list[dict[str, Any]], seen: list[dict[str, Any]], k: int) -> dict[str, Any]:
    """What a local run records of its candidates."""
    sizes: Counter[int] = Counter()
    for part in parts:
        sizes.update(dict(part["sizes"]))
    histogram = np.sum([task["histogram"] for task in seen] or [np.zeros(k + 1, np.int64)], axis=0)
    hottest = sorted((bucket for task in seen for bucket in task.get("hottest", ())), key=lambda x: (-x[1], x[0], x[2]))
    return {
        "candidates": int(histogram.sum()),
        "histogram": histogram.tolist(),
        "bucket_sizes": sorted([size, buckets] for size, buckets in sizes.items()),
        "hot_buckets": sum(part["hot"] for part in parts),
        "hot_members": sum(part["members"] for part in parts),
        "hottest": [list(bucket) for bucket in hottest[:100]],
    }
