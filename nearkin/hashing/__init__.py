"""Base hashes as kernels, and the table of families."""
