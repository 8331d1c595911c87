"""Where hooks may lead: no private address, however it is spelled, named, or changed after the check."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from hub.hooks import addresses, sending
from hub.hooks.addresses import is_public
from hub.hooks.messages import new_secret
from hub.hooks.sending import Target, send
from tests.certificates import Authority

PRIVATE = [
    "127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
    "0.1.2.3", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1",
    "::1", "::", "fe80::1", "fe80::1%1", "fc00::1", "fd12::1", "fec0::1", "ff02::1", "ff0e::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::8.8.8.8",
    "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b:1::8.8.8.8", "2002:7f00:1::", "2002:a00:1::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1", "100::1",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]


def test_only_addresses_of_the_internet_are_public():
    assert [text for text in PRIVATE if is_public(text)] == []
    assert [text for text in PUBLIC if not is_public(text)] == []


@pytest.mark.parametrize(
    "url",
    [
        *(f"http://{f'[{each}]' if ':' in each else each}/" for each in PRIVATE if "%" not in each),
        "http://localhost/", "http://LOCALHOST:80/", "http://localhost./", "http://2130706433/", "http://0x7f.1/",
        "http://127.1/", "http://0177.0.0.1/", "http://nowhere.invalid/",
        "ftp://8.8.8.8/", "file:///etc/passwd", "//8.8.8.8/", "8.8.8.8", "", "http://", "http:///x", "https://u:p@8.8.8.8/",
        "http://8.8.8.8:0/", "http://8.8.8.8:99999/", "http://8.8.8.8/" + "x" * 2000, "http://8.8.8.8/\r\nx: y",
        "http://[::1", 7, None, ["http://8.8.8.8/"], {"a": 1},
    ],
)  # fmt: skip
async def test_such_an_address_is_refused_when_a_hook_is_added(api, url):
    answer = await api.post("/admin/hooks", json={"url": url, "on": ["lease.ended"]})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json"), answer.text
    assert (await api.get("/admin/hooks")).json()["hooks"] == []


async def test_a_host_that_the_setting_lists_may_have_any_address(make_api):
    async with make_api(hook_hosts=("127.0.0.1", "localhost")) as api:
        for url in ("http://127.0.0.1:9/a", "http://LocalHost:9/b"):
            assert (await api.post("/admin/hooks", json={"url": url, "on": ["lease.ended"]})).status_code == 201
        answer = await api.post("/admin/hooks", json={"url": "http://127.0.0.2:9/", "on": ["lease.ended"]})
        assert answer.status_code == 400


class Names:
    """A name server whose answers change from one question to the next."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def look_up(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


async def test_a_name_that_leads_inside_after_it_was_checked_is_not_connected_to(monkeypatch, receiver, make_api):
    names = Names(["93.184.216.34"], ["127.0.0.1"])
    monkeypatch.setattr(addresses, "look_up", names.look_up)
    async with make_api() as api:
        url = f"http://rebinding.example:{receiver.port}/hook"
        made = await api.post("/admin/hooks", json={"url": url, "on": ["lease.ended"]})
        assert made.status_code == 201, made.text
        answer = (await api.post(f"/admin/hooks/{made.json()['id']}/test")).json()
    assert answer["delivered"] is False
    assert "private address" in answer["said"]
    assert receiver.heard == []
    assert names.asked == ["rebinding.example"] * 2


async def test_the_connection_goes_to_the_address_that_was_checked_and_names_the_host(monkeypatch, receiver):
    names = Names(["127.0.0.1"], ["10.255.255.1"])  # a second look would lead elsewhere
    monkeypatch.setattr(addresses, "look_up", names.look_up)
    target = Target(f"http://there.example:{receiver.port}/hook?x=1", "json", new_secret())
    assert await send(target, "hook.test", "1-0", {}, ["there.example"]) == "ok"
    assert names.asked == ["there.example"]
    (got,) = receiver.heard
    assert (got.headers["host"], got.path) == (f"there.example:{receiver.port}", "/hook?x=1")


async def test_one_private_address_among_public_ones_is_refused(monkeypatch):
    monkeypatch.setattr(addresses, "look_up", Names(["8.8.8.8", "10.0.0.1"]).look_up)
    target = Target("http://mixed.example/", "json", new_secret())
    assert "private address" in await send(target, "hook.test", "1-0", {}, [])


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch, receiver):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setattr(addresses, "look_up", Names(["127.0.0.1"]).look_up)
    target = Target(f"http://there.example:{receiver.port}/", "json", new_secret())
    assert await send(target, "hook.test", "1-0", {}, ["there.example"]) == "ok"


async def test_an_answer_without_an_end_is_not_read(monkeypatch):
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        try:
            while sent < 100_000_000:
                writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
                await writer.drain()
                sent += 65536
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        said = await send(
            Target(f"http://127.0.0.1:{port}/", "json", new_secret()), "hook.test", "1-0", {}, ["127.0.0.1"]
        )
    assert said == "ok"
    assert sent < 50_000_000


async def test_a_certificate_must_be_trusted_and_of_the_host_in_the_url(monkeypatch, tmp_path):
    authority = Authority(tmp_path)
    pair = authority.issue("there")  # for localhost and 127.0.0.1
    here = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    here.load_cert_chain(pair.cert, pair.key)
    named: list[str] = []
    here.sni_callback = lambda _, name, __: named.append(name)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=here)
    port = server.sockets[0].getsockname()[1]
    monkeypatch.setattr(addresses, "look_up", Names(["127.0.0.1"]).look_up)

    async def said(host: str) -> str:
        target = Target(f"https://{host}:{port}/", "json", new_secret())
        return await send(target, "hook.test", "1-0", {}, ["localhost", "other.example"])

    async with server:
        assert await said("localhost") == "it does not answer (ConnectError)"  # nobody trusts this authority
        monkeypatch.setattr(sending, "_certificates", lambda: ssl.create_default_context(cafile=str(authority.file)))
        assert await said("localhost") == "ok"
        assert await said("other.example") == "it does not answer (ConnectError)"
    assert named == ["localhost", "localhost", "other.example"]


async def test_an_address_that_takes_no_connection_leaves_the_next_one(monkeypatch, receiver):
    monkeypatch.setattr(addresses, "look_up", Names(["127.0.0.2", "127.0.0.1"]).look_up)
    target = Target(f"http://there.example:{receiver.port}/", "json", new_secret())
    assert await send(target, "hook.test", "1-0", {}, ["there.example"]) == "ok"
    monkeypatch.setattr(addresses, "look_up", Names(["127.0.0.2", "127.0.0.3"]).look_up)
    assert await send(target, "hook.test", "1-0", {}, ["there.example"]) == "it does not answer (ConnectError)"


async def test_looking_up_a_name_has_an_end(monkeypatch, api):
    monkeypatch.setattr(addresses, "LOOK_UP_S", 0.05)

    async def never(*_: object, **__: object) -> list[object]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", never)
    answer = await api.post("/admin/hooks", json={"url": "http://slow.example/", "on": ["lease.ended"]})
    assert (answer.status_code, answer.json()["member"]) == (400, "url")
