"""The driver `gpu` against a program that prints what nvidia-smi prints."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path

import pytest

from hub.fleet.gpu import GpuDriver, GpuTable
from hub.fleet.nvidia import read_gpus
from hub.fleet.processes import Unwell
from tests.fleet.conftest import Machine
from tests.world import wait_until

RECORDED = Path(__file__).parent / "recorded"
USER = pwd.getpwuid(os.getuid()).pw_name
FAKE = """#!/bin/sh
case "$1" in
  --query-gpu=*) what=gpus ;;
  --list-gpus) what=list ;;
  --query-compute-apps=*) what=apps ;;
esac
cat "{folder}/$what.txt"
exit "$(cat "{folder}/status" 2>/dev/null || echo 0)"
"""


class Gpus:
    """A machine whose nvidia-smi prints what was recorded at another, and what a test changes of that."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "state"
        self.program = folder / "nvidia-smi"
        self.says("eight")
        self.program.write_text(FAKE.format(folder=self.folder))
        self.program.chmod(0o755)
        # Beside this the machine runs tests: only the one that hangs may take too long.
        self.driver = GpuDriver(self.table(timeout="30s"))

    def table(self, **check: object) -> GpuTable:
        return GpuTable.model_validate(
            {"label": "gpu:a100", "driver": "gpu", "path": str(self.program), "check": {"down_after": 2, **check}}
        )

    def says(self, name: str, status: int = 0) -> None:
        shutil.copytree(RECORDED / name, self.folder, dirs_exist_ok=True)
        (self.folder / "status").write_text(str(status))

    def runs(self, *programs: tuple[int, int, str]) -> None:
        """Let programs run: the index of a GPU, process id, and name of each."""
        cards = [line.split(", ")[1] for line in (self.folder / "gpus.txt").read_text().splitlines()]
        (self.folder / "apps.txt").write_text(
            "".join(f"{cards[card]}, {pid}, {name}\n" for card, pid, name in programs)
        )

    async def unwell(self, *lent: int) -> dict[int, str]:
        """Observe once; return index -> reason of the GPUs that must not be lent."""
        keys = {plan.index: plan.key for plan in await self.known()}
        seen = await self.driver.observe([keys[index] for index in lent])
        return {index: seen.unwell[key] for index, key in keys.items() if key in seen.unwell}

    async def known(self):
        return self.driver._plans() or await self.driver.slots()


@pytest.fixture
def gpus(tmp_path: Path) -> Gpus:
    return Gpus(tmp_path)


async def test_each_gpu_is_a_slot_with_its_facts(gpus: Gpus):
    plans = await gpus.driver.slots()
    assert [plan.index for plan in plans] == list(range(8))
    assert plans[3].key == plans[3].item == "GPU-5ec84d8d-bc74-2547-70f5-8904dba41ecc"
    assert plans[3].attributes == {
        "vram": 80, "model": "NVIDIA A100-SXM4-80GB", "driver": "550.127.08", "index": 3,
    }  # fmt: skip
    assert plans[3].members == {"uuid": plans[3].key}  # no attribute, for it is that of one slot alone
    assert await gpus.unwell() == {}


async def test_gpus_with_errors_or_off_the_bus_are_unwell_and_the_others_are_not(gpus: Gpus):
    plans = await gpus.driver.slots()
    gpus.says("errors")
    assert await gpus.unwell() == {
        2: "3 uncorrected memory errors since its driver was loaded",
        5: "nvidia-smi says that memory.total is [Unknown Error]",
        6: "nvidia-smi says that memory.total is [GPU requires reset]",
        7: "nvidia-smi does not list it any more",
    }
    assert (await gpus.driver.observe([])).slots == plans
    gpus.says("eight")
    assert await gpus.unwell() == {}


@pytest.mark.parametrize(("mib", "gb"), [("81559", 80), ("40536", 40), ("24564", 24), ("512", 0), ("[N/A]", 0)])
def test_the_memory_of_a_gpu_is_what_its_label_says(mib: str, gb: int):
    row = f"0, GPU-1, NVIDIA H100, 550.127.08, {mib}, [N/A], 0\n"
    assert read_gpus(row, "")["GPU-1"].vram == gb


