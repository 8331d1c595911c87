"""What a client makes of the answer that a lease of its is over."""

from __future__ import annotations

import httpx
import pytest

from hub.client.exchange import Answer
from hub.client.slot import Slot
from hub.client.watch import look

GRANT = {"browserId": "s1", "leaseToken": "7", "ttlSeconds": 60, "labelKey": "a:b"}
OVER = {"over": [{"browserId": "s1", "leaseToken": "7", "reason": "not lent"}]}


@pytest.mark.parametrize("first", ["the renewal", "the watch", "its own return"])
def test_whoever_hears_first_that_a_lease_is_over_its_holder_says_that_he_has_stopped(first: str) -> None:
    slot = Slot(Answer(GRANT, {}, 0.0))
    if first == "the renewal":  # as `renew` does on 409
        slot.revoked = True
        slot.loss("the hub ended the grant")
    if first == "its own return":
        slot.given_back()
    steps = look([slot], 1.0)
    next(steps)
    with pytest.raises(StopIteration) as end:
        steps.send(httpx.Response(200, json=OVER))
    assert end.value.value is True
    assert slot.lost.is_set()
    assert slot.revoked == (first != "its own return")  # that one has said it already
