"""The gate: callers open `ws://gate/connect/{label}`, and the open connection is the lease of a slot."""
