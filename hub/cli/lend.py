"""`hub borrow` and `hub return`: borrow slots, and give them back."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

from typer import Option

from hub.cli import detached, lent, output
from hub.cli.answers import CommandAnswer, holder_name, run_name
from hub.cli.child import Signals, interruptible
from hub.cli.choosing import ANY_OF, PREFER, WHERE, BorrowWish, Choice, sort_out
from hub.cli.command import Work, command
from hub.cli.connection import PAGE, Address, HubApi, Row, as_operator, listens, members, over_http, secret_refused
from hub.cli.inputs import InputEnded, Pair, Usage, check_command, each_once, read_id, read_stem, seconds
from hub.cli.options import AS_JSON, COMMAND, RUN, SECONDS, SLOT, STEM, TEXT, Input
from hub.cli.progress import changing_line, is_watched
from hub.cli.slot_variables import read_variable
from hub.client import HubClient, Slot
from hub.client.backlog import EXIT_S, all_delivered, drop_everything
from hub.client.borrower import Borrowing
from hub.client.bundle import Held, slots_of
from hub.client.naming import own_name
from hub.client.using import Ending
from hub.errors import HubError, HubUnavailable, LeaseOver, NoCapacity, NoSuchPool, NotFound, Unauthorized, Unavailable
from hub.retries import now_s
from hub.settings import mask_url

# Exit codes of sysexits.h: a failure that may pass, a missing right, a service that is not there.
NO_SLOT, NOT_ALLOWED, NO_HUB = 75, 77, 69
# Seconds at the end for the delivery of calls that the hub has not taken: longer than most restarts of a hub.
DELIVERY_S = 30.0
LABEL = STEM.argument("The label to borrow, such as gpu:a100. Only --any-of replaces it.", default=None)
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
COUNT = Option(1, min=1, max=16, metavar="N", help="How many slots to borrow: all of them, or none.")
SAME_NODE = Option(False, "--same-node", help="With --count: take all slots from one node.")
TOGETHER = Option(False, "--together", help="With --count: the hub ends all leases as soon as one slot is lost.")
SIGNAL_ENDING = Option(
    False, "--signal-ending", help="Send COMMAND SIGUSR1 when a rule of the pool is about to end the lease."
)
_LOOK_S = 1.0
_DELIVERY_LOOK_S = 0.1


@command("runner")
def borrow(
    at: Address,
    label: str | None = LABEL,
    command: list[str] | None = COMMAND,
    count: int = COUNT,
    same_node: bool = SAME_NODE,
    together: bool = TOGETHER,
    where: str | None = WHERE,
    any_of: list[Choice] | None = ANY_OF,
    prefer: list[str] | None = PREFER,
    ttl: float | None = TTL,
    run: str | None = RUN.option("The run that uses the slot."),
    name: str | None = Input("NAME").option("Who holds it, for others to see. Default: user@host:program."),
    wait: float = SECONDS.option("How long to wait in the queue while no slot is free.", default=0.0),
    priority: int = Option(0, min=-100, max=100, help="Each point counts as one second of waiting."),
    wait_for_pool: bool = Option(False, "--wait-for-pool", help="Wait as well while too few slots are published."),
    realms: str | None = REALMS,
    on_refusal: int = ON_REFUSAL,
    signal_ending: bool = SIGNAL_ENDING,
    detach: bool = Option(False, "--detach", help="Hold the slot in the background, until hub return SLOT."),
    env: list[Pair] | None = ENV,
    quiet: bool = Option(False, "--quiet", "-q", help="Do not print the position in the queue."),
    as_json: bool = AS_JSON,
) -> Coroutine[Any, Any, int]:
    """Borrow a slot, or several, and keep them until Ctrl-C or SIGTERM, or while COMMAND runs.

    Exit codes: that of COMMAND; 75 where no slot was lent, 77 where it is not allowed, 69 where no hub answers.

    COMMAND finds HUB_SLOT_ID, HUB_SLOT_ENDPOINT, HUB_SLOT_LABEL, HUB_SLOT_POOL, HUB_SLOT_NODE, HUB_LEASE_TOKEN and
    HUB_RUN_ID in its environment, and each attribute of the slot, as HUB_SLOT_VRAM. When the lease is lost, COMMAND is
    stopped before the slot can be lent again.
    With --count these are of the first slot. HUB_SLOT_IDS has all ids, HUB_BUNDLE the bundle, and CUDA_VISIBLE_DEVICES
    each attribute `index`, where all are on one node. The loss of one lease stops COMMAND.
    """
    label, command = sort_out(label, command, where, any_of)
    _check(command, env or [], "--json" if as_json else "--detach" if detach else "", signal_ending=signal_ending)
    name = name or own_name(Path(command[0]).name if command else "hub")
    how = {"ttl": ttl, "run": run, "name": name, "wait": wait, "priority": priority, "wait_for_pool": wait_for_pool}
    wish = BorrowWish(label, where or "", any_of or (), prefer or (), realms or "", count, same_node, together)
    block = wish.block(detach=detach, **how)
    pipe = detached.fork() if detach else 0

    async def use(held: Held, signals: Signals) -> int | None:
        if command:
            return await lent.run(held, command, env or [], signals, signal_ending=signal_ending)
        with detached.recorded(at.url, held) if isinstance(held, Slot) and detach else nullcontext():
            await lent.hold(held, signals, pipe, as_json=as_json)
        return None

    return _borrow(at, wish, block, use, on_refusal, waits=wait != 0, quiet=quiet)


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
    slot: str = SLOT.argument("The id of the slot, or of a bundle: then all of its slots are given back."),
    label: str | None = Input("LABEL", read_stem).option("The pool of the slot. Default: the hub is asked."),
    token: str | None = Input("TOKEN", read_id).option("Return the slot only if it is lent with this fencing token."),
    run: str | None = RUN.option("Return the slot only if it is lent to this run."),
    force: bool = Option(False, "--force", help="End the lease of another holder. Needs --reason."),
    reason: str | None = TEXT.option("The reason, for the audit log."),
) -> Work:
    """Give a borrowed slot back. Prove that it is yours with --token or --run, or end it with --force and --reason.

    One that you hold in the background, by `hub borrow --detach`, needs no proof, and neither does a bundle.

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
            answer = await _give_back(hub, slot, label, *proofs)
    except (LeaseOver, NotFound, Unavailable):
        if held is not None:
            held.end()  # the slot is not lent any more, or no hub could answer: then the keeper gives the slot back
        raise
    if held is not None:
        held.end()
    return answer


