"""The endpoints for hooks: operators add, list, test, pause and remove them."""

from __future__ import annotations

import secrets
import time
from typing import Any, cast

import httpx
from fastapi import APIRouter, Request

from hub.api.callers.credentials import credential
from hub.api.inputs import Audit, Hub, Sent
from hub.api.operations import CALLER, operation
from hub.api.shapes.answer import Answer
from hub.api.shapes.hooks import HookBody, HookShape, HooksShape, HookTestShape
from hub.errors import InvalidJson, InvalidValue, MissingMember, NotFound, QuotaExceeded
from hub.hooks.addresses import BadAddress, addresses_of
from hub.hooks.hooks import Hook
from hub.hooks.messages import new_secret
from hub.hooks.sending import send

router = APIRouter(tags=["admin"])
_OPERATORS: Any = {"scopes": ("admin",), "superuser": True, "least": "admin"}  # a URL may hold a secret


@router.post(
    "/admin/hooks",
    **operation(
        "addHook", CALLER, status=201, refusals=(InvalidJson, MissingMember, InvalidValue, QuotaExceeded), **_OPERATORS
    ),
)
async def add(request: Request, hub: Hub, body: Sent[HookBody], audit: Audit) -> Answer[HookShape]:
    """Add a hook: messages of these types are posted to it from now on, signed by Standard Webhooks. The secret is in
    `secret`, in this answer only. With a `secret` of the caller the call may be repeated."""
    try:
        await addresses_of(httpx.URL(body.url), hub.settings.hook_hosts)
    except BadAddress as error:
        raise InvalidValue(f"url {error}", member="url") from None
    secret, facts = body.secret or new_secret(), body.model_dump(exclude={"secret"})
    made = await hub.hooks.add({**facts, "by": await credential(request)}, secret)
    host = httpx.URL(body.url).host  # the rest of the URL may hold a secret
    await audit.write("admin", "hook.add", id=made["id"], host=host, on=body.on, labelKey=body.label, user=body.user)
    shown = _shown(made)
    if not body.secret:
        shown["secret"] = secret
    answer = Answer(shown, 201)
    answer.headers["cache-control"] = "no-store"
    return answer


@router.get("/admin/hooks", **operation("listHooks", CALLER, **_OPERATORS))
async def hooks(hub: Hub) -> Answer[HooksShape]:
    """Return all hooks, newest first; never a secret."""
    found = [_shown(each) for each in await hub.hooks.all()]
    return Answer(HooksShape(total=len(found), hooks=found))


@router.get("/admin/hooks/{hook}", **operation("getHook", CALLER, refusals=(NotFound,), **_OPERATORS))
async def look(hub: Hub, hook: str) -> Answer[HookShape]:
    """Return a hook, without its secret."""
    return Answer(_shown(await hub.hooks.get(hook)))


@router.post("/admin/hooks/{hook}/test", **operation("testHook", CALLER, refusals=(NotFound,), **_OPERATORS))
async def test(hub: Hub, hook: str) -> Answer[HookTestShape]:
    """Send a test message now, also to a hook that is paused, and return what came of it."""
    event_id = f"{time.time_ns() // 1_000_000}-{secrets.randbelow(10**9)}"
    said = await send(await hub.hooks.target(hook), "hook.test", event_id, {}, hub.settings.hook_hosts)
    return Answer(HookTestShape(id=hook, delivered=said == "ok", said=said))


@router.post("/admin/hooks/{hook}/pause", **operation("pauseHook", CALLER, refusals=(NotFound,), **_OPERATORS))
async def pause(hub: Hub, hook: str, audit: Audit) -> Answer[HookShape]:
    """Pause a hook: messages wait until it is resumed, as many as a queue may hold."""
    found = await hub.hooks.pause(hook, "an operator has paused it")
    await audit.write("admin", "hook.pause", id=hook)
    return Answer(_shown(found))


@router.post("/admin/hooks/{hook}/resume", **operation("resumeHook", CALLER, refusals=(NotFound,), **_OPERATORS))
async def resume(hub: Hub, hook: str, audit: Audit) -> Answer[HookShape]:
    """Resume a hook that an operator or the hub has paused: what waits is tried again at once."""
    found = await hub.hooks.pause(hook, "")
    await audit.write("admin", "hook.resume", id=hook)
    return Answer(_shown(found))


@router.delete("/admin/hooks/{hook}", **operation("removeHook", CALLER, status=204, refusals=(NotFound,), **_OPERATORS))
async def remove(hub: Hub, hook: str, audit: Audit) -> Answer[None]:
    """Remove a hook, with the messages that wait for it."""
    await hub.hooks.remove(hook)
    await audit.write("admin", "hook.remove", id=hook)
    return Answer(None, 204)


def _shown(hook: Hook) -> HookShape:
    shown: Any = {name: int(hook[name] or 0) for name in ("waiting", "delivered", "failed", "dropped")}
    shown |= {name: hook[name] or None for name in ("label", "user", "paused", "last")}
    shown |= {"id": hook["id"], "url": hook["url"], "on": hook["on"].split(","), "format": hook["format"]}
    shown |= {"addedBy": hook["by"], "addedAt": hook["at"], "lastAt": hook["last_at"] or None}
    return cast(HookShape, shown)
