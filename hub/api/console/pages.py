"""The files of the console, at `/` and below `/console/`. They run no inline script and ask no other host."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

import hub
from hub.api.inputs import hub_of
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


@router.get("/", **unlisted(linked=True))
async def root(request: Request) -> Response:
    """Return the console's page; redirect clients that want no HTML to the dashboard, if one is set."""
    settings = hub_of(request).settings
    if settings.console == "off" or (settings.dashboard_url and "text/html" not in request.headers.get("accept", "")):
        return RedirectResponse("dashboard" if settings.realm else "/dashboard", 302)
    return _file(request, PAGE)


@router.get("/dashboard", **unlisted(linked=True))
async def dashboard(request: Request) -> Response:
    """Redirect to DASHBOARD_URL, else to the console or `/docs`."""
    settings = hub_of(request).settings
    return RedirectResponse(settings.dashboard_url or ("docs" if settings.console == "off" else "./"), 302)


@router.get("/console/manual/{name}", **unlisted(page=True))
async def manual(request: Request, name: str) -> Response:
    """Return a page or a picture of the manual."""
    _check_on(request)
    kind = _OF_MANUAL.get(Path(name).suffix)
    if kind is None or name not in {path.name for path in _MANUAL.iterdir()}:
        raise NotFound(f"The manual has no {name[:100]}.")
    return Response((_MANUAL / name).read_bytes(), media_type=kind, headers=HEADERS)


@router.get("/console/{path:path}", **unlisted(page=True))
async def asset(request: Request, path: str) -> Response:
    """Return a file of the console."""
    _check_on(request)
    return _file(request, path) if path else RedirectResponse("../", 302)


def _check_on(request: Request) -> None:
    if hub_of(request).settings.console == "off":
        raise NotFound("This hub has no console: HUB_CONSOLE is off.")


def _file(request: Request, path: str) -> Response:
    found = files().get(path)
    if found is None:
        raise NotFound(f"The console has no {path[:100]}.")
    headers = {**HEADERS, "etag": found.etag}
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.media_type, headers=headers)
