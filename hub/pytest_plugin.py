"""The plugin of pytest: the fixture `hub_slot` holds a slot for the test that uses it.

pytest imports this module in every run where the hub is installed, so it imports nothing else of the hub before a test
uses the fixture.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hub.client import Slot
    from hub.client.sync_borrower import SyncBorrowing

TTL_S = 120  # of each lease, which is renewed: a run that is killed frees its slots after that
_slot: pytest.StashKey[Slot] = pytest.StashKey()
_told: pytest.StashKey[bool] = pytest.StashKey()  # whether the lease was lost when the test ended


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options to those of pytest."""
    group = parser.getgroup("capacity-hub", "slots of a capacity hub")
    group.addoption("--hub-slot", metavar="LABEL", help="The label that the fixture hub_slot borrows.")
    wait = "Seconds that a test may wait in the queue for its slot. Default: 120."
    group.addoption("--hub-wait", metavar="SECONDS", type=float, default=120.0, help=wait)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    told = "hub_slot(label, where=''): the fixture hub_slot borrows this label, not --hub-slot."
    config.addinivalue_line("markers", told)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return the line on the slots that the command line asks for."""
    label = config.getoption("hub_slot")
    return f"hub slot: {label} for each test, waiting up to {config.getoption('hub_wait'):g} s" if label else None


@pytest.fixture(scope="session")
def _hub_borrow(request: pytest.FixtureRequest) -> Iterator[Callable[..., SyncBorrowing[Slot]]]:
    """Borrowing by all tests of this process. A hub that does not answer, or refuses the secret, is asked once.

    A process of pytest-xdist is a run of its own, because the hub bounds how many borrows of one run wait.
    """
    from hub.client import HubError, SyncHubClient

    try:
        client = SyncHubClient()
        client.pools(limit=1)
    except HubError as error:
        raise _failure(str(error)) from None
    wait_s, run = request.config.getoption("hub_wait"), f"pytest-{uuid.uuid4().hex}"
    with client:
        yield partial(client.borrow, wait=wait_s, wait_for_pool=False, ttl=TTL_S, run=run, run_name="pytest")


@pytest.fixture
def hub_slot(request: pytest.FixtureRequest, _hub_borrow: Callable[..., SyncBorrowing[Slot]]) -> Iterator[Slot]:
    """A slot of the hub, held while the test runs: of the label of its marker `hub_slot`, else of --hub-slot."""
    from hub.client import HubError

    test: pytest.Item = request.node
    test.stash[_told] = False  # it may be run again
    try:
        with _hub_borrow(**_wanted(test)) as slot:
            test.stash[_slot] = slot
            address = _without_secrets(slot)
            test.user_properties += [("hub_slot", slot.id), ("hub_node", slot.node_id), ("hub_endpoint", address)]
            yield slot
    except HubError as error:
        if not test.stash.get(_told, False):
            raise _failure(str(error)) from None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail a test that has passed although the lease of its slot was lost: another holder may have used the slot."""
    try:
        yield
    finally:
        slot = item.stash.get(_slot, None)
        item.stash[_told] = slot is not None and slot.seconds_left() <= 0 and not slot.returned
    if slot is not None and item.stash[_told]:
        raise _failure(str(slot.loss("not renewed in time")))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add a section to the report of a test that says which slot served the test."""
    report = yield
    if (slot := item.stash.get(_slot, None)) is not None:
        served = f"{slot.id} of {slot.pool}, node {slot.node_id}, {_without_secrets(slot) or 'no address'}"
        loss = f"\n{slot.loss('')}" if item.stash.get(_told, False) else ""
        report.sections.append(("hub slot", served + loss))
    return report


def _wanted(test: pytest.Item) -> dict[str, str]:
    """Return the label, and where the marker has it the `where`, that the slot of a test is borrowed with."""
    marker = test.get_closest_marker("hub_slot")
    said = {} if marker is None else dict(marker.kwargs)
    label = test.config.getoption("hub_slot") if marker is None else marker.args[0] if len(marker.args) == 1 else None
    if not all(isinstance(text, str) for text in (label, *said.values())) or not said.keys() <= {"where"}:
        raise _failure('hub_slot needs one label: --hub-slot LABEL, or @pytest.mark.hub_slot("LABEL") at the test.')
    return {"label": label, **said}


def _failure(sentence: str) -> BaseException:
    """Return the failure of a test that is reported as this sentence, without a traceback."""
    return pytest.fail.Exception(sentence, pytrace=False)


def _without_secrets(slot: Slot) -> str:
    """Return the address without user, password and query, for a report that is kept."""
    return re.sub(r"(?<=//)[^/?]*@|\?.*", "", slot.address)
