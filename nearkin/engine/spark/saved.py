"""Saved runs: signatures, band keys and compared pairs, for a run with further documents.

Exact duplicates, hot buckets and kept documents can change with every new document, so they are
computed again, from narrow columns. Signatures and similarities of two documents cannot change, so
they are read from here. The result is that of a run over all documents.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypedDict

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from nearkin.engine.banding import build_band_keys
from nearkin.engine.options import RECORDED
from nearkin.engine.spark.arrow_columns import (
    from_binary_rows,
    make_batch,
    to_numbers,
    to_signed,
    to_unsigned,
)
from nearkin.engine.spark.banding import BandingTasks
from nearkin.engine.spark.materialized import names_in
from nearkin.engine.spark.sketching import TaskRequest
from nearkin.errors import IncompatibleError, UsageError
from nearkin.runtime.setting_names import describe_setting, name_setting
from nearkin.settings.spec import Spec
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures.base import band_layout_of

ABOUT = "about"
DOCUMENTS = "documents"
PAIRS = "pairs"
ROWS = "band int,key long,doc long"
"""The schema of stored band keys: one row for each key of a document."""
DECIDING = (
    "threshold",
    "distance",
    "verify",
    "keep",
    "block_by",
    "missing_block",
    "across",
    "accept",
    "max_lost",
    "related",
    "same",
    "url",
    "max_bucket",
    "pair_budget",
    "fanout",
)
"""Recorded parameters that must be equal for pairs and keep orders to be used again."""


def keys_folder(banding: Banding) -> str:
    """Returns the name of the folder of a banding. Signatures can be banded in several ways."""
    return f"keys-{banding.bands}x{banding.rows}"


@dataclass(frozen=True)
class KeyRows:
    """The task that computes band keys as rows, to be stored by band.

    Attributes:
        request: Request of the run.
        banding: Bands and rows.
    """

    request: TaskRequest
    banding: Banding

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spec, measure = self.request.options.spec, self.request.measure
        for batch in batches:
            signatures = from_binary_rows(
                batch["signature"], spec.signature_type, spec.signature_width
            )
            salts, docs = to_unsigned(batch["block"]), to_numbers(batch["doc"])
            if not self.request.options.bands_by_block:
                salts = np.zeros_like(salts)
            keys = build_band_keys(
                band_layout_of(measure.spec, self.banding, None),
                self.banding,
                signatures,
                None,
                salts,
            )[:, :, 0]
            for band, row in enumerate(keys):
                yield make_batch(ROWS, band=np.full(len(row), band), key=to_signed(row), doc=docs)


@dataclass(frozen=True)
class DealtRows:
    """The task that divides stored band keys into parts (KEYS)."""

    banded: BandingTasks

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            bands = to_numbers(batch["band"])
            keys = to_unsigned(batch["key"])
            docs = to_numbers(batch["doc"])
            sources = self.banded.sources_of(batch)
            for band in np.unique(bands).tolist():
                in_band = bands == band
                own_sources = sources[in_band] if len(sources) else sources
                yield self.banded.partition_keys(
                    keys[in_band][None, :], docs[in_band], own_sources, band
                )


class AboutRun(TypedDict):
    """The request of a saved run."""

    spec: Mapping[str, object]
    parameters: dict[str, Any]
    types: str
    """The types of the keep policy's columns."""


