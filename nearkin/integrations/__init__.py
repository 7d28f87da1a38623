"""Methods of data frames, and parts for pipelines and retrieval frameworks."""
