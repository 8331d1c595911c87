"""Full names, rooms, and what is seen from where."""

from __future__ import annotations

import pytest

from tests.joblib.people import done, fresh, problem


@pytest.mark.parametrize("name", ["Plain", "a:b", "a/b", "a:b/c:d", "", "with blank", "ünï-日本", "x/info", "50%"])
def test_everything_after_the_second_colon_is_the_name_of_a_job(alice, room, name):
    alice.job(room, name)
    full = f"{room}:modifiers:{name}"
    spelt = [full] if name.isascii() and not set(name) & set(" %") else []
    for path in (*spelt, quoted(full, "/:@"), quoted(full, ""), quoted(full, "/")):
        found = done(alice.get(f"/rooms/{room}/jobs/{path}"), 200)
        assert (found["full_name"], found["name"], found["category"], found["room_id"]) == (
            full,
            name,
            "modifiers",
            room,
        )
        sent = done(alice.call("POST", f"/rooms/{room}/tasks/{path}", {}), 202)
        assert sent["job_name"] == full
        listed = done(alice.get(f"/rooms/{room}/jobs/{path}/tasks"), 200)
        assert listed["items"][0]["id"] == sent["id"]


def quoted(text, safe):
    """Percent-encoded but for these characters."""
    kept = safe.encode() + b"-._~"
    return "".join(chr(c) if (chr(c).isalnum() and c < 128) or c in kept else f"%{c:02X}" for c in text.encode())


@pytest.mark.parametrize("name", ["plain", "a:b", "a/b", "", "ünï", "x/tasks"])
def test_everything_after_the_second_colon_is_the_name_of_a_provider(alice, room, name):
    made = alice.provider(room, name)
    full = f"{room}:files:{name}"
    assert (made["full_name"], made["name"]) == (full, name)
    for path in (quoted(full, "/:@"), quoted(full, "")):
        assert done(alice.get(f"/rooms/{room}/providers/{path}/info"), 200) == made
        problem(alice.read(room, path, prefer="wait=0"), 504, "provider-timeout")


@pytest.mark.parametrize("full", ["x", "a:b", "@global:modifiers", "modifiers/Rotate"])
def test_a_name_with_too_few_parts_is_not_found_and_the_jobs_api_says_why(alice, full):
    for answer in (
        alice.get(f"/rooms/lab/jobs/{full}"),
        alice.get(f"/rooms/lab/jobs/{full}/tasks"),
        alice.send("lab", full),
    ):
        assert "Invalid job name format" in problem(answer, 404, "job-not-found")
    for answer in (alice.get(f"/rooms/lab/providers/{full}/info"), alice.read("lab", full)):
        problem(answer, 404, "provider-not-found")


def test_names_are_case_sensitive(alice, room, full):
    alice.job(room)
    alice.provider(room)
    for other in (full.lower(), full.replace("mod", "Mod"), full.upper()):
        problem(alice.get(f"/rooms/{room}/jobs/{other}"), 404, "job-not-found")
        problem(alice.send(room, other), 404, "job-not-found")
    problem(alice.get(f"/rooms/{room}/providers/{room}:Files:disk/info"), 404, "provider-not-found")


@pytest.mark.parametrize("room_id", ["a room", "räum", "x.y-z_", "global", "internal", "100%", "a+b", "tasks"])
def test_every_other_room_name_is_allowed(alice, room_id):
    path = quoted(room_id, "")
    name = fresh("J")
    answer = alice.put_job(path, name)
    assert (answer.status_code, answer.json()["room_id"]) == (201, room_id)
    sent = done(alice.send(path, quoted(f"{room_id}:modifiers:{name}", "")), 202)
    assert (sent["room_id"], sent["job_name"]) == (room_id, f"{room_id}:modifiers:{name}")
    assert sent["id"] in [task["id"] for task in alice.get(f"/rooms/{path}/tasks").json()["items"]]


@pytest.mark.parametrize("category", ["modifiers", "selections", "analysis"])
def test_a_job_may_have_any_category_of_the_configured_list(alice, room, category):
    assert alice.put_job(room, category=category).status_code == 201


@pytest.mark.parametrize("category", ["Modifiers", "modifier", "", "shiny", "mod:ifiers", " analysis"])
def test_other_categories_are_refused_and_store_nothing(alice, room, category):
    before = done(alice.get("/workers?limit=0"), 200)["total"]
    detail = problem(alice.put_job(room, category=category), 400, "invalid-category")
    assert detail.endswith(
        "is not one of modifiers, selections, analysis, which HUB_ALLOWED_CATEGORIES allows: set it "
        "where the hub is started, to a JSON list or to * for all"
    )
    assert alice.get(f"/rooms/{room}/workers").json()["total"] == workers_seen_everywhere(alice)
    assert done(alice.get("/workers?limit=0"), 200)["total"] == before


