"""HTML pages of reports and reproductions: parts (``parts.py``), pictures (``pictures.py``), renderer (``render.py``).

``cmfast.report``, ``cmfast demo`` and ``cmfast reproduce`` pass parts; a page is one self-contained file that loads
nothing, so it can be mailed and archived.
"""
