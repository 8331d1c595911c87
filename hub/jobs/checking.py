"""The process that checks payloads against the schemas of jobs: it can be ended when a schema takes it too long.

Its argument is the processor time that a request may take, in seconds: SIGPROF ends the process where one takes longer.
One request a line on stdin: `{"schema": JSON text, "payloads": [JSON text, ...]}`. One answer a line on stdout: `{}`
where all fit, `{"number", "path", "message"}` of the first that does not, `{"broken": why}` for a schema that is none.
"""

from __future__ import annotations

import signal
import sys
from functools import lru_cache
from typing import Any

import orjson

KEPT = 256  # compiled schemas
LONGEST = 500  # characters of a message: a payload may be in it


@lru_cache(maxsize=KEPT)
def compiled(schema: str) -> Any:
    """Return the validator, draft 2020-12, which reads no `$ref` from elsewhere. Raises ValueError for text that is no
    schema.
    """
    from jsonschema_rs import Draft202012Validator

    return Draft202012Validator(orjson.loads(schema), offline=True)


def answer(schema: str, payloads: list[str]) -> dict[str, Any]:
    """Return the faults of the first payload that does not fit."""
    try:
        validator = compiled(schema)
    except Exception as error:  # noqa: BLE001 - whatever a library says of a document of somebody else's
        return {"broken": str(error).splitlines()[0][:LONGEST]}
    for number, payload in enumerate(payloads):
        for wrong in validator.iter_errors(orjson.loads(payload)):
            return {"number": number, "path": list(wrong.instance_path), "message": str(wrong.message)[:LONGEST]}
    return {}


def main() -> None:
    """Answer until stdin is closed: with the hub, however that ends."""
    longest_s = float(sys.argv[1])
    for line in sys.stdin.buffer:
        signal.setitimer(signal.ITIMER_PROF, longest_s)
        asked = orjson.loads(line)
        answered = orjson.dumps(answer(asked["schema"], asked["payloads"])) + b"\n"
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.buffer.write(answered)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
