"""Events that flow: a slot is borrowed and returned so many times a second, until this is ended.

`python -m tests.bench.happenings URL SECRET LABEL RATE` says `ready` after the first time.
"""

from __future__ import annotations

import sys
import time

import httpx


def main(url: str, secret: str, label: str, rate: str) -> None:
    """Two events each time."""
    with httpx.Client(base_url=url, headers={"x-hub-secret": secret}, timeout=30) as client:
        due, said = time.monotonic(), False
        while True:
            lent = client.post("/session/borrow", json={"labelKey": label}).raise_for_status().json()
            body = {"labelKey": lent["labelKey"], "browserId": lent["browserId"], "leaseToken": lent["leaseToken"]}
            client.post("/session/return", json=body).raise_for_status()
            if not said:
                print("ready", flush=True)
                said = True
            due += 1 / float(rate)
            time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main(*sys.argv[1:])
