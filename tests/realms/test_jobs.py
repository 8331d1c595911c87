"""Workers and submitters in realms: the SDK names a realm by its URL, the published client knows no realms."""

from __future__ import annotations

import contextlib
from uuid import UUID

import httpx
import pytest
from zndraw_joblib import JobManager as Published

from hub.client.jobs import JobManager, JobsClient
from tests.client.jobs.live import JOB, ROOM, TOKEN, Rotations, tokens_file
from tests.joblib.published.host import Api, Listing, Rotate, connect
from tests.realms.world import EU, write_realms
from tests.world import HubProcess, wait_until

BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def hub(start_hub, tmp_path, second) -> HubProcess:
    """A hub with the default realm, `eu` and `us`, and one token for all of them."""
    file = write_realms(tmp_path / "realms.toml", eu=(second.url, EU), us=(second.url, {}))
    found = start_hub(HUB_REALMS_FILE=str(file), HUB_TOKENS_FILE=tokens_file(tmp_path))
    headers = {"x-hub-secret": found.admin_secret}
    for name in ("eu", "us"):
        at = f"{found.url}/realms/{name}/health/ready"
        wait_until(lambda at=at: httpx.get(at, headers=headers, timeout=60).status_code == 200)
    return found


async def test_workers_and_submitters_of_the_sdk_use_a_realm_by_its_url(hub):
    url = f"{hub.url}/realms/us"
    rotations = Rotations(hub)
    rotations.worker = type(rotations.worker)(url, TOKEN, grace=20.0)
    rotations.worker.job("modifiers", "Rotate")(rotations.rotate)
    async with rotations.worker, JobsClient(url, TOKEN) as client, JobsClient(hub.url, TOKEN) as elsewhere:
        ids = await client.submit_many(JOB, [{"angle": n} for n in range(20)], ROOM)
        for task in ids:
            assert (await client.wait_for(task, 60)).status == "completed"
        assert sorted(rotations.runs) == sorted(ids)
        assert (await elsewhere.task(ids[0])).status == "completed"  # the id says its realm


async def test_a_worker_of_the_sdk_finds_the_realm_of_its_room(hub):
    rotations = Rotations(hub, room="lab-eu-2")
    async with rotations.worker, JobsClient(hub.url, TOKEN) as client:
        task = await client.submit("lab-eu-2:modifiers:Rotate", {"angle": 1}, "lab-eu-2")
        assert (await client.wait_for(task, 60)).status == "completed"
        assert UUID(rotations.worker.worker_id).version == 8
        async with httpx.AsyncClient(headers=BEARER) as http:
            beaten = await http.patch(f"{hub.url}/realms/eu/v1/joblib/workers/{rotations.worker.worker_id}")
        assert beaten.is_success


def test_a_socket_of_the_sdk_belongs_to_its_realm(hub, second):
    manager = JobManager(f"{hub.url}/realms/us", TOKEN, socket=True)
    try:
        manager.register(Rotate, room="lab")
        with second.client() as client:
            assert manager.worker_id is not None
            bound = f"{{us}}:hub:sockets:{manager.worker_id.hex}"
            wait_until(lambda: client.scard(bound) == 1)
    finally:
        manager.disconnect()


@pytest.mark.parametrize("made_before", [False, True])
def test_the_published_client_works_in_the_realm_of_its_room_without_knowing_realms(hub, tmp_path, made_before):
    file = tmp_path / "said"
    with httpx.Client(trust_env=False, timeout=60) as http:

        def connect(**options):
            return Published(Api(http, [hub.url], TOKEN), None, heartbeat_interval=0.4, polling_interval=0.1, **options)

        worker = connect(execute=lambda task: task.extension.run(None, **task.run_kwargs))
        submitter = connect()
        try:
            if made_before:
                worker.create_worker()
            worker.register(Rotate, room="lab-eu-1", run_kwargs={"model": "m1"})
            tasks = [submitter.submit(Rotate(angle=n, file=str(file)), "lab-eu-1", job_room="lab-eu-1") for n in (1, 2)]
            wait_until(lambda: file.exists() and file.read_text() == "1.0 m1\n2.0 m1\n")
            for task in tasks:
                seen = [
                    http.get(f"{hub.url}/realms/{realm}/v1/joblib/tasks/{task}", headers=BEARER).status_code
                    for realm in ("eu", "us", "default")
                ]
                assert seen == [200, 404, 404]
        finally:
            for each in (worker, submitter):
                with contextlib.suppress(Exception):
                    each.disconnect()


def test_a_socket_of_the_published_client_hears_events_of_the_realm_of_its_room(hub, second, tmp_path):
    """The client hears of tasks, its provider is asked, and its worker is removed when it hangs up."""
    file, room = tmp_path / "said", "lab-eu-1"
    with httpx.Client(trust_env=False, timeout=60, headers=BEARER) as http, second.client() as store:
        socket = connect(hub.url, TOKEN)
        worker = Published(
            Api(http, [hub.url], TOKEN), socket, heartbeat_interval=0.4, polling_interval=3600,
            execute=lambda task: task.extension.run(None, **task.run_kwargs),
        )  # fmt: skip
        submitter = Published(Api(http, [hub.url], TOKEN), None, heartbeat_interval=0.4)
        try:
            worker.register(Rotate, room=room)
            worker.register_provider(Listing, name="disk", handler={"/": [1]}, room=room)
            bound = f"{{eu}}:hub:sockets:{UUID(str(worker.worker_id)).hex}"
            wait_until(lambda: store.scard(bound) == 1)
            submitter.submit(Rotate(angle=1, file=str(file)), room, job_room=room)
            wait_until(lambda: file.exists() and file.read_text() == "1.0 \n")
            asked = http.get(
                f"{hub.url}/v1/joblib/rooms/{room}/providers/{room}:filesystem:disk?path=/",
                headers={"prefer": "wait=60"},
            )
            assert (asked.status_code, asked.json()["names"]) == (200, [1])
            socket.shutdown()
            wait_until(lambda: not store.exists(bound))
        finally:
            socket.shutdown()
            for each in (worker, submitter):
                with contextlib.suppress(Exception):
                    each.disconnect()
