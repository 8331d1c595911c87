"""The connections that this process serves: HTTP, TLS, WebSockets, and the short way of heartbeats."""
