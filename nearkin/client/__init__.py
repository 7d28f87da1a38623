"""The client of a nearkin server."""
