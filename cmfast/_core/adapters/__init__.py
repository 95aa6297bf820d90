"""One module per array library: ``asarray``, ``meta``, ``call``, ``to_host``; and what columns and texts hold."""
