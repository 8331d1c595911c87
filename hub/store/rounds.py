"""Background work that is repeated for ever, also when one round of it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Never

from hub.errors import StoreUnavailable


async def rounds(
    interval_s: float, once: Callable[[], Awaitable[object]], failed: Callable[[Exception], object]
) -> Never:
    """Call `once` every `interval_s` seconds until cancelled; call `failed` with the error of a round that fails.

    `failed` is not called when the store is away, because the hub clock logs that.
    """
    while True:
        await asyncio.sleep(interval_s)
        try:
            await once()
        except StoreUnavailable:
            continue
        except Exception as error:  # noqa: BLE001 - the next round must come; `failed` logs and counts this one
            failed(error)