def workers_seen_everywhere(person):
    return person.get(f"/rooms/{fresh()}/workers").json()["total"]


@pytest.mark.parametrize("category", ["files", "Frames", "a b", "x.y"])
def test_providers_may_have_any_category(alice, room, category):
    made = alice.provider(room, category=category)
    assert (made["category"], made["full_name"]) == (category, f"{room}:{category}:disk")


# 2.4


@pytest.fixture
def jobs(alice, root, room):
    """One job in this room, in another, for all and for the hub itself; by where it is."""
    name, other = fresh("J"), fresh()
    for where, person in ((room, alice), (other, alice), ("@global", root), ("@internal", root)):
        person.job(where, name)
    return {where: f"{where}:modifiers:{name}" for where in (room, other, "@global", "@internal")}


def test_jobs_are_listed_in_the_rooms_that_see_them(stranger, jobs, room):
    def seen(where):
        listed = stranger.get(f"/rooms/{where}/jobs?limit=500").json()["items"]
        assert all(set(job) == {"full_name", "category", "name", "workers"} for job in listed)
        return [place for place, full in jobs.items() if full in [job["full_name"] for job in listed]]

    assert seen(room) == [room, "@global", "@internal"]
    assert seen("@global") == ["@global"]
    assert seen("@internal") == ["@internal"]
    assert seen(fresh()) == ["@global", "@internal"]


def test_workers_are_listed_in_the_rooms_that_see_their_jobs(stranger, alice, jobs, room):
    ids = {place: done(stranger.get(f"/rooms/x/jobs/{full}"), 200)["workers"][0] for place, full in jobs.items()}
    provider_only = alice.provider(room)["worker_id"]

    def seen(where):
        listed = [worker["id"] for worker in stranger.get(f"/rooms/{where}/workers?limit=500").json()["items"]]
        assert len(set(listed)) == len(listed)
        assert provider_only not in listed
        return [place for place, worker in ids.items() if worker in listed]

    assert seen(room) == [room, "@global", "@internal"]
    assert seen("@global") == ["@global"]
    assert seen("@internal") == ["@internal"]


def test_a_task_may_be_submitted_from_any_room_to_any_active_job(stranger, alice, jobs, room):
    for where in (room, "@global", "@internal", fresh()):
        for full in jobs.values():
            assert done(stranger.get(f"/rooms/{where}/jobs/{full}"), 200)["full_name"] == full
            assert done(stranger.get(f"/rooms/{where}/jobs/{full}/tasks"), 200)["items"] == []


def test_a_task_is_listed_only_in_the_room_it_was_submitted_to(stranger, alice, jobs, room):
    other, plain, shared = fresh(), jobs[room], jobs["@global"]
    tasks = [alice.submit(plain), alice.submit(shared, room), alice.submit(plain, other), alice.submit(shared, other)]
    assert [task["id"] for task in stranger.listed(f"/rooms/{room}/tasks")] == [tasks[1], tasks[0]]
    assert [task["id"] for task in stranger.listed(f"/rooms/{other}/tasks")] == [tasks[3], tasks[2]]
    assert [task["id"] for task in stranger.listed(f"/rooms/{room}/jobs/{plain}/tasks")] == [tasks[0]]
    assert [task["id"] for task in stranger.listed(f"/rooms/{other}/jobs/{plain}/tasks")] == [tasks[2]]
    assert [task["id"] for task in stranger.listed(f"/rooms/{other}/jobs/{shared}/tasks")] == [tasks[3]]
    assert stranger.listed(f"/rooms/{fresh()}/tasks") == []


def test_providers_are_listed_in_their_room_and_global_ones_in_every_room(stranger, alice, root, room):
    name, other = fresh("p"), fresh()
    for where, person in ((room, alice), (other, alice), ("@global", root), ("@internal", root)):
        person.provider(where, name)
    fulls = {where: f"{where}:files:{name}" for where in (room, other, "@global", "@internal")}

    def listed(where):
        items = stranger.get(f"/rooms/{where}/providers?limit=500").json()["items"]
        return {place for place, full in fulls.items() if full in [item["full_name"] for item in items]}

    def found(where):
        answers = {place: stranger.get(f"/rooms/{where}/providers/{full}/info") for place, full in fulls.items()}
        for answer in answers.values():
            if answer.status_code != 200:
                problem(answer, 404, "provider-not-found")
        return {place for place, answer in answers.items() if answer.status_code == 200}

    def read(where):
        answers = {place: alice.read(where, full, prefer="wait=0") for place, full in fulls.items()}
        assert {answer.status_code for answer in answers.values()} <= {404, 504}
        return {place for place, answer in answers.items() if answer.status_code == 504}

    assert listed(room) == found(room) == read(room) == {room, "@global"}
    assert listed("@global") == {"@global"}
    assert found("@global") == read("@global") == set(fulls)
    assert listed("@internal") == found("@internal") == read("@internal") == {"@internal", "@global"}
