"""The request to remove documents that are like given ones from the result of a run."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from nearkin.corpus import Columns, FileCorpus, detect_dimensions, make_ids
from nearkin.corpus.file_names import hide_password
from nearkin.corpus.inputs import Selection
from nearkin.engine.blocklist.blocklist import Blocklist
from nearkin.engine.blocklist.given_documents import GivenDocuments, NamedDocuments
from nearkin.engine.options import RunOptions
from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.stages.measures import Measure


@dataclass(frozen=True)
class LikeFiles:
    """The files of the documents that others are compared with.

    Attributes:
        inputs: Paths, globs, folders and URLs.
        columns: Columns that are read. Ids, or path and row, name the documents in the result.
        selection: Rules that decide which files of input folders are read.
    """

    inputs: tuple[str, ...]
    columns: Columns
    selection: Selection | None = None

    @property
    def shown_inputs(self) -> list[str]:
        """The inputs without passwords."""
        return [hide_password(path) for path in self.inputs]

    def list_files(self) -> list[str]:
        """Returns the paths of the files."""
        return [file.path for file in self._open().files]

    def add_to(self, blocklist: Blocklist) -> None:
        """Adds the documents to a blocklist."""
        for batch in self._read(self.columns):
            blocklist.add_documents(batch.documents, batch.ids)

    def read_documents(self, columns: Columns, measure: Measure) -> GivenDocuments:
        """Returns documents without shingles."""
        default = Columns()
        own = replace(columns, id=self.columns.id, carried_columns=())
        if columns.vector is not None and self.columns.vector is not None:
            own = replace(own, vector=self.columns.vector)
        for name in ("text", "tokens", "vector"):
            given = getattr(self.columns, name)
            if given not in (None, getattr(default, name), getattr(own, name)):
                compared = [field.name for field in columns.fields]
                compared = compared or [str(columns.fingerprint or columns.vector)]
                raise UsageError(
                    f"{name_setting(name, given)} has no effect on the purge of a run over "
                    f"{', '.join(compared)}; leave it out, and give files with the columns of the "
                    "run"
                )
        return GivenDocuments.read(self._read(own), measure)

    def _read(self, columns: Columns) -> Iterator[NamedDocuments]:
        """Yields the documents with their ids."""
        corpus = self._open()
        corpus.check(columns)
        columns = detect_dimensions(corpus, columns)
        for batch in corpus.batches(columns):
            ids = make_ids(batch, columns, corpus.names).to_pylist()
            yield NamedDocuments(batch.documents[columns.content], ids)

    def _open(self) -> FileCorpus:
        corpus = FileCorpus.open(self.inputs, "fail", selection=self.selection)
        # A document that cannot be read would stay, so that such rows cannot be skipped.
        corpus.row_remedy = "Correct the row, or delete it from the file"
        return corpus


def has_given_documents(options: RunOptions) -> bool:
    """Returns whether a run is purged by documents themselves, and not by hashes of them."""
    return bool(options.fields) or not options.spec.has_shingles


@dataclass(frozen=True)
class PurgeRequest:
    """A request to repeat a run without the documents that are like given ones.

    Attributes:
        run: Output folder of the run.
        like: Files of the given documents.
    """

    run: Path
    like: LikeFiles
