"""The command line: thin commands, printing, progress."""
