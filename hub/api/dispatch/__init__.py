"""Several realms in one process: an application for each realm, and one before them that finds the realm of a call."""
