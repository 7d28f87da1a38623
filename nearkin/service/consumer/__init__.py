"""Documents of event streams, into an index or to a server."""
