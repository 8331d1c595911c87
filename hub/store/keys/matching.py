"""The keys of constraints: classes of slots with the same attributes, and the lines of tickets that want the same.

A class is the digest of attributes, a want that of an expression. A blank stands between the two parts of a name.
"""

from __future__ import annotations

from hub.store.keys.key import Each, One, Section


class OfMatching(Section):
    title = "Matching"
    owner = "hub/capacity/"

    slot_class = Each(
        "hub:class:{class}", "hash", "attributes that slots have, as JSON, and how many slots have them; "
        "`cursor`, `generation`, `asked_ms` while it is made",
        "with its last slot",
    )  # fmt: skip
    classes = One("hub:classes", "set", "classes that slots have", "a member with its last slot")
    pool_classes = Each(
        "hub:pool_classes:{label}", "hash", "class -> slots of the pool that have it, lent ones too",
        "a field with its last slot",
    )  # fmt: skip
    order = Each(
        "hub:order:{label}", "zset", "free slot with a class or something warm -> since when, in us: its place",
        "a member while it is free",
    )  # fmt: skip
    free_in = Each("hub:free:{label and class}", "zset", "free slot -> since when, in us", "a member while it is free")
    free_classes = Each(
        "hub:free_classes:{label}", "zset", "class -> since when its first free slot is free",
        "a member while such a slot is free",
    )  # fmt: skip
    open_class = Each(
        "hub:open_class:{segments and class}", "zset", "labels of this number of segments with free slots of the class",
        "a member with the last such slot",
    )  # fmt: skip
    unclassed = One(
        "hub:unclassed", "set", "slots that got no class for want of room", "a member until its node publishes it again"
    )
    warm = Each(
        "hub:warm:{label and key}", "zset", "free slot in which this is warm -> since when it is free, in us",
        "a member while it is free",
    )  # fmt: skip
    want = Each(
        "hub:want:{want}", "hash", "what tickets want, as a tree in JSON, and in how many lines", "with its last line"
    )
    want_line = Each(
        "hub:want_line:{label and want}", "zset",
        "tickets of a label that want this, or nothing (`-`), ordered as in the line of the label",
        "a member while it waits; `-` exists while others of the label want something",
    )  # fmt: skip
    lines = Each("hub:lines:{label}", "set", "wants that tickets of the label have", "a member with its line")
    all_lines = One("hub:all_lines", "set", "label and want of each line, with a tab between", "a member with its line")
    fit = Each(
        "hub:fit:{stem and class}", "zset",
        "label that waits for such a slot of a pool with this stem (`*`: any) -> its turn or an earlier one",
        "a member with its last line that suits",
    )  # fmt: skip
    fitting = Each(
        "hub:fitting:{label and class}", "zset",
        "want that the class suits -> score of its first ticket, or a lower one", "a member with its line",
    )  # fmt: skip
    parked = Each(
        "hub:parked:{label}", "set", "classes under which the label is not listed while its cap is reached",
        "until the cap has room",
    )  # fmt: skip
