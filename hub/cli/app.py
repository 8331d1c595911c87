"""The commands as they are typed."""

from __future__ import annotations

import asyncio
import socket
from typing import Annotated, Literal

import typer

from hub import __version__
from hub.capacity.nodes.models import State
from hub.cli import (
    admin,
    announce,
    dead,
    demo,
    draining,
    history,
    inputs,
    internal,
    jobs,
    lend,
    look,
    manual,
    output,
    queue,
    recovery,
    serving,
    status,
    surroundings,
    telling,
    tokens,
    top,
    ui,
)
from hub.cli.inputs import (
    Pair,
    Pool,
    Usage,
    read_id,
    read_label,
    read_pair,
    read_pool,
    read_url,
    seconds,
)
from hub.cli.options import AsJson, JoinTokenFile, Secret, TokenFile, Url
from hub.cli.reach import Address, Role, address, operating, plain_logs
from hub.client import AgentOptions
from hub.observability.logs import configure_logs
from hub.settings import load_settings

app = typer.Typer(
    help="Lends what exists once - browsers, GPUs, licences - and takes it back when its holder is gone.",
    epilog="Settings come from the environment and the nearest .env file. "
    "Exit codes: 0 done, 1 refused or failed, 2 wrong usage.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000_000, help="Show at most so many.")]
Command = Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND", help="A command to run, after two dashes.")]


def _version(wanted: bool) -> None:
    if wanted:
        output.put(f"capacity-hub {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
    verbose: Annotated[  # taken off the line before it is read here, so that it may stand behind any command
        bool, typer.Option(telling.VERBOSE, help="Say where settings come from, and what is done otherwise than asked.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        output.put(context.get_help())


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on; else HUB_HOST, else 127.0.0.1.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Else HUB_PORT, else 8080; 0: a free one.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, max=256, help="Processes; else HUB_WORKERS, else 1.")] = None,
    tls_cert: Annotated[str | None, typer.Option(metavar="FILE", help="Certificate; else HUB_TLS_CERT.")] = None,
    tls_key: Annotated[str | None, typer.Option(metavar="FILE", help="Its key; else HUB_TLS_KEY.")] = None,
    tls_client_ca: Annotated[
        str | None, typer.Option(metavar="FILE", help="Authorities of callers' certificates; else HUB_TLS_CLIENT_CA.")
    ] = None,
) -> int:
    """Run a hub until SIGTERM or Ctrl-C."""
    if host is not None and not host.strip():
        raise Usage("--host is empty.")
    files = {"HUB_TLS_CERT": tls_cert, "HUB_TLS_KEY": tls_key, "HUB_TLS_CLIENT_CA": tls_client_ca}
    return serving.serve({"HUB_HOST": host, "HUB_PORT": port, "HUB_WORKERS": workers, **files})


@app.command()
def agent(
    command: Command = None,
    node: Annotated[
        str | None, typer.Option(parser=read_id, metavar="NODE", help="Its id; else HUB_NODE_ID, else the host name.")
    ] = None,
    slots: Annotated[
        list[Pool] | None,
        typer.Option("--slots", parser=read_pool, metavar="LABEL=N", help="Lend N slots of LABEL. Repeatable."),
    ] = None,
    label: Annotated[
        list[Pair] | None,
        typer.Option("--label", parser=read_pair, metavar="KEY=VALUE", help="A fact about the machine. Repeatable."),
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(parser=read_url, metavar="URL", help="Where the machine itself can be reached.")
    ] = None,
    policy: Annotated[
        Literal["reuse", "recycle"], typer.Option(help="Whether a returned slot is lent again as it is.")
    ] = "reuse",
    join_token_file: JoinTokenFile = None,
    token_file: TokenFile = None,
    url: Url = None,
    secret: Secret = None,
) -> int:
    """Announce this machine and what it lends, and heartbeat for it until SIGTERM or Ctrl-C, or while COMMAND runs."""
    offered, facts = slots or [], label or []
    inputs.each_once(offered, "--slots")
    inputs.each_once(facts, "--label")
    if command:
        inputs.check_command(command)
    where = address(url, secret, "node")
    name = node or _own_node_id()
    options = AgentOptions(
        pools=dict(offered), labels=dict(facts), apps=[pool.label for pool in offered], policy=policy
    )
    if base_url is not None:
        options["base_url"] = base_url
    inputs.own_token(options, join_token_file, token_file)
    configure_logs(load_settings())
    return asyncio.run(announce.announce(where, name, options, command or []))


def _own_node_id() -> str:
    named = surroundings.environment().get("HUB_NODE_ID", "").strip()
    try:
        return read_id(named or socket.gethostname())
    except typer.BadParameter as error:
        raise Usage(f"HUB_NODE_ID: {error.message}") from None


@app.command()
def nodes(
    node: Annotated[
        str | None, typer.Argument(parser=read_id, metavar="NODE", help="Only this one, with its slots.")
    ] = None,
    state: Annotated[State | None, typer.Option(help="Only nodes in this state.")] = None,
    limit: Limit = 1000,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Show the registered nodes."""
    _one_of(("NODE", node), ("--state", state))
    asyncio.run(look.nodes(_looking(url, secret), as_json, limit=limit, state=state, node=node))


@app.command()
def pools(
    label: Annotated[str | None, typer.Argument(parser=read_label, metavar="LABEL", help="Only this one.")] = None,
    limit: Limit = 1000,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Show the pools: how many slots are free, lent and held back."""
    asyncio.run(look.pools(_looking(url, secret), as_json, limit=limit, label=label))


@app.command()
def autoscale(
    label: Annotated[str, typer.Argument(parser=read_label, metavar="LABEL", help="The pool.")],
    least: Annotated[int | None, typer.Option("--min", min=0, max=1_000_000, help="Want at least so many.")] = None,
    most: Annotated[int | None, typer.Option("--max", min=0, max=1_000_000, help="Want at most so many.")] = None,
    headroom: Annotated[
        int | None, typer.Option(min=0, max=1_000_000, help="Want so many more than are needed now.")
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Show how many slots a pool should have: what is lent, and what those who wait for it need."""
    if least is not None and most is not None and least > most:
        raise Usage("--min is above --max.")
    bounds = {"min": least, "max": most, "headroom": headroom}
    asyncio.run(look.autoscale(_looking(url, secret), label, bounds, as_json))


@app.command()
def sessions(
    slot: Annotated[str | None, typer.Argument(parser=read_id, metavar="SLOT", help="Only this one.")] = None,
    label: Annotated[str | None, typer.Option(parser=read_label, metavar="LABEL", help="Asked for as this.")] = None,
    pool: Annotated[str | None, typer.Option(parser=read_label, metavar="LABEL", help="Served by this pool.")] = None,
    node: Annotated[str | None, typer.Option(parser=read_id, metavar="NODE", help="On this node.")] = None,
    run: Annotated[str | None, typer.Option(parser=read_id, metavar="RUN", help="Of this run.")] = None,
    limit: Limit = 1000,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Show what is lent."""
    filters = {"label": label, "pool": pool, "node": node, "run": run}
    _one_of(("SLOT", slot), *((f"--{name}", value) for name, value in filters.items()))
    where = {name: value for name, value in filters.items() if value is not None}
    asyncio.run(look.sessions(_looking(url, secret), as_json, limit=limit, where=where, slot=slot))


@app.command()
def borrow(
    label: Annotated[str, typer.Argument(parser=read_label, metavar="LABEL", help="What to borrow, such as gpu:a100.")],
    command: Command = None,
    ttl: Annotated[
        float | None,
        typer.Option(parser=seconds(least=0.1), metavar="SECONDS", help="Length of the lease, renewed all the time."),
    ] = None,
    run: Annotated[str | None, typer.Option(parser=read_id, metavar="RUN", help="The run the slot is for.")] = None,
    wait: Annotated[
        float, typer.Option(parser=seconds(least=0), metavar="SECONDS", help="Wait in line so long while none is free.")
    ] = 0.0,
    priority: Annotated[
        int, typer.Option(min=-100, max=100, help="A point of it counts as a second in the queue.")
    ] = 0,
    wait_for_pool: Annotated[
        bool, typer.Option("--wait-for-pool", help="Wait also while no pool serves LABEL yet, instead of refusing.")
    ] = False,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> int:
    """Borrow a slot and keep it until Ctrl-C or SIGTERM, or while COMMAND runs.

    COMMAND finds HUB_SLOT_ID, HUB_SLOT_ENDPOINT, HUB_SLOT_LABEL, HUB_SLOT_POOL, HUB_SLOT_NODE, HUB_LEASE_TOKEN and
    HUB_RUN_ID in its environment. When the lease is lost it is stopped before the slot can be lent again.
    """
    if command:
        inputs.check_command(command)
        if as_json:
            raise Usage("--json prints the slot and COMMAND gets it in its environment: give one of the two.")
    wanted = lend.BorrowRequest(label, ttl, run, wait, priority, wait_for_pool)
    return asyncio.run(lend.borrow(address(url, secret, "runner"), wanted, command or [], as_json))


@app.command(name="return")
def give_back(
    slot: Annotated[str, typer.Argument(parser=read_id, metavar="SLOT", help="The id of the slot.")],
    label: Annotated[
        str | None, typer.Option(parser=read_label, metavar="LABEL", help="Its pool; else looked up.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(parser=read_id, metavar="TOKEN", help="Return only what was lent with this token.")
    ] = None,
    run: Annotated[
        str | None, typer.Option(parser=read_id, metavar="RUN", help="Return only what is lent to this run.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="End somebody else's lease; needs --reason.")] = False,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the audit log.")] = None,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Give a borrowed slot back. It has to be yours: say its token or its run, or --force and why.

    With --force its holder is told, and it is lent on when he has stopped or the grace is over.
    """
    if sum((token is not None, run is not None, force)) > 1:
        raise Usage("--token, --run and --force each say by what right: give one of them.")
    if force != bool(reason and reason.strip()):
        raise Usage("--force and --reason TEXT go together.")
    plain_logs()
    by = lend.Right(token, run, reason if force else None)
    asyncio.run(lend.give_back(address(url, secret, "runner"), slot, label, by, as_json))


@app.command()
def sweep(
    once: Annotated[bool, typer.Option("--once", help="Required: hubs sweep by themselves all the time.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing, show what would be done.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Look for dead nodes and lapsed leases now."""
    if not once:
        raise Usage("Hubs sweep by themselves all the time; say --once to sweep now as well.")
    asyncio.run(admin.sweep(operating(url, secret), as_json, dry_run=dry_run))


@app.command()
def expire(
    switch: Annotated[
        Literal["on", "off", "default"] | None,
        typer.Argument(help="on, off, or default: back to HUB_SWEEPER_EXPIRE. Nothing: show it."),
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Switch whether dead nodes are removed, for all hubs at once; or show it."""
    asyncio.run(admin.expire(operating(url, secret), switch, as_json))


@app.command()
def brake(
    action: Annotated[
        Literal["status", "release"],
        typer.Argument(help="status: show it. release: have all removed that are silent now."),
    ] = "status",
    workers: Annotated[bool, typer.Option("--workers", help="The brake on workers; else that on nodes.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Show or release the brake: when very many nodes are silent at once, none goes at first, then a few at a time."""
    of: Literal["nodes", "workers"] = "workers" if workers else "nodes"
    asyncio.run(admin.brake(operating(url, secret), as_json, of=of, release=action == "release"))


app.add_typer(draining.app)
app.add_typer(status.app)
app.add_typer(top.app)
app.add_typer(queue.queue_app, name="queue")
app.add_typer(queue.caps_app, name="caps")
app.add_typer(tokens.app, name="token")
for command in (jobs.jobs, jobs.workers, jobs.tasks, jobs.submit, jobs.cancel, jobs.retry):
    app.command()(command)
app.add_typer(dead.app, name="dead")
app.add_typer(recovery.app, name="recovery")
app.add_typer(recovery.app, name="zombies", hidden=True)  # its first name, in scripts and crontabs
app.command()(internal.internal_worker)
app.command()(history.why)
app.command()(history.events)
app.command()(manual.manual)
app.command()(ui.ui)


@app.command()
def doctor(
    repair: Annotated[bool, typer.Option("--repair", help="Repair what can be repaired.")] = False,
    as_json: AsJson = False,
) -> int:
    """Check every invariant on Redis itself (HUB_REDIS_URL or the running embedded server)."""
    return asyncio.run(admin.doctor(as_json, repair=repair))


@app.command(name="demo")
def run_demo(
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Where the hub listens; another when it is taken.")
    ] = 8080,
) -> int:
    """Try it: a hub with a Redis of its own and three agents; nothing of it stays."""
    plain_logs()
    return asyncio.run(demo.demo(port))


def _looking(url: str | None, secret: str | None) -> Address:
    return _asking(url, secret, "look")


def _asking(url: str | None, secret: str | None, role: Role) -> Address:
    plain_logs()
    return address(url, secret, role)


def _one_of(*given: tuple[str, object]) -> None:
    names = [name for name, value in given if value is not None]
    if len(names) > 1:
        raise Usage(f"{' and '.join(names)} exclude each other.")
