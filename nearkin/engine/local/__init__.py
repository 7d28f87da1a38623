"""The local backend of the engine."""
