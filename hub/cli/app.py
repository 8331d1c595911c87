"""The tree of commands. The module of a command is imported only when the command is called."""

from __future__ import annotations

import importlib
from copy import copy
from typing import Any, Literal, NamedTuple

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup

from hub import __version__
from hub.cli import output
from hub.cli.global_options import REALM, UTC, VERBOSE, WIDE


class Entry(NamedTuple):
    """A command: its place, as `module:name` in this package, and its line in the list of commands.

    A function that shows a list, or one thing of it by its id, makes two commands: `of` is "all" for the list, and
    "one" for the one thing.
    """

    target: str
    summary: str
    hidden: bool = False
    of: Literal["all", "one"] | None = None


# The verbs of each noun.
NOUNS: dict[str, dict[str, Entry]] = {
    "node": {
        "ls": Entry("look:nodes", "Show the registered nodes.", of="all"),
        "show": Entry("look:nodes", "Show a node, with its slots.", of="one"),
        "drain": Entry("draining:drain", "Stop lending the slots of a node that is to go."),
        "cordon": Entry("draining:cordon", "Stop lending the slots of a node, for a reason."),
        "undrain": Entry("draining:undrain", "Lend the slots of a drained or cordoned node again."),
    },
    "slot": {
        "ls": Entry("look:slots", "Show the slots, and why each is held that is."),
        "show": Entry("history:slot", "Show a slot and explain its state."),
        "hold": Entry("holding:hold", "Stop lending a slot that is unwell, for a reason."),
        "release": Entry("holding:release", "Lend a slot again that an operator has held."),
    },
    "pool": {
        "ls": Entry("look:pools", "Show the pools: slots free, lent and held back.", of="all"),
        "show": Entry("look:pools", "Show a pool.", of="one"),
        "attributes": Entry("look:attributes", "Show the attributes of slots that may serve a label."),
        "rules": Entry("pool_rules:rules", "Show how long slots of pools may be held and left unused."),
        "set": Entry("pool_rules:set_rule", "Change the rule of the pools that fit a pattern."),
        "unset": Entry("pool_rules:unset", "Remove the rule of a pattern."),
    },
    "team": {
        "ls": Entry("teams:ls", "Show what teams that share pools hold, are due and wait for."),
        "set": Entry("teams:set_row", "Set what a team is to have of the pools that fit a pattern."),
        "rm": Entry("teams:rm", "Remove the row of a team for a pattern."),
    },
    "lease": {
        "ls": Entry("look:leases", "Show the leases.", of="all"),
        "show": Entry("look:leases", "Show the lease of a slot.", of="one"),
    },
    "audit": {
        "ls": Entry("audit:audit", "Show which changes were made, by whom and why."),
    },
    "realm": {
        "ls": Entry("realms:ls", "Show the realms that the hub serves."),
        "show": Entry("realms:show", "Show a realm, with the labels, rooms and nodes that belong to it."),
        "add": Entry("realms:add", "Add a realm to the file of realms."),
        "move": Entry("realms:move", "Move the store of a realm to another server."),
        "rm": Entry("realms:rm", "Remove a realm from the file of realms."),
    },
    "job": {
        "ls": Entry("jobs:jobs", "Show the jobs that a room can use.", of="all"),
        "show": Entry("jobs:jobs", "Show a job, with its workers and its schema.", of="one"),
    },
    "worker": {
        "ls": Entry("jobs:workers", "Show the workers."),
        "show": Entry("history:worker", "Show a worker and explain its state."),
    },
    "provider": {
        "ls": Entry("jobs:providers", "Show the providers that a room can use."),
        "show": Entry("jobs:provider", "Show a provider, with its schema."),
    },
    "task": {
        "ls": Entry("jobs:tasks", "Show the tasks of a room.", of="all"),
        "show": Entry("jobs:tasks", "Show a task, with its result, progress and log.", of="one"),
        "submit": Entry("jobs:submit", "Submit a task to a job."),
        "cancel": Entry("jobs:cancel", "Cancel a task."),
        "retry": Entry("jobs:retry", "Submit a failed task again."),
    },
}
_NUMBERS = {"int range": "N", "float range": "SECONDS", "float": "SECONDS"}
_OF_ONE = {"as_json", "url", "secret", "token"}  # the options that are kept where one thing is shown


