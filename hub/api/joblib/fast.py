"""The short way to the endpoints of the jobs API whose rate matters: the router costs more than they do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from hub.api.joblib import tasks, workers
from hub.api.joblib.paths import PREFIX

Endpoint = Callable[[Request], Awaitable[Response]]

_WORKER, _TASK, _ROOM = (f"{PREFIX}/{noun}/" for noun in ("workers", "tasks", "rooms"))
_CLAIM = f"{PREFIX}/tasks/claim"


def find(scope: Scope) -> Endpoint | None:
    """The endpoint of a heartbeat, a claim, a move or a submit, with the parameters put where it looks for them."""
    path, method = scope["path"], scope["method"]
    if method == "PATCH":
        if path.startswith(_WORKER):
            return _found(scope, workers.beat, "worker_id", path[len(_WORKER) :])
        if path.startswith(_TASK):
            return _found(scope, tasks.move, "task_id", path[len(_TASK) :])
    elif method == "POST":
        if path == _CLAIM:
            return tasks.claim
        if path.startswith(_ROOM):
            room, _, rest = path[len(_ROOM) :].partition("/")
            noun, slash, full = rest.partition("/")
            if room and noun == "tasks" and slash:
                scope["path_params"] = {"room_id": room, "job_name": full}
                return tasks.submit
    return None


def _found(scope: Scope, endpoint: Endpoint, name: str, given: str) -> Endpoint | None:
    if not given or "/" in given:
        return None
    scope["path_params"] = {name: given}
    return endpoint
