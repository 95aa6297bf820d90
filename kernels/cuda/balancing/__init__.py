"""Contact maps."""
