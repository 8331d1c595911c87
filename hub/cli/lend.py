"""`hub borrow` and `hub return`: borrow a slot, and give it back."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import Coroutine
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from hub.cli import output, tables
from hub.cli.answers import CommandAnswer
from hub.cli.backlog import late
from hub.cli.child import Child, Signals
from hub.cli.command import Work, command
from hub.cli.connection import Address, HubApi, listens, secret_refused
from hub.cli.environment import without_secrets
from hub.cli.inputs import InputEnded, Usage, check_command, read_id, read_label, seconds
from hub.cli.options import AsJson, Command
from hub.cli.queue_position import tell_position
from hub.cli.times import when
from hub.cli.values import LABEL, RUN, SLOT
from hub.client import HubClient, Slot
from hub.errors import HubError, HubUnavailable, LeaseLost, NoCapacity, NoSuchPool, NotFound, Unauthorized
from hub.settings import mask_url

# Exit codes of sysexits.h: a failure that may pass, a missing right, a service that is not there.
NO_SLOT, NOT_ALLOWED, NO_HUB = 75, 77, 69
# The command is asked to stop some time before the end of a lease that could not be renewed: this share of the lease,
# and at most this many seconds.
STOP_AHEAD_S = 5.0
STOP_AHEAD_SHARE = 0.1
# Seconds for the command to end after the hub has ended the lease; the slot may already have a new holder.
OVER_GRACE_S = 1.0
_LOOK_S = 1.0

Wanted = Annotated[str, LABEL.argument("The label to borrow, such as gpu:a100.")]


@dataclass(frozen=True)
class LendRequest:
    """The options of `hub borrow`: the slot to borrow, the wait for it, and whether to print the position."""

    label: str
    ttl_s: float | None
    run: str | None
    wait_s: float
    priority: int
    wait_for_pool: bool = False
    quiet: bool = False
    realms: str = ""


Run = Annotated[str | None, RUN.option("The run that uses the slot.")]


@command("runner")
def borrow(
    at: Address,
    label: Wanted,
    command: Command = None,
    ttl: Annotated[
        float | None,
        typer.Option(
            parser=seconds(least=0.1), metavar="SECONDS", help="The length of the lease. It is renewed until you stop."
        ),
    ] = None,
    run: Run = None,
    wait: Annotated[
        float,
        typer.Option(
            parser=seconds(least=0), metavar="SECONDS", help="How long to wait in the queue while no slot is free."
        ),
    ] = 0.0,
    priority: Annotated[int, typer.Option(min=-100, max=100, help="Each point counts as one second of waiting.")] = 0,
    wait_for_pool: Annotated[
        bool, typer.Option("--wait-for-pool", help="Wait as well while no pool serves LABEL yet.")
    ] = False,
    realms: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Realms that may lend the slot, such as eu,us. With --wait the borrow waits in the first.",
        ),
    ] = "",
    on_refusal: Annotated[
        int, typer.Option("--exit-code-on-refusal", min=1, max=255, help="The exit code when no slot was lent.")
    ] = NO_SLOT,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print the position in the queue.")] = False,
    as_json: AsJson = False,
) -> Coroutine[Any, Any, int]:
    """Borrow a slot and keep it until Ctrl-C or SIGTERM, or while COMMAND runs.

    Exit codes: that of COMMAND; 75 where no slot was lent, 77 where it is not allowed, 69 where no hub answers.

    COMMAND finds HUB_SLOT_ID, HUB_SLOT_ENDPOINT, HUB_SLOT_LABEL, HUB_SLOT_POOL, HUB_SLOT_NODE, HUB_LEASE_TOKEN and
    HUB_RUN_ID in its environment. When the lease is lost, COMMAND is stopped before the slot can be lent again.
    """
    if command:
        check_command(command)
        if as_json:
            raise Usage("--json prints the slot and COMMAND gets it in its environment: give one of the two.")
    wanted = LendRequest(label, ttl, run, wait, priority, wait_for_pool, quiet, realms)
    return _borrow(at, wanted, command or [], on_refusal, as_json)


@command("runner")
def give_back(
    hub: HubApi,
    slot: Annotated[str, SLOT.argument("The id of the slot.")],
    label: Annotated[
        str | None,
        typer.Option(parser=read_label, metavar="LABEL", help="The pool of the slot. Default: the hub is asked."),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            parser=read_id, metavar="TOKEN", help="Return the slot only if it is lent with this fencing token."
        ),
    ] = None,
    run: Annotated[str | None, RUN.option("Return the slot only if it is lent to this run.")] = None,
    force: Annotated[bool, typer.Option("--force", help="End the lease of another holder. Needs --reason.")] = False,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="The reason, for the audit log.")] = None,
) -> Work:
    """Give a borrowed slot back. Prove that it is yours with --token or --run, or end it with --force and --reason.

    With --force the holder is told, and the slot is lent again when the holder has stopped or the grace period is over.
    """
    if sum((token is not None, run is not None, force)) > 1:
        raise Usage("--token, --run and --force each say by what right: give one of them.")
    if force != bool(reason and reason.strip()):
        raise Usage("--force and --reason TEXT go together.")
    return _give_back(hub, slot, label, Right(token, run, reason if force else None))


async def _borrow(at: Address, wanted: LendRequest, command: list[str], on_refusal: int, as_json: bool) -> int:
    """Borrow a slot and hold it until a signal or the end of the command; return the exit code, or end with another."""
    try:
        return await _borrow_and_hold(at, wanted, command, as_json)
    except (NoCapacity, NoSuchPool) as error:
        raise InputEnded(str(error), on_refusal) from None
    except Unauthorized as error:
        raise InputEnded(secret_refused(error), NOT_ALLOWED) from None
    except HubUnavailable as error:
        raise InputEnded(str(error), NO_HUB) from None


async def _borrow_and_hold(at: Address, wanted: LendRequest, command: list[str], as_json: bool) -> int:
    task = asyncio.current_task()
    assert task is not None
    with Signals(lambda _: task.cancel()) as signals:
        try:
            if wanted.wait_s == 0 and not await listens(at.url):
                raise HubUnavailable(f"No hub listens at {mask_url(at.url)}.")
            async with late(signals), HubClient(at.url, at.secret) as client, AsyncExitStack() as held:
                slot = await _lend(client, at, wanted, held)
                if command:
                    return await _run(slot, command, signals)
                await _hold(slot, signals, as_json)
        except NoSuchPool as error:
            sentence = str(error) if str(error).endswith("?") else f"{error};"
            raise NoSuchPool(f"{sentence} --wait-for-pool waits for one that comes later.") from None
        except NoCapacity as error:
            if wanted.wait_s:
                raise
            raise NoCapacity(f"{str(error).rstrip('.')}; --wait SECONDS waits for one.") from None
        except asyncio.CancelledError:
            raise HubError(f"Interrupted before a slot of {wanted.label} was lent.") from None
    if not slot.owed:  # else a note has said until when it stays lent
        output.note(f"{slot.id} is given back.")
    return 0


async def _lend(client: HubClient, at: Address, wanted: LendRequest, held: AsyncExitStack) -> Slot:
    """Borrow the slot until the end of `held`, and print the position in the queue while it waits."""
    ticket = uuid.uuid4().hex
    borrowing = client.borrow(
        wanted.label,
        ttl=wanted.ttl_s,
        run=wanted.run,
        wait=wanted.wait_s,
        priority=wanted.priority,
        wait_for_pool=wanted.wait_for_pool,
        ticket=ticket,
        realms=[name.strip() for name in wanted.realms.split(",") if name.strip()],
    )
    async with tell_position(at, ticket, wanted.label) if wanted.wait_s and not wanted.quiet else nullcontext():
        return await held.enter_async_context(borrowing)


async def _hold(slot: Slot, signals: Signals, as_json: bool) -> None:
    stop = asyncio.Event()
    signals.then = lambda _: stop.set()
    if as_json:
        output.put_json(_document(slot))
    else:
        tables.put_facts(_facts(slot))
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
        await child.stop(0.0 if child.told_to_stop else OVER_GRACE_S)
        raise
    finally:
        watch.cancel()
    if child.told_to_stop:
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


def _facts(slot: Slot) -> list[tuple[str, Any]]:
    return [
        ("SLOT", slot.id),
        ("ENDPOINT", slot.endpoint),
        ("POOL", slot.matched_label),
        *([("REALM", slot.realm)] if slot.realm else []),
        ("NODE", slot.node_id),
        ("RUN", slot.run),
        ("TOKEN", slot.token),
        ("LEASE", f"{output.duration(slot.ttl_s)}, renewed until you stop"),
    ]


def _document(slot: Slot) -> dict[str, Any]:
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


@dataclass(frozen=True)
class Right:
    """The proof of the right to end a lease: its fencing token, its run, or the reason of an operator."""

    token: str | None = None
    run: str | None = None
    reason: str | None = None

    def body(self) -> dict[str, Any]:
        """Return the members of this proof in the body of the call that gives the slot back."""
        if self.token:
            return {"lease": {"token": self.token}}
        return {"runId": self.run, "onlyRun": True} if self.run else {"revoke": True, "reason": self.reason}


async def _give_back(hub: HubApi, slot_id: str, label: str | None, by: Right) -> CommandAnswer:
    """Give a slot back; without `label`, ask the hub for the pool of its lease. Raises `NotFound` if it is not lent."""
    if label is None or by == Right():
        try:
            lease = await hub.get("sessions", slot_id)
        except NotFound:
            if by.token:  # raises if the store was lost and may not know of the lease yet
                await hub.get("leases", slot_id, "verify", token=by.token)
            raise NotFound(f"The slot {slot_id} is not lent.") from None
        if by == Right():
            raise HubError(_whose(slot_id, lease))
        label = str(lease.get("pool"))
    answer = await hub.post("session", "return", body={"label": label, "slotId": slot_id, **by.body()})
    if by.run and "note" in answer:
        raise HubError(f"The slot {slot_id} is not lent to run {by.run}; nothing was changed.")
    return CommandAnswer(answer, f"{slot_id}: {answer['note']}." if "note" in answer else f"{slot_id} is given back.")


def _whose(slot_id: str, lease: dict[str, Any]) -> str:
    left = output.duration(lease.get("secondsLeft"))
    return (
        f"The slot {slot_id} is lent to run {lease.get('runId') or '(none)'} as {lease.get('label')}, borrowed "
        f"{when(lease.get('borrowedAt'))}, {left} left. "
        "Say --token or --run if it is yours, else --force --reason TEXT."
    )
