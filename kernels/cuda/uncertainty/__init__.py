"""Bootstrap replicates, intervals and delta-method standard errors of metrics and of normalised cells."""
