"""Uneven shares are seen: what the fairness benchmark judges by."""

import pytest

from tests.bench.shares import Overtaking, jain, worst_window


@pytest.mark.parametrize(
    ("order", "worst"),
    [("abcabcabc", 0), ("abccabcab", 1), ("abcaabcbc", 1), ("aaabcabc", 2), ("ababababc", 1), ("aaaabc", 2)],
)
def test_the_worst_window_shows_who_got_too_much_or_too_little(order, worst):
    assert worst_window(order, "abc") == worst


def test_the_index_of_fairness_is_1_for_equal_shares_and_1_of_n_if_one_has_all():
    assert (jain([5, 5, 5, 5]), jain([8, 0, 0, 0]), jain([3, 1])) == (1.0, 0.25, 0.8)


def watched(story):
    """Play a story: `+a` lets a waiter for a come; `a` serves one."""
    seen = Overtaking()
    for step in story.split():
        if step.startswith("+"):
            seen.enters(step[1:])
        else:
            seen.served(step)
    return seen.most


@pytest.mark.parametrize(
    ("story", "most"),
    [
        ("+a +b +a +b a b a b", 1),
        ("+a +a +a +b a a a b", 3),
        ("+a +a +a a a +b a b", 1),  # leases from before a borrower came do not count against it
        ("+b b +a +a +a a a a", 0),
    ],
)
def test_leases_to_others_count_against_fairness_while_a_caller_waits(story, most):
    assert watched(story) == most
