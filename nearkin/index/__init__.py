"""The online index: documents are inserted, searched and deleted one at a time."""
