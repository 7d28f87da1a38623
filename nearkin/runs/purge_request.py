"""The request to remove documents that are like given ones from the result of a run."""

from dataclasses import dataclass
from pathlib import Path

from nearkin.blocklist.blocklist import Blocklist
from nearkin.corpus import Columns, FileCorpus, detect_dimensions, make_ids
from nearkin.corpus.file_names import hide_password
from nearkin.corpus.inputs import Selection


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
        """Adds the documents to a blocklist.

        Args:
            blocklist: The list, whose Spec the documents are sketched with.

        Raises:
            UsageError: If a file or a column is not valid.
            RunError: If a row cannot be read.
        """
        corpus = self._open()
        corpus.check(self.columns)
        columns = detect_dimensions(corpus, self.columns)
        for batch in corpus.batches(columns):
            ids = make_ids(batch, columns, corpus.names).to_pylist()
            blocklist.add_documents(batch.documents[columns.content], ids)

    def _open(self) -> FileCorpus:
        corpus = FileCorpus.open(self.inputs, "fail", selection=self.selection)
        # A document that cannot be read would stay, so that such rows cannot be skipped.
        corpus.row_remedy = "Correct the row, or delete it from the file"
        return corpus


@dataclass(frozen=True)
class PurgeRequest:
    """A request to repeat a run without the documents that are like given ones.

    Attributes:
        run: Output folder of the run.
        like: Files of the given documents.
    """

    run: Path
    like: LikeFiles
