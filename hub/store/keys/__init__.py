"""The table of all Redis keys of the hub: name, type, content, lifetime and owner. No other file contains a key name.

The Lua module `keys`, the doctor and the tables of the manual's page `wire` are made from this table.
`keys.session(id)` in Lua makes the same name as `Keys.session(id)` here, under the prefix of the store. The keys in
`public` are also read and written by other programs. All others begin with `hub:`; only the hub uses them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache

from hub.store.keys.bundles import OfBundles
from hub.store.keys.capacity import OfLeases, OfNodes, OfTheQueue
from hub.store.keys.files import folder
from hub.store.keys.jobs import OfJobs, OfProviders, OfSockets
from hub.store.keys.key import Each, Key, Section
from hub.store.keys.matching import OfMatching
from hub.store.keys.public import Public
from hub.store.keys.store import OfHooks, OfRecovery, OfTheStore, OfTokens
from hub.store.keys.teams import OfTeams

SECTIONS: tuple[type[Section], ...] = (
    *(Public, OfTheStore, OfNodes, OfLeases, OfTheQueue, OfMatching, OfBundles, OfTeams, OfJobs, OfProviders),
    *(OfSockets, OfTokens, OfHooks, OfRecovery),
)
TABLE = {name: key for section in SECTIONS for name, key in vars(section).items() if isinstance(key, Key)}
_LONGEST_FIRST = sorted(TABLE.items(), key=lambda each: -len(each[1].head))
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


class Keys(
    Public, OfTheStore, OfNodes, OfLeases, OfTheQueue, OfMatching, OfBundles, OfTeams, OfJobs, OfProviders, OfSockets,
    OfTokens,
    OfHooks, OfRecovery,
):  # fmt: skip
    """The key names under one prefix: `keys.nodes` is a name, `keys.session("s1")` returns the name for an id."""

    def __init__(self, prefix: str = "", database: int = 0) -> None:
        self.prefix = prefix
        self.database = database
        for name, key in TABLE.items():
            setattr(self, name, key.full(self.before(key)))  # an attribute is faster than the descriptor

    def before(self, key: Key) -> str:
        """Return the text in front of a key's pattern: the prefix, and for a channel also the database unless it is 0.

        Channels need the database in their name because Redis delivers a message to listeners in all databases.
        """
        return f"{self.prefix}db{self.database}:" if self.database and key.type == "channel" else self.prefix


def name_of(bare: str) -> str | None:
    """Return the name in `TABLE` of the key whose pattern fits `bare`, a key name without prefix; None for no key."""
    return next((name for name, key in _LONGEST_FIRST if key.has(bare)), None)


def lua_module() -> str:
    """Return the text of the Lua module `keys`: it has the same names, for the prefix and database of the called store.

    Its table `keys.seconds` holds the lifetime of each key that expires, as text, because passing a number to Redis
    costs as much as a command.
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
    """Return an id in the form in which it is part of a key: at most 200 characters, and every character that is no
    letter, digit, `-`, `_` or `.` replaced by `-`.

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
