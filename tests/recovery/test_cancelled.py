"""A program that ends while a connection is being closed: nothing keeps it from ending."""

from __future__ import annotations

import asyncio
import threading

from hub.recovery.engines import make_engine
from tests.world import PATIENCE_S


async def test_a_call_cancelled_while_its_connection_is_closed_ends(sqlite):
    """`asyncio.run` cancels all that still runs at once, and waits for it."""
    engine, begun, goes_on = make_engine(sqlite.source()), threading.Event(), threading.Event()
    others = asyncio.all_tasks()

    def held():
        begun.set()
        goes_on.wait(PATIENCE_S)

    async def use():
        async with engine.begin() as connection:
            driver = (await connection.get_raw_connection()).driver_connection
            await driver.create_function("held", 0, held)
            await connection.exec_driver_sql("SELECT held()")

    using = asyncio.create_task(use())
    await asyncio.to_thread(begun.wait, PATIENCE_S)
    using.cancel()
    for _ in range(100):  # until it closes the connection, which waits for the statement
        await asyncio.sleep(0)
    running = asyncio.all_tasks() - others
    for task in (using, *(running - {using})):  # in any order; in this one it did not end
        task.cancel()
    await asyncio.wait([using])
    goes_on.set()
    _, left = await asyncio.wait(running, timeout=PATIENCE_S)
    assert left == set()
