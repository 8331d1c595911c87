"""Hooks and the messages that they are sent: what they may ask for, and how a message looks. No I/O."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

from hub.wire import time_at, to_json

Format = Literal["json", "slack", "teams", "plain"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
# type of message -> the events of the history that make it
TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "lease.granted": ("grant.lent", "grant.handed"),
    "lease.ending": ("grant.ending",),
    "lease.ended": ("grant.returned", "grant.lapsed", "grant.ended", "grant.undone"),
    "ticket.turn": ("grant.handed", "ticket.elsewhere"),
    "node.expired": ("node.expired",),
    "slot.unwell": ("slot.unwell",),
    "task.dead": ("task.dead",),
}
# fact of an event -> its name in messages; other facts are not sent
_NAMES: Final = {
    "slot": "slotId", "node": "nodeId", "label": "label", "pool": "pool", "run": "runId", "ticket": "ticket",
    "user": "user", "team": "team", "name": "name", "why": "why", "reason": "reason", "held_by": "heldBy",
    "ends_in_ms": "endsInSeconds", "ttl_ms": "ttlSeconds", "realm": "realm", "task": "taskId", "job": "job",
}  # fmt: skip
_SENTENCES: Final = {
    "lease.granted": "{slot} was lent to {who} for {label}.",
    "lease.ending": "The lease of {slot} by {who} ends in {left} s: {why}.",
    "lease.ended": "The lease of {slot} by {who} has ended: {why}.",
    "ticket.turn": "It is the turn of {who}: {slot} is lent for {label}.",
    "node.expired": "Node {node} was silent for too long and was removed.",
    "slot.unwell": "Slot {slot} of {node} is unwell and is not lent: {reason}.",
    "task.dead": "Task {task} of {job} failed for the last time it might: {why}.",
    "hook.test": "This is a test message of the hub.",
}
_ENDS: Final = {
    "returned": "it was returned",
    "lapsed": "it was not renewed in time",
    "idle": "it was not used",
    "recall": "it was recalled for a team below its guarantee",
}
_UUID: Final = re.compile(r"(.{8})(.{4})(.{4})(.{4})(.{12})")
_SECRET: Final = re.compile(r"whsec_([A-Za-z0-9+/]{32,88}={0,2})")


def new_secret() -> str:
    """Return a new signing secret of 256 random bits, in the form of Standard Webhooks."""
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


def read_secret(value: Any) -> str:
    """Return a signing secret of 24 to 64 bytes; raises ValueError for another value."""
    found = _SECRET.fullmatch(value) if isinstance(value, str) else None
    if found is None or len(found[1]) % 4 or not 24 <= len(base64.b64decode(found[1])) <= 64:
        raise ValueError("must be whsec_ and 24 to 64 random bytes in base64")
    return str(value)


def id_of(secret: str) -> str:
    """Return the id of the hook with this secret, so that a repeat of a call adds no second hook."""
    return hashlib.sha256(secret.encode()).hexdigest()[:16]


def read_types(value: Any) -> str:
    """Return a list of types of messages as text, in the order of `TYPES`; raises ValueError for another value."""
    if not isinstance(value, list) or not value or not all(isinstance(each, str) and each in TYPES for each in value):
        raise ValueError(f"must be a list of some of {', '.join(TYPES)}")
    return ",".join(each for each in TYPES if each in value)


def wants(on: str) -> str:
    """Return the types of a hook as the scripts read them: event and type in pairs."""
    return " ".join(f"{event}={kind}" for kind in on.split(",") for event in TYPES[kind])


def signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the header `webhook-signature` of Standard Webhooks for a message."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.new(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def message_id(kind: str, event_id: str) -> str:
    """Return the header `webhook-id` of a message, the same for each try."""
    return f"msg_{event_id}_{kind.replace('.', '_')}"


def body_of(kind: str, event_id: str, facts: Mapping[str, str], form: str) -> tuple[bytes, str]:
    """Return the body of a message in the format of its hook, and its content type."""
    if form == "json":
        at = time_at(int(event_id.partition("-")[0]) / 1000)
        data = {_NAMES[name]: _value(name, facts[name]) for name in _NAMES if facts.get(name)}
        return to_json({"type": kind, "timestamp": at, "data": data}), "application/json"
    text = " ".join(_sentence(kind, facts).split())
    if form == "plain":
        return text.encode(), "text/plain; charset=utf-8"
    if form == "slack":  # Slack reads names in angle brackets as mentions
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return to_json({"text": escaped}), "application/json"
    card = {
        "type": "AdaptiveCard", "version": "1.3",  # a text run shows Markdown as it is written
        "body": [{"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text}]}],
    }  # fmt: skip
    attached = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return to_json({"type": "message", "attachments": [attached]}), "application/json"


def _value(name: str, text: str) -> Any:
    if name.endswith("_ms"):
        return float(text) / 1000 if text.replace(".", "", 1).isdecimal() else None
    return "-".join(_UUID.fullmatch(text).groups()) if name == "task" and _UUID.fullmatch(text) else text  # type: ignore[union-attr]


def _sentence(kind: str, facts: Mapping[str, str]) -> str:
    why = facts.get("why", "")
    if kind == "lease.ended":
        why = _ENDS.get(why or facts.get("event", "").partition(".")[2], f"the hub ended it ({why or 'undone'})")
    known = {
        "slot": facts.get("slot") or "a slot", "node": facts.get("node") or "its node",
        "who": facts.get("user") or facts.get("name") or facts.get("run") or "a borrower",
        "label": facts.get("label") or "a label", "left": f"{_value('ends_in_ms', facts.get('ends_in_ms', '')) or 0:g}",
        "why": why or "no reason was given", "reason": facts.get("reason") or "no reason was given",
        "task": _value("task", facts.get("task", "")), "job": facts.get("job", ""),
    }  # fmt: skip
    return _SENTENCES[kind].format_map(known)
