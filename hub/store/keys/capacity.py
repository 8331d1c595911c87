"""The private keys of nodes, slots, leases and the queue."""

from hub.store.keys.key import Each, One, Section


class OfNodes(Section):
    title = "Nodes"
    owner = "hub/capacity/nodes/"

    # Fields: state (engaged, released), since; of the last pass: seen (when), stale, registered, limit, held, pass,
    # word, allowed; window: hub clock at which the interval began, spent: number removed in it; since_ms: hub clock at
    # which the grace began; released_by, released_at, released_until_ms.
    brake = One(
        "hub:brake", "hash", "the brake on expiring nodes: state, since, counts of the last pass", "when the brake ends"
    )
    beats = One("hub:beats", "zset", "raw node id -> last heartbeat, on the hub clock", "a member with its node")
    # Fields that a heartbeat must tell: version, drain, cordon (its reason), republish, recycle:<slot>, end:<slot>
    # (number of the end for which the slot is to be made fresh), offers (digest of the slots), drain_number (of the
    # last drain call). Others: incarnation and its term and host; suspect; reported: generation of the store in which
    # it reported last; kept: hub clock at which a sweep that may not expire kept it alive; held_told:
    # incarnation|number of the last call that named all slots which the node holds; returned: generation of the store
    # that had lost the node when a process of it registered again.
    orders = Each(
        "hub:duty:{node}", "hash",
        "orders for the node: version, drain, why it is cordoned, republish, slots to recycle; its incarnation",
        "with the node",
    )  # fmt: skip
    lent = Each(
        "hub:lent:{node}", "hash", "slot of the node that is lent -> token of its lease", "a field with its lease"
    )
    draining = One(
        "hub:draining", "set", "raw ids of nodes that drain or are cordoned", "a member with its drain or its node"
    )
    drain_deadlines = One(
        "hub:drain_deadlines", "zset", "raw node id -> when its drain ends the leases of the node",
        "a member until those have ended, with its drain or its node",
    )  # fmt: skip
    node_slots = Each("hub:node_slots:{node}", "set", "slots of the node", "a member with its slot")
    # Fields: node:<slot>: 1 while the node holds the slot; operator:<slot>: number|reason of an operator's hold. They
    # are not among the orders, for each heartbeat reads those and would cost more for every field.
    node_holds = Each(
        "hub:node_holds:{node}", "hash", "slots of the node that it or an operator holds; of an operator also why",
        "a field with its hold",
    )  # fmt: skip
    incarnations = Each(
        "hub:incarnations:{node}", "list",
        "incarnations of processes that were this node before, newest first, 32 at most",
        "one hour", seconds=3600,
    )  # fmt: skip
    # Fields: on, number, left_ms, reason of a drain call that a hub brought back before the node registered again.
    drain_call = Each(
        "hub:drain_call:{node}", "hash", "a drain or a cordon that a hub brought back before the node registered again",
        "until the node registers, 600 s at most", seconds=600,
    )  # fmt: skip
    withdrawn = Each(
        "hub:withdrawn:{node}", "zset", "slot -> number of the call that withdrew it, of the last 1,000",
        "with the node or its incarnation",
    )  # fmt: skip
    leaving = One(
        "hub:leaving", "hash", "key part of a node that was removed -> its raw id",
        "a field until the last slot of its node is dropped",
    )  # fmt: skip
    suspects = One(
        "hub:suspects", "set", "raw ids of suspect nodes whose slots are held back",
        "a member until the next heartbeat, or with its node",
    )  # fmt: skip
    aside = Each(
        "hub:aside:{node}", "set", "slots held back because the node is suspect",
        "until the next heartbeat, or with the node",
    )  # fmt: skip