GROUPS: dict[str, dict[str, Entry]] = {
    "Lend": {
        "borrow": Entry("lend:borrow", "Borrow a slot, and keep it while a command runs."),
        "return": Entry("lend:give_back", "Give a borrowed slot back."),
        "mcp": Entry("mcp:mcp", "Serve an agent that borrows slots, by the Model Context Protocol."),
        "agent": Entry("announce:agent", "Announce this machine and what it lends."),
        "node": Entry("", "Nodes: ls, show, drain, cordon, undrain."),
        "slot": Entry("", "Slots: ls, show, hold, release."),
        "pool": Entry("", "Pools: ls, show, attributes, rules, set, unset."),
        "team": Entry("", "Teams that share pools: ls, set, rm."),
        "lease": Entry("", "Leases: ls, show."),
        "drain": Entry("draining:drain", "", hidden=True),
        "cordon": Entry("draining:cordon", "", hidden=True),
        "undrain": Entry("draining:undrain", "", hidden=True),
        "caps": Entry("queue:caps_app", "Caps on the leases of a label: ls, show, set, clear."),
    },
    "Look": {
        "realm": Entry("", "Realms: ls, show, add, move, rm."),
        "status": Entry("status:status", "Show the state of the fleet and every trouble."),
        "usage": Entry("usage:usage", "Show who used what: leases, time held and waited, refusals."),
        "memory": Entry("status:memory", "Show which users and rooms hold most of the memory."),
        "config": Entry("config:config_app", "Settings: ls, show, set, clear."),
        "top": Entry("top:top", "Watch pools, nodes, the queue and tasks as they change."),
        "nodes": Entry("look:nodes", "", hidden=True),
        "pools": Entry("look:pools", "", hidden=True),
        "leases": Entry("look:leases", "", hidden=True),
        "queue": Entry("queue:queue_app", "The queue: ls, show, cancel."),
        "autoscale": Entry("look:autoscale", "Show how many slots a pool should have, or how many tasks a job has."),
        "why": Entry("history:why", "Explain the state of a node, slot, task, worker ..."),
        "audit": Entry("", "The audit log: ls."),
        "events": Entry("history:events", "Show the latest events, or follow new ones."),
        "ui": Entry("ui:ui", "Open the console, logged in."),
        "manual": Entry("manual:manual", "Read the manual of this version."),
    },
    "Jobs": {
        "job": Entry("", "Jobs: ls, show."),
        "worker": Entry("", "Workers: ls, show."),
        "provider": Entry("", "Providers of data: ls, show."),
        "jobs": Entry("jobs:jobs", "", hidden=True),
        "workers": Entry("jobs:workers", "", hidden=True),
        "task": Entry("", "Tasks: ls, show, submit, cancel, retry."),
        "tasks": Entry("jobs:tasks", "", hidden=True),
        "submit": Entry("jobs:submit", "Submit a task to a job."),
        "cancel": Entry("jobs:cancel", "", hidden=True),
        "retry": Entry("jobs:retry", "", hidden=True),
        "schedule": Entry("schedules:app", "Schedules of tasks: ls, show, add, pause, resume, rm."),
        "dead": Entry("jobs:dead_app", "Dead letters: ls, show, retry, drop."),
    },
    "Recover": {
        "recovery": Entry("recovery:app", "Reset records that are stuck in the databases around the hub."),
        "doctor": Entry("admin:doctor", "Check every invariant on Redis itself, and repair what is broken."),
        "store": Entry("backup:app", "Copy the store into a file, and back."),
        "sweep": Entry("admin:sweep", "Look for dead nodes and expired leases now."),
        "expire": Entry("admin:expire", "Switch the removal of dead nodes on or off."),
        "brake": Entry("admin:brake", "Show or release the brake on mass removal."),
    },
    "Run": {
        "demo": Entry("demo:demo", "Try the hub with a Redis of its own and three agents."),
        "serve": Entry("serving:serve", "Run a hub."),
        "gate": Entry("gate:gate", "Run a gate: one URL that lends slots to those that connect."),
        "internal-worker": Entry("serving:internal_worker", "Run tasks of the @internal jobs."),
        "completion": Entry("completing:completion", "Print the completion script of a shell."),
        "login": Entry("login:login", "Log in at the issuer of the hub, by a code for a browser."),
        "logout": Entry("login:logout", "Forget the login of hub login."),
        "hook": Entry("hooks:app", "Hooks: add, ls, show, test, pause, resume, rm."),
        "token": Entry("tokens:app", "Tokens of users and of nodes: ls, show, create, revoke."),
    },
}
ENTRIES = {name: entry for group in GROUPS.values() for name, entry in group.items()}