@pytest.mark.parametrize(("state", "said"), [
    ("gone", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver"),
    ("mismatch", "NVML library version"),
])  # fmt: skip
async def test_a_driver_that_is_gone_makes_every_gpu_unwell_until_it_is_back(gpus: Gpus, state: str, said: str):
    await gpus.driver.slots()
    gpus.says(state, status=9)
    with pytest.raises(Unwell, match=said):
        await gpus.unwell()
    found = await gpus.unwell()
    assert sorted(found) == list(range(8))
    assert all(said in reason for reason in found.values())
    gpus.says("eight")
    assert await gpus.unwell() == {}


async def test_a_pool_whose_driver_is_gone_at_the_start_has_no_slots_yet(gpus: Gpus):
    gpus.says("gone", status=9)
    with pytest.raises(Unwell, match="communicate with the NVIDIA driver"):
        await gpus.driver.slots()


async def test_an_nvidia_smi_that_hangs_makes_every_gpu_unwell(gpus: Gpus):
    await gpus.driver.slots()
    gpus.program.write_text("#!/bin/sh\nexec sleep 600\n")
    gpus.driver.table = gpus.table(timeout="100ms", down_after=1)
    found = await gpus.unwell()
    assert sorted(found) == list(range(8))
    assert "did not end within 0.1 s" in found[0]


async def test_the_instances_of_a_divided_gpu_are_slots_and_one_without_instances_is_none(gpus: Gpus):
    gpus.says("mig")
    plans = await gpus.driver.slots()
    assert [(plan.index, plan.attributes["model"], plan.attributes["vram"]) for plan in plans if plan.index == 1] == [
        (1, "Tesla T4", 15)
    ]
    assert {(plan.attributes["model"], plan.attributes["vram"]) for plan in plans if plan.index == 0} == {
        ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 20),
        ("NVIDIA A100-SXM4-40GB MIG 2g.10gb", 10),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 5),
    }
    assert len(plans) == 4
    assert all(plan.key.startswith("MIG-") for plan in plans if plan.index == 0)


async def test_a_program_without_a_lease_holds_its_gpu_until_it_ends(gpus: Gpus):
    gpus.runs((4, os.getpid(), "/usr/bin/python3"), (5, 99_999_999, "/opt/other/train"))
    assert await gpus.unwell(5) == {}  # a lease may have begun a moment ago
    assert await gpus.unwell(5) == {4: f"used without a lease: python3 of {USER} (pid {os.getpid()})"}
    assert await gpus.unwell() == {4: f"used without a lease: python3 of {USER} (pid {os.getpid()})"}
    assert (await gpus.unwell())[5] == "used without a lease: train of an unknown user (pid 99999999)"
    gpus.runs()
    assert await gpus.unwell() == {}


async def test_a_program_on_a_divided_gpu_counts_while_none_of_its_instances_is_lent(gpus: Gpus):
    gpus.says("mig")
    plans = await gpus.driver.slots()
    gpus.runs((0, 99_999_999, "train"))
    instances = [plan.key for plan in plans if plan.index == 0]
    for _ in range(2):
        assert (await gpus.driver.observe(instances[:1])).unwell == {}
    for _ in range(2):
        seen = await gpus.driver.observe([])
    assert sorted(seen.unwell) == sorted(instances)


@pytest.mark.slow
def test_a_gpu_that_is_used_without_a_lease_is_held_at_the_hub_and_a_lent_one_is_not(gpus: Gpus, machine: Machine):
    machine.write(
        f'[[pools]]\nlabel = "gpu:a100"\ndriver = "gpu"\npath = "{gpus.program}"\n'
        'check = { every = "100ms", timeout = "30s" }\n'
    )
    machine.begin()
    machine.until_lendable(8)
    lease = machine.borrow("gpu:a100").json()
    used = lease["item"]["attributes"]["index"]
    stray = (used + 1) % 8
    gpus.runs((used, os.getpid(), "python3"), (stray, os.getpid(), "python3"))

    def held() -> dict[str, str]:
        return {slot: facts["held"] for slot, facts in machine.slots().items() if "held" in facts}

    def stray_is_held() -> bool:
        user = f"python3 of {USER} (pid {os.getpid()})"
        return [(slot != lease["browserId"], user in why) for slot, why in held().items()] == [(True, True)]

    wait_until(stray_is_held)  # the agent may hear of the lease only after the GPU is in use
    gpus.runs()
    wait_until(lambda: held() == {})