class OfLeases(Section):
    title = "Slots and leases"
    owner = "hub/capacity/"

    # Fields: item, pool, node, part (key part of the node), place (free, lent, held), policy, idle_ms, class and warm;
    # of the lease: label, run, granted_ms, began (ms, Redis time; after a wait, | and how many ms it lasted),
    # visible_ms, watch_idle (idle time), idle_visible_ms (until when its footprint lasts), those of
    # lua/lease_limits.lua, seen_ms (when its waiter's hub heard of it), unseen (the hub that has yet to hear of it),
    # before (run of the lease before, after a hand-off); adopted_ms: hub clock at which the
    # item of another program was taken in; told: incarnation|number of the call that published it last; reported:
    # generation of the store in which its node reported it; unreported: a hub brought it back and its node has not
    # named it yet; claimed: key part of the node that its id names, which gets it after the lease; owed: number of
    # the end for which its node is to make it fresh; made: the last one for which it has; unwell: why its node holds
    # it, hold_told: incarnation|number of the last call about that; barred: why an operator holds it, barred_number:
    # number of the last call about that. Deleted when the slot is withdrawn, pruned, or found to be in no list.
    slot = Each(
        "hub:slot:{slot}", "hash",
        "item, pool, node, place (`free`, `lent`, `held`), and of the lease: label, run, holder, user, team, times",
        "with the slot",
    )  # fmt: skip
    pools = One("hub:pools", "zset", "labels that have slots", "a member with the last slot of its pool")
    open_pools = Each(
        "hub:open:{segments}", "zset", "labels of this number of segments with free slots",
        "a member with the last free slot of its pool",
    )  # fmt: skip
    pool_slots = Each("hub:pool_slots:{label}", "set", "slots published under a label", "a member with its slot")
    replacing = Each(
        "hub:replacing:{label}", "set", "slots that are still to be replaced after a pool restart",
        "1800 s", seconds=1800,
    )  # fmt: skip
    deadlines = One(
        "hub:deadlines", "zset", "slot -> when its lease lapses, on the hub clock", "a member with its lease"
    )
    in_flight = Each(
        "hub:asked:{label}", "zset",
        "slot -> when it was lent: the leases in flight that were asked for under this label",
        "a member with its lease",
    )  # fmt: skip
    served = Each(
        "hub:served:{label}", "set", "slots that this pool and those below it have lent, where a cap counts them",
        "a member with its lease, or with the cap",
    )  # fmt: skip
    # Pattern -> JSON: hold, idle, ttl, warn (ms), by (who set it), at. hub:store has the number of the last change.
    rules = One(
        "hub:rules", "hash", "pattern of pools -> rule: longest hold, idle time, length, warning; who set it, and when",
        "a field until an operator removes it",
    )  # fmt: skip
    lease_limits = One(
        "hub:lease_limits", "zset",
        "slot -> when its holder is to be told of an end by a rule, or when it ends, on the hub clock",
        "a member with its lease",
    )  # fmt: skip
    run = Each("hub:run:{run}", "zset", "slot -> when it was lent: the leases of a run", "a member with its lease")
    # Slot -> the highest token whose lease ended since the store was lost, or in what was lost; a report of that lease
    # or an earlier one is late.
    ended = One(
        "hub:ended", "hash",
        "slot -> highest token whose lease ended, after a loss: a late report of it changes nothing",
        "until nodes and hubs have had their time to report",
    )  # fmt: skip
    renewed = One(
        "hub:renewed", "hash", "slot -> token and deadline of a lease that a hub renewed shortly before a loss",
        "as above",
    )  # fmt: skip
    revoked = One(
        "hub:revoked", "zset", "slot whose lease ended early -> until when its last holder may believe in it",
        "a member until then, or until the holder says that it has stopped",
    )  # fmt: skip
    revoked_tokens = One(
        "hub:revoked_tokens", "hash", "slot whose lease ended early -> token of that lease", "as above"
    )
    end_reason = Each(
        "hub:end_reason:{slot}", "string", "token, code and words: why a lease of the slot ended early", "600 s",
        seconds=600,
    )  # fmt: skip
    unfresh = One(
        "hub:unfresh", "zset", "slot that its node is to make fresh -> when its last lease ended, on the hub clock",
        "a member until that is done, or with its slot",
    )  # fmt: skip
    last_end = Each(
        "hub:last_end:{slot}", "string",
        "number of the end for which a slot was not made fresh when it was dropped; empty if it was",
        "until its node publishes it again, one day at most", seconds=86400,
    )  # fmt: skip
    unwell = One(
        "hub:unwell", "zset", "slot that its node or an operator holds -> since when, on the hub clock",
        "a member with its holds",
    )  # fmt: skip
    # Fields as in the record of a slot: unwell, hold_told, barred, barred_number; part: of the node that had it.
    kept_holds = Each(
        "hub:holds:{slot}", "hash", "the holds of a slot that has no record, as its node may publish it again",
        "until that, one day at most", seconds=86400,
    )  # fmt: skip
    # Raw id of the node that offered the slot -> slot|hub clock|raw id of the node to which the slot belongs.
    conflicts = One(
        "hub:conflicts", "hash",
        "node -> the last slot of another node that it offered, when, and the other node; 100 nodes at most",
        "one hour after the last conflict", seconds=3600,
    )  # fmt: skip
    # Entries: when the lease began (as in the record of its slot), when it ended, when it was active last or nothing,
    # in ms of Redis time; slot, node, label, team and user; the character 31 stands between them.
    usage_ended = One(
        "hub:usage_ended", "list", "leases that ended, whose figures are still to be added to those of the days",
        "an entry until a hub adds it, within a second",
    )  # fmt: skip
    # Values: leases, ms held, ms waited, ms idle, refusals, with spaces between them.
    usage_day = Each(
        "hub:usage:{day_and_kind}", "hash",
        "figures of a day (days since 1970) and a kind (`user`, `team`, `label`, `slot`, `node`): a name -> leases, "
        "ms held, ms waited, ms idle, refusals",
        "`HUB_USAGE_DAYS` days",
    )  # fmt: skip
    usage_told = Each(
        "hub:usage_told:{hub}", "string", "number of the last refusals that a hub has told", "600 s", seconds=600
    )
    revoked_notice = Each("hub:revoked_bell:{slot}", "channel", "the lease of this slot has ended early", "")
    orders_notice = Each("hub:orders_bell:{node}", "channel", "the orders of this node have changed", "")


