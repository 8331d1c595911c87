"""The hook that checks the subjects of commits."""

from __future__ import annotations

import pytest

from tests.commit_subject import fault


@pytest.mark.parametrize(
    "message",
    [
        "Refuse a handshake with a body",
        "Keep a joined node's id\n\nIt was free for a week.\n",
        "# a comment of git\nAdd a quota",
        "Feed the queue",
        "Merge branch 'paths'",
        'Revert "Refuse a handshake with a body, which had been answered by the server until now, or not"',
    ],
)
def test_a_commit_subject_that_follows_the_rules_is_accepted(message):
    assert fault(message) is None


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("", "it is empty"),
        ("# nothing but a comment", "it is empty"),
        ("Refuse " + "x" * 66, "it has 73 characters, 72 at most"),
        ("refuse a body", "it begins with 'refuse'; begin with a verb that gives an order, such as Refuse, Add, Keep"),
        ("The hub refuses", "it begins with 'The'; begin with a verb that gives an order, such as Refuse, Add, Keep"),
        ("Added a quota", "it begins with 'Added'; begin with a verb that gives an order, such as Refuse, Add, Keep"),
        ("Refuse a body.", "it ends with a dot"),
        ("Refuse a body\nand say why", "its second line is not empty"),
    ],
)
def test_a_commit_subject_that_breaks_a_rule_is_refused_with_the_reason(message, said):
    assert fault(message) == said
