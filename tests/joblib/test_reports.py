"""A report ends its task even if its text holds unusual characters or is too long; the text is kept where possible."""

from __future__ import annotations

import json

import pytest

from hub.api.jobs.reports import CUT, ERROR_BYTES, kept, shortened, spelt
from hub.errors import TooLarge
from tests.joblib.people import PLAIN, done

MIB = 1_048_576
DEEP = "[" * 200 + "]" * 200
# The text of a report as a client may write it, and the error and the result that are shown for it.
CUT_X = "x" * (ERROR_BYTES - len(CUT)) + CUT
HALF = rb'"status":"failed","error":"no file \udcff \\ud800 \ud83d\ude00"'
REPORTS = {
    "long": (b'"status":"failed","error":"%s"' % (b"x" * 3 * MIB), CUT_X, None),
    "a little too long": (b'"status":"failed","error":"%s"' % (b"x" * 70_000), CUT_X, None),
    "long, escaped": (b'"error":"%s","status":"failed"' % (b"\\n" * MIB), "\n" * (ERROR_BYTES - len(CUT)) + CUT, None),
    "as long as it may be": (b'"status":"failed","error":"%s"' % (b"x" * ERROR_BYTES), "x" * ERROR_BYTES, None),
    "half a pair": (HALF, "no file \\udcff \\ud800 😀", None),
    "NUL": (rb'"status":"failed","error":"a\u0000b"', "a\0b", None),
    "no UTF-8": (b'"status":"failed","error":"caf\xe9"', "caf\N{REPLACEMENT CHARACTER}", None),
    "no number": (b'"status":"completed","result":{"loss":NaN,"most":-Infinity,"n":"NaN"}', None,
                  {"loss": None, "most": None, "n": "NaN"}),
    "half a pair in a result": (rb'"status":"completed","result":["\ud800"]', None, ["\\ud800"]),
}  # fmt: skip


def sent(alice, method, path, content):
    return done(alice.call(method, path, content=content, headers={"content-type": PLAIN}), 200)


@pytest.mark.parametrize("what", REPORTS)
def test_a_move_with_an_odd_body_still_ends_its_task(alice, full, what):
    text, error, result = REPORTS[what]
    _, task = alice.claimed(full)
    alice.run(task, "running")
    sent(alice, "PATCH", f"/tasks/{task}", b"{" + text + b"}")
    found = alice.look(task)
    assert found["status"] == ("failed" if result is None else "completed")
    assert (found["error"], found.get("result")) == (error, result)


@pytest.mark.parametrize("what", REPORTS)
def test_a_report_with_an_odd_text_still_ends_its_task(alice, full, room, what):
    text, error, result = REPORTS[what]
    worker = alice.job(room)
    tasks = [alice.submit(full) for _ in range(2)]
    done(alice.ask(worker, limit=2, start=True), 200)
    one, other = (json.dumps(task).encode() for task in tasks)
    content = b'{"worker_id":"%s","limit":0,"results":[{"id":%s,%s},{"id":%s,"status":"failed","error":"plain"}]}'
    answer = sent(alice, "POST", "/tasks/claim", content % (worker.encode(), one, text, other))
    assert [each["outcome"] for each in answer["results"]] == ["ok", "ok"]
    found = [alice.look(task) for task in tasks]
    assert (found[0]["error"], found[0].get("result")) == (error, result)
    assert found[1]["error"] == "plain"


def test_a_result_nested_too_deeply_fails_its_own_task_alone(alice, full, room):
    worker = alice.job(room)
    tasks = [alice.submit(full) for _ in range(2)]
    done(alice.ask(worker, limit=2, start=True), 200)
    results = [{"id": tasks[0], "status": "completed", "result": json.loads(DEEP)},
               {"id": tasks[1], "status": "completed", "result": 1}]  # fmt: skip
    outcomes = done(alice.ask(worker, results=results, limit=0), 200)["results"]
    assert [each["outcome"] for each in outcomes] == ["too-large", "ok"]
    assert alice.look(tasks[0])["error"] == "The result has more than 128 levels."
    assert alice.look(tasks[1])["status"] == "completed"


@pytest.mark.parametrize("size", range(30))
def test_a_body_is_cut_between_two_characters(size):
    """Wherever the cut falls: in an escape, after a backslash that is one, in a character of many bytes."""
    unit = r"\\\ud83d\ude00\né".encode()
    error = b"x" * size + unit * 60_000
    document = json.loads(shortened(b'{"error": "%s"}' % error, 600_000))
    assert spelt(b'{"error": "%s"}' % error) == b'{"error": "%s"}' % error
    whole = json.loads(b'"%s"' % error)
    assert whole.startswith(document["error"].rstrip("\ud83d"))
    assert len(kept(document["error"].rstrip("\ud83d")).encode()) <= ERROR_BYTES


def test_a_too_long_body_is_refused_unless_its_error_text_makes_it_long():
    with pytest.raises(TooLarge):
        shortened(b'{"other": "%s"}' % (b"x" * 2_000), 1_000)
    with pytest.raises(TooLarge):
        shortened(b'{"result": {"error": "%s"}}' % (b"x" * 10 * ERROR_BYTES), 1_000)
