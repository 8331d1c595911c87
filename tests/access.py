"""The access table: every operation with every credential, as `hub/manual/security.md` shows it.

`HUB_WRITE_MANUAL=1` has the tests write what they found into the page; look at the difference before you commit it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).parent.parent / "hub" / "manual" / "security.md"
YES, OWN, NO = "yes", "own", "-"
# Kind of credential -> the column of the page, in the order of the columns.
CREDENTIALS = {
    "stranger": "nothing",
    "runner": "runner secret",
    "node": "node secret",
    "admin": "admin secret",
    "own-node": "node token",
    "join": "join token",
    "user": "token",
    "worker": "token: worker",
    "submit": "token: submit",
    "read": "token: read",
    "borrow": "token: borrow",
    "bound": "token: rooms",
    "root": "superuser token",
}


def table(rows: Mapping[str, Mapping[str, str]]) -> str:
    """Operation -> credential -> whether, as a table of the page."""
    lines = [["", *CREDENTIALS.values()], ["---"] * (len(CREDENTIALS) + 1)]
    lines += [[f"`{operation}`", *(found[name] for name in CREDENTIALS)] for operation, found in rows.items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def compare(name: str, found: str) -> None:
    """Fail unless the page has this table between its marks."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    text = PAGE.read_text()
    head, _, rest = text.partition(begin)
    shown, _, tail = rest.partition(end)
    if os.environ.get("HUB_WRITE_MANUAL") == "1" and shown != found:
        PAGE.write_text(head + begin + found + end + tail)
        return
    assert shown.splitlines() == found.splitlines(), "the page says otherwise; see tests/access.py"
