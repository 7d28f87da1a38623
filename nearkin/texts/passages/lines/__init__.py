"""Lines and paragraphs that occur in several documents."""
