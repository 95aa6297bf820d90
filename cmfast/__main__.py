"""``python -m cmfast`` is the command ``cmfast``."""

import sys

from cmfast.cli import main

sys.exit(main())
