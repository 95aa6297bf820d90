"""Run the command ``cmfast`` by ``python -m cmfast``."""

import sys

from cmfast.cli import main

if __name__ == "__main__":
    sys.exit(main())
