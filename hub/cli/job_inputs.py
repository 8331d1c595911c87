"""What may stand on the command lines about jobs: names, rooms, ids, payloads and times, checked before they leave."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Annotated, Any

import typer

from hub.cli import completing
from hub.cli.inputs import Usage, shown
from hub.errors import InvalidRoomId
from hub.jobs.names import check_room, dashed, parse_full_name, to_id

KEY_MAX = 255
STDIN = "-"


def read_uuid(text: str) -> str:
    """The id of a worker or a task: a UUID in any of its spellings, as the wire writes it."""
    try:
        return dashed(to_id(text.strip()))
    except ValueError:
        raise typer.BadParameter(f"{shown(text)} is no UUID.") from None


def read_room(text: str) -> str:
    """A room; it is part of a path, so a slash would make two of it."""
    try:
        check_room(text)
    except InvalidRoomId:
        raise typer.BadParameter(f"{shown(text)} is no room: write a name without '@' and ':', or @global.") from None
    if "/" in text or text in (".", "..") or not _is_text(text):
        raise typer.BadParameter(f"{shown(text)} is no room: it cannot be part of a path.")
    return text


def read_full_name(text: str) -> str:
    """The full name of a job."""
    parts = parse_full_name(text)
    if parts is None or not _is_text(text):
        raise typer.BadParameter(
            f"{shown(text)} is no job: write ROOM:CATEGORY:NAME, such as @global:modifiers:Rotate."
        )
    read_room(parts[0])
    return text


def read_key(text: str) -> str:
    """An Idempotency-Key, which travels as a header."""
    if not text.strip() or len(text) > KEY_MAX or not text.isascii() or not text.isprintable():
        raise typer.BadParameter(f"{shown(text)} is no key: write 1 to {KEY_MAX} printable ASCII characters.")
    return text


def read_moment(text: str) -> str:
    """A time with its offset from UTC, as ISO 8601 writes it."""
    try:
        known = datetime.fromisoformat(text.strip()).tzinfo is not None
    except ValueError:
        known = False
    if not known:
        raise typer.BadParameter(f"{shown(text)} is no time with its offset, such as 2030-01-02T03:04:05Z.")
    return text.strip()


def read_payload(text: str) -> dict[str, Any]:
    """A JSON object: the text itself, or with `-` what stands on stdin; raises `Usage`."""
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
    """Whether it can travel: an argument that is not UTF-8 reaches us with characters that cannot."""
    try:
        return bool(text.encode())
    except UnicodeEncodeError:
        return False


Room = Annotated[str | None, typer.Option("--room", parser=read_room, metavar="ROOM", help="The room.")]
FullName = Annotated[
    str,
    typer.Argument(
        parser=read_full_name, metavar="JOB", help="ROOM:CATEGORY:NAME of a job.", autocompletion=completing.jobs
    ),
]


def task_id(complete: Any = completing.tasks) -> Any:
    """The id of a task, completed with some of those there are."""
    return typer.Argument(parser=read_uuid, metavar="TASK", help="The id of the task.", autocompletion=complete)


OpenTask = Annotated[str, task_id(completing.tasks_open)]
EndedTask = Annotated[str, task_id(completing.tasks_over)]
DeadTask = Annotated[str, task_id(completing.dead)]
Token = Annotated[
    str | None,
    typer.Option("--token", metavar="@FILE|-", help="A bearer token of `hub token`; else HUB_TOKEN, else the secret."),
]
