"""The keys of the store as a whole, of tokens and of the recovery of records."""

from hub.store.keys.key import Each, One, Section


class OfTheStore(Section):
    title = "Store"
    owner = "hub/store/"

    # Fields: format (of the stored data; 1 where the field is missing), generation, born (the generation with which the
    # store began), run_id (of the Redis server), token (counter), last_us (last instant given), clock_ms, tick_ms,
    # resumed_ms (hub clock a second after it went on), confirm (a write for which a connection waits), settle_ms,
    # leader, leader_until_ms; expire, expire_by, expire_at (the run-time switch); turn (counter of turns), line_ms
    # (last arrival in a queue) and line_clock_ms (the hub clock then), options (of matching), timeout_ms (of nodes),
    # grace_ms (after a lease that ended early), revoked_ms (until when a last holder may believe in such a lease),
    # rules (number of the last change of pool rules), history_max (most events), limits (of memory), noted:<event> (id
    # of the last such event of a hub), shared
    # (settings on which the hubs agree), given:<hub> (settings that this hub was given), set:<setting> (what an
    # operator set over them), tokens_changed (when a token was last revoked, or the first was made), counted_us (until
    # when ended tasks are counted for the metrics). Of a move to another server: moving (its id), moving_by (the
    # attempt that copies), moving_to, moving_generation and moving_format (what stood in these fields), moved (URL of
    # the server that has the store now).
    # Of bundles: bundles (1 while any waits), bundles_at and reserve_at (from which on the next
    # round looks at them, to lend and to choose one for which slots are set aside).
    # Of hooks: hooks (1 while there is one), hooks_seen (events read for them), hooks_second and hooks_sent (messages
    # given out in that second).
    store = One(
        "hub:store",
        "hash",
        "one record of the whole store: generation, server identity, token counter, hub clock, leader, run-time "
        "switches, options that all hubs must agree on",
        "never deleted",
    )
    canary = One(
        "hub:canary", "string",
        "nothing: in a cluster commands read it first, so that they fail before they write while the keys move",
        "never exists",
    )  # fmt: skip
    restoring = One(
        "hub:restoring",
        "string",
        "the digest of the copy that is being put into this store (`hub store import`), or the move and the attempt "
        "that fills it (`hub realm move`)",
        "until the copy is complete",
    )
    telling = One(
        "hub:telling", "set", "hubs that have yet to say what they remember, after the store was lost",
        "a member until its hub has said so",
    )  # fmt: skip
    hubs = One(
        "hub:hubs", "zset", "hub -> its last tick, on the hub clock",
        "a member until its hub stops or has been silent for 3 s",
    )  # fmt: skip
    history = One(
        "hub:history", "stream", "events: what happened, with a reason code", "trimmed to `HUB_HISTORY_MAX_ENTRIES`"
    )
    refusals = One(
        "hub:refusals", "list", "audit entries of refused calls, newest first",
        "about 1,000; of the oldest those of the address with the most go",
    )  # fmt: skip
    trace = Each(
        "hub:trace:{ticket, lease or task}", "string",
        "the `traceparent` of the call that made it, where traces are on",
        "86,400 s", seconds=86400,
    )  # fmt: skip
    # The answer to a request and the attempts that got it; 60 s, with an idempotency key HUB_IDEMPOTENCY_SECONDS or the
    # length of its lease, if that is longer.
    request = Each(
        "hub:request:{request}", "string", "answer to a request, and the attempts that got it",
        "60 s; with an `Idempotency-Key` `HUB_IDEMPOTENCY_SECONDS`, or the lease if that is longer", seconds=86400,
    )  # fmt: skip


class OfHooks(Section):
    title = "Hooks"
    owner = "hub/hooks/"

    hooks = One("hub:hooks", "zset", "hook -> when it was added", "a member until its hook is removed")
    # Fields: url, on, wants (on, as lua/hooks.lua reads it), label, user, format, secret (it signs), by, at, paused
    # (why it is), delivered, failed, dropped (numbers of messages), last, last_at (what came of the last try, and
    # when), turn, turn_ms (who delivers at this moment, and until when on the hub clock).
    hook = Each(
        "hub:hook:{hook}", "hash", "address, types of events, filters, signing secret, counts", "until it is removed"
    )
    # Fields of a message: type, id (of the event), object (messages of one object are delivered in order), then the
    # fields of the event.
    hook_queue = Each(
        "hub:hook_queue:{hook}", "stream", "messages that wait for a hook", "5,000; a message until it is delivered"
    )
    hook_tries = Each(
        "hub:hook_tries:{hook}", "hash", "message -> tries so far, when it is tried next, and when it was first",
        "a field until its message is delivered or the hook resumed",
    )  # fmt: skip
    hooks_due = One(
        "hub:hooks_due", "zset", "hook with messages -> when it is tried next, on the hub clock",
        "a member until nothing waits for its hook",
    )  # fmt: skip
    hooks_paused = One(
        "hub:hooks_paused",
        "hash",
        "hook that the hub has paused -> why",
        "a field until its hook is resumed or removed",
    )


