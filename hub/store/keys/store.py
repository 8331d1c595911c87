"""The keys of the store as a whole, of tokens and of the recovery of records."""

from hub.store.keys.key import Each, One, Section


class OfTheStore(Section):
    title = "Store"
    owner = "hub/store/"

    # Fields: format (of the records; 1 where the field is missing), generation, born (the generation with which the
    # store began), run_id, token (the last one given), last_us (the last time given to a record of jobs), clock_ms,
    # tick_ms, resumed_ms (a second after the hub clock stood still), confirm (written before a WAIT), settle_ms,
    # leader, leader_until_ms; the expiry switch: expire, expire_by, expire_at; turn (the last turn given to a label),
    # line_ms (the last arrival in a queue), line_clock_ms (the hub clock then), options (how labels are matched),
    # timeout_ms (of nodes), grace_ms (of revoked leases), revoked_ms (until when the holder of one may still use its
    # slot); history_max (entries), limits (of memory), noted:<event> (the last such event that a hub wrote), shared
    # (the settings that hubs agree on), given:<hub> (the settings that a hub was given), set:<setting> (a value that an
    # operator set for all hubs); tokens_changed (when an access token was last revoked, or the first was made);
    # counted_us (until when ended tasks are counted in the metrics); moving (id of the move to another server),
    # moving_by (the attempt that copies), moving_to, moving_generation and moving_format (generation and format before
    # the move), moved (the URL of the new server). One per store, never deleted.
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
        "nothing: commands ask for it first in a cluster, so that they fail while the slot moves, before they write",
        "never exists",
    )
    restoring = One(
        "hub:restoring",
        "string",
        "the digest of the copy that is being put into this store (`hub store import`), or the move and the attempt "
        "that fills it (`hub realm move`)",
        "until all of it is there",
    )
    telling = One(
        "hub:telling",
        "set",
        "hubs that have not said yet what they remember since the store was lost",
        "empties as they speak",
    )
    hubs = One("hub:hubs", "zset", "hub -> its last tick", "until it stops, or 3 s of silence")
    history = One("hub:history", "stream", "what happened, with a reason code", "trimmed to `HUB_HISTORY_MAX_ENTRIES`")
    refusals = One(
        "hub:refusals", "list", "audit entries of refused calls, newest first", "about 1,000; as above, by address"
    )
    trace = Each(
        "hub:trace:{ticket, lease or task}",
        "string",
        "the `traceparent` it came from, where traces are on",
        "86,400 s",
        seconds=86400,
    )
    # The answer to a request id, and the attempts that got it. Lives 60 s; with an Idempotency-Key
    # HUB_IDEMPOTENCY_SECONDS, or as long as its lease was to last at first, if that is longer.
    request = Each(
        "hub:request:{request}",
        "string",
        "what a request was answered with",
        "60 s; with an `Idempotency-Key` `HUB_IDEMPOTENCY_SECONDS`, or the lease if that is longer",
        seconds=86400,
    )


class OfTokens(Section):
    title = "Tokens"
    owner = "hub/tokens/"

    tokens = One("hub:tokens", "zset", "token id -> when it was made", "until revoked")
    # Fields: digest (SHA-256 of the secret), name, user, superuser, scopes, at, kind, rooms, part (key part of the id
    # of its node); joined: set where a node got it when it joined ("once": it is deleted when the node leaves); by (the
    # token that was used to join). Deleted with its member in `tokens`.
    token = Each(
        "hub:token:{token}", "hash", "SHA-256 of the secret, name, user, scopes, kind, rooms, node", "until revoked"
    )
    node_tokens = Each("hub:node_tokens:{node}", "set", "ids of the tokens of a node", "a member with its token")
    joined = One(
        "hub:joined", "zset", "id of a node's own token -> when the next node that joins deletes it", "with the token"
    )
    joining = Each(
        "hub:joining:{token}",
        "zset",
        "id of a token made with this token to join with, whose node has not registered -> when it is forgotten",
        "one day; a member until its node registers, or with its token",
        seconds=86400,
    )
    barred = Each(
        "hub:barred:{node}",
        "string",
        "a token of this node was revoked: nobody joins under its name",
        "one week",
        seconds=604800,
    )
    # Id of a console login -> JSON: digest of its key, the credential behind it, its role, when and from where. A field
    # is deleted when its login ends; an expired one when another login is made.
    logins = One(
        "hub:logins",
        "hash",
        "login of the console -> SHA-256 of its key, the credential behind it, its role",
        "until it ends",
    )
    logins_seen = One("hub:logins_seen", "zset", "login -> when it was used last", "with the login")
    login_links = One(
        "hub:login_links",
        "hash",
        "SHA-256 of a one-time link -> the login that it makes, and when it was made",
        "300 s after the last one; a field until it is opened",
        seconds=300,
    )


class OfRecovery(Section):
    title = "Recovery"
    owner = "hub/recovery/ and hub/sweeping/"

    # Record and claim -> JSON of an outcome that could not be written because its database was away. Lives seven days
    # from the last such outcome; a field is deleted when its outcome was written.
    outcomes = Each(
        "hub:outcomes:{source}",
        "hash",
        "record and claim -> outcome that waits for its database",
        "a field until written; seven days from the last one",
        seconds=604800,
    )
    zombie_turn = Each(
        "hub:zombie_turn:{source}",
        "string",
        "hub and pass that clean this source now",
        "90 s from the last batch",
        seconds=90,
    )
    zombie_leader = Each(
        "hub:zombie_office:{source}",
        "string",
        "hub that cleans this source",
        "seven days, or three intervals",
        seconds=604800,
    )
    # Source -> when it became known and when a hub declared it last (ms). A field older than both seven days and three
    # intervals is deleted when the next source becomes known; `hub recovery forget` deletes it at once.
    zombie_sources = One(
        "hub:zombie_sources",
        "hash",
        "source -> when it became known and was declared last",
        "seven days or three intervals, or `hub recovery forget`",
    )
    # Fields: found, at (ms) and pass of the last pass that could count; level of the alert then and before; told (the
    # number of which an alert told last) and told_at (ms). Lives seven days, or three intervals, from the last pass.
    zombies = Each(
        "hub:zombies:{source}",
        "hash",
        "what the last pass found, and the alert",
        "seven days, or three intervals",
        seconds=604800,
    )
    zombie_counts = Each(
        "hub:zombie_counts:{source}",
        "zset",
        "number found -> time of the pass",
        "`HUB_ZOMBIE_GROWTH_WINDOW_MINUTES`",
        seconds=3600,
    )
    # A day is counted from 1970 in UTC. Fields: passes, reset, failed, written, errors, most (stuck records found in
    # one pass), worst (level: 0 ok to 2 critical), pass (the last one counted). Lives 92 days from the last pass of the
    # day.
    zombie_day = Each(
        "hub:zombie_day:{day:source}",
        "hash",
        "what the passes of a day did, for `hub recovery report`",
        "92 days",
        seconds=7948800,
    )
