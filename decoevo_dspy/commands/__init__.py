"""One file per command's work, and what they share: the config and what is built from it."""
