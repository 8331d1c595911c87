"""A borrower that waits for a slot of the pool `a:b`."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from tests.world import borrow, eventually


async def waiting(api: httpx.AsyncClient, redis: Any) -> asyncio.Task[httpx.Response]:
    """Return a borrow once it waits."""
    waiter = asyncio.create_task(borrow(api, "a:b", "r2"))

    async def waits() -> bool:
        return bool(redis.exists("hub:line:a:b"))

    await eventually(waits)
    return waiter
