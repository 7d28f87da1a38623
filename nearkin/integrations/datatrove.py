"""Blocks for pipelines of datatrove: signatures and deduplication.

They need the extra `datatrove`.
"""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Unpack

from nearkin.engine.keywords import RunParameters
from nearkin.errors import MissingExtraError, UsageError
from nearkin.index.settings import SettingsFields
from nearkin.integrations.near_duplicates import BATCH, NEAR_DUPLICATE_OF, NearDuplicateFinder
from nearkin.integrations.text_columns import TextColumns
from nearkin.runs.api import dedup
from nearkin.runtime.argument_types import check_arguments
from nearkin.settings.spec import Spec

try:
    from datatrove.data import Document, DocumentsPipeline
    from datatrove.pipeline.base import PipelineStep
    from datatrove.pipeline.filters.base_filter import BaseFilter
    from datatrove.pipeline.writers.disk_base import DiskWriter
    from datatrove.utils.batching import batched
    from datatrove.utils.typeshelper import StatHints
except ImportError as error:
    message = "nearkin.integrations.datatrove requires datatrove"
    raise MissingExtraError.for_extra(message, "datatrove") from error


class NearkinSignature(PipelineStep):  # type: ignore[misc]
    """Adds the signature and the band keys of each document to its metadata.

    Documents that share a band key at one position are candidates, for a join of their own. The
    names are `signature` and `band_keys`.

    Args:
        spec: Spec of the signatures.
        threshold: Smallest similarity of near-duplicates.
        recall: Required share of the pairs at the threshold that share a key.
    """

    type = "🫂 - DEDUP"
    name = "nearkin signatures"

    def __init__(
        self, spec: Spec | None = None, threshold: float = 0.8, recall: float = 0.95
    ) -> None:
        super().__init__()
        self._spec = spec or Spec()
        self._threshold = threshold
        self._recall = recall

    def run(
        self, data: DocumentsPipeline, rank: int = 0, world_size: int = 1
    ) -> Iterator[Document]:
        """Yields the documents with their signatures.

        Args:
            data: Documents.
            rank: Number of the task.
            world_size: Number of tasks.
        """
        columns = TextColumns(self._spec)
        for batch in batched(data, BATCH):
            with self.track_time("batch"):
                texts = [document.text for document in batch]
                signatures = columns.sketch(texts).to_pylist()
                keys = columns.band_keys(texts, self._threshold, self._recall).to_pylist()
            for document, signature, band_keys in zip(batch, signatures, keys, strict=True):
                document.metadata |= {"signature": signature, "band_keys": band_keys}
                self.stat_update(StatHints.total)
                yield document


class NearkinDedup(PipelineStep):  # type: ignore[misc]
    """Deduplicates all documents of a pipeline that has one task.

    The documents are held in memory. Clusters and the choice of the kept documents are those of
    `nearkin.dedup`. For several tasks, use `NearkinIndexFilter`, or write files and run
    `nearkin dedup`.

    Args:
        exclusion_writer: Writer of the removed documents, whose metadata has the id of the kept
            one as `near_duplicate_of`, unless a blocklist removed them. None to drop them.
        columns: Names in the metadata that the parameters refer to, such as the date of a keep
            policy.
        **parameters: The parameters of `nearkin.dedup`.
    """

    type = "🫂 - DEDUP"
    name = "nearkin"

    @check_arguments
    def __init__(
        self,
        exclusion_writer: DiskWriter | None = None,
        columns: Sequence[str] = (),
        **parameters: Unpack[RunParameters],
    ) -> None:
        super().__init__()
        self.exclusion_writer = exclusion_writer
        self._columns = columns
        self._parameters = parameters

    def run(
        self, data: DocumentsPipeline, rank: int = 0, world_size: int = 1
    ) -> Iterator[Document]:
        """Yields the documents that are kept, in the same order.

        Args:
            data: Documents.
            rank: Number of the task.
            world_size: Number of tasks.

        Raises:
            UsageError: If there are several tasks, or a parameter is unknown or out of range.
        """
        if world_size > 1:
            raise UsageError(
                f"NearkinDedup has the documents of one task of {world_size}, and would not find "
                "duplicates between them; set tasks=1, or use NearkinIndexFilter"
            )
        documents = list(data)
        rows = [
            {"text": document.text, **{name: document.metadata.get(name) for name in self._columns}}
            for document in documents
        ]
        with self.track_time("batch"):
            originals = self._find_originals(rows)
        with self.exclusion_writer or nullcontext() as writer:
            for row, (document, original) in enumerate(zip(documents, originals, strict=True)):
                self.stat_update(StatHints.total)
                if original == row:
                    self.stat_update(StatHints.forwarded)
                    self.update_doc_stats(document)
                    yield document
                    continue
                self.stat_update(StatHints.dropped)
                if writer is not None:
                    if original is not None:
                        document.metadata[NEAR_DUPLICATE_OF] = documents[original].id
                    writer.write(document, rank)

    def _find_originals(self, rows: Sequence[dict[str, object]]) -> list[int | None]:
        """Returns the row that is kept in place of each row, or None for a blocked document."""
        if not rows:
            return []
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        with dedup(columns, **self._parameters) as result:
            # Without a column of ids, the id of a document is its row.
            clusters = result.cluster_ids.to_pylist()
            kept = result.kept.tolist()
        originals: list[int | None] = []
        for row, cluster in enumerate(clusters):
            if kept[row] or cluster is None:
                originals.append(row)
            else:
                # No document is kept in place of one that is like an entry of a blocklist.
                original = int(cluster)
                originals.append(original if kept[original] else None)
        return originals


class NearkinIndexFilter(BaseFilter):  # type: ignore[misc]
    """Drops documents that repeat one of an index, which all tasks share.

    The first document that arrives stays. A document that comes again with the same id stays, so a
    task can be repeated.

    Args:
        store: URL of the index, which all tasks can reach.
        scope: Scope of the documents in the index.
        threshold: Smallest similarity of near-duplicates. By default that of the index, or 0.8.
        exclusion_writer: Writer of the removed documents, or None to drop them.
        **settings: Further parameters of `Index.open`.
    """

    name = "nearkin index"

    def __init__(
        self,
        store: str,
        scope: str = "default",
        threshold: float | None = None,
        exclusion_writer: DiskWriter | None = None,
        **settings: Unpack[SettingsFields],
    ) -> None:
        super().__init__(exclusion_writer, BATCH)
        self._finder = NearDuplicateFinder(store, scope, threshold, **settings)

    def run(
        self, data: DocumentsPipeline, rank: int = 0, world_size: int = 1
    ) -> Iterator[Document]:
        """Yields the documents that stay. The index is closed when the task ends or fails.

        Args:
            data: Documents.
            rank: Number of the task.
            world_size: Number of tasks.
        """
        try:
            yield from super().run(data, rank, world_size)
        finally:
            self._finder.close()

    def filter(self, doc: Document) -> bool | tuple[bool, str]:
        """Returns whether a document stays.

        Args:
            doc: Document.
        """
        return self.filter_batch([doc])[0]

    def filter_batch(self, batch: list[Document]) -> list[bool | tuple[bool, str]]:
        """Returns whether each document stays, and the reason if it does not.

        Args:
            batch: Documents.
        """
        texts = [document.text for document in batch]
        answers: list[bool | tuple[bool, str]] = []
        repeated = self._finder.find(texts, [document.id for document in batch])
        for document, original in zip(batch, repeated, strict=True):
            if original is None:
                answers.append(True)
            else:
                document.metadata[NEAR_DUPLICATE_OF] = original
                answers.append((False, "near_duplicate"))
        return answers
