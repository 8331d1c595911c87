"""Every key of the hub: its name, type, content, lifetime, and who deletes it. No key text stands anywhere else.

The first block is the wire (other programs read and write it); the second, below `hub:`, is private and only makes
things fast. Lua scripts get the same names: `key_session(id)` in a script is `Keys.session(id)` here, rendered with
the prefix when the script is loaded.
"""

from __future__ import annotations

from functools import partial
from typing import Any

# name -> pattern; `{}` takes a node's key part, a slot id, a pool label, a run id or a request id.
WIRE = {
    "nodes": "nodes",  # set: raw node ids. Deleted member by member on leave and expiry.
    "node": "node:{}",  # hash: what a node said of itself, LastSeen. Deleted on leave and expiry.
    "node_alive": "node_alive:{}",  # string 1, lives one node timeout.
    "node_upgrade": "node_upgrade:{}",  # string 1, 300 s; the node deletes it when it has seen it.
    "available": "available:{}",  # list of slot items, head is lent next.
    "inuse": "inuse:{}",  # list of slot items that are lent.
    "session": "session:{}",  # hash: the grant. Deleted when the grant ends.
    "borrow_ttl": "borrow_ttl:{}",  # string 1, lives as long as the lease; its footprint for other programs.
    "borrow_idle": "borrow_idle:{}",  # string 1, only where an idle rule applies.
    "browser_run": "browser_run:{}",  # string: run id, 6 h or until the grant ends.
    "browser_test": "browser_test:{}",  # string: test id, 6 h or until the grant ends.
    "recycle": "recycle:{}",  # string 1, 120 s (300 s after an expiry): the node should replace this slot.
    "maintenance": "maintenance:{}",  # string 1, 1800 s: no slot of this pool is lent.
    "maintenance_target": "maintenance:target:{}",  # string: free + lent at the start, 1800 s.
    "maintenance_since": "maintenance:since:{}",  # string: time text, 1800 s.
    "maintenance_free": "maintenance:snap_avail:{}",  # string: free at the start, 1800 s.
    "maintenance_lent": "maintenance:snap_inuse:{}",  # string: lent at the start, 1800 s.
    "audit": "audit:entries",  # list of audit entries, newest first, trimmed to HUB_AUDIT_MAX_ENTRIES.
    "audit_fingerprint": "audit:secrets:{}:fp",  # string: SHA-256 of a secret list; overwritten at start.
}

