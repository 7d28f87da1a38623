"""Files to Arrow batches and back: readers, writers, quarantine, manifest."""

from nearkin.corpus.batches import Batch, Columns, Corpus, Rejected, make_ids, positions, riding
from nearkin.corpus.corpus import FileCorpus, TableCorpus
from nearkin.corpus.input_manifest import describe, first_change
from nearkin.corpus.rejects import Quarantine, count_reasons
from nearkin.corpus.vectors import with_dimensions
from nearkin.corpus.writer import write_kept

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
