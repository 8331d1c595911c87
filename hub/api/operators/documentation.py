"""The page at `/docs`, which shows the contract with files of this package only: it asks no other host and runs no
inline script."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Final

from fastapi import APIRouter
from starlette.responses import RedirectResponse, Response

from hub.api.operations import EVERYTHING, unlisted
from hub.errors import NotFound

router = APIRouter()

# Swagger UI sets inline styles, and its style sheet has small pictures in it.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
TYPES: Final = {
    "swagger-ui-bundle.js": "text/javascript",
    "start.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "NOTICE": "text/plain",
}
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>capacity-hub</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
<div id="wire"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</html>
"""


@router.get("/docs", **unlisted(about=EVERYTHING, linked=True))
async def docs() -> Response:
    """Return the page that shows the contract."""
    return Response(_PAGE, media_type="text/html", headers=_HEADERS)


@router.get("/openapi.json", **unlisted(about=EVERYTHING))
async def document() -> Response:
    """Return the contract of HTTP."""
    return Response(_contract("openapi.json"), media_type="application/json")


@router.get("/asyncapi.json", **unlisted())
async def spoken() -> Response:
    """Return the contract of Socket.IO and the stream of events."""
    return Response(_contract("asyncapi.json"), media_type="application/json")


@router.get("/docs/{name}", **unlisted())
async def asset(name: str) -> Response:
    """Return a script, a style sheet or the notice of the page at `/docs`."""
    if name not in TYPES:
        raise NotFound(f"There is no /docs/{name}.")
    headers = {**_HEADERS, "cache-control": "public, max-age=3600"}
    return Response(_contents(name), media_type=TYPES[name], headers=headers)


@router.get("/redoc", **unlisted(linked=True))
async def redoc() -> Response:
    """Redirect from the address of a former page to `/docs`."""
    return RedirectResponse("docs", 302)


@cache
def _contract(name: str) -> bytes:
    return resources.files("hub.api.contract").joinpath(name).read_bytes()


@cache
def _contents(name: str) -> bytes:
    return resources.files("hub.api").joinpath("assets", name).read_bytes()
