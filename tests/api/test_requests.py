"""The models of requests, and what is read by hand because it is asked most: both find the same, or refuse the same."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hub.api.capacity import reading
from hub.api.shapes.lease_bodies import BorrowBody, ReturnBody
from hub.api.shapes.node_bodies import BeatBody
from hub.errors import HubError

ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(-200, 200), st.integers(-(2**60), 2**60), st.floats(), st.text(max_size=3),
    st.sampled_from(["n1", "gpu:a100", "20", "-100", "101", "1e3", "nan", " ", "a b", "a/b", "\x1f", "x" * 130]),
    st.lists(st.sampled_from(["s1", "s 2", 3]), max_size=2), st.just({}),
)  # fmt: skip


def of(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from([*names, "other"]), ANYTHING, max_size=3)


def outcome(call: Any) -> Any:
    try:
        return call()
    except HubError as error:
        return type(error), error.detail, error.facts


@settings(max_examples=1500, deadline=None)
@given(of("ttlSeconds", "runName", "runId", "priority", "maxWaitSeconds", "waitForPool", "realms"))
def test_a_borrow_read_by_hand_is_what_its_model_reads(document):
    def modelled() -> tuple[Any, ...]:
        said = BorrowBody.read({"labelKey": "gpu:a100", **document})
        options = said.max_wait_seconds, said.wait_for_pool, said.realms
        return said.ttl_seconds, said.run_name, said.run_id, said.priority, *options

    by_hand, by_model = outcome(lambda: tuple(reading.borrowing(document))), outcome(modelled)
    if is_refusal(by_hand) and is_refusal(by_model):  # of two faults either may be told
        return
    assert repr(by_hand) == repr(by_model)


@settings(max_examples=1500, deadline=None)
@given(of("labelKey", "browserId", "leaseToken", "revoke", "force", "runId", "onlyRun", "reason"), st.booleans())
def test_a_return_read_by_hand_is_what_its_model_reads(document, complete):
    document = {**document, **({"labelKey": "gpu:a100", "slotId": "s1"} if complete else {})}

    def modelled() -> tuple[Any, ...]:
        said = ReturnBody.read(document)
        revokes = "2" if said.force else "1" if said.revoke else ""
        return said.label_key, said.browser_id, said.lease_token, revokes, said.run_id, said.only_run, said.reason

    by_hand, by_model = outcome(lambda: tuple(reading.returning(document))), outcome(modelled)
    if is_refusal(by_hand) and is_refusal(by_model):
        return
    assert repr(by_hand) == repr(by_model)


@settings(max_examples=1500, deadline=None)
@given(of("nodeId", "version", "recycled", "incarnation"), st.booleans())
def test_a_heartbeat_read_by_hand_is_what_its_model_reads(document, named):
    document = {**document, **({"NodeId": "n1"} if named else {})}
    by_hand, by_model = (
        outcome(lambda: reading.beat(document)), outcome(lambda: BeatBody.read(document).beat()),
    )  # fmt: skip
    if is_refusal(by_hand) and is_refusal(by_model):
        return
    assert by_hand == by_model


def is_refusal(found: Any) -> bool:
    return isinstance(found, tuple) and isinstance(found[0], type)
