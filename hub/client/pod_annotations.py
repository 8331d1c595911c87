"""The annotations of the Kubernetes pod of a node, by which a scale-down removes pods without leases first."""

from __future__ import annotations

import logging
import os
import ssl
from asyncio import Event, sleep
from pathlib import Path
from typing import Self
from urllib.parse import quote

import httpx

from hub.client.exchange import words_of
from hub.outgoing import async_client

log = logging.getLogger("hub.client")

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# Every controller of the cluster watches pods, so at most six writes a minute are made.
EVERY_S = 10.0
LONGEST_PAUSE_S = 300.0
TIMEOUT_S = 5.0
# The costs between that of an idle pod, 0, and of a busy one are left to operators who rank pods by hand.
_BUSY, _MOST = 10, 1000


def marks(lent: int) -> dict[str, str | None]:
    """Return the annotations of a pod with `lent` leases: a scale-down removes pods with fewer leases sooner.

    The value None removes an annotation: the cluster decides whether an idle pod may be evicted.
    """
    if not lent:
        return {DELETION_COST: "0", SAFE_TO_EVICT: None}
    return {DELETION_COST: str(_BUSY + min(lent, _MOST)), SAFE_TO_EVICT: "false"}


class PodAnnotations:
    """The annotations of the pod of this process. The node does not wait for writes, and failures are only logged."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._wanted: dict[str, str | None] = {}
        self._written: dict[str, str | None] = {}
        self._changed = Event()
        self._failures = 0

    @classmethod
    def own(cls) -> Self | None:
        """Return the annotations of the pod that the environment names; None where it names no cluster or no pod."""
        names = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "POD_NAMESPACE", "POD_NAME")
        host, port, namespace, name = (os.environ.get(each, "").strip() for each in names)
        if not (host and port and namespace and name):
            return None
        there = f"[{host}]" if ":" in host else host
        return cls(f"https://{there}:{port}/api/v1/namespaces/{quote(namespace, '')}/pods/{quote(name, '')}")

    def lends(self, lent: int) -> None:
        """Set the number of leases, to be written later; returns at once."""
        self._wanted = marks(lent)
        self._changed.set()

    async def write_for_ever(self) -> None:
        """Write the annotations after changes, of which the latest is always written, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._wanted != self._written:
                await sleep(await self._write(self._wanted))

    async def _write(self, wanted: dict[str, str | None]) -> float:
        """Write the annotations, or plan another attempt after a failure; return the seconds until the next write."""
        try:
            await self._patch({"metadata": {"annotations": wanted}})
        except Exception as error:  # noqa: BLE001 - the node must live on after any answer of the cluster
            if not self._failures:
                log.warning("pod-deletion-cost cannot be written, the node goes on without: %s", _why(error))
            self._failures += 1
            self._written = {}  # the cluster may have taken them all the same
            self._changed.set()
            return min(LONGEST_PAUSE_S, EVERY_S * 2.0 ** min(self._failures, 16))
        self._written, self._failures = wanted, 0
        return EVERY_S

    async def _patch(self, body: object) -> None:
        # Both files are read for each write: the kubelet replaces the token every hour, and the authority at times.
        head = {
            "authorization": f"Bearer {(ACCOUNT / 'token').read_text().strip()}",
            "content-type": "application/merge-patch+json",
        }
        trusted = ssl.create_default_context(cafile=ACCOUNT / "ca.crt")
        # The API server of a cluster is not asked through a proxy.
        async with async_client(self._url, verify=trusted, proxy=None, timeout=TIMEOUT_S) as api:
            (await api.patch(self._url, json=body, headers=head)).raise_for_status()


def _why(error: Exception) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"{error.response.status_code} for {error.request.url}"
    return words_of(error)
