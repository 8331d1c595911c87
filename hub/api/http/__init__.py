"""HTTP as this process speaks it: connections, TLS, writing, and the shortcut of heartbeats."""
