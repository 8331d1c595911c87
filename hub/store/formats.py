"""The formats of what is kept in a store, and what leads from each to the next.

A version of the hub that changes the format adds a `Migration` to the end of the list, and does so in three parts:

    expand    its commands read both forms, and write what hubs of the version before read as well: `hub:store` says the
              format before.
    migrate   hubs change what there is, a bounded number of keys at a time, while those of the version before go on;
              `hub store migrate` does it at once.
    contract  once everything was gone through and no hub of another version was there meanwhile, `hub:store` says the
              new format: hubs of the version before are refused, and the form before is written no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FIRST: Final = 1  # what a store has that says none


@dataclass(frozen=True)
class Migration:
    """Leads to the format that is one higher."""

    about: str  # what it changes, for people
    keys: str  # what those keys begin with, behind the prefix of the store
    # In Lua. KEYS are some of these keys, perhaps some that are of the new form already: it changes those that are not,
    # or only counts them where ARGV[1] is '1', and returns how many there were. It may run twice, and late.
    script: str


MIGRATIONS: Final[list[Migration]] = []


def newest() -> int:
    """The format that this version of the hub writes; one that says a higher number is of a later version."""
    return FIRST + len(MIGRATIONS)
