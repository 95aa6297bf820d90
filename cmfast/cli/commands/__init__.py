"""The commands, a module or a folder each: what a command takes, and what it does. None imports another."""
