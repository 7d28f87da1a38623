"""The documents in the output of a deduplication: copies, the list of removed ids, or none."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus import FileCorpus
from nearkin.corpus.formats.parquet import CODECS, Parquet
from nearkin.engine.local import result_tables
from nearkin.engine.local.clustering import Clustering
from nearkin.engine.local.run import LocalRun
from nearkin.errors import UsageError
from nearkin.setting_names import name_setting
from nearkin.suggestions import did_you_mean

KEPT = "kept"
IDS = "ids"
NONE = "none"
OUTPUTS = (KEPT, IDS, NONE)
SAME_CODEC = "same"
REMOVED = "removed.parquet"
"""The name of the list of removed ids in an output folder."""
REMOVED_SCHEMA = pa.schema([("id", pa.large_string())])


@dataclass(frozen=True)
class DocumentOutput:
    """The documents that an output holds.

    Attributes:
        output: `kept` for copies of the inputs without the removed rows, `ids` for the list of the
            removed ids, `none` for neither.
        codec: The codec of the copies of Parquet files, or `same` for that of each input.

    Raises:
        UsageError: If a value is unknown, or a codec is chosen and nothing is copied.
    """

    output: str = KEPT
    codec: str = SAME_CODEC

    def __post_init__(self) -> None:
        if self.output not in OUTPUTS:
            raise UsageError(
                f"{name_setting('output', self.output)} is not one of {', '.join(OUTPUTS)}"
                f"{did_you_mean(self.output, OUTPUTS)}"
            )
        codecs = (SAME_CODEC, *CODECS)
        if self.codec not in codecs:
            raise UsageError(
                f"{name_setting('codec', self.codec)} is not one of {', '.join(codecs)}"
                f"{did_you_mean(self.codec, codecs)}"
            )
        if self.codec != SAME_CODEC and not self.has_copies:
            raise UsageError(
                f"{name_setting('codec', self.codec)} has no effect with "
                f"{name_setting('output', self.output)}, which copies no documents; leave one out"
            )

    @property
    def has_copies(self) -> bool:
        """True if the inputs are copied without the removed rows."""
        return self.output == KEPT

    def to_record(self) -> dict[str, str]:
        """Returns the values that differ from the defaults, for run.json and to resume a run."""
        record = {}
        if self.output != KEPT:
            record["output"] = self.output
        if self.codec != SAME_CODEC:
            record["codec"] = self.codec
        return record

    def require_folder(self, out: Path) -> None:
        """Requires the defaults for an output that is one file of kept documents.

        Args:
            out: The file.

        Raises:
            UsageError: If a value differs from its default.
        """
        for name, value in self.to_record().items():
            raise UsageError(
                f"{name_setting(name, value)} needs an output folder, and {out} is a file of kept "
                f"documents; leave it out, or choose a folder with {name_setting('out')}"
            )

    def require_usable(self, corpus: FileCorpus) -> None:
        """Requires that a codec has an effect on these inputs.

        Args:
            corpus: The inputs.

        Raises:
            UsageError: If a codec is chosen, and no input is a Parquet file.
        """
        if self.codec == SAME_CODEC:
            return
        if not any(isinstance(corpus.format_of(file), Parquet) for file in corpus.files):
            raise UsageError(
                f"{name_setting('codec', self.codec)} has no effect, because no input is a Parquet "
                "file; leave it out"
            )


def write_removed_ids(run: LocalRun, clustering: Clustering, folder: Path) -> None:
    """Writes the ids of the removed documents, in the order of the inputs.

    Args:
        run: The run.
        clustering: Its clusters.
        folder: The folder of the list.
    """

    def removed() -> Iterator[pa.RecordBatch]:
        for batch in result_tables.cluster_batches(run.documents().ids, clustering):
            part = batch.filter(pc.invert(batch["kept"]))
            yield pa.record_batch([part["id"].cast(pa.large_string())], schema=REMOVED_SCHEMA)

    result_tables.write_batches(folder / REMOVED, REMOVED_SCHEMA, removed())
