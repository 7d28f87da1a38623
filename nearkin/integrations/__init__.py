"""Parts for pipelines of other libraries: data processing and retrieval."""
