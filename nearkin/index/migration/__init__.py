"""The migration of an index to another store, Spec or key while it is in use."""