PRIVATE = {
    # hash: generation, run_id, token (counter), clock_ms, tick_ms, settle_ms, leader, leader_until_ms and the
    # run-time switch expire, expire_by, expire_at; turn (counter of the line), options (matching), timeout_ms (of
    # nodes); history_max (entries), noted:<event> (the last one a hub wrote). One per store, never deleted.
    "store": "hub:store",
    # hash: the sweeper's brake: state (engaged, released), since; of the last pass seen, stale, registered, limit,
    # held, pass, word, allowed; window, spent; since_ms (hub clock at which the grace began); released_by, _at,
    # _until_ms. Deleted when the brake ends.
    "brake": "hub:brake",
    "beats": "hub:beats",  # zset: raw node id -> hub clock of its last beat. Deleted with the node.
    "duty": "hub:duty:{}",  # hash: version, drain, republish, recycle:<slot>: what a beat must tell. With the node.
    "lent": "hub:lent:{}",  # hash: slot id -> token of a node's lent slots. Empties as grants end.
    "draining": "hub:draining",  # set: raw ids of draining nodes. Deleted with the node.
    # zset: raw node id -> hub clock at which its drain ends what is still lent. Deleted when that is done, with the
    # drain or with the node.
    "drain_deadlines": "hub:drain_deadlines",
    "node_slots": "hub:node_slots:{}",  # set: slot ids of a node. Empties as slots are dropped.
    "leaving": "hub:leaving",  # hash: key part -> raw id of nodes that are gone but not yet pruned to the end.
    # hash: item, pool, node, part, place (free, lent, held), policy, idle_ms; of the grant: label, run, granted_ms,
    # visible_ms, watch_idle; unreported when a hub brought it back and its node has not named it yet.
    "slot": "hub:slot:{}",  # Deleted when the slot is withdrawn, pruned, or found to be in no list.
    "pools": "hub:pools",  # zset, all scores 0: labels that have slots. Deleted with the last slot of the pool.
    "open_pools": "hub:open:{}",  # zset, all scores 0, one per number of segments: labels that have free slots.
    "pool_slots": "hub:pool_slots:{}",  # set: slot ids published under a label. Empties as slots are dropped.
    "replacing": "hub:replacing:{}",  # set: slot ids that a pool restart wants replaced, 1800 s.
    "deadlines": "hub:deadlines",  # zset: slot id -> hub clock at which its lease lapses. Deleted with the grant.
    "asked": "hub:asked:{}",  # zset: slot id -> time of the grant, for the requested label: its in-flight grants.
    "run": "hub:run:{}",  # zset: slot id -> time of the grant: what a run holds.
    "suspects": "hub:suspects",  # set: raw ids of nodes with slots held back so. With the next beat, or the node.
    "aside": "hub:aside:{}",  # set: slots held back while their node is suspect. Emptied by its next beat.
    # hash of a borrow that waits: label, run, hub, attempt, score, since_ms, until_ms, ttl_ms, idle_ms, priority,
    # fingerprint, keep_s, keyed; handed once it was granted. Deleted when it leaves, 120 s after a grant with a key.
    "ticket": "hub:ticket:{}",
    "line": "hub:line:{}",  # zset: ticket -> arrival ms less priority: who waits for a label and is attended.
    "turns": "hub:turns",  # zset: label -> its turn, for labels with a line; the smallest is served next.
    "under": "hub:under:{}",  # zset: label -> turn: waiting labels below their cap that begin with these segments.
    "wild": "hub:wild",  # zset: label -> turn: the same for labels with `*`, where wildcards are on.
    "pending": "hub:pending",  # hash: run -> how many wait for it. A field goes with its last waiter.
    "patience": "hub:patience",  # zset: ticket -> hub clock at which it is dropped, attended or not.
    "hubs": "hub:hubs",  # zset: hub -> hub clock of its last tick. Deleted when it stops or was silent for 3 s.
    "waiters": "hub:waiters:{}",  # set: tickets that a hub attends. Empties as they leave.
    "handed": "hub:handed:{}",  # set: tickets granted by hand-off that their hub has not picked up yet.
    "granted": "hub:granted:{}",  # a channel, not a key: tickets of a hub that were granted or cancelled.
    "caps": "hub:caps",  # hash: set:<label> and env:<label>, set and env for all others -> most live grants.
    "pace": "hub:pace:{}",  # hash: mark_ms, gap_ms: how fast the line of a label moves; lives an hour.
    "history": "hub:history",  # stream: what happened, trimmed by whoever adds to it. One per store, never deleted.
    "ended": "hub:ended:{}",  # string: token of a grant that ended while the store did not know it; two node timeouts.
    "request": "hub:request:{}",  # string: what a request was answered with, to which attempts; 60 s, with a key 24 h.
}

PATTERNS = WIRE | PRIVATE


class Keys:
    """The key names under one prefix: `keys.nodes` is a name, `keys.session("s1")` makes one."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        for name, pattern in PATTERNS.items():
            full = prefix + pattern
            setattr(self, name, partial(_fill, full.split("{}")) if "{}" in pattern else full)

    def __getattr__(self, name: str) -> Any:
        """For type checkers: every name there is was set in `__init__`."""
        raise AttributeError(f"no key is called {name}")

    def lua_inline(self, name: str, *, called: bool) -> str | None:
        """What stands for `key_<name>`, or for the beginning of a call of it, in a script; None where it cannot."""
        head, braces, tail = (self.prefix + PATTERNS[name]).partition("{}")
        if not braces:
            return _quote(head) + "(" * called
        return f"{_quote(head)} .. (" if called and not tail else None

    def lua(self, name: str) -> str:
        """The Lua line that defines `key_<name>` as a function of the id."""
        head, tail = (self.prefix + PATTERNS[name]).split("{}")
        end = f" .. {_quote(tail)}" if tail else ""
        return f"local function key_{name}(id) return {_quote(head)} .. id{end} end"


def _fill(parts: list[str], value: str) -> str:
    return value.join(parts)


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def key_part(raw: str) -> str:
    """An id as part of a key: everything but letters, digits, `-`, `_` and `.` becomes `-`, cut to 200 characters."""
    if raw.isascii() and raw.replace("-", "").replace("_", "").replace(".", "").isalnum() and len(raw) <= 200:
        return raw
    return "".join(c if c.isalpha() or c.isdecimal() or c in "-_." else "-" for c in raw)[:200]
