"""Tables of any number of axes scaled to margins: passes, Newton steps, certificates and what is returned."""
