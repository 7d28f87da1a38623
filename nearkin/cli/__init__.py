"""The command line: one module for each command."""

import sys

from nearkin.errors import UsageError
from nearkin.runtime.environment import require_address_space, require_supported_platform

try:
    require_supported_platform()
    require_address_space()
except UsageError as error:
    # The modules of the commands cannot even be imported.
    sys.stderr.write(f"nearkin: {error}\n")
    sys.exit(2)
