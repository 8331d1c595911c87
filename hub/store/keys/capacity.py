"""The private keys of nodes, slots, leases and the queue."""

from hub.store.keys.key import Each, One, Section


class OfNodes(Section):
    title = "Nodes"
    owner = "hub/capacity/nodes/"

    # Fields: state (engaged, released), since; of the last pass: seen, stale, registered, limit, held, pass, word,
    # allowed; window, spent; since_ms (hub clock at which the grace began); released_by, released_at,
    # released_until_ms. Deleted when the brake ends.
    brake = One(
        "hub:brake", "hash", "the brake on expiring nodes: state, since, counts of the last pass", "when the brake ends"
    )
    beats = One("hub:beats", "zset", "raw node id -> its last heartbeat", "with the node")
    # Fields that the answer to a heartbeat tells: version, drain, cordon (its reason), republish, recycle:<slot>,
    # offers (digest of its slots), drain_number (of the last drain or undrain). Others: incarnation and its term; kept
    # (hub clock at which a sweep that may not expire kept the node). Deleted with the node.
    orders = Each(
        "hub:duty:{node}",
        "hash",
        "orders for the node: version, drain, why it is cordoned, republish, slots to recycle; its incarnation",
        "with the node",
    )
    lent = Each("hub:lent:{node}", "hash", "slot -> token of what is lent of the node", "a field with its lease")
    draining = One("hub:draining", "set", "raw ids of draining nodes", "with the drain or the node")
    drain_deadlines = One(
        "hub:drain_deadlines",
        "zset",
        "raw node id -> when its drain ends what is lent",
        "when done, with the drain or the node",
    )
    node_slots = Each("hub:node_slots:{node}", "set", "slots of the node", "a member with its slot")
    incarnations = Each(
        "hub:incarnations:{node}",
        "list",
        "processes that were this node before, newest first, 32 at most",
        "one hour",
        seconds=3600,
    )
    # Fields: on, number, left_ms, reason of a drain that a hub restored after a loss of the store, before the node had
    # registered again. Deleted when the node registers, after 600 s at the latest.
    drain_call = Each(
        "hub:drain_call:{node}",
        "hash",
        "a drain or a cordon that a hub brought back before its node was",
        "until the node registers, 600 s at most",
        seconds=600,
    )
    withdrawn = Each(
        "hub:withdrawn:{node}",
        "zset",
        "slot -> number of the call that withdrew it, the last 1,000",
        "with the node, or its incarnation",
    )
    leaving = One(
        "hub:leaving", "hash", "node -> raw id of nodes that are gone and not yet pruned to the end", "until pruned"
    )
    suspects = One(
        "hub:suspects",
        "set",
        "raw ids of nodes whose slots are held back because of silence",
        "next heartbeat, or with the node",
    )
    aside = Each("hub:aside:{node}", "set", "the slots that are held back so", "next heartbeat, or with the node")


