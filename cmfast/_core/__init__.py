"""What every topic stands on: dispatch, validation, failures, progress, and one adapter per array library."""
