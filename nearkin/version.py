"""Which nearkin this is."""

VERSION = "0.1.0"
