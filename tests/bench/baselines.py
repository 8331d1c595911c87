"""Applications that do next to nothing on the same server: the hub is measured against them."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

ANSWER = b'{"known":true,"drain":false,"recycle":[],"nextBeatMs":10000,"version":0}'
START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(ANSWER)).encode())],
}


async def empty(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Reads the body, knows nothing about it, and answers with a constant."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    await send(START)
    await send({"type": "http.response.body", "body": ANSWER})


class BorrowRequest(BaseModel):
    """A borrow request as a model."""

    labelKey: str  # noqa: N815 - the wire's spelling
    ttlSeconds: float | None = None  # noqa: N815
    runName: str | None = None  # noqa: N815
    runId: str | None = None  # noqa: N815


validating = FastAPI(openapi_url=None)


@validating.post("/session/borrow")
async def borrow(wanted: BorrowRequest) -> Any:
    """Validates a body and answers with a constant."""
    return {"ok": True}
