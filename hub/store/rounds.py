"""Work in the background that is done again and again, whatever becomes of one round of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Never

from hub.errors import StoreUnavailable


async def rounds(
    interval_s: float, once: Callable[[], Awaitable[object]], failed: Callable[[Exception], object]
) -> Never:
    """Call `once` every `interval_s` seconds until cancelled; `failed` is told of a round that fails.

    It is not told of a store that is away: the hub clock tells of that.
    """
    while True:
        await asyncio.sleep(interval_s)
        try:
            await once()
        except StoreUnavailable:
            continue
        except Exception as error:  # noqa: BLE001 - the next round must come; the line and the counter tell of this one
            failed(error)
