"""The endpoints for providers: register a provider, read from it, answer a read, and list providers."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from hub.api.callers.admission import admit_again
from hub.api.callers.caller import READ, WORKER
from hub.api.handling import long_polls
from hub.api.inputs import Caller, Hub
from hub.api.jobs import answers, bodies
from hub.api.jobs.inputs import EnteredRoom, Part, ProviderId, ReachedProvider, SeenProvider, SeenRoom, SentText, Wait
from hub.api.operations import CALLER, Raw, Subject, operation, takes
from hub.api.paths import PREFIX
from hub.api.realms.workers import worker_for
from hub.api.shapes import parameters as p
from hub.api.shapes.answer import Answer
from hub.api.shapes.job_bodies import ProviderBody
from hub.api.shapes.jobs import ProviderPageShape, ProviderShape
from hub.errors import InvalidCategory, ProviderNotFound, ProviderTimeout, QuotaExceeded, ResultNotAsked, WorkerNotFound
from hub.jobs.models import ProviderRecord, ProviderRequest

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
        refusals=(InvalidCategory, WorkerNotFound, QuotaExceeded),
        about=Subject("room", "room_id", in_body=True),
        bound="schema",
        room_first=True,
        scopes=(WORKER,),
    ),
)
async def register(
    request: Request, hub: Hub, caller: Caller, room: EnteredRoom, sent: SentText[ProviderBody]
) -> Answer[ProviderShape]:
    """Offer a provider of data: 201 when it is new, 200 when it replaces one of the caller's own. Without `worker_id` a
    worker is made for the provider."""
    said, body = sent
    wanted = ProviderRequest(
        room,
        said.category,
        said.name,
        bodies.schema(body, hub.settings),
        await worker_for(request, hub, caller, said.worker_id),
        content_type=said.content_type,
    )
    provider, created = await hub.providers.register(wanted, caller.user, caller.superuser)
    return Answer(answers.provider(provider), 201 if created else 200)


@router.get("/rooms/{room_id}/providers", **operation("listProviders", CALLER, anonymous=True))
async def listed(hub: Hub, asked: Part, room: SeenRoom) -> Answer[ProviderPageShape]:
    """Return the providers that are seen from a room, newest first."""
    found = await hub.providers.page(room, asked.limit, asked.offset)
    return Answer(answers.page(ProviderPageShape, found, asked, answers.provider))


@router.get(
    "/rooms/{room_id}/providers/{name:full}/info",
    **operation("getProvider", CALLER, refusals=(ProviderNotFound,), about=Subject("job", "name"), anonymous=True),
)
async def look(hub: Hub, room: SeenRoom, full: SeenProvider) -> Answer[ProviderShape]:
    """Return a provider by its full name, room:category:name."""
    return Answer(answers.provider(await hub.providers.get(room, full)))


@router.get(
    "/rooms/{room_id}/providers/{name:full}",
    **operation(
        "readProvider",
        CALLER,
        raw=Raw("*/*"),
        headers=("Preference-Applied",),
        refusals=(ProviderNotFound, QuotaExceeded, ProviderTimeout),
        about=Subject("job", "name"),
        scopes=(READ,),
    ),
)
async def read(
    request: Request, hub: Hub, caller: Caller, room: SeenRoom, full: SeenProvider, preferred: Wait
) -> Response:
    """Return the answer of a provider to the parameters of the query, from the provider or from the cache.

    Waits a few seconds for the answer, with `Prefer: wait=N` N seconds; 504 when there is none by then.
    """
    provider = await hub.providers.get(room, full)
    wanted_s = hub.settings.provider_long_poll_default_s if preferred is None else preferred
    wait_s = min(wanted_s, hub.settings.provider_long_poll_max_s)
    params = dict(request.query_params)
    headers = {"x-content-type-options": "nosniff", "content-security-policy": "sandbox"}
    if not _SHOWN.match(provider.content_type):
        headers["content-disposition"] = "attachment"
    body = await hub.providers.cached(provider, params)
    if body is None:
        body = await _awaited(request, hub, provider, params, wait_s, caller.user)
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
async def remove(hub: Hub, caller: Caller, provider: ReachedProvider) -> Answer[None]:
    """Delete a provider. For its owner and superusers."""
    await hub.providers.delete(provider, caller.user, caller.superuser)
    return answers.nothing()


@takes(p.HASH)
def _request_hash(request: Request) -> str:
    """Return the hash of the request that is answered; raises `Malformed`."""
    digest = request.headers.get("x-request-hash")
    if digest is None:
        raise bodies.malformed("missing", ["header", "x-request-hash"], "Field required", None)
    return digest


@takes(body=Raw("application/octet-stream"))
def _read_bytes(request: Request) -> Callable[[], Awaitable[bytes]]:
    """Return the function that reads the body of the request as it is."""
    return request.body


RequestHash = Annotated[str, Depends(_request_hash)]
ReadBytes = Annotated[Callable[[], Awaitable[bytes]], Depends(_read_bytes)]


@router.post(
    "/providers/{provider_id}/results",
    **operation(
        "answerProvider",
        CALLER,
        status=204,
        refusals=(ProviderNotFound, ResultNotAsked),
        bound="result",
        scopes=(WORKER,),
    ),
)
async def upload(hub: Hub, caller: Caller, provider: ProviderId, digest: RequestHash, read: ReadBytes) -> Answer[None]:
    """Take the answer of a provider to the request of this hash; its bytes stay as they are. For the provider's owner
    and superusers."""
    await caller.reach_provider(hub, provider)
    await hub.providers.upload(provider, digest, await read(), caller.user, caller.superuser)
    return answers.nothing()
