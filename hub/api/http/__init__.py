"""HTTP as this process speaks it: the server, its connections, and the shortcut of heartbeats."""
