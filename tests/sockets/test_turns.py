"""Messages of clients are read and handled in turns, however much one client sends at once."""

from __future__ import annotations

import asyncio
import json
from functools import partial

import aiohttp
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from hub.api.serving.turns import PER_TURN, Turns
from hub.api.serving.upgrades import PIECE
from tests.frames import PING, frame
from tests.world import PATIENCE_S

JOINED = 2_000


async def test_a_turn_of_the_event_loop_runs_a_limited_number_of_actions_in_order():
    turns, done = Turns(), []
    many = 2 * PER_TURN + PER_TURN // 2
    for number in range(many):
        turns.ask(partial(done.append, number))
    after = [len(done)]
    while len(done) < many:
        await asyncio.sleep(0)
        after.append(len(done))
    assert (after, done) == ([PER_TURN, 2 * PER_TURN, many], list(range(many)))


async def test_cancelled_waiters_for_a_turn_delay_no_other():
    turns = Turns()
    waiting = [asyncio.create_task(turns.take()) for _ in range(4 * PER_TURN)]
    await asyncio.sleep(0)
    for task in waiting[PER_TURN:-1]:
        task.cancel()
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.wait(waiting)
    assert [task.cancelled() for task in waiting] == [False] * PER_TURN + [True] * (3 * PER_TURN - 1) + [False]


async def test_messages_sent_at_once_are_all_handled_in_order(serve, monkeypatch):
    read, real = [], WebSocketsSansIOProtocol.data_received

    def noted(protocol, data):
        if protocol.handshake_complete:
            read.append(len(data))
        real(protocol, data)

    monkeypatch.setattr(WebSocketsSansIOProtocol, "data_received", noted)
    process, state = await serve()
    said = [frame("40")]
    for number in range(JOINED):
        said.append(frame(f'42["room_join",{{"room_id":"r{number}"}}]'))
        if number % 100 == 0:
            said += [PING, frame(f'42{number}["room_leave",{json.dumps({"room_id": "x" * 60_000})}]')]
    said.append(frame(f'42{JOINED}["room_join",{{"room_id":"r0"}}]'))
    url = f"{process.url}/socket.io/?EIO=4&transport=websocket"
    async with aiohttp.ClientSession() as session, session.ws_connect(url) as socket, asyncio.timeout(2 * PATIENCE_S):
        socket._response.connection.transport.write(b"".join(said))
        heard = []
        while not heard or heard[-1] != JOINED:
            text = await socket.receive_str()
            if text.startswith("43"):
                heard.append(int(text[2 : text.index("[")]))
    assert heard == [*range(0, JOINED, 100), JOINED]
    (connection,) = state.sockets._rooms.connections.values()
    assert len(connection.rooms) == JOINED
    assert max(read) <= PIECE


async def test_a_client_that_only_pings_is_answered_while_it_reads(serve):
    process, _ = await serve()
    url = f"{process.url}/socket.io/?EIO=4&transport=websocket"
    async with aiohttp.ClientSession() as session, session.ws_connect(url, autoping=False) as socket:
        socket._response.connection.transport.write(
            PING * 20_000 + frame("40") + frame('421["room_join",{"room_id":"r"}]')
        )
        kinds = set()
        async with asyncio.timeout(2 * PATIENCE_S):
            while True:
                message = await socket.receive()
                kinds.add(message.type)
                if message.type is aiohttp.WSMsgType.TEXT and message.data.startswith("431"):
                    break
    assert aiohttp.WSMsgType.PONG in kinds
