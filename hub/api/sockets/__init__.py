"""Socket.IO: events as they happen, and which workers are connected, for everyone who would rather not ask again."""
