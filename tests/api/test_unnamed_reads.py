"""Reads without a credential, where the settings allow them beside secrets: refused under a foreign host name."""

from __future__ import annotations

import httpx
import pytest
import socketio

J = "/v1/joblib"
READS = [f"{J}/{path}" for path in ("rooms/lab/jobs", "rooms/lab/tasks", "rooms/lab/workers", "rooms/lab/providers")]
READS += [f"{J}/rooms/lab/schedules", f"{J}/workers"]
KNOWN = ["127.0.0.1:8080", "localhost", "[::1]:8080", "10.1.2.3", "192.168.1.5:8080"]
POINTED = ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "hub.internal"]


def codes(hub, hosts, **headers):
    """Return the answers to every read under these names."""
    with httpx.Client(base_url=hub.url) as client:
        return {client.get(read, headers={"host": host, **headers}).status_code for read in READS for host in hosts}


def test_a_page_under_a_rebound_host_name_reads_nothing(start_hub):
    hub = start_hub(HUB_ANONYMOUS_READS="true")
    assert codes(hub, KNOWN) == {200}
    assert codes(hub, POINTED) == {401}
    assert codes(hub, POINTED, **{"x-hub-secret": hub.admin_secret}) == {200}
    connect(hub, "127.0.0.1")
    with pytest.raises(socketio.exceptions.ConnectionError):
        connect(hub, "evil.example")


def connect(hub, host):
    with socketio.SimpleClient() as client:
        client.connect(hub.url, headers={"Host": host}, transports=["polling"])


def test_a_page_under_a_listed_host_name_may_read(start_hub):
    hub = start_hub(HUB_ANONYMOUS_READS="true", HUB_ALLOWED_HOSTS="hub.internal")
    assert codes(hub, ["hub.internal", "hub.internal.:8080"]) == {200}
    assert codes(hub, ["evil.example"]) == {403}


def test_behind_a_declared_proxy_host_names_are_not_checked(start_hub):
    hub = start_hub(HUB_ANONYMOUS_READS="true", FORWARDED_ALLOW_IPS="10.0.0.0/8")
    assert codes(hub, ["hub.example"]) == {200}
