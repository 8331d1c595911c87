"""The names in braces of a fleet file, such as {port}, and hints for words that do not exist."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches

NAMES = ("item", "slot", "port", "host", "index", "node")
_NAME = re.compile(r"\{(\w+)\}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint for a word that does not exist: the nearest one that does, or all of them."""
    names = list(known)
    near = get_close_matches(word, names, 1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"


def checked(text: str, names: Iterable[str] = NAMES) -> str:
    """Return the text; raises ValueError when it has a name in braces that is none of `names`."""
    braced = [f"{{{name}}}" for name in names]
    for name in _NAME.findall(text):
        if f"{{{name}}}" not in braced:
            raise ValueError(f"has an unknown name {{{name}}}; {did_you_mean(f'{{{name}}}', braced)}")
    return text


def filled(text: str, value: Callable[[str], object]) -> str:
    """Return the text with each name in braces replaced by `value(name)`."""
    return _NAME.sub(lambda found: str(value(found[1])), text)
