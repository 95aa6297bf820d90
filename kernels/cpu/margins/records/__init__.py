"""Records raked to known totals: the design by rows, passes, Newton steps, certificates and limits."""
