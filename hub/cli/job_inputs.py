"""The readers of values on command lines about jobs: names, rooms, ids, payloads and times."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Annotated, Any

import typer

from hub.cli.inputs import Usage, shown
from hub.errors import InvalidRoomId
from hub.jobs.names import check_room, dashed, parse_full_name, to_id

KEY_MAX = 255
STDIN = "-"


def read_uuid(text: str) -> str:
    """Return the id of a worker or a task, from any spelling of a UUID, in the spelling of the wire."""
    try:
        return dashed(to_id(text.strip()))
    except ValueError:
        raise typer.BadParameter(f"{shown(text)} is no UUID.") from None


def read_room(text: str) -> str:
    """Return the name of a room; a slash is refused, because the name becomes a part of a path."""
    try:
        check_room(text)
    except InvalidRoomId:
        raise typer.BadParameter(f"{shown(text)} is no room: write a name without '@' and ':', or @global.") from None
    if "/" in text or text in (".", "..") or not _is_text(text):
        raise typer.BadParameter(f"{shown(text)} is no room: it cannot be part of a path.")
    return text


def read_full_name(text: str) -> str:
    """Return the full name of a job."""
    parts = parse_full_name(text)
    if parts is None or not _is_text(text):
        raise typer.BadParameter(
            f"{shown(text)} is no job: write ROOM:CATEGORY:NAME, such as @global:modifiers:Rotate."
        )
    read_room(parts[0])
    return text


def read_key(text: str) -> str:
    """Return an Idempotency-Key; only printable ASCII is accepted, because the key is sent in a header."""
    if not text.strip() or len(text) > KEY_MAX or not text.isascii() or not text.isprintable():
        raise typer.BadParameter(f"{shown(text)} is no key: write 1 to {KEY_MAX} printable ASCII characters.")
    return text


def read_moment(text: str) -> str:
    """Return a time in ISO 8601 unchanged; one without an offset from UTC is refused."""
    try:
        known = datetime.fromisoformat(text.strip()).tzinfo is not None
    except ValueError:
        known = False
    if not known:
        raise typer.BadParameter(f"{shown(text)} is no time with its offset, such as 2030-01-02T03:04:05Z.")
    return text.strip()


def read_payload(text: str) -> dict[str, Any]:
    """Return the JSON object in a text, or on stdin for the text `-`; raises `Usage` when there is none."""
    where = "PAYLOAD" if text != STDIN else "What stands on stdin"
    try:
        if text == STDIN:
            text = sys.stdin.buffer.read().decode()
        payload = json.loads(text, parse_constant=_no_number)
        json.dumps(payload, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeError:
        raise Usage(f"{where} is not text in UTF-8.") from None
    except (ValueError, RecursionError) as error:
        raise Usage(f"{where} is no JSON: {str(error)[:200]}.") from None
    if not isinstance(payload, dict):
        raise Usage(f"{where} is no JSON object, such as '{{\"frames\": 10}}'.")
    return payload


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _is_text(text: str) -> bool:
    """Return whether a text can be sent as UTF-8, which is not so for an argument of other bytes."""
    try:
        return bool(text.encode())
    except UnicodeEncodeError:
        return False


Room = Annotated[str | None, typer.Option("--room", parser=read_room, metavar="ROOM", help="The room.")]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="@FILE|-",
        help="A file with a bearer token of `hub token`, or - for stdin. Default: HUB_TOKEN, then the secret.",
    ),
]
