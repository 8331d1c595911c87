"""The program of the process that checks payloads against the schemas of jobs: a process can be killed when it hangs.

Its argument is the processor time that a request may take, in seconds; SIGPROF kills the process after that. A request
is a line on stdin: `{"schema": JSON text, "payloads": [JSON text, ...]}`. Its answer is a line on stdout: `{}` when all
payloads fit, `{"number", "path", "message"}` of the first fault, `{"broken": why}` for an invalid schema.
"""

from __future__ import annotations

import signal
import sys
from functools import lru_cache
from typing import Any

import orjson

KEPT = 256  # compiled schemas that are cached
LONGEST = 500  # characters of a message, which is cut because it may quote a whole payload


@lru_cache(maxsize=KEPT)
def compiled(schema: str) -> Any:
    """Return a validator of a JSON schema (draft 2020-12) that fetches no `$ref` from elsewhere. Raises ValueError for
    text that is no schema.
    """
    from jsonschema_rs import Draft202012Validator

    return Draft202012Validator(orjson.loads(schema), offline=True)


def answer(schema: str, payloads: list[str]) -> dict[str, Any]:
    """Check payloads (JSON texts) against a schema (JSON text) and return the answer to write.

    `{}` when all fit; `number`, `path` and `message` of the first fault; `broken` with the reason for a bad schema.
    """
    try:
        validator = compiled(schema)
    except Exception as error:  # noqa: BLE001 - the library may raise anything for a foreign document
        return {"broken": str(error).splitlines()[0][:LONGEST]}
    for number, payload in enumerate(payloads):
        for wrong in validator.iter_errors(orjson.loads(payload)):
            return {"number": number, "path": list(wrong.instance_path), "message": str(wrong.message)[:LONGEST]}
    return {}


def main() -> None:
    """Answer requests until stdin is closed, which also happens when the hub is killed."""
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
