"""The endpoints for providers: register a provider, read from it, answer a read, and list providers."""

from __future__ import annotations

import re

from fastapi import APIRouter, Request
from starlette.responses import Response

from hub.api.callers.admission import admit_again
from hub.api.callers.caller import READ, WORKER
from hub.api.handling import long_polls
from hub.api.inputs import caller_of, hub_of
from hub.api.jobs import answers, bodies, room_access
from hub.api.operations import CALLER, Raw, Subject, operation
from hub.api.paths import PREFIX
from hub.api.realms.workers import worker_for
from hub.api.shapes import parameters as p
from hub.api.shapes.answer import Answer
from hub.api.shapes.job_bodies import PageQuery, ProviderBody
from hub.api.shapes.jobs import ProviderPageShape, ProviderShape
from hub.core import Hub
from hub.errors import (
    InvalidCategory,
    InvalidRoomId,
    ProviderNotFound,
    ProviderTimeout,
    QuotaExceeded,
    ResultNotAsked,
    WorkerNotFound,
)
from hub.jobs.models import ProviderRecord, ProviderRequest
from hub.jobs.names import check_room

# Media types that a browser may show. Others are downloads: a page by a worker would run as a page of the hub.
_SHOWN = re.compile(r"\s*(image/[a-z0-9.+-]+|application/([a-z0-9.-]+\+)?json)\s*(;|$)", re.IGNORECASE)
router = APIRouter(prefix=PREFIX, tags=["providers"])


@router.put(
    "/rooms/{room_id}/providers",
    **operation(
        "registerProvider",
        CALLER,
        status=201,
        also={200: ProviderShape},
        body=ProviderBody,
        refusals=(InvalidRoomId, InvalidCategory, WorkerNotFound, QuotaExceeded),
        about=Subject("room", "room_id", in_body=True),
        bound="schema",
        room_first=True,
        scopes=(WORKER,),
    ),
)
async def register(request: Request) -> Answer[ProviderShape]:
    """Offer a provider of data: 201 when it is new, 200 when it replaces one of the caller's own. Without `worker_id` a
    worker is made for the provider."""
    room = request.path_params["room_id"]
    who = caller_of(request)
    room_access.enter(who, room)
    said, body = await bodies.read(request, ProviderBody)
    hub = hub_of(request)
    wanted = ProviderRequest(
        room,
        said.category,
        said.name,
        bodies.schema(said, body, hub.settings),
        await worker_for(request, hub, who, said.worker_id),
        content_type=said.content_type,
    )
    provider, created = await hub.providers.register(wanted, who.user, who.superuser)
    return Answer(answers.provider(provider), 201 if created else 200)


@router.get(
    "/rooms/{room_id}/providers",
    **operation("listProviders", CALLER, query=PageQuery, refusals=(InvalidRoomId,), anonymous=True),
)
async def listed(request: Request) -> Answer[ProviderPageShape]:
    """Return the providers that are seen from a room, newest first."""
    who = caller_of(request)
    asked = bodies.part(request)
    room = request.path_params["room_id"]
    check_room(room)
    room_access.look_into(who, room)
    found = await hub_of(request).providers.page(room, asked.limit, asked.offset)
    items = [answers.provider(each) for each in found.items]
    return Answer(ProviderPageShape(items=items, total=found.total, limit=asked.limit, offset=asked.offset))


@router.get(
    "/rooms/{room_id}/providers/{name:full}/info",
    **operation(
        "getProvider",
        CALLER,
        refusals=(InvalidRoomId, ProviderNotFound),
        about=Subject("job", "name"),
        anonymous=True,
    ),
)
async def look(request: Request) -> Answer[ProviderShape]:
    """Return a provider by its full name, room:category:name."""
    who = caller_of(request)
    room, full = request.path_params["room_id"], request.path_params["name"]
    check_room(room)
    room_access.look_into(who, room, room_access.room_of(full))
    found = await hub_of(request).providers.get(room, full)
    return Answer(answers.provider(found))


@router.get(
    "/rooms/{room_id}/providers/{name:full}",
    **operation(
        "readProvider",
        CALLER,
        p.PREFER,
        raw=Raw("*/*"),
        headers=("Preference-Applied",),
        refusals=(InvalidRoomId, ProviderNotFound, QuotaExceeded, ProviderTimeout),
        about=Subject("job", "name"),
        scopes=(READ,),
    ),
)
async def read(request: Request) -> Response:
    """Return the answer of a provider to the parameters of the query, from the provider or from the cache.

    Waits a few seconds for the answer, with `Prefer: wait=N` N seconds; 504 when there is none by then.
    """
    who = caller_of(request)
    room, full = request.path_params["room_id"], request.path_params["name"]
    check_room(room)
    room_access.look_into(who, room, room_access.room_of(full))
    hub = hub_of(request)
    provider = await hub.providers.get(room, full)
    preferred, longest_s = bodies.wait_preference(request), hub.settings.provider_long_poll_max_s
    wait_s = min(hub.settings.provider_long_poll_default_s if preferred is None else preferred, longest_s)
    params = dict(request.query_params)
    headers = {"x-content-type-options": "nosniff", "content-security-policy": "sandbox"}
    if not _SHOWN.match(provider.content_type):
        headers["content-disposition"] = "attachment"
    body = await hub.providers.cached(provider, params)
    if body is None:
        body = await _awaited(request, hub, provider, params, wait_s, who.user)
        await admit_again(request)  # the caller's token may have been revoked during the wait
        if preferred is not None:
            headers["preference-applied"] = f"wait={wait_s:g}"
    return Response(body, headers=headers, media_type=provider.content_type)


async def _awaited(
    request: Request, hub: Hub, provider: ProviderRecord, params: dict[str, str], wait_s: float, user: str
) -> bytes:
    async def look(seconds: float) -> bytes | None:
        try:
            return await hub.providers.read(provider, params, seconds, user)
        except ProviderTimeout:
            return None

    found = await long_polls.wait(request, wait_s, look, lambda body: body is not None)
    if found is None:
        raise ProviderTimeout(f"Provider {provider.full} did not answer within {wait_s:g} s")
    return found


@router.delete(
    "/providers/{provider_id}",
    **operation("removeProvider", CALLER, status=204, refusals=(ProviderNotFound,), scopes=(WORKER,)),
)
async def remove(request: Request) -> Answer[None]:
    """Delete a provider. For its owner and superusers."""
    who = caller_of(request)
    provider, hub = bodies.path_id(request, "provider_id"), hub_of(request)
    await room_access.reach_provider(who, hub, provider)
    await hub.providers.delete(provider, who.user, who.superuser)
    return answers.nothing()


@router.post(
    "/providers/{provider_id}/results",
    **operation(
        "answerProvider",
        CALLER,
        p.HASH,
        status=204,
        body=Raw("application/octet-stream"),
        refusals=(ProviderNotFound, ResultNotAsked),
        bound="result",
        scopes=(WORKER,),
    ),
)
async def upload(request: Request) -> Answer[None]:
    """Take the answer of a provider to the request of this hash; its bytes stay as they are. For the provider's owner
    and superusers."""
    who = caller_of(request)
    provider = bodies.path_id(request, "provider_id")
    digest = request.headers.get("x-request-hash")
    if digest is None:
        raise bodies.malformed("missing", ["header", "x-request-hash"], "Field required", None)
    hub = hub_of(request)
    await room_access.reach_provider(who, hub, provider)
    body = await request.body()
    await hub.providers.upload(provider, digest, body, who.user, who.superuser)
    return answers.nothing()
