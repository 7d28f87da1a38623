"""Files to Arrow batches and back: readers, writers, quarantine, manifest."""

from nearkin.corpus.batches import Batch, Columns, Corpus, Rejected, make_ids, positions, riding
from nearkin.corpus.corpora import FileCorpus, TableCorpus
from nearkin.corpus.kept import write_kept
from nearkin.corpus.manifest import describe, first_change
from nearkin.corpus.quarantine import Quarantine, count_reasons
from nearkin.corpus.vectors import with_dimensions

__all__ = [
    "Batch",
    "Columns",
    "Corpus",
    "FileCorpus",
    "Quarantine",
    "Rejected",
    "TableCorpus",
    "count_reasons",
    "describe",
    "first_change",
    "make_ids",
    "positions",
    "riding",
    "with_dimensions",
    "write_kept",
]
