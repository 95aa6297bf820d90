"""``python -m cmfast`` is the command ``cmfast``."""

import sys

from cmfast.cli import main

if __name__ == "__main__":
    sys.exit(main())
