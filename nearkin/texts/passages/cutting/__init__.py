"""Cutting: each repeated passage stays in one place and is removed from the others."""
