"""The keys of the store as a whole, of tokens and of the recovery of records."""

from hub.store.keys.key import Each, One, Section


class OfTheStore(Section):
    title = "Store"
    owner = "hub/store/"

    # Fields: format (of what is kept; 1 where there is none), generation, born (the one with which it began), run_id,
    # token (counter), last_us (counter of jobs), clock_ms, tick_ms, resumed_ms (a second after it stood still),
    # confirm (a write to wait for), settle_ms, leader, leader_until_ms and the run-time switch expire, expire_by,
    # expire_at; turn (counter of the queues), line_ms (the last arrival in one), line_clock_ms (the hub clock then),
    # options (matching), timeout_ms (of nodes), grace_ms (of what is revoked), revoked_ms (until when a holder may
    # believe in it); history_max (entries), limits (of memory), noted:<event> (the last one a hub wrote),
    # shared (the settings that hubs agree on), given:<hub> (those it was given), set:<setting> (what an operator set
    # over them); tokens_changed (when one was last revoked, or the first was made); counted_us (until when ended tasks
    # are counted for the metrics);
    # moving (the move of the store to another server), moving_by (the attempt that copies it), moving_to,
    # moving_generation and moving_format (what stood in those fields), moved (where the store is by now).
    # One per store, never deleted.
    store = One(
        "hub:store",
        "hash",
        "one record of the whole store: generation, server identity, token counter, hub clock, leader, run-time "
        "switches, options that all hubs must agree on",
        "never deleted",
    )
    canary = One(
        "hub:canary",
        "string",
        "nothing: in a cluster commands read it first, so that they fail before they write while the keys move",
        "never exists",
    )
    restoring = One(
        "hub:restoring",
        "string",
        "the digest of the copy that is being put into this store (`hub store import`), or the move and the attempt "
        "that fills it (`hub realm move`)",
        "until the copy is complete",
    )
    telling = One(
        "hub:telling",
        "set",
        "hubs that have yet to say what they remember, after the store was lost",
        "a member until its hub has said so",
    )
    hubs = One(
        "hub:hubs",
        "zset",
        "hub -> its last tick, on the hub clock",
        "a member until its hub stops or has been silent for 3 s",
    )
    history = One(
        "hub:history", "stream", "events: what happened, with a reason code", "trimmed to `HUB_HISTORY_MAX_ENTRIES`"
    )
    refusals = One(
        "hub:refusals",
        "list",
        "audit entries of refused calls, newest first",
        "about 1,000; of the oldest those of the address with the most go",
    )
    trace = Each(
        "hub:trace:{ticket, lease or task}",
        "string",
        "the `traceparent` of the call that made it, where traces are on",
        "86,400 s",
        seconds=86400,
    )
    # What a request was answered with, to which attempts; 60 s, with a key HUB_IDEMPOTENCY_SECONDS, or as long as the
    # lease it stands for was at first where that is longer.
    request = Each(
        "hub:request:{request}",
        "string",
        "answer to a request, and the attempts that got it",
        "60 s; with an `Idempotency-Key` `HUB_IDEMPOTENCY_SECONDS`, or the lease if that is longer",
        seconds=86400,
    )


class OfTokens(Section):
    title = "Tokens"
    owner = "hub/tokens/"

    tokens = One("hub:tokens", "zset", "token id -> when it was made", "a member until its token is revoked")
    # Fields: digest (SHA-256 of the secret), name, user, superuser, scopes, at, kind, rooms, part (of a node's id),
    # joined where a node made it ("once": it ends when the node leaves), by (the token to join with). Deleted with its
    # member above.
    token = Each(
        "hub:token:{token}", "hash", "SHA-256 of the secret, name, user, scopes, kind, rooms, node", "until revoked"
    )
    node_tokens = Each("hub:node_tokens:{node}", "set", "ids of the tokens of a node", "a member with its token")
    joined = One(
        "hub:joined",
        "zset",
        "id of a token that a node made for itself -> when it ends unless shown, on the hub clock",
        "a member with its token",
    )
    joining = Each(
        "hub:joining:{token}",
        "zset",
        "token that a node made with this token to join with, before it registers -> when it is forgotten",
        "one day; a member until its node registers, or with its token",
        seconds=86400,
    )
    barred = Each(
        "hub:barred:{node}",
        "string",
        "empty: a token of this node was revoked, and no node joins under its id",
        "one week",
        seconds=604800,
    )
    # Login of the console -> JSON of the digest of its key, the credential behind it, its role, when and from where.
    # A field is deleted when it is ended, or is over when another one is made.
    logins = One(
        "hub:logins",
        "hash",
        "login of the console -> SHA-256 of its key, the credential behind it, its role",
        "a field until its login ends",
    )
    logins_seen = One("hub:logins_seen", "zset", "login -> when it was used last", "a member with its login")
    login_links = One(
        "hub:login_links",
        "hash",
        "SHA-256 of a one-time link -> the login that it makes, and when it was made",
        "300 s after the last link; a field until its link is opened",
        seconds=300,
    )


class OfRecovery(Section):
    title = "Recovery"
    owner = "hub/recovery/ and hub/sweeping/"

    # Record and claim -> JSON of the outcome that waits for its database. Lives seven days from the last one; a field
    # is deleted when it was written.
    outcomes = Each(
        "hub:outcomes:{source}",
        "hash",
        "record and claim -> outcome that is still to be written into its database",
        "a field until it is written; seven days from the last outcome",
        seconds=604800,
    )
    zombie_turn = Each(
        "hub:zombie_turn:{source}",
        "string",
        "hub and pass that have the turn at this source",
        "90 s from the last batch",
        seconds=90,
    )
    zombie_leader = Each(
        "hub:zombie_office:{source}",
        "string",
        "hub that is the leader of this source",
        "seven days, or three intervals",
        seconds=604800,
    )
    # Source -> when it became known and when a hub declared it last (ms). A field is deleted seven days or three
    # intervals after that, with the next source that becomes known, or by `hub recovery forget`.
    zombie_sources = One(
        "hub:zombie_sources",
        "hash",
        "source -> when a hub declared it first and last",
        "seven days or three intervals, or `hub recovery forget`",
    )
    # Fields: found, at (ms) and pass of the last pass that could count, level of the alert then and before; told, the
    # number that was told last, and told_at (ms). Lives seven days, or three intervals, from the last pass.
    zombies = Each(
        "hub:zombies:{source}",
        "hash",
        "number of stuck records that the last pass found, and the level of the alert",
        "seven days, or three intervals",
        seconds=604800,
    )
    zombie_counts = Each(
        "hub:zombie_counts:{source}",
        "zset",
        "number of stuck records that a pass found -> time of the pass",
        "`HUB_ZOMBIE_GROWTH_WINDOW_MINUTES`",
        seconds=3600,
    )
    # Days since 1970, UTC. Fields: passes, reset, failed, written, errors, most (found at once), worst
    # (level: 0 ok to 2 critical), pass (the last that is in it). Lives 92 days from the last pass of the day.
    zombie_day = Each(
        "hub:zombie_day:{day:source}",
        "hash",
        "sums of what the passes of a day did, for `hub recovery report`",
        "92 days",
        seconds=7948800,
    )
