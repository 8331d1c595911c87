"""Every key of the hub: its name, type, content, lifetime and owner, in one table. No key text stands anywhere else.

The Lua module `keys`, the doctor and the tables of the manual's page `wire` derive from it. `keys.session(id)` in Lua
is `Keys.session(id)` here, under the prefix of the store that is called. The keys in `public` are the wire: other
programs read and write them. All others begin with `hub:`, are private and only make things fast.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache

from hub.store.keys.capacity import OfLeases, OfNodes, OfTheQueue
from hub.store.keys.files import folder
from hub.store.keys.jobs import OfJobs, OfProviders, OfSockets
from hub.store.keys.key import Each, Key, Section
from hub.store.keys.public import Public
from hub.store.keys.store import OfRecovery, OfTheStore, OfTokens

SECTIONS: tuple[type[Section], ...] = (
    *(Public, OfTheStore, OfNodes, OfLeases, OfTheQueue, OfJobs, OfProviders, OfSockets, OfTokens, OfRecovery),
)
TABLE = {name: key for section in SECTIONS for name, key in vars(section).items() if isinstance(key, Key)}
_LONGEST_FIRST = sorted(TABLE.items(), key=lambda each: -len(each[1].head))
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


class Keys(Public, OfTheStore, OfNodes, OfLeases, OfTheQueue, OfJobs, OfProviders, OfSockets, OfTokens, OfRecovery):
    """The key names under one prefix: `keys.nodes` is a name, `keys.session("s1")` makes one."""

    def __init__(self, prefix: str = "", database: int = 0) -> None:
        self.prefix = prefix
        self.database = database
        for name, key in TABLE.items():
            setattr(self, name, key.full(self.before(key)))  # found without asking the key again

    def before(self, key: Key) -> str:
        """Return what stands before the pattern of a key.

        Redis carries a message to listeners in any of its databases: in others than the first, channels name theirs.
        """
        return f"{self.prefix}db{self.database}:" if self.database and key.type == "channel" else self.prefix


def name_of(bare: str) -> str | None:
    """Return which key of the table a name is, without its prefix; None for one that is not in the table."""
    return next((name for name, key in _LONGEST_FIRST if key.has(bare)), None)


def lua_module() -> str:
    """Return the Lua module `keys`: the same names, under the prefix and in the database of the store that is called,
    and in `keys.seconds` how long those live that end by themselves, as text: a number costs Redis as much as a
    command.
    """
    whole, made, seconds = [], [], []
    for name, key in TABLE.items():
        before = "channels" if key.type == "channel" else "prefix"
        if isinstance(key, Each):
            after = f" .. {_quote(key.tail)}" if key.tail else ""
            made.append(f"function keys.{name}(id) return {before} .. {_quote(key.head)} .. id{after} end\n")
        else:
            whole.append(f"  keys.{name} = {before} .. {_quote(key.pattern)}\n")
        if key.seconds:
            seconds.append(f"{name} = '{key.seconds}'")
    length = len(OfTheStore.store.pattern) + 1
    return _LUA.format(length=length, whole="".join(whole), made="".join(made), seconds=", ".join(seconds))


_LUA = """-- The names of keys; hub/store/keys/ says what each key holds.
local keys = {{}}

local prefix, channels  -- of the store that is called, by the key of its hash `hub:store`

function keys.use(store, database)
  prefix = string.sub(store, 1, -{length})
  channels = database == '0' and prefix or prefix .. 'db' .. database .. ':'
{whole}end

{made}
keys.seconds = {{{seconds}}}

return keys
"""


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def key_part(raw: str) -> str:
    """Return an id as part of a key: everything but letters, digits, `-`, `_` and `.` becomes `-`, cut to 200
    characters.

    `lua/ids.lua` does the same, and holds the table of letters and digits for both.
    """
    if raw.isascii() and raw.replace("-", "").replace("_", "").replace(".", "").isalnum() and len(raw) <= 200:
        return raw
    return "".join(c if c in _PLAIN or (c > "\x7f" and _stays(ord(c))) else "-" for c in raw[:200])


def _stays(code: int) -> bool:
    firsts, lasts = _letters()
    at = bisect_right(firsts, code) - 1
    return at >= 0 and code <= lasts[at]


@cache
def _letters() -> tuple[list[int], list[int]]:
    """Return the first and the last of each range of letters and digits beyond ASCII."""
    table = "".join(re.findall(r"'([0-9a-z]{7,})'", (folder() / "ids.lua").read_text()))
    ranges = [(int(table[at : at + 4], 36), int(table[at + 4 : at + 7], 36)) for at in range(0, len(table), 7)]
    return [first for first, _ in ranges], [first + more for first, more in ranges]
