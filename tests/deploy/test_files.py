"""Image, compose file, unit and manifest. Their texts are checked without a container engine."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from nearkin.service.server.http.tokens import TokenFile
from nearkin.service.server.processes import SHUTDOWN_GRACE
from nearkin.service.server.settings import PREFIX, ServerSettings
from nearkin.settings.keys import HashKey
from tests.deploy.conftest import DEPLOY
from tests.services import found

OTHER = {"NEARKIN_CACHE_DIR", "NEARKIN_CACHE_TRUSTED", "NEARKIN_CONFIG"}
"""Variables that are not settings of the server."""
MANIFESTS = {
    one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
}
POD = MANIFESTS["Deployment"]["spec"]["template"]["spec"]
UNITS = {"s": 1, "m": 60}


def settings_of(variables: dict[str, str]) -> ServerSettings:
    """Reads variables like a server. Each of them must be a known setting."""
    known = {PREFIX + name.upper() for name in ServerSettings.model_fields} | OTHER
    assert set(variables) <= known
    given = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in variables.items()
        if name not in OTHER
    }
    return ServerSettings.read(**given)


def steps() -> list[tuple[str, str]]:
    """Returns the instructions of the Dockerfile, in order."""
    text = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text())
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")
    ]
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines]


def seconds(text: str) -> int:
    """Returns the seconds of `45s` or `45`."""
    return int(text.rstrip("sm")) * UNITS.get(text[-1], 1)


def test_image_runs_without_root_and_has_no_secrets() -> None:
    every = steps()
    stages = [rest for step, rest in every if step == "FROM"]
    assert len(stages) == 2
    assert all(re.match(r"\$\{PYTHON_IMAGE\}( AS \w+)?$", stage) for stage in stages)
    base, version = [rest for step, rest in every if step == "ARG"]
    assert version == "NEARKIN_VERSION="
    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.\d+-slim", base), (
        "an image that can be pinned by --build-arg"
    )
    last = every[max(at for at, (step, _) in enumerate(every) if step == "FROM") :]
    assert [rest for step, rest in last if step == "USER"] == ["10001:10001"]
    assert last.index(("USER", "10001:10001")) < next(
        at for at, (step, _) in enumerate(last) if step == "ENTRYPOINT"
    )
    assert not [rest for step, rest in every if step == "ADD"]
    assert not re.search(
        r"nk_|https?://|index-url", " ".join(rest for step, rest in every if step == "RUN")
    )
    copied = {
        name
        for step, rest in every
        if step == "COPY" and "--from" not in rest
        for name in rest.split()[:-1]
    }
    assert copied == {
        "LICENSE",
        "README.md",
        "deploy/requirements.txt",
        "nearkin",
        "pyproject.toml",
        "scripts/compile_kernels.py",
    }


def test_image_contains_compiled_kernels() -> None:
    """They are compiled from its sources, with its Numba, before the package is installed."""
    runs = [rest for step, rest in steps() if step == "RUN"]
    (compiles,) = [at for at, run in enumerate(runs) if "scripts/compile_kernels.py" in run]
    (installs,) = [at for at, run in enumerate(runs) if "--no-build-isolation" in run]
    assert compiles < installs
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    assert lines.index("nearkin/compiled_kernels") > lines.index("!nearkin")


def requirements() -> dict[str, list[str]]:
    """Returns the hashes of each requirement `name==version` of the image."""
    text = (DEPLOY / "requirements.txt").read_text().replace("\\\n", " ")
    lines = [
        line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")
    ]
    return {words[0]: [word for word in words[1:] if word.startswith("--hash=")] for words in lines}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_each_package_of_the_image_has_a_hash() -> None:
    installs = [rest for step, rest in steps() if step == "RUN" and "pip install" in rest]
    assert ["--require-hashes" in one or "--no-index --no-deps" in one for one in installs] == [
        True,
        True,
    ]
    pinned = requirements()
    assert all(re.fullmatch(r"[a-z0-9-]+==[^\s]+", name) for name in pinned)
    assert all(
        hashes and all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes)
        for hashes in pinned.values()
    )
    assert "://" not in (DEPLOY / "requirements.txt").read_text(), "no registry is named"


def test_requirements_of_the_image_are_those_of_the_package() -> None:
    """Returns the direct and indirect requirements of the image, with the versions of the tests."""
    versions = {
        canonical(name): version
        for name, _, version in (one.partition("==") for one in requirements())
    }
    lines = [
        line
        for line in (DEPLOY.parent / "constraints.txt").read_text().splitlines()
        if "==" in line
    ]
    tested = {
        canonical(name): version for name, _, version in (line.partition("==") for line in lines)
    }
    assert {
        name: version
        for name, version in versions.items()
        if name in tested and tested[name] != version
    } == {}
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    open_names, seen = [("nearkin", frozenset({"server", "console", "redis", "postgres"}))], set()
    while open_names:
        name, extras = open_names.pop()
        if name == "nearkin":
            # its installed metadata may be those of an earlier tree
            texts = [
                *project["dependencies"],
                *(text for extra in extras for text in project["optional-dependencies"][extra]),
            ]
        else:
            texts = importlib.metadata.requires(name) or []
        for text in texts:
            needed = Requirement(text)
            if needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in extras or {""}
            ):
                key = (canonical(needed.name), frozenset(needed.extras))
                if key not in seen:
                    seen.add(key)
                    open_names.append(key)
    assert {name for name, _ in seen} <= set(versions)


def test_applying_the_folder_creates_no_secret() -> None:
    """Neither kubectl apply -f deploy/ nor -R reads a Secret: an empty key would replace the one
    that the index needs."""
    read = [path for path in DEPLOY.rglob("*") if path.suffix in (".yaml", ".yml", ".json")]
    assert DEPLOY / "kubernetes.yaml" in read
    for path in read:
        for one in yaml.safe_load_all(path.read_text()):
            assert not isinstance(one, dict) or one.get("kind") not in ("Secret", "List"), path


def test_images_can_be_pinned_by_digest(tmp_path: Path) -> None:
    """Runs the script that looks up digests, with a docker command that imitates the real one."""
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\necho sha256:{'a' * 64}\n")
    docker.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(
        [tmp_path / "deploy" / "pin-images.sh"], env=environment, check=True, capture_output=True
    )
    pinned = dict(
        line.partition("=")[::2] for line in (tmp_path / "deploy" / ".env").read_text().splitlines()
    )
    text = (DEPLOY / "compose.yaml").read_text()
    named = dict(re.findall(r"\$\{(\w+_IMAGE):-([^}]+)\}", text))
    assert set(named) == {"PYTHON_IMAGE", "REDIS_IMAGE", "PROMETHEUS_IMAGE", "GRAFANA_IMAGE"}
    assert pinned == {name: f"{image}@sha256:{'a' * 64}" for name, image in named.items()}
    images = [service["image"] for service in yaml.safe_load(text)["services"].values()]
    assert {image for image in images if not image.startswith("${")} == {"nearkin"}
    docker.write_text("#!/bin/sh\necho denied\n")
    failed = subprocess.run(
        [tmp_path / "deploy" / "pin-images.sh"], env=environment, capture_output=True, check=False
    )
    assert failed.returncode != 0
    assert "sha256" in (tmp_path / "deploy" / ".env").read_text(), "what was pinned before stays"


def test_image_has_health_check() -> None:
    (check,) = [rest for step, rest in steps() if step == "HEALTHCHECK"]
    command = json.loads(check[check.index("CMD") + 3 :])
    assert command[:2] == ["python", "-c"]
    compile(command[2], "healthcheck", "exec")
    assert "/healthz" in command[2]
    assert json.loads(dict(steps())["ENTRYPOINT"]) == ["nearkin"]
    assert json.loads(dict(steps())["CMD"]) == ["serve"]


def test_image_needs_no_writable_root_file_system() -> None:
    """All files that the server writes are in volumes: index, key, tokens and compiled kernels."""
    environment = " ".join(rest for step, rest in steps()[1:] if step == "ENV")
    variables = {
        name: value
        for name, value in re.findall(r"(\w+)=(\S+)", environment)
        if name.startswith(PREFIX)
    }
    volumes = next(json.loads(rest) for step, rest in steps() if step == "VOLUME")
    settings = settings_of(variables)
    written = [
        Path(settings.key_file),
        settings.tokens,
        Path(settings.store.removeprefix("sqlite:///")),
        Path(variables["NEARKIN_CACHE_DIR"]),
    ]
    assert {str(path.parent if path.suffix else path) for path in written} == set(volumes)


def test_secrets_are_excluded_from_the_build() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    assert "*" in lines
    assert {"**/*.key", "**/*.db", "**/*tokens*.json"} <= set(lines)


def test_compose_services_are_restricted_and_local() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services: dict[str, dict[str, Any]] = compose["services"]
    assert set(services) == {"init", "nearkin", "redis", "prometheus", "grafana"}
    server = services["nearkin"]
    settings = settings_of(server["environment"])
    assert settings.urls == ["redis://redis:6379/0"]
    assert server["command"] == ["serve", "--workers", "2"]
    assert server["read_only"] is True
    assert seconds(server["stop_grace_period"]) > SHUTDOWN_GRACE
    for service in services.values():
        assert service["cap_drop"] == ["ALL"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
        for volume in service.get("volumes", []):
            source, target = volume.split(":")[:2]
            assert source.startswith("./") or source in compose["volumes"], volume
            if source.startswith("./"):
                assert (DEPLOY / source).is_dir()
                assert volume.endswith(":ro"), target
    assert "--appendfsync" in services["redis"]["command"]
    assert not [
        value
        for service in services.values()
        for value in service.get("environment", {}).values()
        if "nk_" in value
    ]


def test_first_start_of_compose_makes_all_secrets(tmp_path: Path) -> None:
    """Runs the command of the init service as a process, with its volume as a folder."""
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    (mount,) = services["init"]["volumes"]
    volume, folder = mount.split(":")
    command = [
        str(tmp_path / "secrets") if word == folder else word
        for word in services["init"]["command"]
    ]
    done = [
        subprocess.run(
            [sys.executable, "-m", "nearkin", *command], capture_output=True, text=True, check=True
        )
        for _ in range(2)
    ]
    # the log of the first start shows the token, and later ones do not
    assert [len(one.stdout.split()) for one in done] == [1, 0]
    readers = {
        name for name, one in services.items() if f"{volume}:/run/nearkin:ro" in one["volumes"]
    }
    assert readers == {"nearkin", "prometheus", "grafana"}
    for name in readers:
        condition = services[name]["depends_on"]["init"]["condition"]
        assert condition == "service_completed_successfully"
    inside = "/run/nearkin/"
    environment = services["nearkin"]["environment"]
    tokens = TokenFile(tmp_path / "secrets" / environment["NEARKIN_TOKENS"].removeprefix(inside))
    operator = tokens.find(done[0].stdout.strip())
    assert operator is not None
    assert operator.has_right("admin")
    HashKey.read(str(tmp_path / "secrets" / environment["NEARKIN_KEY_FILE"].removeprefix(inside)))
    (scrape,) = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"]
    password = services["grafana"]["environment"]["GF_SECURITY_ADMIN_PASSWORD__FILE"]
    shared = [scrape["authorization"]["credentials_file"], password]
    files = [tmp_path / "secrets" / path.removeprefix(inside) for path in shared]
    scraper = tokens.find(files[0].read_text())
    assert scraper is not None
    assert scraper.rights == ("metrics",)
    # other users read them as members of the group of the image's user
    assert [path.stat().st_mode & 0o777 for path in files] == [0o640, 0o640]
    assert f"--gid {services['grafana']['group_add'][0]} " in (DEPLOY / "Dockerfile").read_text()
    assert services["prometheus"]["group_add"] == services["grafana"]["group_add"]


def unit() -> dict[str, list[str]]:
    """Returns the lines of the unit by name."""
    lines: dict[str, list[str]] = {}
    for line in (DEPLOY / "nearkin.service").read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            lines.setdefault(name, []).append(value)
    return lines


def test_systemd_unit_is_restricted() -> None:
    lines = unit()
    restrictions = {
        "ProtectSystem": "strict",
        "NoNewPrivileges": "yes",
        "User": "nearkin",
        "StateDirectory": "nearkin",
        "UMask": "0077",
    }
    assert {name: lines[name] for name in restrictions} == {
        name: [value] for name, value in restrictions.items()
    }
    # compiled kernels are written and then run
    assert "MemoryDenyWriteExecute" not in lines
    assert seconds(lines["TimeoutStopSec"][0]) > SHUTDOWN_GRACE
    assert "NEARKIN_CACHE_DIR=/var/cache/nearkin" in lines["Environment"][0]
    assert lines["CacheDirectory"] == ["nearkin"]


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    program = found("systemd-analyze")
    if program is None:
        pytest.skip(
            "systemd-analyze is not installed (apt-get install systemd); the unit was read, not "
            "verified"
        )
    # the command is not where the unit expects it on this machine, which is all that may be found
    # fault with
    copy = tmp_path / "nearkin.service"
    copy.write_text(
        (DEPLOY / "nearkin.service").read_text().replace("/opt/nearkin/bin/nearkin", "/bin/true")
    )
    done = subprocess.run(
        [program, "verify", "--man=no", str(copy)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stderr.splitlines() if "nearkin.service" in line], done.stderr


def test_settings_of_the_unit_are_valid() -> None:
    settings = ServerSettings.read(DEPLOY / "nearkin.toml")
    assert settings.is_local
    assert {str(path.parent) for path in (Path(settings.key_file), settings.tokens)} == {
        "/var/lib/nearkin"
    }
    assert settings.index_settings({}).threshold == 0.8


def test_probes_and_grace_period_fit_the_server() -> None:
    (server,) = POD["containers"]
    paths = {
        name: server[name]["httpGet"]["path"]
        for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert paths == {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }
    (port,) = server["ports"]
    assert {server[name]["httpGet"]["port"] for name in paths} == {port["name"]}
    waits = int(server["lifecycle"]["preStop"]["exec"]["command"][1])
    assert POD["terminationGracePeriodSeconds"] > SHUTDOWN_GRACE + waits


def test_pods_are_restricted() -> None:
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert POD["automountServiceAccountToken"] is False
    for container in (*POD["initContainers"], *POD["containers"]):
        closed = container["securityContext"]
        assert closed["readOnlyRootFilesystem"] is True
        assert closed["allowPrivilegeEscalation"] is False
        assert closed["capabilities"] == {"drop": ["ALL"]}
        assert set(container["resources"]) == {"requests", "limits"}
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted <= {volume["name"] for volume in POD["volumes"]}
    # a Service of this name would otherwise set NEARKIN_PORT to tcp://…
    assert POD["enableServiceLinks"] is False


def test_each_written_folder_has_a_volume() -> None:
    (server,) = POD["containers"]
    writable = {mount["mountPath"] for mount in server["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {"/var/lib/nearkin", "/var/cache/nearkin", "/tmp"}


def test_keys_and_tokens_come_from_the_secret() -> None:
    secret = yaml.safe_load((DEPLOY / "kubernetes-secret.yaml.example").read_text())
    (server,) = POD["containers"]
    values = [one["valueFrom"]["secretKeyRef"] for one in server["env"] if "valueFrom" in one]
    (volume,) = [one["secret"] for one in POD["volumes"] if "secret" in one]
    assert {volume["secretName"], *(one["name"] for one in values)} == {secret["metadata"]["name"]}
    assert {item["key"] for item in volume["items"]} | {one["key"] for one in values} == set(
        secret["stringData"]
    )
    assert not any(secret["stringData"].values())
    # the server refuses a key that others can read, and files of a Secret can be read by their
    # group
    (first,) = POD["initContainers"]
    assert first["command"][:3] == ["install", "-m", "0600"]
    plain = {one["name"]: one["value"] for one in server["env"] if "value" in one}
    settings = settings_of(plain)
    assert first["command"][-1] == settings.key_file
    given = {one["name"] for one in server["env"]}
    assert {"NEARKIN_STORE", "NEARKIN_KEY_FILE", "NEARKIN_TOKENS"} <= given


def test_labels_and_selectors_agree() -> None:
    labels = MANIFESTS["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert MANIFESTS["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert MANIFESTS["Service"]["spec"]["selector"] == labels
    assert MANIFESTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert (
        MANIFESTS["PodDisruptionBudget"]["spec"]["minAvailable"]
        < MANIFESTS["Deployment"]["spec"]["replicas"]
    )
    assert (
        MANIFESTS["Service"]["spec"]["ports"][0]["targetPort"]
        == POD["containers"][0]["ports"][0]["name"]
    )
    spaces = {
        one["metadata"]["namespace"] for one in MANIFESTS.values() if one["kind"] != "Namespace"
    }
    assert spaces == {MANIFESTS["Namespace"]["metadata"]["name"]}
