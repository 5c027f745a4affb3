"""The example for Kubernetes: it parses, and says what the documentation says."""

import re
from collections.abc import Mapping

import pytest
import yaml  # type: ignore[import-untyped] # no type information is shipped with it

from service.settings import Settings
from service.surfaces.cli.program import ENTRIES
from tests.packaging.container import stages
from tests.packaging.test_container_files import unknown
from tests.packaging.wheels import ROOT

PAGE = (ROOT / "docs" / "kubernetes.md").read_text("utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
MANIFESTS = [manifest for block in BLOCKS for manifest in yaml.safe_load_all(block)]
PARTS = {"citewell": "read", "citewell-worker": "on"}


def named(kind: str, name: str = "citewell") -> Mapping[str, Mapping[str, object]]:
    """The manifest of a kind and a name."""
    (found,) = [
        manifest
        for manifest in MANIFESTS
        if manifest["kind"] == kind and manifest["metadata"]["name"] == name
    ]
    assert isinstance(found, dict)
    return found


def pod(name: str):  # type: ignore[no-untyped-def] # YAML
    """The pod of a Deployment."""
    return named("Deployment", name)["spec"]["template"]["spec"]  # type: ignore[index]


def test_what_there_is() -> None:
    """The example has every part that the text speaks of."""
    assert sorted(manifest["kind"] for manifest in MANIFESTS) == sorted(
        [
            *("Secret", "ConfigMap", "Deployment", "Deployment", "Service", "PodDisruptionBudget"),
            "ServiceMonitor",
        ]
    )


@pytest.mark.parametrize("name", PARTS)
def test_variables_are_settings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every variable is a setting, and its value is one that the settings take."""
    (container,) = pod(name)["containers"]
    variables = dict(named("ConfigMap")["data"])
    secret = named("Secret")["stringData"]
    for entry in container["env"]:
        reference = entry.get("valueFrom", {}).get("secretKeyRef")
        variables[entry["name"]] = entry["value"] if reference is None else secret[reference["key"]]
    assert unknown(set(variables)) == set()
    for variable, value in variables.items():
        monkeypatch.setenv(variable, str(value))
    settings = Settings()
    assert settings.vectors.value == PARTS[name]
    assert container["args"][0] in ENTRIES


@pytest.mark.parametrize("name", PARTS)
def test_least_rights(name: str) -> None:
    """Pods are not root, cannot write to their root, and mount what they write to."""
    image_user = stages(ROOT / "Dockerfile")[-1].one("USER").split(":")[0]
    spec = pod(name)
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert str(spec["securityContext"]["runAsUser"]) == image_user
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in spec["volumes"]}
    assert set(mounts.values()) == {"/data", "/tmp"}  # noqa: S108 - of the pod


def test_probes() -> None:
    """Liveness and readiness ask the paths that the service has, at the port that it opens."""
    (container,) = pod("citewell")["containers"]
    paths = {
        probe: container[probe]["httpGet"]["path"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert paths == {
        "startupProbe": "/health/live",
        "livenessProbe": "/health/live",
        "readinessProbe": "/health/ready",
    }
    (port,) = container["ports"]
    assert port["containerPort"] == Settings.model_fields["port"].default


def test_there_is_time_to_stop() -> None:
    """The grace period is longer than the wait before the stop and the draining together."""
    spec = pod("citewell")
    (container,) = spec["containers"]
    waited = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    drained = int(str(named("ConfigMap")["data"]["CITEWELL_DRAIN_SECONDS"]))
    assert spec["terminationGracePeriodSeconds"] > waited + drained


def test_selectors_select() -> None:
    """Service, budget and Deployments choose the labels that their pods have."""
    for name in PARTS:
        spec = named("Deployment", name)["spec"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]  # type: ignore[index]
    labels = named("Deployment")["spec"]["template"]["metadata"]["labels"]  # type: ignore[index]
    assert named("Service")["spec"]["selector"] == labels
    assert named("PodDisruptionBudget")["spec"]["selector"] == {"matchLabels": labels}
    assert int(str(named("PodDisruptionBudget")["spec"]["minAvailable"])) < int(
        str(named("Deployment")["spec"]["replicas"])
    )
