"""Pages: their parts (``parts.py``), pictures (``pictures.py``), and the one renderer (``render.py``).

``cmfast.report``, ``cmfast demo`` and ``cmfast reproduce`` hand in parts; a page is one file, in which nothing is
fetched, so it can be mailed and kept.
"""
