"""The public keys: other programs read and write them too. Where private keys disagree with them, these count."""

from hub.store.keys.key import Each, One, Section


class Public(Section):
    """The public keys. `by` says who writes a key, `until` who deletes it."""

    nodes = One(
        "nodes", "set", "raw node ids",
        "none", by="hub at registration; node with each heartbeat that it writes itself",
        until="node when it leaves; the sweep of nodes",
    )  # fmt: skip
    node = Each(
        "node:{node}", "hash", 'what a node says of itself, `LastSeen` ("Fields of a node")',
        "none", by="hub, node", until="node when it leaves; the sweep of nodes",
    )  # fmt: skip
    node_alive = Each(
        "node_alive:{node}",
        "string",
        "`1`",
        "one node timeout after a heartbeat through a hub; at least 90 s after a registration; 90 s where a node "
        "writes it itself; 30 s from a sweep that may not expire",
        by="hub, node",
        until="expiry; node when it leaves",
        seconds=0,
    )
    node_upgrade = Each(
        "node_upgrade:{node}", "string", "`1`: the node is asked to withdraw, drain and rebuild its slots",
        "300 s", by="hub", until="the node, when it has read it", seconds=300,
    )  # fmt: skip
    available = Each(
        "available:{label}", "list", "slot items that are free; the head is lent next",
        "until the list is empty", by="node pushes to the tail; hub pushes slots that are free again to the tail",
        until="hub takes the head",
    )  # fmt: skip
    inuse = Each(
        "inuse:{label}", "list", "slot items that are lent",
        "until the list is empty", by="hub", until="hub; node that replaces the slot or leaves",
    )  # fmt: skip
    session = Each(
        "session:{slot}", "hash", 'the lease ("Fields of a lease")',
        "none", by="hub, with the lease", until="hub, when the lease ends",
    )  # fmt: skip
    borrow_ttl = Each(
        "borrow_ttl:{slot}", "string", "`1`: the visible footprint of the lease",
        "length of the lease", by="hub; renewals extend it",
        until="expiry; hub; another program that wants to end the lease",
    )  # fmt: skip
    borrow_idle = Each(
        "borrow_idle:{slot}", "string", "`1`, only where an idle rule applies",
        "the idle time", by="hub; the node extends it while a client is connected",
        until="expiry; hub; node when the connection closes",
    )  # fmt: skip
    browser_run = Each(
        "browser_run:{slot}", "string", "the run that holds the slot",
        "6 h, or the end of the lease", by="hub", until="hub", seconds=21600,
    )  # fmt: skip
    browser_test = Each(
        "browser_test:{slot}", "string", "the test that runs on the slot",
        "6 h, or the end of the lease", by="hub", until="hub", seconds=21600,
    )  # fmt: skip
    recycle = Each(
        "recycle:{slot}", "string", "`1`: the node is asked to replace this slot when no client is connected",
        "120 s; 300 s when the node was removed", by="hub, node", until="the node, when it has replaced the slot",
        seconds=300,
    )  # fmt: skip
    maintenance = Each(
        "maintenance:{label}", "string", "`1`: the pool is under maintenance and lends nothing",
        "1800 s", by="hub (pool restart)", until="hub, when all slots were replaced", seconds=1800,
    )  # fmt: skip
    maintenance_target = Each(
        "maintenance:target:{label}", "string", "number of free and lent slots at the start of the maintenance",
        "1800 s", by="hub", until="hub", seconds=1800,
    )  # fmt: skip
    maintenance_since = Each(
        "maintenance:since:{label}", "string", "time of the start, as the wire writes times",
        "1800 s", by="hub", until="hub", seconds=1800,
    )  # fmt: skip
    maintenance_free = Each(
        "maintenance:snap_avail:{label}", "string", "number of free slots at the start of the maintenance",
        "1800 s", by="hub", until="hub", seconds=1800,
    )  # fmt: skip
    maintenance_lent = Each(
        "maintenance:snap_inuse:{label}", "string", "number of lent slots at the start of the maintenance",
        "1800 s", by="hub", until="hub", seconds=1800,
    )  # fmt: skip
    taskiq = One(
        "taskiq", "stream", "messages of `@internal` tasks as taskiq writes them, in the field `data`",
        "none", by="hub", until="hub, message by message, when the task ends",
    )  # fmt: skip
    audit = One(
        "audit:entries", "list", "audit entries, newest first",
        "about `HUB_AUDIT_MAX_ENTRIES`; of the oldest, entries of the credential with the most are deleted first",
        by="hub", until="hub, when the list is too long",
    )  # fmt: skip
    audit_fingerprint = Each(
        "audit:secrets:{kind}:fp", "string", "SHA-256 of the secret list of `runner` or `node`, upper-case hex",
        "none", by="hub at start", until="none: it is overwritten",
    )  # fmt: skip