async def _borrow(
    at: Address,
    wish: BorrowWish,
    block: Callable[..., Borrowing[Any]],
    use: Callable[[Held, Signals], Awaitable[int | None]],
    on_refusal: int,
    *,
    waits: bool,
    quiet: bool,
) -> int:
    """Borrow what `block` borrows, hold it while `use` runs, and return the exit code of that, or 0; a refusal has
    others."""
    ticket, named, them = uuid.uuid4().hex, wish.named, "one" if wish.number == 1 else "them"
    were = f"a slot of {named} was" if wish.number == 1 else f"{named} were"
    try:
        with interruptible(f"Interrupted before {were} lent.") as signals:
            if not waits and not await listens(at.url):
                raise HubUnavailable(f"No hub listens at {mask_url(at.url)}.")
            async with _delivered(signals), HubClient(at.url, at.credential) as client, AsyncExitStack() as stack:
                async with _position_shown(at, ticket, named) if waits and not quiet else nullcontext():
                    held = await stack.enter_async_context(block(client, ticket=ticket))
                for slot in slots_of(held):
                    slot.on_unwell(partial(_note_unwell, slot.id))
                    slot.on_ending(partial(_note_ending, slot.id))
                if (code := await use(held, signals)) is not None:
                    return code
    except NoSuchPool as error:
        sentence = str(error) if str(error).endswith("?") else f"{error};"
        raise InputEnded(f"{sentence} --wait-for-pool waits for what comes later.", on_refusal) from None
    except NoCapacity as error:
        sentence = str(error) if waits else f"{str(error).rstrip('.')}; --wait SECONDS waits for {them}."
        raise InputEnded(sentence, on_refusal) from None
    except Unauthorized as error:
        raise InputEnded(secret_refused(error), NOT_ALLOWED) from None
    except HubUnavailable as error:
        raise InputEnded(str(error), NO_HUB) from None
    if not held.owed:  # else a note has said until when it stays lent
        ids = [slot.id for slot in slots_of(held)]
        output.note(f"{', '.join(ids)} {'is' if len(ids) == 1 else 'are'} given back.")
    return 0


def _note_unwell(slot_id: str, reason: str | None) -> None:
    output.note(f"{slot_id} is well again." if reason is None else f"{slot_id} is unwell: {output.one_line(reason)}")


def _note_ending(slot_id: str, end: Ending | None) -> None:
    if end is None:
        output.note(f"the lease of {slot_id} does not end so soon any more.")
        return
    why = {
        "idle": "it is not used", "max-hold": "it is held for as long as the rule of its pool allows",
        "recall": "it is recalled for a team below its guarantee",
    }  # fmt: skip
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
            if re.fullmatch("b[0-9]+", slot):
                if not proof:
                    return _all_given_back(slot, await hub.ask("POST", "bundles", slot, "return", body={}))
                await _refuse_proof(hub, slot)
            raise NotFound(f"The slot {slot} is not lent.") from None
        if not proof:
            raise HubError(_whose(slot, lease))
        label = str(lease.get("pool"))
    answer = await hub.ask("POST", "session", "return", body={"label": label, "slotId": slot, **proof})
    if run and "note" in answer:
        raise HubError(f"The slot {slot} is not lent to run {run}; nothing was changed.")
    return CommandAnswer(answer, f"{slot}: {answer['note']}." if "note" in answer else f"{slot} is given back.")


async def _refuse_proof(hub: HubApi, bundle: str) -> None:
    """Raise a `HubError` that says how to end a bundle, where slots of it are lent."""
    _, leases = members(await hub.get("sessions", limit=PAGE), "leases")  # those that end first
    if ids := [str(lease["slotId"]) for lease in leases if lease.get("bundle") == bundle]:
        raise HubError(
            f"{bundle} is a bundle. Its holder gives it back with hub return {bundle}; an operator ends its slots "
            f"one by one: {', '.join(ids)}."
        )


def _all_given_back(bundle: str, answer: Row) -> CommandAnswer:
    ids = answer["returned"]
    shown = f"{', '.join(ids)} of {bundle} {'is' if len(ids) == 1 else 'are'} given back."
    return CommandAnswer(answer, shown if ids else f"{bundle}: {answer.get('note')}.")


def _whose(slot: str, lease: Row) -> str:
    left = output.duration(lease.get("secondsLeft"))
    return (
        f"The slot {slot} is lent to {holder_name(lease) or '(unknown)'} for run {run_name(lease) or '(none)'} "
        f"as {lease.get('label')}, borrowed "
        f"{output.when(lease.get('borrowedAt'))}, {left} left. "
        "Say --token or --run if it is yours, else --force --reason TEXT."
    )
