"""Every event of the sockets with every credential: what the page on security says of them is what they do."""

from __future__ import annotations

from typing import Any

import httpx
from socketio.exceptions import ConnectionError as Refused

from tests.access import CREDENTIALS, NO, OWN, YES, compare, table
from tests.api.test_access import ADMIN, SECRETS, WISHES
from tests.sockets.people import OK, Listener
from tests.world import PATIENCE_S

EVENTS = {
    "connect": None,
    "room_join": "room_id",
    "join_job_room": "job_name",
    "join_provider_room": "provider_name",
}


async def shown_by(url: str) -> dict[str, dict[str, str]]:
    """Return the headers that show each credential."""
    found: dict[str, dict[str, str]] = {"stranger": {}}
    found |= {role: {"x-hub-secret": SECRETS[f"{role}_secret"]} for role in ("runner", "node", "admin")}
    async with httpx.AsyncClient(base_url=url, headers=ADMIN, timeout=PATIENCE_S) as api:
        for name, wanted in WISHES.items():
            made = await api.post("/admin/tokens", json=wanted)
            found[name] = {"authorization": f"Bearer {made.json()['token']}"}
    return found


async def joined(listener: Listener, event: str, member: str, room: str) -> bool:
    said = {member: room if event == "room_join" else f"{room}:modifiers:Rotate"}
    answer: Any = await listener.say(event, said)
    return bool(answer == OK)


async def test_the_access_page_of_the_manual_says_who_may_hear_which_events(serve):
    process, _ = await serve(**SECRETS, anonymous_reads=False)
    shown = await shown_by(process.url)
    rows: dict[str, dict[str, str]] = {event: {} for event in EVENTS}
    for name in CREDENTIALS:
        listener = Listener(process, None, headers=shown[name])
        try:
            await listener.connect()
        except Refused:
            for row in rows.values():
                row[name] = NO
        else:
            rows["connect"][name] = YES
            for event, member in EVENTS.items():
                if member is not None:
                    own, other = [await joined(listener, event, member, room) for room in ("lab", "other")]
                    rows[event][name] = YES if own and other else OWN if own else NO
        await listener.hang_up()
    compare("sockets", table(rows))
