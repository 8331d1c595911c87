"""The library: all Lua files of `lua/`, joined into one library of Redis Functions.

A module is a file of `lua/` that returns a table, which has the name of the file: `queue.enter(...)` is in `queue.lua`.
A module may use the modules before it in `MODULES`. A command is a file of `lua/commands/`, in a folder named like the
part of `hub/` that calls it; it declares its name and its arguments, which Python passes by name. The names of the
library and its functions contain the version, a digest of the text, so that hubs of two versions can use one server.

Scripts of `lua/external/` run on Redis servers of other programs, where no library is loaded: their text is sent.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from operator import itemgetter
from typing import Any

from hub.store.keys import Keys, lua_module
from hub.store.keys.files import folder

MODULES = (
    "numbers", "times", "ids", "keys", "lenient", "call_state", "allowances", "store", "reserve", "command",
    "notifications", "holders", "history", "audit", "hook_labels", "hooks", "hubs",
    # capacity
    "pools", "orders", "slot_digests", "drains", "items", "caps", "wants", "classes", "free_slots", "patterns",
    "pool_rules", "teams", "shared", "turns", "alternatives", "team_turns", "team_shares", "team_counts",
    "bundle_wishes", "bundle_line", "listings", "team_listings", "team_lines", "class_listings", "class_heads",
    "lines", "line_limits", "class_counts", "slot_classes", "served_caps", "reserved_slots", "revocations",
    "lease_limits", "suspects", "lease_texts", "freshness", "holds", "kept_holds", "held_slots", "slots", "belonging",
    "node_processes", "liveness", "reports", "queue_order", "attempts", "tickets", "usage", "usage_days", "bundles",
    "leases", "endings", "foreign_items", "supply", "choosing", "matching", "fast_borrow", "fits", "team_tickets",
    "team_waiters", "waiters", "handoffs", "bundle_plans", "published_pools", "bundle_limits", "bundle_cells",
    "bundle_nodes", "bundle_stocks", "bundle_supply", "bundle_handoffs", "reserver", "reserve_turns",
    "bundle_rounds", "placing", "releases", "bundle_ends", "lease_use", "renewals", "nodes", "serving_classes",
    "serving_below", "serving", "spill_over", "team_needs", "team_leases", "team_matches", "team_recalls",
    "team_rounds", "queue", "bundle_queue", "newcomers", "publications", "team_changes", "tokens",
    # jobs
    "quotas", "names", "events", "tasks", "progress", "payload_values", "job_limits", "limit_counts",
    "limited_tasks", "limit_changes", "waited_slots", "task_slots", "task_renewals", "job_queue", "limit_rooms",
    "put_off_tasks", "claim_terms", "claims", "claimed_tasks", "jobs", "uniques", "blocked", "chains", "outcomes",
    "recalls", "submissions", "schedules", "workers", "incarnations", "providers", "dead_workers", "connections",
    # doctor
    "doctor_members", "doctor_line_members", "doctor_task_members", "doctor_limit_members", "doctor_classes",
    "doctor_lines", "doctor_bundles", "doctor_team_members", "doctor_team_rows", "doctor_team_recalls",
    "doctor_teams", "doctor_team_lines", "doctor_indexes", "doctor_task_slots", "doctor_slots",
    "doctor_slot_repair", "doctor_places", "doctor_nodes", "doctor_pools", "doctor_waits", "doctor_queue",
    "doctor_hubs", "doctor_limits", "doctor_held_tasks", "doctor_tasks", "doctor_workers", "doctor_jobs",
    "doctor_providers", "doctor_schedules", "doctor",
)  # fmt: skip
EXTERNAL = ("times", "record_times", "records")

LAST_USED = "last_used"  # the function that returns when a hub used the library last
NO_FENCE = ("", "")  # the fence of calls by a program that does not tick
_DECLARED = re.compile(r"^command(?:\.(\w+))?\('([a-z_/]+)', \{(.*?)\}, function", re.MULTILINE | re.DOTALL)
_ARGUMENT = re.compile(r"'((?:\.\.\.)?\w+)(?:: number)?',[ ]*(?:--.*)?$", re.MULTILINE)
# While a library is loaded, Lua has no globals but `redis.register_function`, and later each global costs two look-ups.
# So modules use locals with the names of the globals, which the first call of a function sets.
_GLOBALS = "redis, cjson, string, math, table, tonumber, tostring, ipairs, pairs, unpack, type, pcall, error"
_HEAD = f"""local register = redis.register_function
local function globals() return {_GLOBALS} end
local {_GLOBALS}
local function wake() {_GLOBALS} = globals() end
"""
_RUN = """
local answer
local function command(_, arguments, action)
  local named = {}
  for i, argument in ipairs(arguments) do
    local name, kind = string.match(argument, '^([%w_]+)(.*)$')
    if name then named[name] = kind ~= '' and tonumber(ARGV[i]) or ARGV[i] end
  end
  answer = action(named, ARGV, KEYS)
