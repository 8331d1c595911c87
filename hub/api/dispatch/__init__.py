"""Several realms in one process: an application for each, and one before them that finds the realm of a call."""
