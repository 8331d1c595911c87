"""Redis: connections, every key, and the scripts that may change it."""
