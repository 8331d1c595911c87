"""Old faults as sequences of steps, in the words of the machine: rare enough that chance alone takes long to find them.

Each is the shortest story of a message that took effect too late, or on a server that had forgotten something. They are
played in every run, as they are and with other steps in between.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.machine.flight.world import Step


class Scenario(NamedTuple):
    """Steps, and the rule that they must not break."""

    rule: str
    steps: tuple[Step, ...]
    reached: str = ""  # what must have been answered, and how often: "borrow 2"


def _(name: str, a: int = 0, b: int = 0, c: int = 0) -> Step:
    return name, a, b, c


EARLY, BETWEEN = 0, 1  # where a hub stands still: before it reads a request, or between that and Redis
PLAIN, KEYED, LONG = 0, 1, 2  # borrows: LONG is 90 s instead of 20
ALL, LOST = 0, 1  # what a server comes back with
S1, S2, S5, S12, S20, S35 = 1, 2, 3, 4, 5, 6  # seconds that pass
PATIENT = 3  # a claim without a key, whose caller says that it waits for a second
NOBODY_FOR_31_S = 3  # time in which hubs alone are heard
FAILED = 1  # a report, with a key
RENEWS = 3  # a token that was handed in, instead of asking whether it is valid
NO_CAP, EU = 2, 4  # a cap is cleared, instead of set to 1; the label that a shorter pool serves

FAIL_BACK = (
    _("beat"), _("fail_over", c=ALL), _("pass", S5), _("mark"), _("borrow"), _("fail_over", c=LOST), _("pass", S5),
    _("borrow", b=1),
)  # fmt: skip
STOPPED_WHEN_TOLD = (  # by a store that has lost the lease, which only a hub that stands still can tell it of
    _("beat"), _("borrow"), _("listen", b=1), _("freeze", c=BETWEEN), _("wipe", c=1), _("pass", S5), _("pass", S1),
)  # fmt: skip
DEMOTED = (
    _("beat"), _("borrow", c=LONG), _("demote", c=ALL), _("borrow", c=LONG), _("pass", S5, 1), _("borrow", b=1),
    _("borrow", b=1),
)  # fmt: skip
CONNECTED_TO_THE_DEMOTED = tuple(
    (
        _("beat"), _("borrow", c=LONG), _("demote", 1, who, ALL), _("borrow", c=LONG), _("pass", S5, 1),
        _("borrow", b=1), _("borrow", b=1),
    )
    for who in (0, 3)
)  # fmt: skip
RETURNED_TO_THE_DEMOTED = (
    _("beat"), _("borrow", c=LONG), _("demote", c=ALL), _("give_back"), _("pass", S5, 1), _("borrow", b=1),
    _("verify_old", b=1),
)  # fmt: skip
WIPED_BEHIND = tuple(  # the second server, whose clock is behind; the hub that opens it anew has lent nothing there
    (
        _("beat"), _("fail_over", c=ALL), _("pass", S5), _("borrow", b=2, c=LONG), *known, _("wipe", c=1), _("tick"),
        *(known and (_("beat"),)), _("tick", b=2), _("beat"), _("pass", S5), _("verify", b=1),
    )
    for known in ((), (_("beat"),))
)  # fmt: skip
CLAIMED_UNREAD = _("employ"), _("freeze", c=EARLY), _("claim", c=PLAIN), _("submit", b=1), _("thaw")
CLAIMED_LATE = tuple(
    (_("employ"), _("freeze", c=where), _("claim", c=KEYED), _("again", b=1), _("submit", b=1), _("thaw"))
    for where in (EARLY, BETWEEN)
)
CLAIMED_AFTER_ITS_TIME = (
    _("employ"), _("freeze", c=BETWEEN), _("claim", c=PATIENT), _("submit", b=1), _("pass", S2, 1), _("thaw"),
)  # fmt: skip
CLAIMED_MUCH_LATER = (
    _("employ"), _("freeze", c=BETWEEN), _("claim", c=PLAIN), _("submit", b=1), _("pass", S5, 1), _("thaw"),
)  # fmt: skip
RECALLED_LATE = (
    _("beat"), _("borrow", c=LONG), _("freeze", c=EARLY), _("give_back", b=1), _("pass", S12, 1), _("wipe"),
    _("beat", b=1), _("pass", S5, 1), _("thaw"),
)  # fmt: skip
OPENED_ASLEEP = (
    _("beat", 1), _("borrow", 3, c=LONG), _("give_back", b=2, c=1), _("freeze", c=EARLY), _("pass", S20), _("wipe"),
)  # fmt: skip
BROUGHT_BACK_AND_ENDED = (
    _("beat"), _("borrow", c=LONG), _("give_back", b=1), _("wipe", c=1), _("tick"), _("tick", b=1), _("pass", S5, 1),
    _("pass", S5, 1),
)  # fmt: skip
VALID_BEFORE_ALL_HAVE_SPOKEN = tuple(  # the hub that lent it has spoken, the one that took its return has not
    (_("beat"), _("borrow", c=LONG), _("mark"), _("give_back", b=1), *loss, _("stall", b=1), _("tick"), again)
    for loss in ((_("wipe"),), (_("restart", c=LOST),))
    for again in (_("verify_old"), _("verify_old", c=RENEWS))
)
TAKEN_OVER_AND_WIPED = (
    _("beat"), _("borrow", c=LONG), *[_("pass", S5)] * 4, _("succeed"), _("wipe"), _("pass", S5, 1), _("verify"),
)  # fmt: skip
RECALLED_AFTER_ANOTHER = (
    _("beat"), _("borrow", c=LONG), _("freeze", c=EARLY), _("give_back", b=1), _("pass", S12, 1), _("wipe"),
    _("beat", b=1), _("pass", S5, 1), _("borrow", b=1), _("give_back", b=1), _("borrow", b=1), _("give_back", b=1),
    _("thaw"),
)  # fmt: skip
SUCCEEDED_BEFORE_ITS_REPORT = (  # the next process registers first on a store that forgot what the one before knows
    _("beat", 2), _("borrow", 2), _("pass", S12), _("wait_for", 2), _("wipe"), _("succeed", 2), _("pass"),
)  # fmt: skip
REPORTED_LATE = (
    _("beat", b=1), _("borrow", b=1, c=LONG), _("pass", S12, 1), _("freeze", c=BETWEEN), _("report"), _("wipe"),
    _("report", b=1), _("pass", S5, 1), _("give_back", b=1), _("thaw"),
)  # fmt: skip
RETURNED_AND_REPORTED = (
    _("beat"), _("borrow", c=LONG), _("beat"), _("fall_silent"), _("pass", S35), _("pass", S5), _("give_back", b=1),
    _("fall_silent"), _("report", b=1),
)  # fmt: skip
LOST_RETURNED_AND_REPORTED = (  # every hub and node had the time to report what the store had lost
    _("beat"), _("borrow", c=LONG), _("beat"), _("wipe"), _("pass", S20), _("pass", S12), _("fall_silent"),
    _("pass", S35), _("pass", S5), _("give_back", b=1), _("fall_silent"), _("report", b=1),
)  # fmt: skip
FORGOTTEN_AND_REPORTED = (
    _("beat"), _("borrow", c=LONG), _("pass", S5, 1), _("give_back", b=1), _("still", 3), _("report", b=1), _("wipe"),
    _("pass", S1, 1),
)  # fmt: skip
RENEWAL_LOST = (
    _("beat"), _("borrow"), _("pass", S12), _("mark"), _("renew"), _("restart", c=LOST), _("pass", S5), _("pass", S5),
    _("borrow", b=1), _("borrow", b=1),
)  # fmt: skip
HELD_LOST = (
    _("beat"), _("mark"), _("ail", c=2), _("fail_over", c=LOST), _("tick"), _("borrow"), _("pass", S5),
    _("borrow", b=1), _("borrow", b=1),
)  # fmt: skip
DRAIN_LOST = (
    _("beat"), _("beat", 1), _("drain"), _("wipe"), _("pass", S5), _("beat"), _("pass", S5), _("borrow"), _("borrow"),
)  # fmt: skip
FAILED_LATE = (
    _("employ"), _("submit", c=2), _("claim", c=KEYED), _("freeze", c=EARLY), _("finish", c=FAILED), _("again", b=1),
    _("claim", b=1, c=KEYED), _("finish", b=1, c=FAILED), _("claim", b=1, c=KEYED), _("thaw"),
)  # fmt: skip
FAILED_LATER = (
    _("employ"), _("submit", c=2), _("claim", c=KEYED), _("freeze", c=BETWEEN), _("finish", c=3), _("again", b=1),
    _("claim", b=1, c=KEYED), _("thaw"),
)  # fmt: skip
WITHDRAWN_LATE = (
    _("beat"), _("freeze", c=BETWEEN), _("take_off"), _("take_off", b=1), _("put_back", b=1), _("thaw"),
)  # fmt: skip
BEFORE_RECALL = (  # the hub that lent has yet to say so, and the node does not know
    _("beat"), _("borrow", c=LONG), _("freeze", c=EARLY), _("wipe"), _("tick", b=1), _("beat", b=1), _("beat", b=1),
)  # fmt: skip
ASKED_BEFORE_RECALL = *BEFORE_RECALL, _("verify", b=1), _("thaw"), _("pass", S5, 1), _("verify", b=1)
RENEWED_BEFORE_RECALL = *BEFORE_RECALL, _("renew", b=1), _("thaw"), _("pass", S5, 1), _("renew", b=1)
RETURNED_BEFORE_RECALL = *BEFORE_RECALL, _("give_back", b=1), _("thaw"), _("pass", S5, 1)
END_LOST = _("employ"), _("submit"), _("claim"), _("mark"), _("finish"), _("restart", c=LOST)
DONE_AGAIN = (
    _("employ"), _("employ", 1), _("submit"), _("mark"), _("claim", c=KEYED), _("finish"), _("restart", c=LOST),
    _("tick", b=1), _("tick", b=1), _("claim", 1, 1, KEYED), _("pass", S2, 1), _("claim", 1, 1, KEYED),
)  # fmt: skip
DONE_ELSEWHERE = (
    _("employ"), _("employ", 1), _("mark"), _("submit"), _("claim", b=1, c=KEYED), _("finish", b=1),
    _("restart", c=LOST), _("tick", b=1), _("tick"), _("pass", S2, 1), _("claim", 1, 1, KEYED),
)  # fmt: skip
CLAIM_LOST = (
    _("employ"), _("employ", 1), _("submit", c=2), _("claim", c=KEYED), _("mark"), _("finish", c=FAILED),
    _("claim", 1, c=KEYED), _("restart", c=LOST),
)  # fmt: skip
LONG_OUTAGE = tuple(
    (
        _("beat"), _("beat", 1), _("borrow", c=LONG), _("mark"), _("borrow", c=LONG), _("go_down", c=LOST),
        _("still", 2), _("come_up"), _("stall", c=commands), _("tick"), _("give_back"), _("flow"), _("pass", S5),
        _("borrow", b=1), _("borrow", b=1),
    )
    for commands in range(1, 6)
)  # fmt: skip
TWO_RESTARTS = (
    _("beat"), _("restart", c=ALL), _("pass", S5), _("borrow", c=LONG), _("beat"), _("restart", c=ALL),
    _("tick", b=1), _("give_back", b=1), _("beat", b=1), _("pass", S5),
)  # fmt: skip
LENT_AT_ONCE = _("beat"), _("borrow", c=LONG), _("end_by_hand"), _("borrow"), _("borrow")
DRAINED_AND_LENT = (
    _("beat"), _("borrow", c=LONG), _("drain", c=1), _("pass", S2), _("undrain"), _("borrow"), _("borrow"),
)  # fmt: skip
UNDRAINED_LATE = (
    _("beat"), _("freeze", b=1, c=EARLY), _("undrain", b=1), _("drain"), _("thaw", b=1), _("borrow"), _("borrow"),
)  # fmt: skip
GRACE_LOST = (
    _("beat"), _("borrow", c=LONG), _("mark"), _("end_by_hand"), _("fail_over", c=LOST), _("pass", S2), _("borrow"),
    _("borrow"),
)  # fmt: skip
GRACE_WIPED = (
    _("beat"), _("borrow", c=LONG), _("end_by_hand"), _("wipe"), _("beat"), _("pass", S2), _("borrow"), _("borrow"),
)  # fmt: skip
TOLD_AT_ONCE = (
    _("beat"), _("borrow", c=LONG), _("listen", b=1), _("end_by_hand"), _("pass", S5), _("pass", S2), _("borrow"),
    _("borrow"),
)  # fmt: skip
TOLD_WHO_LISTENS_LATER = (
    _("beat"), _("borrow", c=LONG), _("end_by_hand"), _("listen", b=1), _("pass", S5), _("pass", S2), _("borrow"),
    _("borrow"),
)  # fmt: skip
TOLD_AFTER_A_LOSS = (
    _("beat"), _("borrow", c=LONG), _("listen", b=1), _("go_down"), _("still"), _("come_up"), _("tick"), _("tick", b=1),
    _("pass", S5), _("end_by_hand"), _("pass", S5), _("pass", S2), _("borrow"), _("borrow"),
)  # fmt: skip
TOLD_AFTER_A_REPORT = (
    _("beat"), _("borrow", c=LONG), _("wipe"), _("take_off"), _("listen"), _("pass", S5), _("put_back"), _("pass", S5),
    _("borrow"), _("borrow"),
)  # fmt: skip
ROLLING_RESTART = (
    _("beat"), _("borrow", c=LONG), _("beat"), _("succeed"), _("old_leaves"), _("beat"), _("verify", b=1),
)  # fmt: skip
SILENT_AFTER_A_LOSS = (
    _("beat"), _("borrow", c=LONG), _("pass", S12), _("wipe"), _("still", NOBODY_FOR_31_S), _("listen"),
)  # fmt: skip
FULL = _("beat"), _("borrow", c=LONG), _("borrow", c=LONG)
GIVEN_UP_LOST = *FULL, _("wait_for", c=KEYED), _("mark"), _("give_up", b=1), _("restart", c=LOST), _("pass", S5)
GIVEN_UP_AND_REPEATED = (
    *FULL, _("mark"), _("wait_for", c=KEYED), _("freeze", c=BETWEEN), _("give_up", b=1), _("restart", c=LOST),
    _("tick", b=1), _("tick", b=2), _("pass", S5, 1), _("again", b=2), _("give_back", b=1),
)  # fmt: skip
GIVEN_UP_LATE = (
    *FULL, _("wait_for", c=KEYED), _("freeze", b=1, c=BETWEEN), _("give_up", b=1), _("pass", S5), _("thaw", b=1),
)  # fmt: skip
CAP_SET_LATE, CAP_CLEARED_LATE = (
    (
        _("cap", c=before), _("freeze", b=1, c=BETWEEN), _("cap", b=1, c=late), _("pass", S5), _("thaw", b=1),
    )
    for before, late in ((NO_CAP, 0), (0, NO_CAP))
)  # fmt: skip
CAP_COUNTS_WHAT_COMES_BACK = (
    _("beat"), _("cap", EU), _("mark"), _("borrow", EU, c=LONG), _("restart", c=LOST), _("pass", S5),
    _("borrow", EU, 1),
)  # fmt: skip
CAP_CLEARED = (
    _("beat"), _("cap"), _("borrow", c=LONG), _("wait_for"), _("cap", b=1, c=NO_CAP), _("pass", S1), _("borrow", b=2),
)  # fmt: skip
REMOVED = _("employ"), _("submit"), _("claim"), _("remove", b=1), _("pass", S5)
REMOVED_LATE = tuple(
    (_("employ"), _("freeze", b=1, c=where), _("remove", b=1), _("pass", S5), _("thaw", b=1))
    for where in (EARLY, BETWEEN)
)
BRAKE_OFF = (
    *(_("employ", n) for n in range(6)), *(_("worker_beat", n) for n in range(6)), _("pass", S2),
    *(_("worker_silent", n) for n in range(3)), _("pass", S12), _("restart", c=ALL), _("pass", S20),
)  # fmt: skip

BIG, OTHER, SMALL_S0 = 0, 8, 8  # what is wanted: vram >= 40, the zone eu; and s0 with 24 GB in the zone eu
DESCRIBED_LATE = (
    _("beat"), _("freeze", c=BETWEEN), _("describe", c=2 * SMALL_S0), _("describe", b=1, c=SMALL_S0), _("pass", S1, 1),
    _("thaw"), _("pass", S1, 1), _("borrow_where", b=1, c=OTHER),
)  # fmt: skip
DESCRIBED_AND_WIPED = (
    _("beat"), _("describe", c=SMALL_S0), _("wipe", c=1), _("pass", S5), _("pass", S5), _("borrow_where", c=OTHER),
    _("borrow_where", c=BIG), _("borrow_where", c=BIG),
)  # fmt: skip
DESCRIBED_LOST = (
    _("beat"), _("mark"), _("describe", c=SMALL_S0), _("fail_over", c=LOST), _("pass", S5), _("pass", S5),
    _("borrow_where", c=OTHER), _("borrow_where", c=BIG), _("borrow_where", c=BIG),
)  # fmt: skip

TWO_NODES, TOGETHER = 2, 2  # a bundle of s0 and s3; for 90 s, and a slot that is lost ends the other
BUNDLE = _("beat"), _("beat", 1), _("borrow_all", TWO_NODES, c=TOGETHER)
BUNDLE_LOST = *BUNDLE, _("wipe"), _("pass", S5), _("renew_all", b=1)
BUNDLE_RETURNED = *BUNDLE, _("beat"), _("beat", 1), _("return_all", b=1), _("wipe", c=1), _("tick"), _("pass", S5, 1)
BUNDLE_TORN = *BUNDLE, _("end_by_hand", b=1), _("wipe"), _("pass", S5)
SET_ASIDE = (  # for a bundle whose hub stands still
    *FULL, _("wait_all", b=1), _("pass", S5), _("give_back"), _("freeze", b=1, c=EARLY), _("pass", S12), _("borrow"),
)  # fmt: skip
TRAINING = _("beat"), _("beat", 1), _("employ", 3), _("submit_train")
HELD_BY_A_TASK = *TRAINING, _("claim_train"), _("still", 2), _("pass", S5)
CLAIM_WITH_SLOTS_LOST = (
    *TRAINING, _("mark"), _("claim_train"), _("fail_over", c=LOST),
    *(step for n in range(5) for step in (_("still"), _("borrow", b=n, c=LONG), _("borrow", 2, n, LONG))),
)  # fmt: skip
CANCELLED_WITH_SLOTS = (
    *TRAINING, _("claim_train"), _("cancel", b=1), *(_("borrow", b=n, c=LONG) for n in range(3)), _("pass", S5),
)  # fmt: skip
TASK_SLOT_LOST = (
    *TRAINING, _("claim_train"), _("end_by_hand", b=1), *(_("borrow", b=n, c=LONG) for n in range(3)), _("pass", S5),
)  # fmt: skip
OF_ML, OF_WEB = 2, 6  # borrows of members of teams, for 90 s
CEILING_LOST = (
    _("beat"), _("set_team", 0, 0, 3), _("wipe"), _("pass", S5), _("borrow_as", c=OF_ML), _("borrow_as", b=1, c=OF_ML),
)  # fmt: skip
TEAM_LOST = (
    _("beat"), _("set_team", 0, 0, 3), _("borrow_as", c=OF_ML), _("wipe", c=1), _("pass", S5),
    _("borrow_as", b=1, c=OF_ML),
)  # fmt: skip
RECALLED_FOR_A_TEAM = (  # of two, one is guaranteed
    _("beat"), _("set_team", 0), _("set_team", 1), _("borrow_as", c=OF_ML), _("borrow_as", b=1, c=OF_ML),
    _("wait_as", b=1, c=OF_WEB), _("pass", S2), _("renew"), _("renew", 1), _("restart", c=ALL), _("pass", S5),
    _("pass", S20), _("pass", S35), _("pass", S35),
)  # fmt: skip
MADE_FRESH_LATER = (  # its node hears of the end with a registration, before the order to make it fresh
    _("beat", 1), _("borrow", c=LONG), _("beat", 1), _("give_back", b=1), _("still", 2), _("report", 1), _("wipe"),
    _("pass", S5), _("borrow", b=1), _("pass", S5), _("borrow", b=1),
)  # fmt: skip

SCENARIOS: dict[str, Scenario] = {
    "a server that was primary before gives no token again": Scenario("token", FAIL_BACK, "borrow 2"),
    "a failover and the way back lend nothing twice": Scenario("twice", FAIL_BACK, "borrow 2"),
    "a slot that a demoted primary lent is not lent again": Scenario("twice", DEMOTED, "borrow 2"),
    "a slot that a demoted primary lent on a new connection is not lent again": Scenario(
        "twice", CONNECTED_TO_THE_DEMOTED[0], "borrow 2"
    ),
    "a slot that a demoted primary lent on new connections of all hubs is not lent again": Scenario(
        "twice", CONNECTED_TO_THE_DEMOTED[1], "borrow 2"
    ),
    "what was returned to a demoted primary does not come back": Scenario("back", RETURNED_TO_THE_DEMOTED, "return 1"),
    "what is lent outlives a wiped server whose clock is behind": Scenario("lost", WIPED_BEHIND[0], "verify 1"),
    "what is reported to a wiped server whose clock is behind is lent": Scenario("lost", WIPED_BEHIND[1], "verify 1"),
    "a claim that its hub had not read yet is not carried out late": Scenario("gone", CLAIMED_UNREAD, "submit 1"),
    "a claim that was told elsewhere that there is nothing is not carried out late": Scenario(
        "gone", CLAIMED_LATE[0], "claim 1"
    ),
    "a claim on its way to Redis that was told elsewhere that there is nothing is not carried out late": Scenario(
        "gone", CLAIMED_LATE[1], "claim 1"
    ),
    "a claim on its way to Redis is not carried out after the time of its caller": Scenario(
        "gone", CLAIMED_AFTER_ITS_TIME, "submit 1"
    ),
    "a claim on its way to Redis is not carried out when its hub has been silent": Scenario(
        "gone", CLAIMED_MUCH_LATER, "submit 1"
    ),
    "a hub that stood still brings back nothing that was returned": Scenario("back", RECALLED_LATE, "return 1"),
    "a hub that stood still brings back nothing that was lent on": Scenario(
        "lower", RECALLED_AFTER_ANOTHER, "return 3"
    ),
    "a hub that stood still leaves an empty store to the others": Scenario("back", OPENED_ASLEEP, "return 1"),
    "what one hub brings back ends when another says that it was returned": Scenario(
        "back", BROUGHT_BACK_AND_ENDED, "return 1"
    ),
    **{
        f"nothing is {what} before a hub could say that it was returned": Scenario("back", steps, "return 1")
        for what, steps in zip(
            (
                "valid in an emptied store",
                "renewed in an emptied store",
                "valid in an older store",
                "renewed in an older store",
            ),
            VALID_BEFORE_ALL_HAVE_SPOKEN,
            strict=True,
        )
    },
    "a process that takes a node over knows what is lent": Scenario("lost", TAKEN_OVER_AND_WIPED, "register 2"),
    "a process that registers first on a wiped store lends nothing that the one before it knows as lent": Scenario(
        "twice", SUCCEEDED_BEFORE_ITS_REPORT, "borrow 1"
    ),
    "a report of what is lent is not carried out late": Scenario("back", REPORTED_LATE, "return 1"),
    "a lease that was returned while its node was gone does not come back": Scenario(
        "back", RETURNED_AND_REPORTED, "return 1"
    ),
    "a lease that outlived a wiped store and was returned while its node was gone does not come back": Scenario(
        "back", LOST_RETURNED_AND_REPORTED, "return 1"
    ),
    "a lease that was returned while its node was silent does not come back from it": Scenario(
        "back", FORGOTTEN_AND_REPORTED, "register 2"
    ),
    "a renewal outlives the last second of Redis": Scenario("twice", RENEWAL_LOST, "renew 1"),
    "a drain outlives a wiped store": Scenario("drain", DRAIN_LOST, "borrow 1"),
    "an undrain that its caller gave up does not end a later drain": Scenario("drain", UNDRAINED_LATE, "drain 1"),
    "a failure reported late fails no later attempt": Scenario("attempt", FAILED_LATE, "claim 3"),
    "a failure reported late, without a key, fails no later attempt": Scenario("attempt", FAILED_LATER, "claim 2"),
    "a withdrawal carried out late takes nothing off offer": Scenario("offer", WITHDRAWN_LATE, "publish 1"),
    "nothing is called over before hubs have said what they lent": Scenario("lost", ASKED_BEFORE_RECALL, "verify 1"),
    "no renewal is refused before hubs have said what they lent": Scenario("lost", RENEWED_BEFORE_RECALL, "renew 1"),
    "a return before hubs have said what they lent stands": Scenario("back", RETURNED_BEFORE_RECALL, "register 2"),
    "the end of a task outlives the last second of Redis": Scenario("task", END_LOST, "report 1"),
    "a task whose end was lost is not given out again": Scenario("done", DONE_AGAIN, "report 1"),
    "a task that was submitted at another hub, and lost, is not given out again": Scenario(
        "done", DONE_ELSEWHERE, "report 1"
    ),
    "the claim after a failure outlives the last second of Redis": Scenario("task", CLAIM_LOST, "claim 2"),
    **{
        f"an outage makes nothing older, a return after {n + 1} scripts of the recall": Scenario(
            "twice", steps, "borrow 3"
        )
        for n, steps in enumerate(LONG_OUTAGE)
    },
    "a return that a hub which stood still knows nothing of stands": Scenario("back", STOPPED_WHEN_TOLD, "return 1"),
    "a return between two restarts stands": Scenario("back", TWO_RESTARTS, "return 1"),
    "what is ended by hand is lent on when its holder has heard of it": Scenario("grace", LENT_AT_ONCE, "end 1"),
    "what a drain ends is lent on when its holder has heard of it": Scenario("grace", DRAINED_AND_LENT),
    "the grace of a lease that was ended by hand outlives a failover": Scenario("grace", GRACE_LOST, "end 1"),
    "the grace of a lease that was ended by hand outlives a wiped store": Scenario("grace", GRACE_WIPED, "end 1"),
    "a listening holder is told at once that its lease is over": Scenario("grace", TOLD_AT_ONCE, "listen 1"),
    "who begins to listen later is told at once as well": Scenario("grace", TOLD_WHO_LISTENS_LATER, "listen 1"),
    "a listening holder is told also after the connection was lost": Scenario("grace", TOLD_AFTER_A_LOSS, "borrow 2"),
    "a listening holder is told also of a lease that a lost store is not told of again": Scenario(
        "grace", TOLD_AFTER_A_REPORT, "borrow 2"
    ),
    "a lease whose node stays silent after a loss until it is dead ends with it": Scenario(
        "lost", SILENT_AFTER_A_LOSS, "listen 1"
    ),
    "a rolling restart ends nothing": Scenario("lost", ROLLING_RESTART, "register 2"),
    "a borrow that was given up waits no more when Redis has lost that": Scenario(
        "withdrawn", GIVEN_UP_LOST, "give up 1"
    ),
    "a borrow that was given up is given nothing when Redis knows of neither": Scenario(
        "withdrawn", GIVEN_UP_AND_REPEATED, "give up 1"
    ),
    "a borrow is not given up late": Scenario("gone", GIVEN_UP_LATE, "borrow 2"),
    "a cap is not set late": Scenario("gone", CAP_SET_LATE, "cap 1"),
    "a cap is not cleared late": Scenario("gone", CAP_CLEARED_LATE, "cap 1"),
    "what comes back counts under its cap": Scenario("cap", CAP_COUNTS_WHAT_COMES_BACK, "borrow 1"),
    "who waited for a cap is served when it is cleared": Scenario("idle", CAP_CLEARED, "borrow 2"),
    "a worker that was removed holds nothing": Scenario("removed", REMOVED, "remove 1"),
    "a worker is not removed by a call that its hub had not read": Scenario("gone", REMOVED_LATE[0], "employ 1"),
    "a worker is not removed by a call that was on its way": Scenario("gone", REMOVED_LATE[1], "employ 1"),
    "the brake on workers works after a restart": Scenario("brake", BRAKE_OFF),
    "an operator's hold that its node has not heard of outlives the store": Scenario(
        "unwell",
        (_("beat"), _("bar", c=3), _("wipe"), _("tick"), _("beat"), _("pass", S5), _("borrow"), _("borrow", b=1)),
        "bar 1",
    ),
    "a bundle outlives a wiped store": Scenario("lost", BUNDLE_LOST, "renew all 1"),
    "a bundle that was returned does not come back": Scenario("back", BUNDLE_RETURNED, "return all 1"),
    "a bundle of which an operator has ended one lease does not come back": Scenario("torn", BUNDLE_TORN, "end 1"),
    "what is set aside for a bundle whose hub is silent goes to others": Scenario("aside", SET_ASIDE, "borrow 3"),
    "a slot is made fresh also when the store is lost before its node is told to": Scenario(
        "fresh", MADE_FRESH_LATER, "return 1"
    ),
    "the slots of a task last as long as its worker": Scenario("lost", HELD_BY_A_TASK, "claimed with slots 1"),
    "a lost store is told of the slots that came with a task": Scenario(
        "fresh", CLAIM_WITH_SLOTS_LOST, "claimed with slots 1"
    ),
    "the slots of a task that was cancelled are lent on after the grace": Scenario(
        "grace", CANCELLED_WITH_SLOTS, "cancel 1"
    ),
    "the slots of a task that has lost one are lent on": Scenario("stays", TASK_SLOT_LOST, "end 1"),
    "the ceiling of a team outlives a wiped store": Scenario("ceiling", CEILING_LOST, "lent to a team 1"),
    "what comes back counts under the ceiling of its team": Scenario("ceiling", TEAM_LOST, "lent to a team 1"),
    "a recall ends no lease before its time, and takes no team below its guarantee": Scenario(
        "below", RECALLED_FOR_A_TEAM, "recalled 1"
    ),
    "what a node says late of a slot does not count": Scenario("typed", DESCRIBED_LATE, "borrow 1"),
    "what a slot is like outlives a wiped store": Scenario("suits", DESCRIBED_AND_WIPED, "borrow 1"),
    "what a slot is like outlives the last second of Redis": Scenario("suits", DESCRIBED_LOST, "borrow 1"),
    "what a node said of its slots in a second that was lost counts again": Scenario("unwell", HELD_LOST, "beat 2"),
}
