"""Executors whose tasks run in other processes: over Spark, over Ray, and over a shared folder."""
