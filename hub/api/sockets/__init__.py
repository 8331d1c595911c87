"""Socket.IO: events as they happen, and which workers are connected, for everyone who would rather not ask again."""

from hub.api.sockets.sockets import PATH, Sockets, serve

__all__ = ["PATH", "Sockets", "serve"]