class Listed(TyperGroup):
    """A group of commands that imports the module of a command only to run it, not to list it."""

    groups = GROUPS

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in the order of the groups."""
        return [name for entries in self.groups.values() for name in entries]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return an empty command with the name and the help of this one, for the list of commands."""
        for group, entries in self.groups.items():
            if entry := entries.get(cmd_name):
                return TyperCommand(cmd_name, help=entry.summary, rich_help_panel=group, hidden=entry.hidden)
        return None

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the name, the command, whose module is imported for that, and the rest of the line."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is None or command is None:
            return name, None, rest
        return name, _load(name, next(entries[name] for entries in self.groups.values() if name in entries)), rest


def _load(name: str, entry: Entry) -> Any:
    if not entry.target:
        noun = Listed(name=name, help=entry.summary, no_args_is_help=True)
        noun.groups = {"Commands": NOUNS[name]}
        return noun
    module, _, attribute = entry.target.partition(":")
    target = getattr(importlib.import_module(f"hub.cli.{module}"), attribute)
    if isinstance(target, typer.Typer):
        group = typer.main.get_group(target)
        group.name = name
        for command in group.commands.values():
            _name_values(command)
        return group
    alone = typer.Typer(add_completion=False)
    alone.command(name)(target)
    command = typer.main.get_command(alone)
    _name_values(command)
    return command if entry.of is None else _narrowed(command, entry)


def _name_values(command: Any) -> None:
    """Set the names of values in the help of a command, such as LABEL, N or SECONDS, in place of types and readers.

    Also remove the line breaks of the source, which typer keeps, from its paragraphs.
    """
    command.help = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    for parameter in command.params:
        if parameter.param_type_name == "option":
            parameter.metavar = parameter.metavar or _NUMBERS.get(parameter.type.name)
        elif parameter.type.name != "choice":
            parameter.type = copy(parameter.type)
            parameter.type.get_metavar = lambda *_, **__: ""


def _narrowed(command: Any, entry: Entry) -> Any:
    """Return the command for the whole list, without its argument, or for one thing, with its argument required."""
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [parameter for parameter in command.params if parameter not in arguments]
    command.help = entry.summary
    if entry.of == "all":
        command.params = options
        return command
    for argument in arguments:
        argument.required, argument.metavar = True, argument.metavar.strip("[]")
    command.params = [*arguments, *(option for option in options if option.name in _OF_ONE)]
    return command


app = typer.Typer(
    cls=Listed,
    help="Lends what exists once - browsers, GPUs, licences - and takes it back when its holder is gone.",
    epilog="nodes, pools, leases, jobs, workers and tasks are `node ls` and so on; drain, cordon, undrain, cancel "
    "and retry need no noun. --realm NAME, --utc, --wide and --verbose may stand behind any command. Settings come "
    "from the environment and the nearest .env file. Exit codes: 0 done, 1 refused or failed, 2 wrong usage; with "
    "--json a failure is a line of JSON on stderr.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        output.put(f"capacity-hub {__version__}")
        raise typer.Exit


def _realms(context: typer.Context, incomplete: str) -> list[str]:
    from hub.cli import completing  # imported here, so that `--version` does not wait for it

    return completing.realms(context, incomplete)


# `global_options` reads all but `--version` before this, behind any command; they are declared here for the help.
@app.callback()
def _root(
    context: typer.Context,
    version: bool = Option(False, "--version", callback=_version, is_eager=True, help="Print the version and exit."),
    verbose: bool = Option(False, VERBOSE, help="Print where settings come from, and notes on proxies."),
    utc: bool = Option(False, UTC, help="Show times in UTC instead of how long ago they were."),
    realm: str = Option(
        "",
        REALM,
        metavar="NAME",
        autocompletion=_realms,
        help="The realm. '*' shows all realms, where a command lists them.",
    ),
    wide: bool = Option(False, WIDE, help="Show whole tables, wider than the terminal."),
) -> None:
    if context.invoked_subcommand is None:
        output.put_rendered(context.get_help())
