"""A read-only web console, which is served at /console."""
