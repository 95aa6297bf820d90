"""Tables scaled to margins over any of their axes (iterative proportional fitting), and raking of records."""
