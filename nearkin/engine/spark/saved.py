"""What a run leaves for the next day's: signatures, band keys, verified pairs; so that nothing is sketched or verified twice.

Which documents are exact copies, which buckets are hot and who is kept can change with every new document, so that is worked
out anew, from narrow columns. What a document's signature is and how similar two documents are cannot, so it is taken from
here. The result is that of a run over all documents.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from nearkin.engine.banding import build_band_keys
from nearkin.engine.spark.arrow_columns import numbers, signed, table, unpacked, unsigned
from nearkin.engine.spark.banding import BandingTasks
from nearkin.engine.spark.materialized import names_in
from nearkin.engine.spark.sketching import TaskRequest
from nearkin.errors import IncompatibleError, UsageError
from nearkin.lsh.slot_bands import Banding
from nearkin.measures.base import band_layout_of
from nearkin.spec import Spec

ABOUT, DOCUMENTS, PAIRS = "about", "documents", "pairs"
ROWS = "band int,key long,doc long"
"""A band key of a document."""
DECIDING = ("threshold", "distance", "verify", "keep", "block_by", "max_bucket", "fanout")
"""Recorded parameters that must be equal for pairs and keep orders to be used again."""


def keys_folder(banding: Banding) -> str:
    """Of a banding: signatures can be banded in several ways."""
    return f"keys-{banding.bands}x{banding.rows}"


@dataclass(frozen=True)
class KeyRows:
    """Band keys of documents as rows, to be stored by band.

    Attributes:
        request: What is asked.
        banding: Bands and rows.
    """

    request: TaskRequest
    banding: Banding

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spec, measure = self.request.options.spec, self.request.measure
        for batch in batches:
            signatures = unpacked(batch["signature"], spec.signature_type, spec.signature_width)
            salts, docs = unsigned(batch["block"]), numbers(batch["doc"])
            keys = build_band_keys(
                band_layout_of(measure.spec, self.banding, None),
                self.banding,
                signatures,
                None,
                salts,
            )[:, :, 0]
            for band, row in enumerate(keys):
                yield table(ROWS, band=np.full(len(row), band), key=signed(row), doc=docs)


@dataclass(frozen=True)
class DealtRows:
    """Stored band keys to what is grouped."""

    banded: BandingTasks

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            bands, keys, docs = (
                numbers(batch["band"]),
                unsigned(batch["key"]),
                numbers(batch["doc"]),
            )
            for band in np.unique(bands).tolist():
                yield self.banded.dealt(keys[bands == band][None, :], docs[bands == band], band)


@dataclass(frozen=True)
class Saved:
    """A folder of what a run left.

    Attributes:
        spark: The session.
        folder: Path or URL.
        about: Spec, parameters, and types of the keep policy's columns.
    """

    spark: SparkSession
    folder: str
    about: dict[str, Any]

    @classmethod
    def open(cls, spark: SparkSession, folder: str) -> Self:
        """As written.

        Raises:
            UsageError: There is none.
        """
        if ABOUT not in names_in(spark, folder):
            raise UsageError(
                f"{folder} holds no signatures of a run; make it with nearkin.spark.save"
            )
        about: dict[str, Any] = json.loads(spark.read.text(f"{folder}/{ABOUT}").collect()[0].value)
        return cls(spark, folder, about)

    @classmethod
    def write(
        cls,
        spark: SparkSession,
        folder: str,
        about: dict[str, Any],
        documents: DataFrame,
        pairs: DataFrame,
    ) -> Self:
        """Of a run's documents and the pairs that it compared (a, b, agree, and shared, joint where they passed)."""
        documents.write.mode("errorifexists").parquet(f"{folder}/{DOCUMENTS}")
        pairs.write.parquet(f"{folder}/{PAIRS}")
        spark.createDataFrame([(json.dumps(about),)], "value string").coalesce(1).write.text(
            f"{folder}/{ABOUT}"
        )
        return cls(spark, folder, about)

    def write_keys(self, request: TaskRequest, banding: Banding) -> None:
        """Band keys from the stored signatures alone, partitioned by band."""
        rows = self.documents.select("doc", "block", "signature").mapInArrow(
            KeyRows(request, banding), ROWS
        )
        rows.write.partitionBy("band").parquet(f"{self.folder}/{keys_folder(banding)}")

    @property
    def spec(self) -> Spec:
        """Of the signatures."""
        return Spec.from_json(json.dumps(self.about["spec"]))

    @property
    def documents(self) -> DataFrame:
        """As the run had them."""
        return self.spark.read.parquet(f"{self.folder}/{DOCUMENTS}")

    @property
    def pairs(self) -> DataFrame:
        """What was compared."""
        return self.spark.read.parquet(f"{self.folder}/{PAIRS}")

    @property
    def bandings(self) -> list[str]:
        """Of which there are band keys."""
        return sorted(
            name for name in names_in(self.spark, self.folder) if name.startswith("keys-")
        )

    def keys(self, banding: Banding) -> DataFrame:
        """band, key, doc.

        Raises:
            UsageError: There are none of these bands and rows.
        """
        if keys_folder(banding) not in (there := self.bandings):
            raise UsageError(
                f"{self.folder} has no band keys for bands={banding.bands}, rows={banding.rows} (it has {', '.join(there)}); "
                "make them with nearkin.spark.backfill, or ask for these"
            )
        return self.spark.read.parquet(f"{self.folder}/{keys_folder(banding)}").select(
            "band", "key", "doc"
        )

    def require(self, request: TaskRequest) -> None:
        """It was made for the same request.

        Raises:
            IncompatibleError: It was not.
        """
        self.spec.require(request.options.spec, self.folder)
        mine = request.options.parameters()
        for name in DECIDING:
            if self.about["parameters"][name] != mine[name]:
                raise IncompatibleError(
                    f"{self.folder} was made with {name}={self.about['parameters'][name]!r}, this asks for {mine[name]!r}; "
                    "ask for the same, or run over all documents"
                )


def require_saved_keys(request: TaskRequest) -> None:
    """Keys follow from signatures.

    Raises:
        UsageError: They were made while sketching.
    """
    if request.options.spec.truncated or request.options.probes:
        raise UsageError(
            "band keys of truncated slots and of probes do not follow from signatures: save whole slots, unprobed"
        )


def with_verdicts(compared: DataFrame, scored: DataFrame) -> DataFrame:
    """Pairs (a, b, agree) that were compared, with shared and joint where they passed."""
    return compared.join(scored.drop("agree"), ["a", "b"], "left")


def split_known(pairs: DataFrame, known: DataFrame) -> tuple[DataFrame, DataFrame]:
    """(scored pairs that are known, pairs that are still to be compared)."""
    verdicts = known.select("a", "b", "shared", "joint")
    passed = pairs.join(verdicts.where(f.col("shared").isNotNull()), ["a", "b"])
    return passed.select("a", "b", "agree", "shared", "joint"), pairs.join(
        verdicts, ["a", "b"], "left_anti"
    )
