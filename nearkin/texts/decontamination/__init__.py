"""Items of benchmark suites in a corpus: suites, the search for their items, and its tables."""