class OfTheQueue(Section):
    title = "Queue"
    owner = "hub/capacity/"

    # Fields: label, run, hub, attempt, score, since_ms, until_ms, ttl_ms, idle_ms, priority, fingerprint, keep_s, keyed
    # (1 with an idempotency key); handed: 1 once a lease was granted to it; of one that wants several slots: bundle
    # (what it wants, as JSON), patient_since_ms (hub clock from which its patience counts) and lacks (how many free
    # slots it lacks at least). Deleted when the ticket leaves the queue; with an idempotency key 60 s after its lease
    # was granted.
    ticket = Each(
        "hub:ticket:{ticket}", "hash", "a borrow that waits: label, run, holder, hub, priority, deadlines",
        "until the ticket leaves the queue; with an idempotency key 60 s longer",
    )  # fmt: skip
    queue = Each(
        "hub:line:{label}", "zset", "ticket -> time of arrival, less a second per point of priority",
        "a member with its ticket",
    )  # fmt: skip
    turns = One(
        "hub:turns", "zset", "label -> its turn; the smallest is served next",
        "a member with the last waiter of its label",
    )  # fmt: skip
    under = Each(
        "hub:under:{label}", "zset", "labels with waiters, below their cap, that begin with these segments -> turn",
        "as above",
    )  # fmt: skip
    wild = One("hub:wild", "zset", "labels with waiters, below their cap, with a `*` -> turn", "as above")
    pending = One("hub:pending", "hash", "run -> number of its waiters", "a field with the last waiter of its run")
    ticket_deadlines = One(
        "hub:patience", "zset", "ticket -> when it is dropped, on the hub clock", "a member with its ticket"
    )
    waiters = Each("hub:waiters:{hub}", "set", "tickets that this hub attends", "a member with its ticket")
    handed = Each(
        "hub:handed:{hub}", "set", "granted tickets whose lease the hub has not delivered yet",
        "a member until its lease is delivered",
    )  # fmt: skip
    elsewhere = Each(
        "hub:elsewhere:{slot}", "hash", "token -> other realm that lent a slot with this id to a ticket of this realm",
        "`HUB_MAX_SESSION_TTL_SECONDS` from the last such lease",
    )  # fmt: skip
    granted = Each("hub:granted:{hub}", "channel", "tickets of a hub that were granted or cancelled", "")
    caps = One("hub:caps", "hash", "`set:<label>` and `env:<label>` -> most leases in flight", "until cleared")
    pace = Each(
        "hub:pace:{label}", "hash", "how fast the queue of a label moves, for estimates of waits",
        "one hour from the last move; 45 s after the last waiter", seconds=3600,
    )  # fmt: skip
