"""Changes of the file of a blocklist by the documents of files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from nearkin.corpus import Columns, FileCorpus
from nearkin.corpus.columns import ID
from nearkin.engine.blocklist.blocklist import Blocklist
from nearkin.engine.parameters import resources_of, spec_of
from nearkin.errors import UsageError
from nearkin.runs.job import SpecJob
from nearkin.runtime.files import require_file_path
from nearkin.runtime.outputs import locked, require_apart


@dataclass(frozen=True)
class BlocklistSummary:
    """The outcome of a change of a blocklist.

    Attributes:
        path: File of the blocklist.
        documents: Number of documents that were read.
        rejected: Number of rejected rows.
        changed: Number of entries that were added or removed.
        entries: Number of entries of the list afterwards.
        is_keyed: Whether the hashes of the list depend on a key.
    """

    path: Path
    documents: int
    rejected: int
    changed: int
    entries: int
    is_keyed: bool

    def to_json(self) -> dict[str, object]:
        """Returns the summary as `--json` prints it."""
        return {**self.__dict__, "path": str(self.path)}


def add_files_to_blocklist(job: SpecJob) -> BlocklistSummary:
    """Adds the documents of files to a blocklist, which is created if it does not exist.

    The list is replaced at once when all documents are read. Two changes at a time are not
    possible: the second one is refused.
    """
    corpus = _open_inputs(job)
    require_file_path(job.out)
    with locked(job.out, "nearkin block add"):
        blocklist = _open_or_create(job)
        before = len(blocklist)
        documents = 0
        rejected = 0
        for texts, ids, rejected_rows in _read_documents(corpus, job.columns):
            documents += len(texts)
            rejected += rejected_rows
            blocklist.add_documents(texts, ids)
        blocklist.save(job.out)
    return _summarize(job, blocklist, documents, rejected, len(blocklist) - before)


def remove_from_blocklist(job: SpecJob, names: Sequence[str] = ()) -> BlocklistSummary:
    """Removes the entries of the documents of files, and those of some names."""
    corpus = _open_inputs(job) if job.inputs else None
    require_file_path(job.out)
    # Read before the lock, which would create a folder beside a list that does not exist.
    Blocklist.open(job.out)
    with locked(job.out, "nearkin block remove"):
        blocklist = Blocklist.open(job.out, resources_of(job.parameters))
        before = len(blocklist)
        documents = 0
        rejected = 0
        if names:
            blocklist.remove_ids(names)
        for texts, _, rejected_rows in _read_documents(corpus, job.columns):
            documents += len(texts)
            rejected += rejected_rows
            blocklist.remove_documents(texts)
        blocklist.save(job.out)
    return _summarize(job, blocklist, documents, rejected, before - len(blocklist))


def _summarize(
    job: SpecJob, blocklist: Blocklist, documents: int, rejected: int, changed: int
) -> BlocklistSummary:
    return BlocklistSummary(
        path=job.out,
        documents=documents,
        rejected=rejected,
        changed=changed,
        entries=len(blocklist),
        is_keyed=blocklist.spec.key_id is not None,
    )


def _open_inputs(job: SpecJob) -> FileCorpus:
    """Opens the inputs, which hold texts and are not the list itself."""
    if job.columns.vector is not None:
        raise UsageError(
            f"column {job.columns.vector!r} holds vectors, and a blocklist holds hashes of texts; "
            "name a column of texts or tokens"
        )
    corpus = FileCorpus.open(job.inputs, job.on_error, selection=job.selection)
    require_apart(job.out, [file.path for file in corpus.files], marked=False, option="list")
    corpus.check(job.columns)
    return corpus


def _open_or_create(job: SpecJob) -> Blocklist:
    """Opens the list of a request, or returns a new one of the requested Spec."""
    resources = resources_of(job.parameters)
    spec = spec_of(job.parameters, job.columns)
    if not job.out.exists():
        return Blocklist(spec, resources)
    blocklist = Blocklist.open(job.out, resources)
    if job.parameters.keys() - {"key"}:
        blocklist.require_spec(spec, "the request", "leave its options out, or name another file")
    elif blocklist.spec.key_id != spec.key_id:
        blocklist.spec.require_key(resources.secret)
        raise UsageError(
            f"the blocklist {job.out} is not keyed; leave the key out, or create another list"
        )
    return blocklist


def _read_documents(
    corpus: FileCorpus | None, columns: Columns
) -> Iterator[tuple[pa.Array, list[str] | None, int]]:
    """Yields the documents of files in batches, their ids if there are some, and rejected rows."""
    if corpus is None:
        return
    for batch in corpus.batches(columns):
        ids = None if columns.id is None else batch.documents[ID].to_pylist()
        yield batch.documents[columns.content], ids, batch.rejected_rows
