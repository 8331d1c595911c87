"""Who may do what on the jobs API, by the scopes of a token."""

from __future__ import annotations

from starlette.requests import Request

from hub.api.identity import Caller, caller, superuser
from hub.errors import Forbidden

WORKER, SUBMIT, READ, ADMIN = "worker", "submit", "read", "admin"


async def mover(request: Request) -> Caller:
    """Those who may move tasks: workers move what they hold, submitters cancel what they gave."""
    try:
        return await caller(request, WORKER)
    except Forbidden:
        return await caller(request, SUBMIT)


async def operator(request: Request) -> Caller:
    """A superuser; a token of his that has scopes needs `admin`. Scopes take away, and give nothing."""
    return await superuser(request, ADMIN)