@dataclass(frozen=True)
class Saved:
    """A saved run.

    Attributes:
        spark: Session.
        folder: Path or URL.
        about: Spec, parameters, and types of the keep policy's columns.
    """

    spark: SparkSession
    folder: str
    about: AboutRun

    @classmethod
    def open(cls, spark: SparkSession, folder: str) -> Self:
        """Opens a saved run."""
        if ABOUT not in names_in(spark, folder):
            raise UsageError(
                f"{folder} holds no signatures of a run; make it with nearkin.spark.save"
            )
        about: AboutRun = json.loads(spark.read.text(f"{folder}/{ABOUT}").collect()[0].value)
        return cls(spark, folder, about)

    @classmethod
    def write(
        cls,
        spark: SparkSession,
        folder: str,
        about: AboutRun,
        documents: DataFrame,
        pairs: DataFrame,
    ) -> Self:
        """Saves a run."""
        documents.write.mode("errorifexists").parquet(f"{folder}/{DOCUMENTS}")
        pairs.write.parquet(f"{folder}/{PAIRS}")
        spark.createDataFrame([(json.dumps(about),)], "value string").coalesce(1).write.text(
            f"{folder}/{ABOUT}"
        )
        return cls(spark, folder, about)

    def write_keys(self, request: TaskRequest, banding: Banding) -> None:
        """Computes band keys from the stored signatures, and stores them by band."""
        rows = self.documents.select("doc", "block", "signature").mapInArrow(
            KeyRows(request, banding), ROWS
        )
        rows.write.partitionBy("band").parquet(f"{self.folder}/{keys_folder(banding)}")

    @property
    def spec(self) -> Spec:
        """The Spec of the signatures."""
        return Spec.from_json(json.dumps(self.about["spec"]))

    @property
    def documents(self) -> DataFrame:
        """The sketched documents."""
        return self.spark.read.parquet(f"{self.folder}/{DOCUMENTS}")

    @property
    def pairs(self) -> DataFrame:
        """The compared pairs: a, b, agree, and of scored ones the other columns of SCORED."""
        pairs = self.spark.read.parquet(f"{self.folder}/{PAIRS}")
        for name in ("size_a", "size_b"):
            # Runs that were saved before did not count the shingles of pairs.
            if name not in pairs.columns:
                pairs = pairs.withColumn(name, f.lit(None).cast("long"))
        if "accepted" in pairs.columns:
            return pairs
        # Of runs that were saved before, the threshold alone divides the pairs.
        accepted = f.lit(True)
        if self.about["parameters"].get("related") is not None:
            similarity = f.col("shared") / f.nullif(f.col("joint"), f.lit(0.0))
            accepted = f.coalesce(similarity >= self.about["parameters"]["threshold"], f.lit(False))
        return pairs.withColumn("accepted", accepted)

    @property
    def bandings(self) -> list[str]:
        """The folders of the bandings that have band keys."""
        return sorted(
            name for name in names_in(self.spark, self.folder) if name.startswith("keys-")
        )

    def keys(self, banding: Banding) -> DataFrame:
        """Returns the stored band keys (band, key, doc)."""
        bandings = self.bandings
        if keys_folder(banding) not in bandings:
            raise UsageError(
                f"{self.folder} has no band keys for {name_setting('bands', banding.bands)}, "
                f"{name_setting('rows', banding.rows)} "
                f"(it has {', '.join(bandings)}); "
                "make them with nearkin.spark.backfill, or ask for these"
            )
        return self.spark.read.parquet(f"{self.folder}/{keys_folder(banding)}").select(
            "band", "key", "doc"
        )

    def require(self, request: TaskRequest) -> None:
        """Checks that the run was saved with the same Spec and options."""
        self.spec.require(request.options.spec, self.folder)
        requested: Mapping[str, object] = request.options.parameters()
        recorded: Mapping[str, object] = self.about["parameters"]
        for name in DECIDING:
            if recorded.get(name) != requested.get(name):
                of_folder = _describe_option(name, recorded.get(name))
                raise IncompatibleError(
                    f"{self.folder} was made with {of_folder}, but the "
                    f"request has {_describe_option(name, requested.get(name))}; "
                    "ask for the same, or run over all documents"
                )


def _describe_option(recorded_name: str, value: Any) -> str:
    """Returns a recorded option and its value as the reader of a message can set them."""
    names = {declared.record_key: name for name, declared in RECORDED.items()}
    name = names.get(recorded_name, recorded_name)
    return describe_setting(name, value)


def require_saved_keys(request: TaskRequest) -> None:
    """Checks that band keys can be computed from signatures."""
    if request.options.fields:
        raise UsageError(
            f"{name_setting('fields', list(request.options.fields))} cannot be saved: a saved run "
            "holds the signatures of one column; run over all documents"
        )
    if request.options.spec.truncated or request.options.probes:
        raise UsageError(
            "band keys of truncated slots and of probes cannot be computed from signatures; use "
            "whole slots without probes"
        )


def with_verdicts(compared: DataFrame, scored: DataFrame) -> DataFrame:
    """Adds the further columns of SCORED to the compared pairs that are scored."""
    return compared.join(scored.drop("agree"), ["a", "b"], "left")


def split_known(pairs: DataFrame, known: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Splits pairs into known scored pairs and pairs that must be compared."""
    verdicts = known.drop("agree")
    passed = pairs.join(verdicts.where(f.col("shared").isNotNull()), ["a", "b"])
    return passed, pairs.join(verdicts, ["a", "b"], "left_anti")
