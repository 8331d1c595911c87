"""Names in paths: slashes, colons, blanks, percent-encoding, and words that are also the end of a route."""

from urllib.parse import quote

import pytest

from tests.api.jobs.people import J, is_problem

NAMES = [
    "Plain", "a/b", "a:b:c", "a b", "", "tasks", "info", "x/tasks", "x/info", "tasks/tasks", "/", "//", "ünïcödé-日本",
    "100%", "%2F", "a?b#c", "line\nbreak", "\n", "..", "a/../b", "quote\"'", "back\\slash", "@x", "+plus+", "\0",
]  # fmt: skip
ROOMS = ["lab", "my lab", "räum", "@global", "a+b", "50%", "tasks", "new\nline"]


async def registered(person, kind, room, name):
    body = {"category": "modifiers", "name": name, "schema": {"named": name}}
    answer = await person.call("PUT", f"/rooms/{quote(room, safe='@')}/{kind}", body)
    assert answer.status_code == 201, answer.text
    found = answer.json()
    assert (found["room_id"], found["name"], found["full_name"]) == (room, name, f"{room}:modifiers:{name}")
    return found


def spellings(full):
    """Return a name as the published client writes it into a URL, if it can, and percent-encoded."""
    plain = {full} if full.isascii() and full.isprintable() and not set(full) & set("%?# \"'\\") else set()
    return plain | {quote(full, safe="/:@"), quote(full, safe="/"), quote(full, safe="")}


@pytest.mark.parametrize("name", NAMES)
async def test_a_job_is_found_by_its_full_name_in_every_url_encoding(people, name):
    root = people["root"]
    job = await registered(root, "jobs", "@global", name)
    await registered(root, "jobs", "@global", "another")
    full = job["full_name"]
    for spelt in spellings(full):
        if ".." in name.split("/"):
            continue  # clients fold these away
        found = await root.call("GET", f"/rooms/lab/jobs/{spelt}")
        if spelt.endswith("/tasks"):
            assert found.status_code == 404  # a plain slash: the list of tasks of a job whose name is shorter
        else:
            assert (found.status_code, found.json()["id"]) == (200, job["id"]), spelt
        sent = await root.call("POST", f"/rooms/lab/tasks/{spelt}", {"payload": {"as": spelt}})
        assert sent.status_code == 202, sent.text
        assert (sent.json()["job_name"], sent.json()["payload"]) == (full, {"as": spelt})
        listed = await root.call("GET", f"/rooms/lab/jobs/{spelt}/tasks")
        assert listed.json()["items"][0]["id"] == sent.json()["id"]
    assert [job["name"] for job in (await root.call("GET", "/rooms/lab/jobs")).json()["items"]] == ["another", name]


@pytest.mark.parametrize("name", [name for name in NAMES if ".." not in name.split("/")])
async def test_a_provider_is_found_by_its_full_name_in_every_url_encoding(people, name):
    root = people["root"]
    provider = await registered(root, "providers", "@global", name)
    for spelt in spellings(provider["full_name"]):
        info = await root.call("GET", f"/rooms/lab/providers/{spelt}/info")
        assert info.json() == {**provider}
        if not spelt.endswith("/info"):
            read = await root.call("GET", f"/rooms/lab/providers/{spelt}", headers={"prefer": "wait=0"})
            is_problem(read, 504, "provider-timeout")


@pytest.mark.parametrize("room", ROOMS)
async def test_a_room_may_have_any_name_in_any_url_encoding(people, room):
    root = people["root"]
    job = await registered(root, "jobs", room, "Rotate")
    spelt = quote(room, safe="")
    sent = await root.call("POST", f"/rooms/{spelt}/tasks/{spelt}:modifiers:Rotate", {})
    assert (sent.status_code, sent.json()["room_id"]) == (202, room)
    assert (await root.call("GET", f"/rooms/{spelt}/tasks")).json()["items"] == [sent.json()]
    assert [each["full_name"] for each in (await root.call("GET", f"/rooms/{spelt}/jobs")).json()["items"]] == [
        job["full_name"]
    ]
    assert (await root.call("GET", f"/rooms/{spelt}/workers")).json()["total"] == 1


@pytest.mark.parametrize("full", ["", "lab", "lab:modifiers", "@global", ":", "tasks", "@internal:modifiers"])
async def test_a_job_name_of_fewer_than_three_parts_is_answered_404_with_the_reason(alice, full):
    for method, path in (("GET", "jobs/{}"), ("GET", "jobs/{}/tasks"), ("POST", "tasks/{}")):
        answer = await alice.call(
            method, "/rooms/lab/" + path.format(full), content=b"{}" if method == "POST" else None
        )
        if (method, full) == ("GET", "tasks") and path == "jobs/{}":
            assert answer.status_code == 404
            continue
        assert "Invalid job name format" in is_problem(answer, 404, "job-not-found")["detail"]
    for path in ("providers/{}", "providers/{}/info"):
        is_problem(await alice.call("GET", "/rooms/lab/" + path.format(full)), 404, "provider-not-found")


async def test_names_are_case_sensitive(people):
    root = people["root"]
    await registered(root, "jobs", "lab", "Rotate")
    for full in ("lab:modifiers:rotate", "Lab:modifiers:Rotate", "lab:Modifiers:Rotate", "lab:modifiers:Rotate "):
        is_problem(await root.call("GET", f"/rooms/lab/jobs/{quote(full)}"), 404, "job-not-found")


async def test_a_name_of_4096_characters_is_accepted_and_found(alice):
    async def put(name):
        return await alice.call("PUT", "/rooms/lab/jobs", {"category": "modifiers", "name": name})

    assert (await put("n" * 4096)).status_code == 201
    assert (await alice.call("GET", f"/rooms/lab/jobs/lab:modifiers:{'n' * 4096}")).status_code == 200
    assert (await put("n" * 4097)).json()["detail"][0]["type"] == "string_too_long"


async def test_the_location_header_of_a_task_is_relative_to_the_host(alice):
    await alice.offering()
    answer = await alice.submit()
    assert answer.headers["location"] == f"{J}/tasks/{answer.json()['id']}"
    assert answer.headers["retry-after"] == "1"
    found = await alice.api.get(answer.headers["location"])
    assert found.json() == answer.json()
