"""HTTP: the wire of the hub."""
