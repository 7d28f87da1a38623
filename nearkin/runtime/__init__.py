"""Services that every part of nearkin uses: files, outputs, and checks of the environment."""

import logging

# A program decides where log records go. Without this, Python would print warnings by itself.
logging.getLogger("nearkin").addHandler(logging.NullHandler())