end
"""


@dataclass(frozen=True)
class Command:
    """The declaration of a command of the library: its name, which is that of its file, and its arguments in order."""

    name: str
    arguments: tuple[str, ...]
    takes_rest: bool
    changes: bool

    @cached_property
    def _in_order(self) -> Callable[[dict[str, Any]], Iterable[Any]]:
        if len(self.arguments) > 1:
            return itemgetter(*self.arguments)
        return lambda named: [named[name] for name in self.arguments]

    @classmethod
    def declared(cls, text: str) -> Command:
        """Return the command that the text of a file declares; raises ValueError for a file that declares none."""
        found = _DECLARED.search(text)
        if found is None:
            raise ValueError("the file of a command declares it: command.change('room/name', {'argument', ...}, ...")
        arguments = _ARGUMENT.findall(found[3])
        named = tuple(each for each in arguments if not each.startswith("..."))
        changes = not (found[1] or "").startswith("read")
        return cls(found[2], named, len(named) < len(arguments), changes)

    def ordered(self, rest: Iterable[Any], named: dict[str, Any]) -> list[Any]:
        """Return the values of the named arguments in their order, then `rest`; raises TypeError for wrong names."""
        try:
            if len(named) != len(self.arguments):
                raise KeyError
            in_order = self._in_order(named)
        except KeyError:
            raise TypeError(f"{self.name} takes {self.arguments}, not {tuple(named)}") from None
        return [*in_order, *rest]


@dataclass(frozen=True)
class Script(Command):
    """A command for a Redis of other programs: its whole text is sent, or its SHA-1 where that server knows it."""

    text: str
    sha: str


class Library:
    """The library of one version of the hub: its text, and its commands by name."""

    def __init__(self, body: str, commands: dict[str, Command]) -> None:
        self.version = hashlib.sha1(body.encode(), usedforsecurity=False).hexdigest()[:16]
        self.name = f"hub_{self.version}"
        names = "".join(f"  ['{name}'] = '{self.function(name)}',\n" for name in (*commands, LAST_USED))
        self.text = f"#!lua name={self.name}\nlocal FUNCTIONS = {{\n{names}}}\n{_HEAD}{body}"
        self.body = body
        self.commands = commands

    def function(self, name: str) -> str:
        """Return the name of the Redis function of a command."""
        return f"{self.name}_{name.replace('/', '_')}"

    def call(
        self, name: str, keys: Keys, arguments: Iterable[Any], fence: tuple[Any, Any] = NO_FENCE, until_ms: Any = ""
    ) -> tuple[Any, ...]:
        """Return the Redis command that calls a command of the library. `fence` is the generation and the hub clock of
        the store as the hub heard them last, `until_ms` the hub clock until which the caller waits, '' for no limit.
        """
        return ("FCALL", self.function(name), 1, keys.store, *arguments, *fence, until_ms, keys.database)

    def replaced(self, old: str, new: str) -> Library:
        """Return a library, with a version of its own, in whose text `old` is replaced by `new`."""
        return Library(self.body.replace(old, new), self.commands)


@cache
def library() -> Library:
    """Return the library of this version of the hub."""
    files = sorted((folder() / "commands").glob("*/*.lua"))
    texts = [path.read_text() for path in files]
    commands = [Command.declared(text) for text in texts]
    body = "".join([*map(_module, MODULES), *texts])
    return Library(body, {command.name: command for command in commands})


def modules(*names: str) -> str:
    """Return the joined text of some modules, for programs that use only these."""
    return "".join(map(_module, names))


@cache
def script(name: str) -> Script:
    """Return the script `lua/external/<name>.lua`."""
    source = (folder() / "external" / f"{name}.lua").read_text()
    text = f"{modules(*EXTERNAL)}{_RUN}{source}return answer\n"
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    declared = Command.declared(source)
    return Script(declared.name, declared.arguments, declared.takes_rest, declared.changes, text, sha)


def _module(name: str) -> str:
    text = lua_module() if name == "keys" else (folder() / f"{name}.lua").read_text()
    return f"local {name} = (function()\n{text}end)()\n"
