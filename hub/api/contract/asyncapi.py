"""The AsyncAPI document: the contract of Socket.IO and of the stream of events."""

from __future__ import annotations

from typing import Any

from hub import __version__
from hub.api.contract.schemas import Components, example
from hub.api.shapes.messages import CHANNELS, SENT, TAKEN, DoneShape


def document() -> dict[str, Any]:
    """Return the AsyncAPI document."""
    shapes = [shape for _, shape, _ in SENT.values()] + [shape for shape, _ in TAKEN.values()]
    components = Components([*shapes, DoneShape])
    messages = {name: _message(name, shape, about, components) for name, (_, shape, about) in SENT.items()}
    messages |= {name: _message(name, shape, about, components) for name, (shape, about) in TAKEN.items()}
    messages["done"] = _message("done", DoneShape, "What was said has been done.", components)
    places = {name: where for name, (where, _, _) in SENT.items()} | dict.fromkeys((*TAKEN, "done"), "connection")
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "capacity-hub",
            "version": __version__,
            "description": "What is heard of a hub without asking: Socket.IO for workers and for those who look at "
            "rooms, and the stream of events. Lost events do no harm: the state decides.",
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "sockets": {"host": "127.0.0.1:8080", "protocol": "ws", "description": "Socket.IO of any hub."},
            "http": {"host": "127.0.0.1:8080", "protocol": "http", "description": "HTTP of any hub."},
        },
        "channels": {name: _channel(name, places) for name in CHANNELS},
        "operations": {name: _sent(name, where, about) for name, (where, _, about) in SENT.items()}
        | {name: _taken(name, about) for name, (_, about) in TAKEN.items()},
        "components": {
            "messages": messages,
            "schemas": components.schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "The token of a user."},
                "secret": {
                    "type": "httpApiKey",
                    "in": "header",
                    "name": "x-hub-secret",
                    "description": "One of the secrets of runners or admins.",
                },
            },
        },
    }


def _message(name: str, shape: Any, about: str, components: Components) -> dict[str, Any]:
    payload = components.of(shape)
    return {
        "name": name, "title": name, "summary": about, "payload": payload,
        "examples": [{"payload": example(payload, components.schemas)}],
    }  # fmt: skip


def _channel(name: str, places: dict[str, str]) -> dict[str, Any]:
    address, about, parts = CHANNELS[name]
    found: dict[str, Any] = {
        "address": address,
        "description": about,
        "servers": [{"$ref": f"#/servers/{'http' if name == 'events' else 'sockets'}"}],
        "messages": {each: {"$ref": f"#/components/messages/{each}"} for each in places if places[each] == name},
    }
    if parts:
        found["parameters"] = {
            part: {"description": text, "examples": [shown]} for part, (text, shown) in parts.items()
        }
    return found


_SECURITY = [{"$ref": f"#/components/securitySchemes/{name}"} for name in ("token", "secret")]


def _sent(name: str, where: str, about: str) -> dict[str, Any]:
    return {
        "security": _SECURITY, "action": "send", "channel": {"$ref": f"#/channels/{where}"}, "summary": about,
        "messages": [{"$ref": f"#/channels/{where}/messages/{name}"}],
    }  # fmt: skip


def _taken(name: str, about: str) -> dict[str, Any]:
    channel = {"$ref": "#/channels/connection"}
    return {
        "security": _SECURITY, "action": "receive", "channel": channel, "summary": about,
        "messages": [{"$ref": f"#/channels/connection/messages/{name}"}],
        "reply": {"channel": channel, "messages": [{"$ref": "#/channels/connection/messages/done"}]},
    }  # fmt: skip
