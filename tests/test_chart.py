"""`deploy/kubernetes/` as a chart of Helm: what values it takes, and that it leads to the same manifests."""

from __future__ import annotations

import copy
import shutil
import subprocess
from typing import Any

import jsonschema_rs
import orjson
import pytest
import yaml

from hub import __version__
from tests.test_kubernetes import CUSTOM, HERE, VERSIONS, Object, containers, of, refused, rendered

HELM = shutil.which("helm")
SCHEMA = orjson.loads((HERE / "values.schema.json").read_bytes())
VALUES = yaml.safe_load((HERE / "values.yaml").read_text())
EVERYTHING = {"keda": True, "gate": 2, "serviceMonitor": True, "jobs": "my_jobs:jobs"}


def with_values(**changes: Any) -> dict[str, Any]:
    """Return the values of the chart with others at `a__b`."""
    values = copy.deepcopy(VALUES)
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = values
        for parent in parents:
            place = place[int(parent)] if isinstance(place, list) else place[parent]
        place[last] = value
    return values


def templated(values: dict[str, Any], namespace: str = "capacity-hub") -> list[Object]:
    """Return the objects that the chart renders."""
    if HELM is None:
        pytest.skip("there is no helm here, which renders charts")
    done = subprocess.run(
        [HELM, "template", "capacity-hub", str(HERE), "--namespace", namespace, "--values", "-"],
        input=orjson.dumps(values).decode(), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def test_the_chart_has_the_version_of_the_hub():
    chart = yaml.safe_load((HERE / "Chart.yaml").read_text())
    assert chart["version"] == VALUES["image"]["tag"] == __version__


def test_the_values_of_the_chart_fit_its_schema():
    validator = jsonschema_rs.validator_for(SCHEMA)
    for values in (VALUES, with_values(**EVERYTHING), with_values(hub__env={"HUB_NODE_TIMEOUT": "20"})):
        assert [error.message for error in validator.iter_errors(values)] == []
    assert SCHEMA["required"] == list(VALUES)


@pytest.mark.parametrize(
    "change",
    [
        {"hubs": 3},
        {"hub__replicas": 0},
        {"hub__replicas": "2"},
        {"hub__env": {"HUB_ADMIN_SECRET": "in the open"}},
        {"hub__env": {"HUB_REDIS_URL": "redis://:in-the-open@redis"}},
        {"hub__env": {"HUB_NODE_TIMEOUT": 20}},
        {"image__tag": "0.1.0\n"},
        {"pools__0__replicas": 0},
        {"pools__0__slots": 0},
        {"pools__0__label": "gpu a100"},
        {"pools__0__name": "GPU"},
        {"jobs": "my_jobs"},
        {"keda": "yes"},
    ],
    ids=str,
)
def test_values_that_do_not_fit_the_schema_are_refused(change):
    assert not jsonschema_rs.validator_for(SCHEMA).is_valid(with_values(**change))


def comparable(objects: list[Object]) -> dict[tuple[str, str], Object]:
    found = {}
    for each in copy.deepcopy(objects):
        if each["kind"] == "Deployment":
            (container,) = each["spec"]["template"]["spec"]["containers"]
            container["image"] = "the image"  # the overlay has two
        found[each["kind"], each["metadata"]["name"]] = each
    return found


def test_with_every_option_on_the_chart_equals_the_full_overlay():
    chart, overlay = comparable(templated(with_values(**EVERYTHING))), comparable(rendered("full"))
    del overlay["Namespace", "capacity-hub"]  # `helm install --create-namespace`
    deployment = overlay["Deployment", "capacity-hub-worker"]
    assert deployment["spec"]["replicas"] == VALUES["workers"]
    assert chart == overlay


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_accepts_what_the_chart_renders(version):
    for values in (VALUES, with_values(**EVERYTHING)):
        assert {name.split()[0] for name in refused(templated(values), version)} <= CUSTOM


def test_values_of_the_chart_appear_in_the_right_objects():
    pools = [
        {"name": "gpu", "label": "gpu:h100", "slots": 8, "replicas": 2, "most": 3},
        {"name": "browser", "label": "browser:chromium", "slots": 2, "replicas": 1, "most": 40},
    ]
    values = with_values(hub__replicas=3, hub__env={"HUB_NODE_TIMEOUT": "20"}, pools=pools, keda=True)
    objects = templated(values | {"nodesNamespace": "lenders"}, "fleet")
    hub, *_ = [each for each in containers(objects) if each["name"] == "hub"]
    env = {each["name"]: each.get("value") for each in hub["env"]}
    assert (env["HUB_ALLOWED_HOSTS"], env["HUB_NODE_TIMEOUT"]) == ("capacity-hub,capacity-hub.fleet", "20")
    assert of("Deployment", objects)["capacity-hub"]["spec"]["replicas"] == 3
    assert [of(kind, objects).keys() for kind in ("Namespace", "ServiceAccount")] == [
        {"lenders"},
        {"capacity-hub-node"},
    ]
    for pool in pools:
        (agent,) = of("Deployment", objects)[pool["name"]]["spec"]["template"]["spec"]["containers"]
        assert f"--slots={pool['label']}={pool['slots']}" in agent["command"]
        assert "--url=http://capacity-hub.fleet:8080" in agent["command"]
        scaled = of("ScaledObject", objects)[pool["name"]]["spec"]
        (trigger,) = scaled["triggers"]
        assert trigger["metadata"]["targetValue"] == str(pool["slots"])
        assert f"http://capacity-hub.fleet:8080/autoscale/{pool['label']}?" in trigger["metadata"]["url"]
        assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (pool["replicas"], pool["most"])
        assert scaled["minReplicaCount"] <= scaled["fallback"]["replicas"] <= scaled["maxReplicaCount"]
    (subject,) = of("RoleBinding", objects)["capacity-hub-node"]["subjects"]
    assert subject["namespace"] == "lenders"
