"""What `hub borrow` does with what it was lent: it runs a command, or prints the slots and holds them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence

from hub.cli import detached, output
from hub.cli.answers import Columns, facts
from hub.cli.child import Child, Signals
from hub.cli.connection import Row
from hub.cli.inputs import Pair
from hub.cli.slot_variables import filled, variables_of
from hub.client import Slot
from hub.client.bundle import Held, slots_of
from hub.client.slot_variables import of_no_slot
from hub.errors import LeaseLost
from hub.processes import without_secrets

# The command is asked to stop some time before the end of a lease that could not be renewed: this share of the lease,
# and at most this many seconds.
STOP_AHEAD_S = 5.0
STOP_AHEAD_SHARE = 0.1
# Seconds for the command to end after the hub has ended the lease; the slot may already have a new holder.
OVER_GRACE_S = 1.0
_LOOK_S = 1.0


async def hold(held: Held, signals: Signals, pipe: int, *, as_json: bool) -> None:
    """Print the slots, and wait for a signal; `pipe` is that of a keeper (see `detached`), 0 for none."""
    stop = asyncio.Event()
    signals.then = lambda _: stop.set()
    slots = slots_of(held)
    documents = [_document(slot) | ({"keeper": os.getpid()} if pipe else {}) for slot in slots]
    if isinstance(held, Slot):
        whole = documents[0] | _environment_of(held)
        facts(whole, _FACTS, only_known=True).put(as_json=as_json)
    elif as_json:
        output.put_json({"bundle": held.id, "together": held.together, "slots": documents, **_environment_of(held)})
    else:
        for document in documents:
            facts({"bundle": held.id, **document}, _FACTS, only_known=True).put(as_json=False)
            output.put("")
    if pipe:
        detached.leave_terminal(pipe)
    elif not as_json:
        yours = "the slot is yours" if len(slots) == 1 else "the slots are yours"
        output.note(f"{yours} until you stop this command (Ctrl-C).")
    await stop.wait()


async def run(held: Held, command: list[str], env: Sequence[Pair], signals: Signals, *, signal_ending: bool) -> int:
    """Run a command with the slots in its environment, and return its exit code; stop it when a lease is lost."""
    environment = _environment(held, env)
    early: list[int] = []
    signals.then = early.append
    child = await Child.start(command, environment, when_we_die=signal.SIGKILL)
    signals.then = child.forward
    for number in early:  # signals that came while the command was started
        child.forward(number)
    slots = slots_of(held)
    if signal_ending:
        for slot in slots:
            slot.on_ending(lambda end: child.forward(signal.SIGUSR1) if end else None)
    watch = asyncio.create_task(_stop_ahead(slots, child))
    try:
        code = await child.wait()
    except asyncio.CancelledError:  # a lease is lost, which cancels this block
        await child.stop(0.0 if child.asked_to_stop else OVER_GRACE_S)
        raise
    finally:
        watch.cancel()
    if child.asked_to_stop:
        child.kill()
        raise LeaseLost(f"The lease of {_how_it_ends(watch.result())}, and the command was stopped.")
    return code


async def _stop_ahead(slots: Sequence[Slot], child: Child) -> Slot:
    """Wait until a lease is about to end because it could not be renewed, then ask the command to stop."""
    ahead_s = {slot: min(STOP_AHEAD_S, STOP_AHEAD_SHARE * slot.ttl_s) for slot in slots}
    while True:
        left_s, _, slot = min((slot.seconds_left() - ahead_s[slot], number, slot) for number, slot in enumerate(slots))
        if left_s <= 0:
            break
        await asyncio.sleep(min(left_s, _LOOK_S))  # in short steps, because renewals move the end
    output.note(f"the lease of {_how_it_ends(slot)}; stopping the command.")
    child.terminate()
    return slot


def _how_it_ends(slot: Slot) -> str:
    end = slot.use.end if slot.ending.is_set() else None
    if end is None:
        return f"{slot.id} could not be renewed"
    return f"{slot.id} {'is recalled for a team' if end.reason == 'recall' else 'ends by a rule of its pool'}"


def _environment(held: Held, env: Sequence[Pair]) -> dict[str, str]:
    inherited = {name: text for name, text in os.environ.items() if of_no_slot(name)}  # else of an outer borrow
    slots = slots_of(held)
    lease = {"HUB_LEASE_TOKEN": slots[0].token, "HUB_RUN_ID": slots[0].run or ""}
    return without_secrets(inherited) | variables_of(held) | lease | filled(env, slots)


def _document(slot: Slot) -> Row:
    return {
        "slotId": slot.id,
        "label": slot.label,
        "pool": slot.pool,
        **({"realm": slot.realm} if slot.realm else {}),
        "address": slot.address,
        "kind": slot.kind,
        "attributes": slot.attributes,
        "lease": {"token": slot.token, "ttlSeconds": slot.ttl_s},
        "nodeId": slot.node_id,
        "runId": slot.run,
    }


def _environment_of(held: Held) -> Row:
    return {"environment": [f"{name}={text}" for name, text in variables_of(held).items()]}


_FACTS: Columns = {
    "BUNDLE": "bundle", "SLOT": "slotId", "ENDPOINT": "address", "POOL": "pool", "REALM": "realm", "NODE": "nodeId",
    "RUN": "runId",
    "TOKEN": lambda slot: slot["lease"]["token"],
    "LEASE": lambda slot: f"{output.duration(slot['lease']['ttlSeconds'])}, renewed until "
    + (f"hub return {slot['slotId']}" if "keeper" in slot else "you stop"),
    "KEEPER": "keeper",
}  # fmt: skip
