"""Base hashes of tokens: their kernels, their families and lookups among sorted hashes."""