class OfLeases(Section):
    title = "Slots and leases"
    owner = "hub/capacity/"

    # Fields: item, pool, node, part, place (free, lent, held), policy, idle_ms; of the lease: label, run, granted_ms,
    # visible_ms, watch_idle, seen_ms (when the hub of its waiter heard of it); adopted_ms (hub clock) for a slot that
    # another program put into a list; told: incarnation|number of the call that published it last; unreported: set when
    # a hub restored it after a loss and its node has not named it yet; claimed: the key part of the node that the slot
    # id names, which gets the slot after the lease. Deleted when the slot is withdrawn, pruned, or found in no list.
    slot = Each(
        "hub:slot:{slot}",
        "hash",
        "item, pool, node, place (`free`, `lent`, `held`), and of the lease: label, run, times",
        "with the slot",
    )
    pools = One("hub:pools", "zset", "labels that have slots", "with the last slot of the pool")
    open_pools = Each(
        "hub:open:{segments}", "zset", "labels with free slots, by their number of segments", "with the last free slot"
    )
    pool_slots = Each("hub:pool_slots:{label}", "set", "slots published under a label", "a member with its slot")
    replacing = Each("hub:replacing:{label}", "set", "slots that a pool restart wants replaced", "1800 s", seconds=1800)
    deadlines = One("hub:deadlines", "zset", "slot -> when its lease lapses", "with the lease")
    in_flight = Each(
        "hub:asked:{label}",
        "zset",
        "slot -> when it was lent, under the label that was asked for: the leases in flight",
        "a member with its lease",
    )
    run = Each("hub:run:{run}", "zset", "slot -> when it was lent: what a run holds", "a member with its lease")
    # Slot -> the highest token whose lease ended since the store was lost, or in what was lost. A report of a lease
    # with that token or a lower one is late and changes nothing. Deleted when the time for reports is over.
    ended = One(
        "hub:ended",
        "hash",
        "slot -> highest token that ended since the store was lost: a late report changes nothing",
        "until everybody had time to report",
    )
    renewed = One(
        "hub:renewed", "hash", "slot -> token and deadline, as a hub renewed it just before the loss", "the same"
    )
    revoked = One(
        "hub:revoked",
        "zset",
        "slot whose lease ended early -> until when its last holder may believe in it",
        "until then, or until the holder has stopped",
    )
    revoked_tokens = One("hub:revoked_tokens", "hash", "the same slots -> their tokens", "the same")
    # Raw id of a node that published another node's slot -> slot|when (hub clock)|raw id of the node that has the slot.
    conflicts = One(
        "hub:conflicts",
        "hash",
        "node -> the last slot that it offered and that was of another node, when, and that node; 100 at most",
        "one hour after the last one",
        seconds=3600,
    )
    revoked_notice = Each("hub:revoked_bell:{slot}", "channel", "the lease of this slot has ended early", "")
    orders_notice = Each("hub:orders_bell:{node}", "channel", "something that the node is told has changed", "")


class OfTheQueue(Section):
    title = "Queue"
    owner = "hub/capacity/"

    # Fields: label, run, hub, attempt, score, since_ms, until_ms, ttl_ms, idle_ms, priority, fingerprint, keep_s,
    # keyed; handed: set once it was granted. Deleted when the ticket leaves the queue; with a key, 60 s after it was
    # granted.
    ticket = Each(
        "hub:ticket:{ticket}",
        "hash",
        "a borrow that waits: label, run, hub, priority, deadlines",
        "when it leaves; 60 s after a lease with a key",
    )
    queue = Each("hub:line:{label}", "zset", "ticket -> time of arrival less its priority", "a member with its ticket")
    turns = One(
        "hub:turns", "zset", "label -> its turn; the smallest is served next", "with the last waiter of the label"
    )
    under = Each(
        "hub:under:{label}", "zset", "waiting labels that begin with these segments and are below their cap", "the same"
    )
    wild = One("hub:wild", "zset", "waiting labels with a `*`", "the same")
    pending = One("hub:pending", "hash", "run -> how many wait for it", "a field with its last waiter")
    ticket_deadlines = One("hub:patience", "zset", "ticket -> when it is dropped", "with the ticket")
    waiters = Each("hub:waiters:{hub}", "set", "tickets that a hub answers for", "a member with its ticket")
    handed = Each(
        "hub:handed:{hub}", "set", "tickets that were granted and that the hub has not delivered yet", "when delivered"
    )
    elsewhere = Each(
        "hub:elsewhere:{slot}",
        "hash",
        "token -> realm that lent a slot of this id to a ticket of this realm",
        "`HUB_MAX_SESSION_TTL_SECONDS` from the last one",
    )
    granted = Each("hub:granted:{hub}", "channel", "tickets of a hub that were granted or cancelled", "")
    caps = One("hub:caps", "hash", "`set:<label>` and `env:<label>` -> most leases in flight", "until cleared")
    pace = Each(
        "hub:pace:{label}",
        "hash",
        "how fast the queue of a label moves, for estimates",
        "one hour; 45 s after the last waiter",
        seconds=3600,
    )
