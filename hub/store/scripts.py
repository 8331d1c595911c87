"""The scripts of `lua/`: found, put together with what they include, and given the names of their arguments.

A script file opens with `local name = ARGV[n]` lines; those names are what Python passes. `-- @rest name` says that
any number of further arguments follows. `-- @include helper` brings in `lua/include/helper.lua`, once, and of its
functions those that the script needs. One that is indented, in a function or a branch, brings it in for that place
alone: what is seldom needed is defined when it is. A use of `key_session` brings in that key from `Keys`, so that key
text stands in one place only.
"""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hub.store.keys import PATTERNS, Keys

_INSTALLED = Path(__file__).resolve().parent.parent / "lua"
_CHECKOUT = Path(__file__).resolve().parent.parent.parent / "lua"
_INCLUDE = re.compile(r"^( *)-- @include (\w+)\n", re.MULTILINE)
_ARGUMENT = re.compile(r"^local (\w+)\s*=\s*(?:tonumber\()?ARGV\[(\d+)\]", re.MULTILINE)
_REST = re.compile(r"^-- @rest \w+", re.MULTILINE)
_FENCE = "local told_ms, told_of = table.remove(ARGV), table.remove(ARGV)\n"  # every call ends with these two
NO_FENCE = ("", "")  # of a call by a program that does not tick
_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
_FUNCTION = re.compile(r"^local function (\w+)\((?:.* end|(?:.*\n)*?end)\n", re.MULTILINE)
_WORD = re.compile(r"\w+")
_KEY = re.compile(r"\bkey_(\w+)\b(\(?)")


@dataclass(frozen=True)
class Script:
    """A script ready to be called: its name, its text with one prefix, and its arguments in order."""

    name: str
    text: str
    sha: str
    arguments: tuple[str, ...]
    takes_rest: bool


def folder() -> Path:
    """Where the scripts are: inside the package when installed, at the top of a checkout otherwise."""
    return _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT


def load(name: str, keys: Keys) -> Script:
    """The script `lua/<name>.lua` under the prefix of `keys`; raises ValueError when its arguments skip a number."""
    source = (folder() / f"{name}.lua").read_text()
    body = _needed(_include(source, set()))
    numbers = {int(number): argument for argument, number in _ARGUMENT.findall(source)}
    if sorted(numbers) != list(range(1, len(numbers) + 1)):
        raise ValueError(f"{name}: its ARGV lines do not count from 1 without a gap")
    text = _name_keys(_FENCE + body, keys)
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return Script(name, text, sha, tuple(numbers[n] for n in sorted(numbers)), bool(_REST.search(source)))


def load_all(keys: Keys) -> dict[str, Script]:
    """Every script by its name, such as `capacity/borrow`; put together once for those names, which takes 0.1 s."""
    return dict(_loaded(keys.prefix, keys.database))


@cache
def _loaded(prefix: str, database: int) -> dict[str, Script]:
    found = (path.relative_to(folder()).with_suffix("") for path in sorted(folder().glob("*/*.lua")))
    return {str(name): load(str(name), Keys(prefix, database)) for name in found if name.parts[0] != "include"}


def _needed(body: str) -> str:
    """Leave out the functions that nothing calls: Redis defines those of a script anew with every call of it."""
    functions: dict[str, str] = defaultdict(str)
    for found in _FUNCTION.finditer(body):
        functions[found[1]] += found[0]
    needed: set[str] = set()
    unread = [_FUNCTION.sub("", body)]
    while unread:
        named = functions.keys() & set(_WORD.findall(_COMMENT.sub("", unread.pop()))) - needed
        needed |= named
        unread += [functions[name] for name in named]
    return _FUNCTION.sub(lambda found: found[0] if found[1] in needed else "", body)


def _name_keys(body: str, keys: Keys) -> str:
    """Put the keys in. Redis runs all of a script with every call, and defining a function costs as much as a call."""
    defined: dict[str, str] = {}

    def name(match: re.Match[str]) -> str:
        key, call = match.groups()
        if key not in PATTERNS:
            return match.group()
        inline = keys.lua_inline(key, called=bool(call))
        if inline is None:
            defined[key] = keys.lua(key)
            return match.group()
        return inline

    named = _KEY.sub(name, body)
    return "\n".join([*(defined[key] for key in sorted(defined)), named])


def _include(text: str, seen: set[str]) -> str:
    def paste(match: re.Match[str]) -> str:
        indent, name = match.groups()
        if name in seen:
            return ""
        known = set(seen) if indent else seen
        known.add(name)
        return textwrap.indent(_include((folder() / "include" / f"{name}.lua").read_text(), known), indent)

    return _INCLUDE.sub(paste, text)
