"""Socket.IO: events for clients as they happen, without polling, and the connections of workers."""
