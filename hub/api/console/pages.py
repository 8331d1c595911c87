"""The files of the console, at `/` and below `/console/`. They run no inline script and ask no other host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

import hub.core
from hub.api.inputs import Hub, hub_of
from hub.api.operations import unlisted
from hub.console import PAGE, files
from hub.errors import NotFound

router = APIRouter()
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}
_MANUAL: Final = Path(hub.__file__).parent / "manual"
_OF_MANUAL: Final = {".md": "text/markdown; charset=utf-8", ".svg": "image/svg+xml", ".webp": "image/webp"}


def console_hub(request: Request) -> hub.core.Hub:
    """Return the hub; raises `NotFound` when it has no console."""
    found = hub_of(request)
    if found.settings.console == "off":
        raise NotFound("This hub has no console: HUB_CONSOLE is off.")
    return found


ConsoleHub = Annotated[hub.core.Hub, Depends(console_hub)]


@router.get("/", **unlisted(linked=True))
async def root(request: Request, found: Hub) -> Response:
    """Return the console's page; redirect clients that want no HTML to the dashboard, if one is set."""
    settings = found.settings
    if settings.console == "off" or (settings.dashboard_url and "text/html" not in request.headers.get("accept", "")):
        return RedirectResponse("dashboard" if settings.realm else "/dashboard", 302)
    return _file(request, PAGE)


@router.get("/dashboard", **unlisted(linked=True))
async def dashboard(found: Hub) -> Response:
    """Redirect to DASHBOARD_URL, else to the console or `/docs`."""
    settings = found.settings
    return RedirectResponse(settings.dashboard_url or ("docs" if settings.console == "off" else "./"), 302)


@router.get("/console/manual/{name}", **unlisted(page=True))
async def manual(_: ConsoleHub, name: str) -> Response:
    """Return a page or a picture of the manual."""
    kind = _OF_MANUAL.get(Path(name).suffix)
    if kind is None or name not in {path.name for path in _MANUAL.iterdir()}:
        raise NotFound(f"The manual has no {name[:100]}.")
    return Response((_MANUAL / name).read_bytes(), media_type=kind, headers=HEADERS)


@router.get("/console/{path:path}", **unlisted(page=True))
async def asset(request: Request, _: ConsoleHub, path: str) -> Response:
    """Return a file of the console."""
    return _file(request, path) if path else RedirectResponse("../", 302)


def _file(request: Request, path: str) -> Response:
    found = files().get(path)
    if found is None:
        raise NotFound(f"The console has no {path[:100]}.")
    headers = {**HEADERS, "etag": found.etag}
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.media_type, headers=headers)
