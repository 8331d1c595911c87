"""A change that breaks clients is named in a sentence; other changes are not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hub.api import publish as command
from hub.api.contract.changes import breaks
from hub.api.publish import FILE, SPOKEN
from tests.contract.checking import DOCUMENT

Change = Callable[[dict[str, Any]], Any]
BORROW = "borrowSlot (POST /session/borrow)"


def schema(document: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = document["components"]["schemas"][name]
    return found


def member(document: dict[str, Any], name: str, of: str) -> dict[str, Any]:
    found: dict[str, Any] = schema(document, of)["properties"][name]
    return found


def borrow(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["paths"]["/session/borrow"]["post"]
    return found


BREAKING: dict[str, Change] = {
    "The operation cancelTicket (DELETE /queue/{ticket}) is gone.": lambda d: d["paths"].pop("/queue/{ticket}"),
    f"The operation {BORROW} is called lend now.": lambda d: borrow(d).update(operationId="lend"),
    f"{BORROW} does not take runnerSecret any more.": lambda d: borrow(d).update(security=[]),
    f"The header parameter Idempotency-Key of {BORROW} is gone.": lambda d: borrow(d)["parameters"].pop(0),
    f"The header parameter x-run-id of {BORROW} is required now.": lambda d: borrow(d)["parameters"][1].update(
        required=True
    ),
    f"The body of {BORROW} is gone.": lambda d: borrow(d).pop("requestBody"),
    f"The answer 503 of {BORROW} is gone.": lambda d: borrow(d)["responses"].pop("503"),
    f"The code timeout of {BORROW} is gone.": lambda d: borrow(d)["responses"]["503"]["x-codes"].remove("timeout"),
    "The member leaseToken is gone from Grant.": lambda d: schema(d, "Grant")["properties"].pop("leaseToken"),
    "The member runId of Grant may be missing now.": lambda d: schema(d, "Grant")["required"].remove("runId"),
    "The member priority is gone from BorrowBody.": lambda d: schema(d, "BorrowBody")["properties"].pop("priority"),
    "The member runId of BorrowBody is required now.": lambda d: schema(d, "BorrowBody").update(required=["runId"]),
    "The value lent is gone from status of PublishedSlot.": lambda d: member(d, "status", "PublishedSlot")[
        "enum"
    ].remove("lent"),
    "The type of ttlSeconds of Grant was number and is string.": lambda d: member(d, "ttlSeconds", "Grant").update(
        type="string"
    ),
}


@pytest.mark.parametrize(("sentence", "change"), list(BREAKING.items()), ids=list(BREAKING))
def test_a_change_that_breaks_clients_is_named(sentence, change):
    changed = copy.deepcopy(DOCUMENT)
    change(changed)
    assert sentence in breaks(DOCUMENT, changed)


def test_an_addition_to_the_contract_is_not_called_a_break():
    changed = copy.deepcopy(DOCUMENT)
    schema(changed, "Grant")["properties"]["more"] = {"type": "string"}
    schema(changed, "Grant")["required"].append("more")
    schema(changed, "BorrowBody")["properties"]["more"] = {"type": "string"}
    changed["paths"]["/more"] = changed["paths"]["/health"]
    borrow(changed)["responses"]["418"] = borrow(changed)["responses"]["503"]
    schema(changed, "PublishedSlot")["properties"]["status"]["enum"].append("more")
    assert breaks(DOCUMENT, changed) == []


@pytest.fixture
def saying(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run the command on a committed document; return what it prints and what it writes to the file."""

    def say(committed: dict[str, Any], *options: str) -> tuple[int, str, bool]:
        (tmp_path / FILE.name).write_text(json.dumps(committed))
        (tmp_path / SPOKEN.name).write_text(SPOKEN.read_text())
        code = command.main(*options, folder=tmp_path)
        return code, capsys.readouterr().err, (tmp_path / FILE.name).read_text() == FILE.read_text()

    return say


def test_the_committed_contract_matches_the_code(capsys):
    assert (command.main("--check"), capsys.readouterr().err) == (0, "")


def test_the_check_names_what_was_removed_and_writes_nothing(saying):
    more = copy.deepcopy(DOCUMENT)
    schema(more, "Grant")["properties"]["gone"] = {"type": "string"}
    for options in (("--check",), ()):
        code, said, fresh = saying(more, *options)
        assert (code, fresh) == (1, False)
        assert "The member gone is gone from Grant." in said
    assert saying(more, "--break") == (0, "", True)


def test_the_check_asks_to_commit_additions(saying):
    less = copy.deepcopy(DOCUMENT)
    del less["paths"]["/health"]
    code, said, fresh = saying(less, "--check")
    assert (code, fresh) == (1, False)
    assert "make contract" in said
    assert saying(less) == (0, "", True)


def test_changes_of_socket_messages_are_compared_as_well():
    old = json.loads(SPOKEN.read_text())
    new = copy.deepcopy(old)
    del new["operations"]["task_available"]
    del schema(new, "TaskStatus")["properties"]["error"]
    schema(new, "JobRoom")["required"].append("worker_id")
    assert breaks(old, new) == [
        "The member error is gone from TaskStatus.",
        "The message task_available is gone from jobs.",
        "The member worker_id of JobRoom is required now.",
    ]
