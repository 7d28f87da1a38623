"""The engine of batch runs: the stages, and their local and Spark backends."""
