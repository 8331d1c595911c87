"""`hub borrow` and `hub return`: borrow a slot, and give it back."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from typing import Any

from typer import Option

from hub.cli import output
from hub.cli.answers import Columns, CommandAnswer, facts
from hub.cli.child import Child, Signals, interruptible
from hub.cli.command import Work, command
from hub.cli.connection import Address, HubApi, Row, listens, over_http, secret_refused
from hub.cli.environment import without_secrets
from hub.cli.inputs import InputEnded, Usage, check_command, read_id, read_label, seconds
from hub.cli.options import AS_JSON, COMMAND, LABEL, RUN, SECONDS, SLOT, TEXT, Input
from hub.cli.progress import changing_line, is_watched
from hub.client import HubClient, Slot
from hub.client.backlog import EXIT_S, all_delivered, drop_everything
from hub.errors import HubError, HubUnavailable, LeaseLost, NoCapacity, NoSuchPool, NotFound, Unauthorized
from hub.retries import now_s
from hub.settings import mask_url

# Exit codes of sysexits.h: a failure that may pass, a missing right, a service that is not there.
NO_SLOT, NOT_ALLOWED, NO_HUB = 75, 77, 69
# The command is asked to stop some time before the end of a lease that could not be renewed: this share of the lease,
# and at most this many seconds.
STOP_AHEAD_S = 5.0
STOP_AHEAD_SHARE = 0.1
# Seconds for the command to end after the hub has ended the lease; the slot may already have a new holder.
OVER_GRACE_S = 1.0
# Seconds at the end for the delivery of calls that the hub has not taken: longer than most restarts of a hub.
DELIVERY_S = 30.0
_LOOK_S = 1.0
_DELIVERY_LOOK_S = 0.1


@command("runner")
def borrow(
    at: Address,
    label: str = LABEL.argument("The label to borrow, such as gpu:a100."),
    command: list[str] | None = COMMAND,
    ttl: float | None = Input("SECONDS", seconds(least=0.1)).option("The length of the lease, which is renewed."),
    run: str | None = RUN.option("The run that uses the slot."),
    wait: float = SECONDS.option("How long to wait in the queue while no slot is free.", default=0.0),
    priority: int = Option(0, min=-100, max=100, help="Each point counts as one second of waiting."),
    wait_for_pool: bool = Option(False, "--wait-for-pool", help="Wait as well while no pool serves LABEL yet."),
    realms: str | None = Input("NAMES").option(
        "Realms that may lend the slot, such as eu,us. With --wait the borrow waits in the first."
    ),
    on_refusal: int = Option(
        NO_SLOT, "--exit-code-on-refusal", min=1, max=255, help="The exit code when no slot was lent."
    ),
    quiet: bool = Option(False, "--quiet", "-q", help="Do not print the position in the queue."),
    as_json: bool = AS_JSON,
) -> Coroutine[Any, Any, int]:
    """Borrow a slot and keep it until Ctrl-C or SIGTERM, or while COMMAND runs.

    Exit codes: that of COMMAND; 75 where no slot was lent, 77 where it is not allowed, 69 where no hub answers.

    COMMAND finds HUB_SLOT_ID, HUB_SLOT_ENDPOINT, HUB_SLOT_LABEL, HUB_SLOT_POOL, HUB_SLOT_NODE, HUB_LEASE_TOKEN and
    HUB_RUN_ID in its environment. When the lease is lost, COMMAND is stopped before the slot can be lent again.
    """
    if command:
        check_command(command)
        if as_json:
            raise Usage("--json prints the slot, and COMMAND gets it in its environment: give one of them.")
    several = [name.strip() for name in (realms or "").split(",") if name.strip()]
    how = {"ttl": ttl, "run": run, "wait": wait, "priority": priority, "wait_for_pool": wait_for_pool}
    return _borrow(at, label, {**how, "realms": several}, command or [], on_refusal, quiet=quiet, as_json=as_json)


@command("runner")
def give_back(
    hub: HubApi,
    slot: str = SLOT.argument("The id of the slot."),
    label: str | None = Input("LABEL", read_label).option("The pool of the slot. Default: the hub is asked."),
    token: str | None = Input("TOKEN", read_id).option("Return the slot only if it is lent with this fencing token."),
    run: str | None = RUN.option("Return the slot only if it is lent to this run."),
    force: bool = Option(False, "--force", help="End the lease of another holder. Needs --reason."),
    reason: str | None = TEXT.option("The reason, for the audit log."),
) -> Work:
    """Give a borrowed slot back. Prove that it is yours with --token or --run, or end it with --force and --reason.

    With --force the holder is told, and the slot is lent again when the holder has stopped or the grace period is over.
    """
    if sum((token is not None, run is not None, force)) > 1:
        raise Usage("--token, --run and --force are three proofs of the right to end a lease: give one of them.")
    if force != bool(reason and reason.strip()):
        raise Usage("--force and --reason TEXT go together.")
    return _give_back(hub, slot, label, token, run, reason if force else None)


async def _borrow(
    at: Address,
    label: str,
    how: Mapping[str, Any],
    command: list[str],
    on_refusal: int,
    *,
    quiet: bool,
    as_json: bool,
) -> int:
    """Borrow a slot and hold it until a signal or the end of the command; return the exit code, or end with another.

    `how` are the keywords of `HubClient.borrow`.
    """
    ticket = uuid.uuid4().hex
    try:
        with interruptible(f"Interrupted before a slot of {label} was lent.") as signals:
            if how["wait"] == 0 and not await listens(at.url):
                raise HubUnavailable(f"No hub listens at {mask_url(at.url)}.")
            async with _delivered(signals), HubClient(at.url, at.secret) as client, AsyncExitStack() as held:
                async with _position_shown(at, ticket, label) if how["wait"] and not quiet else nullcontext():
                    slot = await held.enter_async_context(client.borrow(label, ticket=ticket, **how))
                if command:
                    return await _run(slot, command, signals)
                await _hold(slot, signals, as_json)
    except NoSuchPool as error:
        sentence = str(error) if str(error).endswith("?") else f"{error};"
        raise InputEnded(f"{sentence} --wait-for-pool waits for one that comes later.", on_refusal) from None
    except NoCapacity as error:
        sentence = str(error) if how["wait"] else f"{str(error).rstrip('.')}; --wait SECONDS waits for one."
        raise InputEnded(sentence, on_refusal) from None
    except Unauthorized as error:
        raise InputEnded(secret_refused(error), NOT_ALLOWED) from None
    except HubUnavailable as error:
        raise InputEnded(str(error), NO_HUB) from None
    if not slot.owed:  # else a note has said until when it stays lent
        output.note(f"{slot.id} is given back.")
    return 0


@asynccontextmanager
async def _position_shown(at: Address, ticket: str, label: str) -> AsyncIterator[None]:
    """Show the position of a ticket in the queue on stderr while the block runs."""
    task = asyncio.create_task(_show_position(at, ticket, label))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _show_position(at: Address, ticket: str, label: str) -> None:
    noted = None
    async with over_http(at) as transport:
        hub = HubApi(at, transport)
        with changing_line(f"waiting for {label}") as show:
            while True:
                await asyncio.sleep(_LOOK_S)  # also before the first call, so that a short wait shows nothing
                with suppress(HubError):  # the borrow itself reports the trouble
                    place = await hub.get("queue", ticket)
                    if place.get("state") == "waiting" and (is_watched() or place.get("position") != noted):
                        noted = place.get("position")
                        show(_position(label, place))


def _position(label: str, place: Row) -> str:
    """Return the sentence on a position in the queue, with the estimated wait where it is known."""
    estimate = place.get("estimatedWaitSeconds")
    takes = "how long it takes is not known" if estimate is None else f"about {output.duration(round(estimate))} to go"
    return f"waiting for {label}: number {place.get('position')} in the queue, {takes}."


@asynccontextmanager
async def _delivered(signals: Signals) -> AsyncIterator[None]:
    """Wait after the block until the hub has taken all calls: up to half a minute, or five seconds after an error.

    A signal ends the wait. Calls that are not delivered then are logged and dropped.
    """
    patience_s = EXIT_S
    try:
        yield
        patience_s = DELIVERY_S
    finally:
        if not all_delivered():
            stop = asyncio.Event()
            signals.then = lambda _: stop.set()
            output.note(f"waiting up to {patience_s:.0f} s for the hub; Ctrl-C ends that.")
            until_s = now_s() + patience_s
            while not all_delivered() and not stop.is_set() and now_s() < until_s:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_DELIVERY_LOOK_S):
                        await stop.wait()
            drop_everything()


async def _hold(slot: Slot, signals: Signals, as_json: bool) -> None:
    stop = asyncio.Event()
    signals.then = lambda _: stop.set()
    facts(_document(slot), _FACTS, only_known=True).put(as_json=as_json)
    if not as_json:
        output.note("the slot is yours until you stop this command (Ctrl-C).")
    await stop.wait()


async def _run(slot: Slot, command: list[str], signals: Signals) -> int:
    early: list[int] = []
    signals.then = early.append
    child = await Child.start(command, _environment(slot), when_we_die=signal.SIGKILL)
    signals.then = child.forward
    for number in early:  # signals that came while the command was started
        child.forward(number)
    watch = asyncio.create_task(_stop_ahead(slot, child))
    try:
        code = await child.wait()
    except asyncio.CancelledError:  # the lease is lost, which cancels this block
        await child.stop(0.0 if child.asked_to_stop else OVER_GRACE_S)
        raise
    finally:
        watch.cancel()
    if child.asked_to_stop:
        child.kill()
        raise LeaseLost(f"The lease of {slot.id} could not be renewed, and the command was stopped.")
    return code


async def _stop_ahead(slot: Slot, child: Child) -> None:
    """Wait until the lease is about to end because it could not be renewed, then ask the command to stop."""
    ahead_s = min(STOP_AHEAD_S, STOP_AHEAD_SHARE * slot.ttl_s)
    while True:
        left_s = slot.seconds_left() - ahead_s
        if left_s <= 0:
            break
        await asyncio.sleep(min(left_s, _LOOK_S))  # in short steps, because renewals move the end
    output.note(f"the lease of {slot.id} could not be renewed; stopping the command.")
    child.terminate()


def _environment(slot: Slot) -> dict[str, str]:
    return without_secrets(os.environ) | {
        "HUB_SLOT_ID": slot.id,
        "HUB_SLOT_ENDPOINT": slot.endpoint,
        "HUB_SLOT_LABEL": slot.label,
        "HUB_SLOT_POOL": slot.matched_label,
        "HUB_SLOT_NODE": slot.node_id or "",
        "HUB_LEASE_TOKEN": slot.token,
        "HUB_RUN_ID": slot.run or "",
    }


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


async def _give_back(
    hub: HubApi, slot: str, label: str | None, token: str | None, run: str | None, reason: str | None
) -> CommandAnswer:
    """Give a slot back; without `label`, ask the hub for the pool of its lease. Raises `NotFound` if it is not lent.

    The proof of the right to end the lease is its fencing token, its run, or the reason of an operator.
    """
    proof: Row = {}
    if token:
        proof = {"lease": {"token": token}}
    elif run:
        proof = {"runId": run, "onlyRun": True}
    elif reason:
        proof = {"revoke": True, "reason": reason}
    if label is None or not proof:
        try:
            lease = await hub.get("sessions", slot)
        except NotFound:
            if token:  # raises if the store was lost and may not know of the lease yet
                await hub.get("leases", slot, "verify", token=token)
            raise NotFound(f"The slot {slot} is not lent.") from None
        if not proof:
            raise HubError(_whose(slot, lease))
        label = str(lease.get("pool"))
    answer = await hub.ask("POST", "session", "return", body={"label": label, "slotId": slot, **proof})
    if run and "note" in answer:
        raise HubError(f"The slot {slot} is not lent to run {run}; nothing was changed.")
    return CommandAnswer(answer, f"{slot}: {answer['note']}." if "note" in answer else f"{slot} is given back.")


def _whose(slot: str, lease: Row) -> str:
    left = output.duration(lease.get("secondsLeft"))
    return (
        f"The slot {slot} is lent to run {lease.get('runId') or '(none)'} as {lease.get('label')}, borrowed "
        f"{output.when(lease.get('borrowedAt'))}, {left} left. "
        "Say --token or --run if it is yours, else --force --reason TEXT."
    )


_FACTS: Columns = {
    "SLOT": "slotId", "ENDPOINT": "address", "POOL": "pool", "REALM": "realm", "NODE": "nodeId", "RUN": "runId",
    "TOKEN": lambda slot: slot["lease"]["token"],
    "LEASE": lambda slot: f"{output.duration(slot['lease']['ttlSeconds'])}, renewed until you stop",
}  # fmt: skip
