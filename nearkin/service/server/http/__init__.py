"""Authentication, limits, errors and connections of the server."""
