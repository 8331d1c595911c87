"""The keys of teams: what teams are to have of some pools, what they hold, and who of them waits.

A tab stands between the two parts of a name.
"""

from __future__ import annotations

from hub.store.keys.key import Each, One, Section


class OfTeams(Section):
    title = "Teams"
    owner = "hub/teams/"

    # Values: JSON: guarantee, ceiling, weight, by (who set it), at. hub:store has the number of the last change.
    teams = One(
        "hub:teams", "hash", "pattern of pools and team -> guarantee, ceiling, weight; who set it, and when",
        "a field until an operator removes it",
    )  # fmt: skip
    team_leases = Each(
        "hub:team_leases:{pattern and team}", "zset", "slot that the team has of such pools -> since when",
        "a member with its lease",
    )  # fmt: skip
    team_shares = Each(
        "hub:team_shares:{pattern}", "zset", "team -> its share: the least is next",
        "a member while the team holds or waits",
    )  # fmt: skip
    # Fields: of:<team>, the leases that it has had, divided by its weight; floor, of the team that was served last.
    team_turns = Each(
        "hub:team_turns:{pattern}", "hash", "team -> leases that it has had, by weight: which of equal shares is next",
        "until the patterns change",
    )  # fmt: skip
    team_line = Each(
        "hub:team_line:{label, want and team}", "zset", "tickets of a label, a want and a team",
        "a member while it waits",
    )  # fmt: skip
    team_wants = Each(
        "hub:team_wants:{label and team}", "zset",
        "what tickets of the team want, `-` for nothing -> score of the first, or a lower one",
        "a member while a ticket wants it",
    )  # fmt: skip
    team_under = Each(
        "hub:team_under:{pool and team}", "zset",
        "label for which the team waits -> its turn, or an earlier one; `*` has the wild ones",
        "a member while the team waits",
    )  # fmt: skip
    team_parked = Each(
        "hub:team_parked:{label}", "set", "teams for which the label is not listed, as its cap was reached",
        "until it has room",
    )  # fmt: skip
    line_teams = Each("hub:line_teams:{label}", "set", "teams that wait for a label", "a member while it waits")
    team_labels = Each("hub:team_labels:{team}", "set", "labels for which a team waits", "a member while it waits")
    recalled = Each(
        "hub:recalled:{pattern}", "zset", "slot that comes back for another team, lent or on its way -> until when",
        "a member until it is lent again, or nobody lacks it",
    )  # fmt: skip
