"""The tools of `hub mcp`. Models read their descriptions: each says what to do before, with the answer, and after."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from difflib import get_close_matches
from functools import wraps
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import LoggingMessageNotification, LoggingMessageNotificationParams, ToolAnnotations
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from hub import __version__
from hub.cli.connection import HubApi, Row, members
from hub.cli.held_slots import HeldSlots
from hub.cli.history import explanation, kinds_of
from hub.cli.manual import for_models
from hub.client import Slot
from hub.errors import HubError, NoCapacity, NoSuchPool, NotFound

Tool = Callable[..., Coroutine[Any, Any, Row]]
SLOTS = "hub://slots"  # the resource with the slots that the agent holds
PAGE = 100
NEAREST_OF = 500  # labels that an unknown one is compared with
HISTORY = 5  # events, and leases of a pool, in an explanation
TOLD_EVERY_S = 5.0  # between two words on the place in the queue; clients give up a silent call after a minute
INSTRUCTIONS = (
    "Lends things that exist once: GPUs, devices, browsers, licences. Call list_pools, then borrow_slot, use the slot "
    "at its `address`, and call return_slot as soon as you are done: others wait. Leases are renewed for you. When a "
    "call says that a slot is lost, stop using it at once. why explains what is not as you expect."
)
Label = Annotated[
    str,
    Field(
        description="The label of a pool as list_pools shows it, such as `gpu:a100:eu`. A beginning of two or "
        "more parts (`gpu:a100`) means any pool that begins so."
    ),
]
Wait = Annotated[
    float, Field(ge=0, le=600, description="The longest time to wait in the queue while no slot is free, in seconds.")
]
Where = Annotated[
    str,
    Field(
        description="What the attributes of the slot must satisfy, such as `vram >= 40 && model != 'T4'`. The label "
        "may then be its first part alone (`gpu`)."
    ),
]
Purpose = Annotated[str, Field(description="What you need the slot for, in a few words for people.")]
SlotId = Annotated[str, Field(description="The `slot_id` that borrow_slot answered.")]


def _tool(call: Tool) -> Tool:
    """Return a tool that first tells of lost leases, and tells what the hub refuses in a sentence."""

    @wraps(call)
    async def tool(self: Tools, *args: Any, **named: Any) -> Row:
        if lost := self.held.losses():
            raise ToolError(f"{' '.join(lost)} This call did nothing else: make it again if you still need it.")
        try:
            return await call(self, *args, **named)
        except HubError as error:
            raise ToolError(str(error)) from None

    return tool


class Tools:
    """The tools that an agent calls."""

    def __init__(self, hub: HubApi, held: HeldSlots, ttl_s: float) -> None:
        self.held = held
        self.bus = InMemorySubscriptionBus()
        self._hub, self._ttl_s = hub, ttl_s
        self._run = f"mcp-{uuid.uuid4().hex}"  # one run for all leases of this agent
        self._session: ServerSession | None = None
        self._telling: set[asyncio.Task[None]] = set()
        held.on_lost = self._on_lost

    @_tool
    async def list_pools(
        self,
        search: Annotated[str, Field(description="Show only pools whose label contains this text.")] = "",
    ) -> Row:
        """List the pools of slots that can be borrowed, each with its label and its numbers of slots.

        Call this first, to learn the labels; it changes nothing. `free` slots can be borrowed at once. Where `free` is
        0, borrow_slot waits in the queue. `held_back` slots are out of order for now.
        """
        total, found = members(await self._hub.get("pools", limit=PAGE, q=search or None), "pools")
        pools = [_pool(each) for each in found]
        hint = {"hint": "Give `search` to see others."} if total > len(pools) else {}
        return {"pools": pools, "total": total} | hint

    @_tool
    async def borrow_slot(
        self, label: Label, ctx: Context[Any, Any], wait_seconds: Wait = 30, purpose: Purpose = "", where: Where = ""
    ) -> Row:
        """Borrow one slot of a pool for your use alone, waiting in the queue while none is free.

        Take a label from list_pools, and say the `purpose` in a few words: people see it. Use the slot at the `address`
        of the answer, with its `attributes`; show `token` to a resource that asks for a fencing token. You hold the
        slot until you call return_slot with its `slot_id`; its lease is renewed for you. When the wait ends without a
        slot, call this again, with a longer `wait_seconds` or for another pool.
        """
        self._session = session = ctx.session
        client = session.client_params.client_info.name if session.client_params else "agent"
        ticket = uuid.uuid4().hex
        telling = asyncio.create_task(self._tell_of_the_queue(ctx, ticket))
        try:
            slot = await self.held.borrow(
                label, where=where, ttl=self._ttl_s, wait=wait_seconds, wait_for_pool=False, ticket=ticket,
                run=self._run, run_name=_run_name(purpose) or _run_name(client) or "agent",
            )  # fmt: skip
        except NoSuchPool as error:
            raise ToolError(f"{await self._nearest(label, error)} list_pools shows all.") from None
        except NoCapacity as error:
            raise ToolError(f"{str(error).rstrip('.')}. {_advice(error)}") from None
        finally:
            telling.cancel()
        return _shown(slot)

    @_tool
    async def slot_status(self, slot_id: SlotId = "") -> Row:
        """Show the slots that you hold: one by its `slot_id`, or all without it.

        It changes nothing. `seconds_left` rises again with each renewal, which happens by itself. `unwell` is the
        reason why a slot may not work; return such a slot and borrow another.
        """
        slots = [self.held.get(slot_id)] if slot_id else self.held.slots
        return {"slots": [_shown(slot) for slot in slots]}

    @_tool
    async def return_slot(self, slot_id: SlotId) -> Row:
        """Give a slot back that you hold. Do this as soon as you are done with it, and stop using it before."""
        slot = await self.held.give_back(slot_id)
        return {"returned": slot_id} | ({"note": "No hub answers; the return goes on by itself."} if slot.owed else {})

    @_tool
    async def why(
        self,
        id: Annotated[str, Field(description="A `slot_id`, the label of a pool, or the id of a node, ticket or run.")],
    ) -> Row:
        """Explain why a slot or a pool is as it is: what happened to it, by which rule, and what comes next.

        Call this when a borrow finds no slot, a slot is lost, or a slot does not work. It changes nothing.
        """
        if ":" in id:
            with suppress(HubError):  # then it is no pool
                pool = _pool(await self._hub.get("pools", id))
                leases = (await self._hub.get("sessions", pool=id, limit=HISTORY)).get("leases", [])
                return {"explanations": [{"kind": "pool", **pool, "leases": leases}]}
        found = [each for kind in kinds_of(id) if (each := await explanation(self._hub, kind, id, HISTORY)) is not None]
        if not found:
            raise NotFound(f"Nothing is known of {id!r}; list_pools shows the pools, slot_status your slots.")
        return {"explanations": found}

    async def _nearest(self, label: str, error: NoSuchPool) -> str:
        """Return the sentence on a label that no pool serves, with the nearest label that there is."""
        if str(error).endswith("?"):
            return str(error)
        _, pools = members(await self._hub.get("pools", limit=NEAREST_OF), "pools")
        near = get_close_matches(label, [str(each["label"]) for each in pools], 1, 0.0)
        return f"{error}; the nearest is {near[0]}." if near else f"{error}; there are no pools."

    async def _tell_of_the_queue(self, ctx: Context[Any, Any], ticket: str) -> None:
        """Tell the client about the place in the queue, so that it does not give up a call that waits."""
        waited_s = 0.0
        while True:
            await asyncio.sleep(TOLD_EVERY_S)
            waited_s += TOLD_EVERY_S
            with suppress(HubError):
                place = await self._hub.get("queue", ticket)
                await ctx.report_progress(waited_s, None, f"Number {place.get('position')} in the queue.")

    def _on_lost(self, sentence: str) -> None:
        task = asyncio.create_task(self._tell_of_loss(sentence))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell_of_loss(self, sentence: str) -> None:
        await self.bus.publish(ResourceUpdated(uri=SLOTS))
        if self._session is not None and self._session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            said = LoggingMessageNotificationParams(level="error", logger="hub", data=sentence)
            await self._session.send_notification(LoggingMessageNotification(params=said))


def server_of(hub: HubApi, held: HeldSlots, ttl_s: float) -> MCPServer[None]:
    """Return the server of an agent; once its client is gone, it gives back what is held."""
    tools = Tools(hub, held, ttl_s)

    @asynccontextmanager
    async def lifespan(_: MCPServer[None]) -> AsyncIterator[None]:
        yield
        await held.close()

    server = MCPServer[None](
        "capacity-hub", title="Slots to borrow", version=__version__, instructions=INSTRUCTIONS, lifespan=lifespan,
        subscriptions=tools.bus, log_level="WARNING",
    )  # fmt: skip
    reads = (tools.list_pools, tools.slot_status, tools.why)
    for call in (*reads, tools.borrow_slot, tools.return_slot):
        server.add_tool(call, annotations=ToolAnnotations(read_only_hint=call in reads, destructive_hint=False))
    server.resource("hub://manual", description="How the hub works, on one page for a model.")(for_models)

    @server.resource(SLOTS, description="The slots that you hold.", mime_type="application/json")
    def slots() -> str:
        return json.dumps([_shown(slot) for slot in held.slots])

    return server


def _pool(found: Row) -> Row:
    numbers = {"free": "available", "lent": "borrowed", "held_back": "heldBack", "total": "total"}
    return {"label": found.get("label")} | {name: found.get(there) for name, there in numbers.items()}


def _shown(slot: Slot) -> Row:
    return {
        "slot_id": slot.id, "label": slot.label, "pool": slot.pool, "address": slot.address, "kind": slot.kind,
        "attributes": slot.attributes, "token": slot.token, "node": slot.node_id, "unwell": slot.unwell,
        "seconds_left": round(slot.seconds_left(), 1),
    }  # fmt: skip


def _advice(error: NoCapacity) -> str:
    position, wait_s = error.facts.get("position"), error.facts.get("estimatedWaitSeconds")
    place = f"You were number {position} in the queue. " if position else ""
    takes = f"A slot is expected in about {wait_s:.0f} s. " if wait_s is not None else ""
    return f"{place}{takes}Call borrow_slot again with a longer wait_seconds, or why for the pool."


def _run_name(text: str) -> str:
    """Return a text as the name of a run, which takes letters, digits, blanks and `. _ -` alone."""
    return " ".join(re.sub(r"[^\w .-]", " ", text, flags=re.ASCII).split())[:100]
