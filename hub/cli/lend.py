"""`hub borrow` and `hub return`: borrow a slot, and give it back."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

from typer import Option

from hub.cli import detached, output
from hub.cli.answers import Columns, CommandAnswer, facts, holder_name, run_name
from hub.cli.child import Child, Signals, interruptible
from hub.cli.choosing import ANY_OF, PREFER, WHERE, Choice, sort_out, wanted
from hub.cli.command import Work, command
from hub.cli.connection import Address, HubApi, Row, as_operator, listens, over_http, secret_refused
from hub.cli.inputs import InputEnded, Pair, Usage, check_command, each_once, read_id, read_stem, seconds
from hub.cli.options import AS_JSON, COMMAND, RUN, SECONDS, SLOT, STEM, TEXT, Input
from hub.cli.progress import changing_line, is_watched
from hub.cli.slot_variables import PREFIX, filled, read_variable, slot_variables
from hub.client import HubClient, Slot
from hub.client.backlog import EXIT_S, all_delivered, drop_everything
from hub.client.naming import own_name
from hub.client.using import Ending
from hub.errors import HubError, HubUnavailable, LeaseLost, NoCapacity, NoSuchPool, NotFound, Unauthorized
from hub.processes import without_secrets
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
ENV = Input("NAME=TEXT", read_variable).option(
    "A variable for COMMAND, as CUDA_VISIBLE_DEVICES={index} with an attribute of the slot. Repeatable.", "--env"
)
TTL = Input("SECONDS", seconds(least=0.1)).option(
    "The length of the lease, which is renewed. Default: 60, unless a rule of the pool says otherwise."
)
REALMS = Input("NAMES").option(
    "Realms that may lend the slot, such as eu,us. With --wait the borrow waits in the first.", "--realms"
)
ON_REFUSAL = Option(NO_SLOT, "--exit-code-on-refusal", min=1, max=255, help="The exit code when no slot was lent.")
COUNT = Option(1, min=0, hidden=True, help="Refused unless it is 1: a borrow is of one slot.")
SIGNAL_ENDING = Option(
    False, "--signal-ending", help="Send COMMAND SIGUSR1 when a rule of the pool is about to end the lease."
)
_LOOK_S = 1.0
_DELIVERY_LOOK_S = 0.1


@command("runner")
def borrow(
    at: Address,
    label: str | None = STEM.argument(
        "The label to borrow, such as gpu:a100. Only --any-of replaces it.", default=None
    ),
    command: list[str] | None = COMMAND,
    where: str | None = WHERE,
    any_of: list[Choice] | None = ANY_OF,
    prefer: list[str] | None = PREFER,
    ttl: float | None = TTL,
    run: str | None = RUN.option("The run that uses the slot."),
    name: str | None = Input("NAME").option("Who holds it, for others to see. Default: user@host:program."),
    wait: float = SECONDS.option("How long to wait in the queue while no slot is free.", default=0.0),
    priority: int = Option(0, min=-100, max=100, help="Each point counts as one second of waiting."),
    wait_for_pool: bool = Option(False, "--wait-for-pool", help="Wait as well while no pool serves LABEL yet."),
    realms: str | None = REALMS,
    on_refusal: int = ON_REFUSAL,
    signal_ending: bool = SIGNAL_ENDING,
    detach: bool = Option(False, "--detach", help="Hold the slot in the background, until hub return SLOT."),
    env: list[Pair] | None = ENV,
    quiet: bool = Option(False, "--quiet", "-q", help="Do not print the position in the queue."),
    count: int = COUNT,
    as_json: bool = AS_JSON,
) -> Coroutine[Any, Any, int]:
    """Borrow a slot and keep it until Ctrl-C or SIGTERM, or while COMMAND runs.

    Exit codes: that of COMMAND; 75 where no slot was lent, 77 where it is not allowed, 69 where no hub answers.

    COMMAND finds HUB_SLOT_ID, HUB_SLOT_ENDPOINT, HUB_SLOT_LABEL, HUB_SLOT_POOL, HUB_SLOT_NODE, HUB_LEASE_TOKEN and
    HUB_RUN_ID in its environment, and each attribute of the slot, as HUB_SLOT_VRAM. When the lease is lost, COMMAND is
    stopped before the slot can be lent again.
    """
    if count != 1:
        raise Usage("hub borrow lends one slot; there are no bundles of several: run it once for each slot.")
    label, command = sort_out(label, command, where, any_of)
    _check(command, env or [], "--json" if as_json else "--detach" if detach else "", signal_ending=signal_ending)
    several = [name.strip() for name in (realms or "").split(",") if name.strip()]
    name = name or own_name(Path(command[0]).name if command else "hub")
    how = {"ttl": ttl, "run": run, "name": name, "wait": wait, "priority": priority, "wait_for_pool": wait_for_pool}
    pipe = detached.fork() if detach else 0

    async def use(slot: Slot, signals: Signals) -> int | None:
        if command:
            return await _run(slot, command, env or [], signals, signal_ending=signal_ending)
        with detached.recorded(at.url, slot) if detach else nullcontext():
            await _hold(slot, signals, pipe, as_json=as_json)
        return None

    choosing = wanted(where, any_of, prefer)
    return _borrow(at, label, {**how, "realms": several, **choosing}, use, on_refusal, quiet=quiet)


def _check(command: list[str] | None, env: list[Pair], prints: str, *, signal_ending: bool) -> None:
    """Raise `Usage` for options that do not go with a command, or need one; `prints` is the option that prints the
    slot."""
    each_once(env, "--env")
    if command:
        check_command(command)
        if prints:
            raise Usage(f"{prints} prints the slot, and COMMAND gets it in its environment: give one of them.")
    elif env or signal_ending:
        raise Usage(f"{'--env sets a variable of' if env else '--signal-ending signals'} COMMAND, and there is none.")


@command("runner")
def give_back(
    at: Address,
    slot: str = SLOT.argument("The id of the slot."),
    label: str | None = Input("LABEL", read_stem).option("The pool of the slot. Default: the hub is asked."),
    token: str | None = Input("TOKEN", read_id).option("Return the slot only if it is lent with this fencing token."),
    run: str | None = RUN.option("Return the slot only if it is lent to this run."),
    force: bool = Option(False, "--force", help="End the lease of another holder. Needs --reason."),
    reason: str | None = TEXT.option("The reason, for the audit log."),
) -> Work:
    """Give a borrowed slot back. Prove that it is yours with --token or --run, or end it with --force and --reason.

    One that you hold in the background, by `hub borrow --detach`, needs no proof.

    With --force the holder is told who ended it and why, and the slot is lent again when the holder has stopped or the
    grace period is over.
    """
    if sum((token is not None, run is not None, force)) > 1:
        raise Usage("--token, --run and --force are three proofs of the right to end a lease: give one of them.")
    if force != bool(reason and reason.strip()):
        raise Usage("--force and --reason TEXT go together.")
    return _return(as_operator(at) if force else at, slot, label, token, run, reason if force else None)


async def _return(at: Address, slot: str, label: str | None, *proofs: str | None) -> CommandAnswer:
    held = detached.find(at.url, slot)
    if held is not None and (not any(proofs) or held.token in proofs):
        label, proofs = held.pool, (held.token, None, None)
    else:
        held = None
    try:
        async with HubApi(at) as hub:
            return await _give_back(hub, slot, label, *proofs)
    finally:
        if held is not None:
            held.end()  # also when no hub has answered: then the keeper tries to give the slot back, and ends


async def _borrow(
    at: Address,
    label: str,
    how: Mapping[str, Any],
    use: Callable[[Slot, Signals], Awaitable[int | None]],
    on_refusal: int,
    *,
    quiet: bool,
) -> int:
    """Borrow a slot, hold it while `use` runs, and return the exit code of that, or 0; a refusal has others.

    `how` are the keywords of `HubClient.borrow`.
    """
    ticket, named = uuid.uuid4().hex, label or " or ".join(choice.label for choice in how["any_of"])
    try:
        with interruptible(f"Interrupted before a slot of {named} was lent.") as signals:
            if how["wait"] == 0 and not await listens(at.url):
                raise HubUnavailable(f"No hub listens at {mask_url(at.url)}.")
            async with _delivered(signals), HubClient(at.url, at.credential) as client, AsyncExitStack() as held:
                async with _position_shown(at, ticket, named) if how["wait"] and not quiet else nullcontext():
                    slot = await held.enter_async_context(client.borrow(label, ticket=ticket, **how))
                slot.on_unwell(partial(_note_unwell, slot.id))
                slot.on_ending(partial(_note_ending, slot.id))
                if (code := await use(slot, signals)) is not None:
                    return code
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


def _note_unwell(slot_id: str, reason: str | None) -> None:
    output.note(f"{slot_id} is well again." if reason is None else f"{slot_id} is unwell: {output.one_line(reason)}")


def _note_ending(slot_id: str, end: Ending | None) -> None:
    if end is None:
        output.note(f"the lease of {slot_id} does not end so soon any more.")
        return
    why = {"idle": "it is not used", "max-hold": "it is held for as long as the rule of its pool allows"}
    left = output.duration(end.seconds_left)
    output.note(f"the lease of {slot_id} ends in {left}: {why.get(end.reason, 'the rule of its pool has changed')}.")


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
    """Return the sentence on a position in the queue, with the estimated wait where it is known, and a hint if any."""
    estimate = place.get("estimatedWaitSeconds")
    takes = "how long it takes is not known" if estimate is None else f"about {output.duration(round(estimate))} to go"
    hint = f" But {place['hint']}." if place.get("hint") else ""
    return f"waiting for {label}: number {place.get('position')} in the queue, {takes}.{hint}"


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


async def _hold(slot: Slot, signals: Signals, pipe: int, *, as_json: bool) -> None:
    stop = asyncio.Event()
    signals.then = lambda _: stop.set()
    document = _document(slot) | ({"keeper": os.getpid()} if pipe else {})
    facts(document, _FACTS, only_known=True).put(as_json=as_json)
    if pipe:
        detached.leave_terminal(pipe)
    elif not as_json:
        output.note("the slot is yours until you stop this command (Ctrl-C).")
    await stop.wait()


async def _run(slot: Slot, command: list[str], env: Sequence[Pair], signals: Signals, *, signal_ending: bool) -> int:
    environment = _environment(slot, env)
    early: list[int] = []
    signals.then = early.append
    child = await Child.start(command, environment, when_we_die=signal.SIGKILL)
    signals.then = child.forward
    for number in early:  # signals that came while the command was started
        child.forward(number)
    if signal_ending:
        slot.on_ending(lambda end: child.forward(signal.SIGUSR1) if end else None)
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
        raise LeaseLost(f"The lease of {slot.id} {_how_it_ends(slot)}, and the command was stopped.")
    return code


async def _stop_ahead(slot: Slot, child: Child) -> None:
    """Wait until the lease is about to end because it could not be renewed, then ask the command to stop."""
    ahead_s = min(STOP_AHEAD_S, STOP_AHEAD_SHARE * slot.ttl_s)
    while True:
        left_s = slot.seconds_left() - ahead_s
        if left_s <= 0:
            break
        await asyncio.sleep(min(left_s, _LOOK_S))  # in short steps, because renewals move the end
    output.note(f"the lease of {slot.id} {_how_it_ends(slot)}; stopping the command.")
    child.terminate()


def _how_it_ends(slot: Slot) -> str:
    return "ends by a rule of its pool" if slot.ending.is_set() else "could not be renewed"


def _environment(slot: Slot, env: Sequence[Pair]) -> dict[str, str]:
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)}  # of an outer borrow
    variables = slot_variables(slot)
    lease = {"HUB_LEASE_TOKEN": slot.token, "HUB_RUN_ID": slot.run or ""}
    return without_secrets(inherited) | variables | lease | filled(env, slot, variables)


def _document(slot: Slot) -> Row:
    return {
        "slotId": slot.id,
        "label": slot.label,
        "pool": slot.pool,
        **({"realm": slot.realm} if slot.realm else {}),
        "address": slot.address,
        "kind": slot.kind,
        "attributes": slot.attributes,
        "environment": [f"{name}={text}" for name, text in slot_variables(slot).items()],
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
        f"The slot {slot} is lent to {holder_name(lease) or '(unknown)'} for run {run_name(lease) or '(none)'} "
        f"as {lease.get('label')}, borrowed "
        f"{output.when(lease.get('borrowedAt'))}, {left} left. "
        "Say --token or --run if it is yours, else --force --reason TEXT."
    )


_FACTS: Columns = {
    "SLOT": "slotId", "ENDPOINT": "address", "POOL": "pool", "REALM": "realm", "NODE": "nodeId", "RUN": "runId",
    "TOKEN": lambda slot: slot["lease"]["token"],
    "LEASE": lambda slot: f"{output.duration(slot['lease']['ttlSeconds'])}, renewed until "
    + (f"hub return {slot['slotId']}" if "keeper" in slot else "you stop"),
    "KEEPER": "keeper",
}  # fmt: skip
