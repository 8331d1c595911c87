"""Several realms in one process: an application for each realm, and an outer application that finds the realm of a
call."""