class OfTokens(Section):
    title = "Tokens"
    owner = "hub/tokens/"

    tokens = One("hub:tokens", "zset", "token id -> when it was made", "a member until its token is revoked")
    # Fields: digest (SHA-256 of the secret), name, user, superuser, scopes, at, kind, rooms, part (key part of a node's
    # id), joined (where a node made it; "once": deleted when the node leaves), by (id of the token to join with), terms
    # (JSON: labels, team, maxPriority, livesSeconds).
    # Deleted with its member in `tokens`.
    token = Each(
        "hub:token:{token}",
        "hash",
        "SHA-256 of the secret, name, user, scopes, kind, rooms, node, terms of borrowing",
        "until revoked",
    )
    node_tokens = Each("hub:node_tokens:{node}", "set", "ids of the tokens of a node", "a member with its token")
    joined = One(
        "hub:joined", "zset",
        "id of a token that a node made for itself -> when it ends unless shown, on the hub clock",
        "a member with its token",
    )  # fmt: skip
    joining = Each(
        "hub:joining:{token}", "zset",
        "token that a node made with this token to join with, before it registers -> when it is forgotten",
        "one day; a member until its node registers, or with its token", seconds=86400,
    )  # fmt: skip
    barred = Each(
        "hub:barred:{node}", "string", "empty: a token of this node was revoked, and no node joins under its id",
        "one week", seconds=604800,
    )  # fmt: skip
    # Login of the console -> JSON: digest of its key, the credential behind it, its role, when and from where it was
    # made. A field is deleted when its login ends; a login that is over, when another one is made.
    logins = One(
        "hub:logins", "hash", "login of the console -> SHA-256 of its key, its credential or claims, its role",
        "a field until its login ends",
    )  # fmt: skip
    logins_seen = One("hub:logins_seen", "zset", "login -> when it was used last", "a member with its login")
    login_links = One(
        "hub:login_links", "hash", "SHA-256 of a one-time link -> the login that it makes, and when it was made",
        "300 s after the last link; a field until its link is opened", seconds=300,
    )  # fmt: skip


class OfRecovery(Section):
    title = "Recovery"
    owner = "hub/recovery/ and hub/sweeping/"

    # Record and claim -> JSON of an outcome that is still to be written into its database.
    outcomes = Each(
        "hub:outcomes:{source}", "hash", "record and claim -> outcome that is still to be written into its database",
        "a field until it is written; seven days from the last outcome", seconds=604800,
    )  # fmt: skip
    zombie_turn = Each(
        "hub:zombie_turn:{source}", "string", "hub and pass that have the turn at this source",
        "90 s from the last batch", seconds=90,
    )  # fmt: skip
    zombie_leader = Each(
        "hub:zombie_office:{source}", "string", "hub that is the leader of this source",
        "seven days, or three intervals", seconds=604800,
    )  # fmt: skip
    # Source -> when it was declared first and when a hub declared it last (ms). A field is deleted seven days or three
    # intervals after the last declaration, when a new source is declared, or by `hub recovery forget`.
    zombie_sources = One(
        "hub:zombie_sources", "hash", "source -> when a hub declared it first and last",
        "seven days or three intervals, or `hub recovery forget`",
    )  # fmt: skip
    # Fields: found, at (ms) and pass of the last pass that could count; level and before: levels of the alert at that
    # pass and before it; told and told_at (ms): the number that was told last.
    zombies = Each(
        "hub:zombies:{source}", "hash", "number of stuck records that the last pass found, and the level of the alert",
        "seven days, or three intervals", seconds=604800,
    )  # fmt: skip
    zombie_counts = Each(
        "hub:zombie_counts:{source}", "zset", "number of stuck records that a pass found -> time of the pass",
        "`HUB_ZOMBIE_GROWTH_WINDOW_MINUTES`", seconds=3600,
    )  # fmt: skip
    # The day is the number of days since 1970, UTC. Fields: passes, reset, failed, written, errors, most (most records
    # found by a pass), worst (level of the alert: 0 ok to 2 critical), pass (the last one counted).
    zombie_day = Each(
        "hub:zombie_day:{day:source}", "hash", "sums of what the passes of a day did, for `hub recovery report`",
        "92 days", seconds=7948800,
    )  # fmt: skip
