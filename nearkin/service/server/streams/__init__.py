"""Requests with streams of documents."""
