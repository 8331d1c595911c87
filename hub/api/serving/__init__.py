"""Connections as this process serves them: HTTP, TLS, WebSockets, and the short way of heartbeats."""
