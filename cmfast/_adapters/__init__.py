"""One module per array library: ``asarray``, ``meta``, ``call``, ``to_host``."""
