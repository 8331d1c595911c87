"""Which workers are connected by a socket, and which have hung up."""
