"""The GPUs of a machine, and the programs that run on them, as `nvidia-smi` tells of them. No I/O."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

GPUS = (
    "index", "uuid", "name", "driver_version", "memory.total", "mig.mode.current",
    "ecc.errors.uncorrected.volatile.total",
)  # fmt: skip
APPS = ("gpu_uuid", "pid", "process_name")
# What stands in place of a value that could not be read; "[N/A]" and "[Not Supported]" are no errors.
_BROKEN = re.compile(r"Unknown Error|requires reset|is lost|ERR!")
_CARD = re.compile(r"GPU \d+: .+ \(UUID: (\S+)\)")
_INSTANCE = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+: \(UUID: (\S+)\)")
_MEMORY = re.compile(r"\.(\d+)gb")


@dataclass(frozen=True)
class Gpu:
    """A GPU, or an instance of one that MIG divides; `vram` is in GB, `fault` is empty while it is well."""

    uuid: str
    index: int
    model: str
    driver: str
    vram: int
    card: str
    """The UUID of the card that it is, or is a part of."""
    fault: str = ""


class App(NamedTuple):
    """A program that runs on a card."""

    card: str
    pid: int
    name: str


def read_gpus(table: str, names: str) -> dict[str, Gpu]:
    """Return uuid -> GPU from what the query for `GPUS` and `--list-gpus` print.

    The instances of a card that MIG divides stand in its place, with its index and its fault. A card whose UUID could
    not be read is left out.
    """
    found: dict[str, Gpu] = {}
    for row in _rows(table, len(GPUS)):
        index, uuid, model, driver, vram, mig, errors = row
        if not (index.isdigit() and uuid.startswith("GPU-")):
            continue
        fault = ""
        if broken := [f"{name} is {value}" for name, value in zip(GPUS, row, strict=True) if _BROKEN.search(value)]:
            fault = f"nvidia-smi says that {broken[0]}"
        elif errors.isdigit() and int(errors):
            fault = f"{errors} uncorrected memory errors since its driver was loaded"
        # Of what is on its label, as 80 GB, a card shows some less: 81559 MiB.
        card = Gpu(uuid, int(index), model, driver, round(int(vram) / 1024) if vram.isdigit() else 0, uuid, fault)
        found |= {gpu.uuid: gpu for gpu in (_instances(card, names) if mig == "Enabled" else [card])}
    return found


def read_apps(table: str) -> list[App]:
    """Return the programs from what the query for `APPS` prints."""
    return [App(card, int(pid), name.rpartition("/")[2]) for card, pid, name in _rows(table, 3) if pid.isdigit()]


def _instances(card: Gpu, names: str) -> Iterator[Gpu]:
    under = ""
    for line in names.splitlines():
        if whole := _CARD.match(line):
            under = whole[1]
        elif (part := _INSTANCE.match(line)) and under == card.uuid:
            memory = _MEMORY.search(part[1])
            vram = int(memory[1]) if memory else 0
            yield replace(card, uuid=part[2], model=f"{card.model} MIG {part[1]}", vram=vram)


def _rows(table: str, columns: int) -> Iterator[list[str]]:
    """Yield the rows with so many columns; other lines are messages."""
    for row in csv.reader(table.splitlines(), skipinitialspace=True):
        if len(row) == columns:
            yield [cell.strip() for cell in row]
