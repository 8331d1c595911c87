"""The tables of keys on the page `wire`, as `hub/store/keys/` has them.

`python -m tests.manual.key_tables` writes them.
"""

from __future__ import annotations

import re

from hub.store.keys import SECTIONS
from hub.store.keys.key import Key, Section
from hub.store.keys.public import Public
from tests.manual.pages import MANUAL

PAGE = MANUAL / "wire.md"
PUBLIC = "| Key | Type | Content | Lifetime | Written by | Deleted by |\n|---|---|---|---|---|---|\n"
PRIVATE = "| Key | Type | Content | Lifetime |\n|---|---|---|---|\n"


def table(section: type[Section]) -> str:
    """Return the table of a section, with its head."""
    keys = [key for key in vars(section).values() if isinstance(key, Key)]
    if section is Public:
        return PUBLIC + "".join(row(k.pattern, k.type, k.content, k.lifetime, k.by, k.until) for k in keys)
    return PRIVATE + "".join(row(k.pattern, k.type, k.content, k.lifetime) for k in keys)


def row(pattern: str, *cells: str) -> str:
    """Return one line of a table."""
    return "".join(f"| {cell} " if cell else "| " for cell in (f"`{pattern}`", *cells)) + "|\n"


def written(page: str) -> str:
    """Return the page with its tables of keys as they should be."""
    for section in SECTIONS:
        head = PUBLIC if section is Public else rf"### {section.title} (owner: {owners(section)})"
        found = re.search(re.escape(head), page)
        if found is None:
            raise ValueError(f"the page has no {head.splitlines()[0]}")
        begin = found.start() if section is Public else page.index(PRIVATE, found.end())
        end = page.index("\n\n", begin) + 1 if "\n\n" in page[begin:] else len(page)
        page = page[:begin] + table(section) + page[end:]
    return page


def owners(section: type[Section]) -> str:
    """Return the rooms of the code that own its keys, as the page shows them."""
    return " and ".join(f"`{room}`" for room in section.owner.split(" and "))


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
