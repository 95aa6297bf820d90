"""Find the kernels in a checkout without symbolic links, as on Windows, where git writes a link as a file of text."""

import sys
from pathlib import Path

_FOLDER = Path(__file__).parent
if (_FOLDER / "kernels").is_file():
    sys.modules["cmfast"].__path__.append(str(_FOLDER.parent))  # which has the folder ``kernels``
