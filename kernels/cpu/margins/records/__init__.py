"""Raking of records to known totals: the design matrix by rows, passes, Newton steps, certificates and limits."""
