"""The engine of batch runs: the stages, which executors do."""
