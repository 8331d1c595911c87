"""`deploy/kubernetes/` against Kubernetes as its schemas know it, against itself, and against the hub."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer.main
import yaml

from hub.api.server import GRACEFUL_S
from hub.cli.app import app
from hub.client import pod_annotations
from hub.client.trust import TLS_NAMES
from hub.settings.model import knobs
from hub.settings.sources import CLIENT_NAMES

HERE = Path(__file__).parent.parent / "deploy" / "kubernetes"
VERSIONS = ("1.33", "1.35", "1.37")
# Of the operators that the overlay `full` is for; Kubernetes has no schema of them.
CUSTOM = {"ScaledObject", "ClusterTriggerAuthentication", "ServiceMonitor"}
KUBECTL = shutil.which("kubectl")
SOURCES = sorted(path for path in HERE.glob("*/**/*.yaml") if path.name not in ("kustomization.yaml", "all.yaml"))
OVERLAYS = sorted(path.name for path in (HERE / "overlays").iterdir())

Object = dict[str, Any]


@cache
def written() -> list[Object]:
    """Return everything as it is in the files."""
    return [each for path in SOURCES for each in yaml.safe_load_all(path.read_text())]


@cache
def rendered(overlay: str) -> list[Object]:
    """Return an overlay as it reaches the cluster."""
    if KUBECTL is None:
        pytest.skip("there is no kubectl here, which renders overlays")
    command = [KUBECTL, "kustomize", str(HERE / "overlays" / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def of(kind: str, among: list[Object] | None = None) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in among or written() if each["kind"] == kind}


def pods(among: list[Object] | None = None) -> dict[str, Object]:
    """Deployment -> its pods."""
    return {name: each["spec"]["template"] for name, each in of("Deployment", among).items()}


def containers(among: list[Object] | None = None) -> list[Object]:
    return [each for pod in pods(among).values() for each in pod["spec"]["containers"]]


def refused(objects: list[Object], version: str) -> dict[str, str]:
    """Return what this version of Kubernetes would refuse, and why."""
    found = {}
    for each in objects:
        name = f"{each['kind']} {each['metadata']['name']}"
        try:
            kubernetes_validate.validate(each, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            found[name] = error.message
        except kubernetes_validate.SchemaNotFoundError:
            found[name] = "unknown"
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_accepts_every_manifest(version):
    odd = refused(written(), version)
    assert {name.split()[0] for name in odd} == CUSTOM
    assert set(odd.values()) == {"unknown"}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_check_of_manifests_finds_a_misspelt_field(version):
    wrong = copy.deepcopy(of("Deployment")["capacity-hub"])
    wrong["spec"]["template"]["spec"]["terminationGraceSeconds"] = 30
    assert "terminationGraceSeconds" in refused([wrong], version)["Deployment capacity-hub"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kubernetes_accepts_every_rendered_overlay(overlay):
    objects = rendered(overlay)
    for version in VERSIONS:
        assert {name.split()[0] for name in refused(objects, version)} == (CUSTOM if overlay == "full" else set())
    assert [
        each["image"] for each in containers(objects) if not re.search(r"/[\w-]+:\d+\.\d+\.\d+$", each["image"])
    ] == []
    namespaces = set(of("Namespace", objects))
    elsewhere = {"Namespace", "ClusterTriggerAuthentication"}
    elsewhere |= {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert {each["metadata"]["namespace"] for each in objects if each["kind"] not in elsewhere} == namespaces


def test_hubs_and_executors_name_the_same_internal_jobs():
    objects = rendered("full")
    offered = [
        (each["image"], {env["name"]: env.get("value") for env in each["env"]}.get("HUB_INTERNAL_JOBS"))
        for each in containers(objects)
        if each["name"] in ("hub", "worker")
    ]
    assert len(offered) == 2
    assert len(set(offered)) == 1
    assert None not in offered[0]


@pytest.mark.parametrize("path", sorted(HERE.rglob("kustomization.yaml")), ids=lambda path: path.parent.name)
def test_overlays_name_existing_files_and_objects(path):
    said = yaml.safe_load(path.read_text())
    for name in said.get("resources", []) + said.get("components", []):
        there = path.parent / name
        assert there.is_file() or (there / "kustomization.yaml").is_file(), name


def test_every_manifest_is_used_by_an_overlay():
    assert len(rendered("full")) == len(written())


def test_pods_fit_the_restricted_security_profile():
    for name in of("Namespace").values():
        assert name["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for name, each in pods().items():
        context = each["spec"]["securityContext"]
        assert (context["runAsNonRoot"], context["seccompProfile"]) == (True, {"type": "RuntimeDefault"}), name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & each["spec"].keys()
        kinds = {kind for volume in each["spec"]["volumes"] for kind in volume if kind != "name"}
        assert kinds <= {"emptyDir", "secret"}
    for each in containers():
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip


def test_no_manifest_contains_a_secret():
    secret = {knob.name for knob in knobs().values() if knob.secret} | {"HUB_REDIS_URL"}
    env = [each for container in containers() for each in container.get("env", [])]
    assert {each["name"] for each in env if "secretKeyRef" in each.get("valueFrom", {})} >= {
        "HUB_REDIS_URL", "HUB_RUNNER_SECRET", "HUB_ADMIN_SECRET",
    }  # fmt: skip
    assert [each["name"] for each in env if each["name"] in secret and "value" in each] == []


def test_every_variable_in_a_manifest_is_read_by_the_program():
    known = (
        {name for knob in knobs().values() for name in (knob.name, *knob.aliases)} | set(TLS_NAMES) | {*CLIENT_NAMES}
    )
    named = {each["name"] for container in containers() for each in container.get("env", [])}
    assert named - known == {"POD_NAME", "POD_NAMESPACE"}


def words(command: list[str]) -> list[str]:
    """Return the words of a command, also of one that a shell is given."""
    return re.split(r"\s+", command[2].removeprefix("exec ")) if command[:2] == ["sh", "-c"] else command


def test_every_command_and_option_in_a_manifest_exists():
    commands = [each["command"] for each in containers() if "command" in each]
    commands += [each["lifecycle"]["preStop"]["exec"]["command"] for each in containers() if "lifecycle" in each]
    verbs = set()
    for command in map(words, commands):
        if command[0] == "sleep":
            continue
        assert command[0] == "hub"
        hub = typer.main.get_command(app)
        _, found, _ = hub.resolve_command(typer.Context(hub), command[1:])
        known = {option for parameter in found.params for option in parameter.opts}
        assert {word.split("=")[0] for word in command[2:] if word.startswith("--")} - known == set()
        verbs.add(command[1])
    assert verbs == {"agent", "drain", "gate", "internal-worker"}


def test_every_object_that_a_manifest_refers_to_exists():
    labels = {name: each["metadata"]["labels"].items() for name, each in pods().items()}
    for name, each in of("Deployment").items():
        assert each["spec"]["selector"]["matchLabels"].items() <= labels[name]
    hub = labels["capacity-hub"]
    (budget,) = of("PodDisruptionBudget").values()
    assert budget["spec"]["selector"]["matchLabels"].items() <= hub
    services, policies = of("Service"), of("NetworkPolicy")
    assert services.keys() == policies.keys() == {"capacity-hub", "capacity-hub-gate"}
    for name, service in services.items():
        assert service["spec"]["selector"].items() <= labels[name]
        assert policies[name]["spec"]["podSelector"]["matchLabels"].items() <= labels[name]
    service = services["capacity-hub"]
    (monitor,), (scaled,) = of("ServiceMonitor").values(), of("ScaledObject").values()
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert {each["port"] for each in monitor["spec"]["endpoints"]} <= {
        each["name"] for each in service["spec"]["ports"]
    }
    assert scaled["spec"]["scaleTargetRef"]["name"] in of("Deployment")
    (trigger,) = scaled["spec"]["triggers"]
    assert trigger["authenticationRef"]["name"] in of(trigger["authenticationRef"]["kind"])
    (binding,) = of("RoleBinding").values()
    assert binding["roleRef"]["name"] in of("Role")
    assert {each["name"] for each in binding["subjects"]} == set(of("ServiceAccount"))


def test_nodes_and_the_autoscaler_may_reach_the_hubs():
    callers = of("NetworkPolicy")["capacity-hub"]["spec"]["ingress"][0]["from"][1]["namespaceSelector"]["matchLabels"]
    assert callers.items() <= of("Namespace")["capacity-hub-nodes"]["metadata"]["labels"].items()
    (allowed,) = [
        each["value"]
        for each in pods()["capacity-hub"]["spec"]["containers"][0]["env"]
        if each["name"] == "HUB_ALLOWED_HOSTS"
    ]
    urls = set(re.findall(r"http://([\w.-]+):8080", "".join(path.read_text() for path in SOURCES)))
    assert urls <= set(allowed.split(","))


def test_a_pool_is_scaled_by_its_wanted_slots_and_never_to_zero():
    (scaled,) = of("ScaledObject").values()
    command = pods()[scaled["spec"]["scaleTargetRef"]["name"]]["spec"]["containers"][0]["command"]
    (slots,) = [word.removeprefix("--slots=") for word in command if word.startswith("--slots=")]
    label, count = slots.split("=")
    (trigger,) = scaled["spec"]["triggers"]
    assert f"/autoscale/{label}?" in trigger["metadata"]["url"]
    assert trigger["metadata"]["targetValue"] == count
    assert scaled["spec"]["minReplicaCount"] >= 1
    assert scaled["spec"]["fallback"]["behavior"] == "currentReplicasIfHigher"
    assert "replicas" not in of("Deployment")["gpu-a100-eu"]["spec"]


def test_the_example_scales_workers_by_their_number_of_concurrent_tasks():
    (scaled,) = yaml.safe_load_all((HERE / "workers-keda.yaml").read_text())
    workers = of("Deployment")[scaled["spec"]["scaleTargetRef"]["name"]]
    assert scaled["metadata"]["namespace"] == workers["metadata"]["namespace"]
    assert scaled["spec"]["minReplicaCount"] >= 1
    (trigger,) = scaled["spec"]["triggers"]
    (command,) = [each["command"] for each in workers["spec"]["template"]["spec"]["containers"]]
    assert f"--concurrency={trigger['metadata']['targetValue']}" in command
    (pool,) = of("ScaledObject").values()
    (alike,) = pool["spec"]["triggers"]
    host = re.compile(r"^http://([\w.-]+):8080/autoscale/")
    assert host.match(trigger["metadata"]["url"])[1] == host.match(alike["metadata"]["url"])[1]
    assert re.search(r"/autoscale/jobs/@internal:[^:?]+:[^:?]+\?headroom=1$", trigger["metadata"]["url"])
    assert trigger["authenticationRef"] == alike["authenticationRef"]
    same = ("valueLocation", "authMode", "method", "keyParamName")
    assert [trigger["metadata"][name] for name in same] == [alike["metadata"][name] for name in same]


def test_a_node_knows_its_pod_and_may_only_patch_pods():
    found = pods()["gpu-a100-eu"]["spec"]
    env = {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in found["containers"][0]["env"]}
    assert env == {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
    assert found["automountServiceAccountToken"] is True
    assert found["serviceAccountName"] in of("ServiceAccount")
    assert of("Role")["capacity-hub-node"]["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}]
    assert pod_annotations.ACCOUNT.name == "serviceaccount"
    assert [name for name, each in pods().items() if each["spec"]["automountServiceAccountToken"]] == ["gpu-a100-eu"]


def test_the_token_of_a_pod_may_patch_only_that_pod():
    (account,) = of("RoleBinding")["capacity-hub-node"]["subjects"]
    (name, policy), *others = of("ValidatingAdmissionPolicy").items()
    assert not others
    spec = policy["spec"]
    (condition,) = spec["matchConditions"]
    who = f"system:serviceaccount:{account['namespace']}:{account['name']}"
    assert condition["expression"] == f"request.userInfo.username == '{who}'"
    assert spec["failurePolicy"] == "Fail"
    (matched,) = spec["matchConstraints"]["resourceRules"]
    assert (matched["resources"], matched["operations"]) == (["pods"], ["UPDATE"])
    (validation,) = spec["validations"]
    assert "'authentication.kubernetes.io/pod-name'] == [request.name]" in validation["expression"]
    (binding,) = of("ValidatingAdmissionPolicyBinding").values()
    assert binding["spec"] == {"policyName": name, "validationActions": ["Deny"]}


def test_containers_have_enough_time_to_stop():
    grace = {name: each["spec"]["terminationGracePeriodSeconds"] for name, each in pods().items()}
    commands = {each["name"]: " ".join(each.get("command", [])) for each in containers()}
    (hub,) = [each for each in containers() if each["name"] == "hub"]
    pause = int(hub["lifecycle"]["preStop"]["exec"]["command"][1])
    assert grace["capacity-hub"] > pause + GRACEFUL_S
    assert grace["capacity-hub-gate"] > pause + GRACEFUL_S
    (deadline,) = re.findall(r"--deadline=(\d+)m", (HERE / "nodes" / "nodes.yaml").read_text())
    assert grace["gpu-a100-eu"] > 60 * int(deadline)
    (left,) = re.findall(r"--grace=(\d+)", commands["worker"])
    assert grace["capacity-hub-worker"] > int(left)
