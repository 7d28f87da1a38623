"""Input files as batches of documents, and the copies of their kept rows."""

from nearkin.corpus.batches import Batch, Corpus, Rejection
from nearkin.corpus.columns import Columns, carried_column_name
from nearkin.corpus.corpus import FileCorpus, TableCorpus
from nearkin.corpus.ids import make_ids, make_position_ids
from nearkin.corpus.input_manifest import describe_inputs, find_first_change
from nearkin.corpus.rejects import QuarantineWriter, count_reasons
from nearkin.corpus.vectors import detect_dimensions
from nearkin.corpus.writer import list_kept, write_kept

__all__ = [
    "Batch",
    "Columns",
    "Corpus",
    "FileCorpus",
    "QuarantineWriter",
    "Rejection",
    "TableCorpus",
    "carried_column_name",
    "count_reasons",
    "describe_inputs",
    "detect_dimensions",
    "find_first_change",
    "list_kept",
    "make_ids",
    "make_position_ids",
    "write_kept",
]
