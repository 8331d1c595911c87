"""Every key of the hub: its name, type, content, lifetime, and who deletes it. No key text stands anywhere else.

The first block is the wire (other programs read and write it); the second, below `hub:`, is private and only makes
things fast. Lua gets the same names: `keys.session(id)` there is `Keys.session(id)` here, under the prefix of the store
that is called.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache, partial
from typing import Any

# name -> pattern; `{}` takes a node's key part, a slot id, a pool label, a run id or a request id.
WIRE = {
    "nodes": "nodes",  # set: raw node ids. Deleted member by member on leave and expiry.
    "node": "node:{}",  # hash: what a node said of itself, LastSeen. Deleted on leave and expiry.
    # string 1, lives one node timeout; from a registration, or where a node writes it itself, 90 s if that is longer;
    # from a sweep that may not expire 30 s.
    "node_alive": "node_alive:{}",
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
    # stream: messages of @internal tasks as taskiq writes them, in its field `data`. Deleted with the end of the task.
    "taskiq": "taskiq",
    "audit": "audit:entries",  # list of audit entries, newest first, trimmed to HUB_AUDIT_MAX_ENTRIES.
    "audit_fingerprint": "audit:secrets:{}:fp",  # string: SHA-256 of a secret list; overwritten at start.
}

PRIVATE = {
    # hash: generation, run_id, token (counter), last_us (counter of jobs), clock_ms, tick_ms, settle_ms, leader,
    # leader_until_ms and the run-time switch expire, expire_by, expire_at; turn (counter of the queues), line_ms
    # (the last arrival in one), line_clock_ms (the hub clock then), options (matching), timeout_ms (of nodes), grace_ms
    # (of what is revoked), revoked_ms (until when a holder may believe in it); history_max (entries), noted:<event>
    # (the last one a hub wrote), wants:<hub> (its node timeout); tokens_changed (when one was last revoked, or the
    # first was made); counted_us (until when ended tasks are counted for the metrics). One per store, never deleted.
    "store": "hub:store",
    # hash: the sweeper's brake: state (engaged, released), since; of the last pass seen, stale, registered, limit,
    # held, pass, word, allowed; window, spent; since_ms (hub clock at which the grace began); released_by, _at,
    # _until_ms. Deleted when the brake ends.
    "brake": "hub:brake",
    # set: hubs that ticked when the store was lost and have not said yet what they remember. Empties as they do; the
    # next loss overwrites what is left of those that died.
    "telling": "hub:telling",
    "beats": "hub:beats",  # zset: raw node id -> hub clock of its last beat. Deleted with the node.
    # hash: version, drain, cordon (why), republish, recycle:<slot>, offers (slots in short), drain_number (of the last
    # drain or undrain): what a beat must tell; incarnation and its term; kept (hub clock) by a sweep that may not
    # expire. With the node.
    "orders": "hub:duty:{}",
    "lent": "hub:lent:{}",  # hash: slot id -> token of a node's lent slots. Empties as grants end.
    "draining": "hub:draining",  # set: raw ids of draining nodes. Deleted with the node.
    # zset: raw node id -> hub clock at which its drain ends what is still lent. Deleted when that is done, with the
    # drain or with the node.
    "drain_deadlines": "hub:drain_deadlines",
    "node_slots": "hub:node_slots:{}",  # set: slot ids of a node. Empties as slots are dropped.
    # list: incarnations of a node that are over, newest first, 32 at most. Lives an hour from the last.
    "incarnations": "hub:incarnations:{}",
    # hash: on, number, left_ms, reason of a drain that a hub brought back before its node was. Until that registers;
    # 600 s.
    "drain_call": "hub:drain_call:{}",
    # zset: slot id -> number of the call by which the node withdrew it, the last 1,000. Deleted with the node, and when
    # another incarnation takes over.
    "withdrawn": "hub:withdrawn:{}",
    "leaving": "hub:leaving",  # hash: key part -> raw id of nodes that are gone but not yet pruned to the end.
    # hash: item, pool, node, part, place (free, lent, held), policy, idle_ms; of the grant: label, run, granted_ms,
    # visible_ms, watch_idle; adopted_ms (hub clock) of one that another program listed; told: incarnation|number of the
    # call that published it last; unreported when a hub brought
    # it back and its node has not named it yet.
    "slot": "hub:slot:{}",  # Deleted when the slot is withdrawn, pruned, or found to be in no list.
    "pools": "hub:pools",  # zset, all scores 0: labels that have slots. Deleted with the last slot of the pool.
    "open_pools": "hub:open:{}",  # zset, all scores 0, one per number of segments: labels that have free slots.
    "pool_slots": "hub:pool_slots:{}",  # set: slot ids published under a label. Empties as slots are dropped.
    "replacing": "hub:replacing:{}",  # set: slot ids that a pool restart wants replaced, 1800 s.
    "deadlines": "hub:deadlines",  # zset: slot id -> hub clock at which its lease lapses. Deleted with the grant.
    "in_flight": "hub:asked:{}",  # zset: slot id -> time of the grant, for the requested label: its in-flight grants.
    "run": "hub:run:{}",  # zset: slot id -> time of the grant: what a run holds.
    "suspects": "hub:suspects",  # set: raw ids of nodes with slots held back so. With the next beat, or the node.
    "aside": "hub:aside:{}",  # set: slots held back while their node is suspect. Emptied by its next beat.
    # hash of a borrow that waits: label, run, hub, attempt, score, since_ms, until_ms, ttl_ms, idle_ms, priority,
    # fingerprint, keep_s, keyed; handed once it was granted. Deleted when it leaves, 60 s after a grant with a key.
    "ticket": "hub:ticket:{}",
    "queue": "hub:line:{}",  # zset: ticket -> arrival ms, which only rises, less priority: who waits and is attended.
    "turns": "hub:turns",  # zset: label -> its turn, for labels with a line; the smallest is served next.
    "under": "hub:under:{}",  # zset: label -> turn: waiting labels below their cap that begin with these segments.
    "wild": "hub:wild",  # zset: label -> turn: the same for labels with `*`, where wildcards are on.
    "pending": "hub:pending",  # hash: run -> how many wait for it. A field goes with its last waiter.
    "ticket_deadlines": "hub:patience",  # zset: ticket -> hub clock at which it is dropped, attended or not.
    "hubs": "hub:hubs",  # zset: hub -> hub clock of its last tick. Deleted when it stops or was silent for 3 s.
    "waiters": "hub:waiters:{}",  # set: tickets that a hub attends. Empties as they leave.
    "handed": "hub:handed:{}",  # set: tickets granted by hand-off that their hub has not picked up yet.
    "granted": "hub:granted:{}",  # a channel, not a key: tickets of a hub that were granted or cancelled.
    "caps": "hub:caps",  # hash: set:<label> and env:<label>, set and env for all others -> most live grants.
    # hash: mark_ms, gap_ms: how fast the queue of a label moves; lives an hour, of an empty queue 45 s.
    "pace": "hub:pace:{}",
    "history": "hub:history",  # stream: what happened, trimmed by whoever adds to it. One per store, never deleted.
    "refusals": "hub:refusals",  # list of audit entries of refusals, newest first, trimmed to 1,000.
    # hash: slot -> the highest token whose grant ended since the store was lost, or in what was lost; a report of it,
    # or of a lower one, is late. Deleted when everybody has had his time to report.
    "ended": "hub:ended",
    # hash: slot -> token|deadline on the hub clock, as a hub renewed it just before the loss. The same.
    "renewed": "hub:renewed",
    # zset: slot whose grant ended early -> hub clock until which its last holder may believe in it. Until then, or
    # until he says that he has stopped.
    "revoked": "hub:revoked",
    "revoked_tokens": "hub:revoked_tokens",  # hash: the same slots -> their tokens. The same.
    "revoked_notice": "hub:revoked_bell:{}",  # a channel, not a key: the grant of this slot has ended early.
    # -- jobs: ids are 32 hex digits; a full name is room:category:name; times are in microseconds
    # hash: user, at, beat; its last claim with a key: claim, tasks; odd: task:claim:hub clock of what its beats do not
    # name; incarnation (the process it is), past (those before, ten at most);
    # taken (how often a task was taken from it). Deleted with the worker.
    "worker": "hub:worker:{}",
    "workers": "hub:workers",  # zset: worker -> when it was made. Deleted with the worker.
    "worker_beats": "hub:worker_beats",  # zset: worker -> hub clock of its last beat. Deleted with the worker.
    "worker_jobs": "hub:worker_jobs:{}",  # set: full names of the jobs it is linked to. Deleted with the worker.
    "worker_rooms": "hub:worker_rooms:{}",  # hash: room -> links there. Deleted with the worker.
    "worker_tasks": "hub:worker_tasks:{}",  # set: claimed and running tasks. Empties as they end.
    "worker_providers": "hub:worker_providers:{}",  # set: full names of its providers. Deleted with the worker.
    "dead_workers": "hub:dead_workers",  # set: removed workers some of whose tasks are not failed yet. Empties so.
    # hash: as `brake`, for workers; unsure: 1 when the store was just away, or nobody was heard. Deleted when it ends.
    "worker_brake": "hub:worker_brake",
    # zset: worker -> when it was made: those with a job in a shared room (`*`), in that very room (`@global`,
    # `@internal`), or in this room and in no shared one. Empties as workers go.
    "room_workers": "hub:room_workers:{}",
    # hash: id, at, schema, digest, tasks (records), later (put off), back (the request that took it back); deleted, the
    # time, of a soft-deleted one. Deleted
    # when it was soft-deleted for HUB_TASK_RETENTION_SECONDS and its last task is forgotten.
    "job": "hub:job:{}",
    "job_workers": "hub:job_workers:{}",  # set: workers linked to it. Empties as they go.
    "room_jobs": "hub:room_jobs:{}",  # zset: full name -> when it was made, of the active ones. Empties as they go.
    "deleted_jobs": "hub:deleted_jobs",  # zset: full name -> when it was soft-deleted. Until it is back or gone.
    "executors": "hub:executors",  # set: full names of the @internal jobs that somebody can execute. Never deleted.
    # hash: job, room, user, at, status; then worker, claimed (hub clock, unless it was started at once), started, done,
    # error, last (request of the last move), back (of those that queued it again, the
    # latest four by line), claim (names the last claim of it; only rises), had (the user it was then taken
    # from), unstuck (how often it was brought back from a worker that did not start it), entry (its message, of an
    # @internal job); where asked for prio, attempt, max, backoff_ms, due, silence (ms);
    # progress, message, said (when) and heard (the request) of what it said of itself. Deleted
    # HUB_TASK_RETENTION_SECONDS after its end.
    "task": "hub:task:{}",
    "payload": "hub:payload:{}",  # string: JSON as it was submitted, none for {}. Deleted with the task.
    "task_result": "hub:task_result:{}",  # string: JSON of what it came to, if anything. Deleted with the task.
    "task_log": "hub:task_log:{}",  # list: when it said so and a text, of the latest 100. Deleted with the task.
    "job_queue": "hub:queue:{}",  # zset: task -> when it was submitted less a second per priority: what a claim takes.
    "heads": "hub:heads",  # zset: full name -> the score of the first task in its queue. Goes with the last of them.
    "later": "hub:later",  # zset: task -> when it is due: pending, and not in its queue yet.
    "room_tasks": "hub:room_tasks:{}",  # zset, per status:room: task -> when it was submitted. Deleted with the task.
    "job_tasks": "hub:job_tasks:{}",  # zset, per status:room:full name: the same. Deleted with the task.
    "runtimes": "hub:runtimes",  # zset: task -> hub clock at which it has run for too long. Deleted when it ends.
    "silences": "hub:silences",  # zset: running task -> hub clock until which it may say nothing. Deleted when it ends.
    "ownerless": "hub:ownerless",  # zset: task -> hub clock since when it is claimed by nobody. Deleted when it ends.
    "internal_tasks": "hub:internal_tasks",  # zset: task of an @internal job -> hub clock of its start, or submission.
    "finished": "hub:finished",  # zset: task -> when it ended. Deleted with the task.
    "dead": "hub:dead",  # zset: failed task whose attempts are used up -> when it ended. Deleted with the task.
    # list: status, error, claim, request and worker of ends of a task that the store has lost, until a hub submits it
    # again; 60 s.
    "early_ends": "hub:early_ends:{}",
    "claim": "hub:claim:{}",  # string: task:claim of what a claim was answered with, '' for none or a removal; 60 s.
    "submitted": "hub:submitted:{}",  # string: fingerprint of a submit with a key, 24 h or its tasks' retention.
    "task_done": "hub:task_done:{}",  # a channel, not a key: this task has ended.
    "job_notice": "hub:job_bell:{}",  # a channel, not a key: a task of this job can be claimed.
    "worker_notice": "hub:worker_bell:{}",  # a channel, not a key: something was taken from this worker.
    "provider": "hub:provider:{}",  # hash: id, at, schema, type, worker, user, joined. Deleted with it or its worker.
    "provider_name": "hub:provider_name:{}",  # string: full name of a provider's id. Deleted with the provider.
    "room_providers": "hub:room_providers:{}",  # zset: full name -> when it was made. Deleted with the provider.
    "result": "hub:result:{}",  # string, per provider:hash: what it answered, HUB_PROVIDER_RESULT_TTL_SECONDS.
    "inflight": "hub:inflight:{}",  # string: when it was asked, per provider:hash, HUB_PROVIDER_INFLIGHT_TTL_SECONDS.
    "wanted": "hub:wanted:{}",  # string, per provider:hash: somebody has asked for it; an hour.
    "room_results": "hub:room_results:{}",  # zset: provider:hash -> when it lapses, ms. Lapses with the last of them.
    "room_sizes": "hub:room_sizes:{}",  # hash: provider:hash -> bytes, and their total. Lapses with the list.
    "result_notice": "hub:result_bell:{}",  # a channel, not a key, per provider:hash: the result is there.
    "tokens": "hub:tokens",  # zset: token id -> when it was made. Deleted when it is revoked.
    # hash: digest (SHA-256 of the secret), name, user, superuser, scopes, at, kind, rooms, part (of a node's id),
    # joined where a node made it. Deleted with its member above.
    "token": "hub:token:{}",
    "node_tokens": "hub:node_tokens:{}",  # set: ids of the tokens of a node, by key part. Empties as they are revoked.
    "joined": "hub:joined",  # zset: id of a node's own token -> hub clock at which the next that joins deletes it.
    "barred": "hub:barred:{}",  # string: a token of this node was revoked, so nobody joins under its name; a week.
    # hash: login of the console -> JSON of the digest of its key, the credential behind it, its role, when and from
    # where. A field is deleted when it is ended, or is over when another one is made.
    "logins": "hub:logins",
    "logins_seen": "hub:logins_seen",  # zset: the same logins -> when each was used last. The same.
    "login_link": "hub:login_link:{}",  # string: JSON of the login a link makes, by digest; 300 s, or until opened.
    # -- records of others that get stuck; `{}` takes the name of a source
    # hash: record and claim -> JSON of the outcome that waits for its database. Lives seven days from the last one; a
    # field is deleted when it was written.
    "outcomes": "hub:outcomes:{}",
    # string: hub and pass that clean this source. Lives 90 s from the last batch; deleted when the pass ends.
    "zombie_turn": "hub:zombie_turn:{}",
    # string: hub that cleans this source, while it ticks. Lives seven days, or three intervals, from its last pass.
    "zombie_leader": "hub:zombie_office:{}",
    # hash: source -> when it became known and when a hub declared it last (ms). A field is deleted seven days or three
    # intervals after that, with the next source that becomes known, or by `hub zombies forget`.
    "zombie_sources": "hub:zombie_sources",
    # hash: found, at (ms) and pass of the last pass that could count, level of the alert then and before; told, the
    # number that was told last, and told_at (ms). Lives seven days, or three intervals, from the last pass.
    "zombies": "hub:zombies:{}",
    # zset: number found -> time (ms) of that pass, of those within the window below whose number nothing was found
    # later: the first is the lowest. Lives HUB_ZOMBIE_GROWTH_WINDOW_MINUTES.
    "zombie_counts": "hub:zombie_counts:{}",
    # hash, per day since 1970 (UTC):source: passes, reset, failed, written, errors, most (found at once), worst (level:
    # 0 ok to 2 critical), pass (the last that is in it). Lives 92 days from the last pass of the day.
    "zombie_day": "hub:zombie_day:{}",
    "socketio": "hub:socketio",  # a channel, not a key: events for the sockets of all hubs.
    "sockets": "hub:sockets:{}",  # set: connections that are bound to a worker. Empties as they end.
    "bound": "hub:bound:{}",  # set: workers bound to a connection (hub.sid). Deleted with it, or with its hub.
    "connections": "hub:connections:{}",  # set: connections of a hub that have workers. Empties as they end.
    "socket_hubs": "hub:socket_hubs",  # set: hubs that have such connections. A member goes with the last of them.
    "hung_up": "hub:hung_up",  # zset: worker that hung up -> hub clock at which it is removed. Until it is back.
    # string, per ticket:request, lease:slot:token or task:id: the `traceparent` it came from, where traces are on; a
    # day.
    "trace": "hub:trace:{}",
    # string: what a request was answered with, to which attempts; 60 s, with a key HUB_IDEMPOTENCY_SECONDS, or as long
    # as the lease it stands for was at first where that is longer.
    "request": "hub:request:{}",
}

PATTERNS = WIRE | PRIVATE
# Redis carries a message to those who listen in any of its databases: in others than the first, channels name theirs.
CHANNELS = frozenset(
    {"granted", "task_done", "job_notice", "worker_notice", "result_notice", "revoked_notice", "socketio"}
)
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


class Keys:
    """The key names under one prefix: `keys.nodes` is a name, `keys.session("s1")` makes one; channels are also of one
    database."""

    def __init__(self, prefix: str = "", database: int = 0) -> None:
        self.prefix = prefix
        self.database = database
        for name, pattern in PATTERNS.items():
            full = self._full(name)
            setattr(self, name, partial(_fill, full.split("{}")) if "{}" in pattern else full)

    def _full(self, name: str) -> str:
        database = f"db{self.database}:" if self.database and name in CHANNELS else ""
        return self.prefix + database + PATTERNS[name]

    def __getattr__(self, name: str) -> Any:
        """For type checkers: every name there is was set in `__init__`."""
        raise AttributeError(f"no key is called {name}")


def lua_module() -> str:
    """The Lua module `keys`: the same names, under the prefix and in the database of the store that is called."""
    whole, made = [], []
    for name, pattern in PATTERNS.items():
        head, braces, tail = pattern.partition("{}")
        before = "channels" if name in CHANNELS else "prefix"
        if braces:
            after = f" .. {_quote(tail)}" if tail else ""
            made.append(f"function keys.{name}(id) return {before} .. {_quote(head)} .. id{after} end\n")
        else:
            whole.append(f"  keys.{name} = {before} .. {_quote(head)}\n")
    return _LUA.format(length=len(PATTERNS["store"]) + 1, whole="".join(whole), made="".join(made))


_LUA = """-- The names of keys; hub/store/keys.py says what each key holds.
local keys = {{}}

local prefix, channels  -- of the store that is called, by the key of its hash `hub:store`

function keys.use(store, database)
  prefix = string.sub(store, 1, -{length})
  channels = database == '0' and prefix or prefix .. 'db' .. database .. ':'
{whole}end

{made}
return keys
"""


def _fill(parts: list[str], value: str) -> str:
    return value.join(parts)


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def key_part(raw: str) -> str:
    """An id as part of a key: everything but letters, digits, `-`, `_` and `.` becomes `-`, cut to 200 characters.

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
    """The first and the last of each range of letters and digits beyond ASCII."""
    from hub.store.library import folder  # which imports this module

    table = "".join(re.findall(r"'([0-9a-z]{7,})'", (folder() / "ids.lua").read_text()))
    ranges = [(int(table[at : at + 4], 36), int(table[at + 4 : at + 7], 36)) for at in range(0, len(table), 7)]
    return [first for first, _ in ranges], [first + more for first, more in ranges]
