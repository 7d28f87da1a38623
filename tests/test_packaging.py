"""Tests of what pyproject.toml promises: extras, metadata, and the hints that name extras."""

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import distribution, packages_distributions, version
from pathlib import Path

import pytest
import setuptools_scm
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]
EXTRAS = PROJECT["optional-dependencies"]
USER_EXTRAS = [EXTRAS[name] for name in EXTRAS if name not in ("docs", "dev", "full")]
DATED = r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d"
"""The heading of a release in the changelog: its version and its date."""


def extras_in_hints() -> set[str]:
    """Returns the names of extras in the calls of `MissingExtraError.for_extra`."""
    found = set()
    for path in (ROOT / "nearkin").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "for_extra"
                and isinstance(node.args[1], ast.Constant)
            ):
                found.add(node.args[1].value)
    return found


def test_hints_name_extras_that_exist() -> None:
    assert {"pandas", "server", "client", "redis"} <= extras_in_hints() <= set(EXTRAS)


@pytest.mark.parametrize("folder", ["nearkin", "docs", "README.md", "deploy"])
def test_no_hint_installs_an_unpublished_package(folder: str) -> None:
    paths = [ROOT / folder] if (ROOT / folder).is_file() else (ROOT / folder).rglob("*.*")
    for path in paths:
        # the site may be built while the tests run
        is_source = {"_build", "_generated"}.isdisjoint(path.parts)
        if is_source and path.suffix in {".py", ".md", ".html", ".yaml", ".sh"}:
            assert not re.search(r"pip install [\"']?nearkin", path.read_text()), path


def test_large_libraries_are_extras_of_their_own() -> None:
    required = [re.split(r"[<>=\[]", one)[0] for one in PROJECT["dependencies"]]
    assert not {"matplotlib", "pandas", "pyspark"} & set(required)
    assert [one.partition(">")[0] for one in EXTRAS["plot"]] == ["matplotlib"]


FRAMEWORKS = {"datatrove", "langchain", "llama-index", "haystack", "ray"}
"""The extras of `nearkin.integrations`, whose users have the frameworks already."""


def test_all_has_every_extra_of_users_but_aerospike_and_frameworks() -> None:
    (line,) = EXTRAS["all"]
    named = set(re.findall(r"[a-z]+", line.partition("[")[2]))
    assert named == set(EXTRAS) - {"all", "docs", "dev", "full", "aerospike"} - FRAMEWORKS


def list_required(extra: str) -> set[str]:
    """Returns the packages that an extra installs here, with those that they need."""
    pending = [Requirement(one) for one in [*PROJECT["dependencies"], *EXTRAS[extra]]]
    met: set[tuple[str, str]] = set()
    names: set[str] = set()
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        for chosen in ("", *requirement.extras):
            if (name, chosen) in met:
                continue
            met.add((name, chosen))
            if name == "nearkin":
                pending += [Requirement(one) for one in EXTRAS.get(chosen, ())]
                continue
            names.add(name)
            needed = [Requirement(one) for one in distribution(name).requires or ()]
            pending += [
                one for one in needed if not one.marker or one.marker.evaluate({"extra": chosen})
            ]
    return names


def test_constraints_pin_every_package_that_tests_install() -> None:
    lines = (ROOT / "constraints.txt").read_text().split()
    pinned = {canonicalize_name(line.partition("==")[0]) for line in lines}
    assert list_required("dev") <= pinned


def test_metadata_name_authors_and_versions_of_python() -> None:
    assert PROJECT["authors"] == [{"name": "The nearkin authors"}]
    minors = [one for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)]
    assert len(minors) >= 2
    assert minors[0].endswith(PROJECT["requires-python"].removeprefix(">="))


@pytest.mark.parametrize("command", ["tune", "eval"])
def test_missing_matplotlib_is_reported_before_the_work(command: str, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("a,b,label\n")
    arguments = {"tune": ["tune"], "eval": ["eval", "run", "--golden", "labels.csv"]}[command]
    code = (
        "import sys; sys.modules['matplotlib'] = None; "
        f"from nearkin.cli import app; sys.exit(app.run({[*arguments, '--plot', 'p.svg']!r}))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert 'plots require matplotlib; run pip install ".[plot]"' in ended.stderr
    assert "Traceback" not in ended.stderr


def test_source_distribution_has_tests_and_docs(tmp_path: Path) -> None:
    """A distribution of what Git tracks has the files that Git tracks."""
    if int(version("setuptools").partition(".")[0]) < 77:
        pytest.skip("this setuptools cannot build the project; make test installs a newer one")
    command = ["git", "ls-files"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a clone")
    source = tmp_path / "source"
    for name in listed.stdout.splitlines():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)
    code = "from setuptools import build_meta; print(build_meta.build_sdist('..'))"
    subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, check=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        packed = {name.partition("/")[2] for name in files.getnames()}
    ignored = (".git", "MANIFEST.in")
    missing = {name for name in listed.stdout.splitlines() if not name.startswith(ignored)} - packed
    assert missing == set()
    assert not [name for name in packed if name.endswith((".pyc", ".key", ".db"))]


def test_wheel_has_compiled_kernels_and_the_source_distribution_has_not(tmp_path: Path) -> None:
    """Those of a source distribution would be for one processor and one Python."""
    source = tmp_path / "source"
    code = source / "nearkin" / "compiled_kernels" / "x86-64-v3-abc"
    code.mkdir(parents=True)
    (code / "kernel-1.z").write_bytes(b"code")
    (code.parent / "versions.json").write_text("{}")
    (source / "nearkin" / "__init__.py").touch()
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, source / name)
    build = "from setuptools import build_meta; build_meta.{}('..')"
    variables = {**os.environ, "SETUPTOOLS_SCM_PRETEND_VERSION_FOR_NEARKIN": "1.0"}
    for name in ("build_sdist", "build_wheel"):
        command = [sys.executable, "-c", build.format(name)]
        subprocess.run(command, cwd=source, env=variables, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        assert {"nearkin/compiled_kernels/x86-64-v3-abc/kernel-1.z"} <= set(files.namelist())
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        assert not [name for name in files.getnames() if "compiled_kernels" in name]


def test_workflow_runs_the_script_that_decides_about_changes() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    job = workflow["jobs"]["check"]
    assert ".ci/run" in [step.get("run") for step in job["steps"]]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    minors = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if " 3." in one]
    assert job["strategy"]["matrix"]["python"] == minors


def test_release_is_checked_attested_and_published_without_a_password() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    jobs = workflow["jobs"]
    assert set(jobs["publish"]["needs"]) == {"build", "wheels", "check"}
    assert set(jobs["image"]["needs"]) == {"build", "check"}
    assert jobs["publish"]["permissions"]["id-token"] == "write"
    steps = {step["uses"].partition("@")[0]: step for step in jobs["publish"]["steps"]}
    assert "actions/attest-build-provenance" in steps
    assert "with" not in steps["pypa/gh-action-pypi-publish"]
    minors = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if " 3." in one]
    assert jobs["check"]["strategy"]["matrix"]["python"] == minors
    assert jobs["wheels"]["strategy"] == jobs["check"]["strategy"]
    image = jobs["image"]["steps"][-1]["with"]
    assert image["platforms"] == "linux/amd64,linux/arm64"
    assert (image["sbom"], "PYTHON_IMAGE=" in image["build-args"]) == (True, True)


@pytest.mark.parametrize("name", ["ci", "docs", "release"])
def test_actions_of_workflows_are_pinned_by_commit(name: str) -> None:
    text = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text()
    used = re.findall(r"uses: (.*)", text)
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one) for one in used)


def test_releases_in_the_changelog_are_dated() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased" or re.search(DATED, headings[0])
    assert all(re.fullmatch(DATED, heading) for heading in headings[1:])
    released, _, rest = SETTINGS["tool"]["setuptools_scm"]["fallback_version"].partition("+")
    assert rest == "unknown"
    assert f"{released} - " in " ".join(headings)


def test_image_has_a_version_of_python_that_the_tests_run_with() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    tested = workflow["jobs"]["check"]["strategy"]["matrix"]["python"]
    for name in ("Dockerfile", "compose.yaml", "pin-images.sh"):
        images = re.findall(r"python:(3\.\d+)-slim", (ROOT / "deploy" / name).read_text())
        assert len(set(images)) == 1, name
        assert set(images) <= set(tested), name


def test_make_demo_says_how_to_use_what_it_installed() -> None:
    command = ["make", "--no-print-directory", "--dry-run", "demo"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "source .venv/bin/activate" in shown.splitlines()[-1]


def describe(source: Path) -> str:
    """Returns the version that the build gives to sources."""
    version: str = setuptools_scm.get_version(
        relative_to=source / "pyproject.toml", **SETTINGS["tool"]["setuptools_scm"]
    )
    assert f'VERSION = "{version}"' in (source / "nearkin" / "_version.py").read_text()
    return version


@pytest.mark.filterwarnings("ignore:.*git archiv")
def test_version_is_that_of_the_tag_or_counted_from_it(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "nearkin").mkdir(parents=True)
    for name in (".gitignore", ".gitattributes", ".git_archival.txt"):
        shutil.copyfile(ROOT / name, source / name)
    assert describe(source) == "0.1.0+unknown"

    def git(*arguments: str) -> None:
        options = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "core.autocrlf=0"]
        subprocess.run(["git", *options, *arguments], cwd=source, check=True, capture_output=True)

    git("init")
    git("add", ".")
    git("commit", "-m", "One")
    assert re.fullmatch(r"0\.1\.1\.dev1\+unknown\.g[0-9a-f]+", describe(source))
    git("archive", "--output", str(tmp_path / "untagged.tar"), "HEAD")
    git("tag", "v0.2.0")
    assert describe(source) == "0.2.0"
    git("archive", "--output", str(tmp_path / "a.tar"), "v0.2.0")
    git("commit", "--allow-empty", "-m", "Two")
    assert re.fullmatch(r"0\.2\.1\.dev1\+g[0-9a-f]+", describe(source))
    for name, expected in (("a", "0.2.0"), ("untagged", "0.1.0+unknown")):
        archive = tmp_path / name
        (archive / "nearkin").mkdir(parents=True)
        with tarfile.open(tmp_path / f"{name}.tar") as files:
            files.extractall(archive, filter="data")
        assert describe(archive) == expected


def test_image_has_what_builds_the_package() -> None:
    assert SETTINGS["dependency-groups"]["build"] == SETTINGS["build-system"]["requires"]
    pinned = (ROOT / "deploy" / "requirements.txt").read_text()
    for requirement in SETTINGS["build-system"]["requires"]:
        assert f"\n{Requirement(requirement).name}==" in pinned


def test_sources_that_were_not_built_have_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nearkin._version", None)
    module = runpy.run_path(str(ROOT / "nearkin" / "runtime" / "version.py"))
    assert module["VERSION"] == "0+unknown"


BROUGHT_BY = {
    "haystack": "haystack-ai",
    "llama_index": "llama-index-core",
    "llvmlite": "numba",
    "markupsafe": "jinja2",
    "prometheus_client": "opentelemetry-exporter-prometheus",
    "py4j": "pyspark",
    "pydantic": "typer",
    "ray": "ray",
    "starlette": "fastapi",
}
"""Modules of distributions that are not declared, and the declared distribution that needs them.
Some of these distributions are installed by `make test-full` only."""


def test_imported_distributions_are_declared() -> None:
    """A module that other packages happen to bring is missing where these are not installed."""
    declared = {
        canonicalize_name(Requirement(one).name)
        for one in [*PROJECT["dependencies"], *(one for extra in USER_EXTRAS for one in extra)]
    }
    distributions = packages_distributions()
    for path in (ROOT / "nearkin").rglob("*.py"):
        for module in imported_modules(path) - {"nearkin", "IPython"} - sys.stdlib_module_names:
            names = {canonicalize_name(name) for name in distributions.get(module, ())}
            names.add(BROUGHT_BY.get(module, ""))
            assert names & declared, f"{path} imports {module}, which pyproject.toml does not name"


def imported_modules(path: Path) -> set[str]:
    """Returns the names of the packages that a file imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def test_citation_agrees_with_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    released = re.search(rf"^## {DATED}", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert released is not None
    for part in (citation, citation["preferred-citation"]):
        assert part["version"] == released[0].split()[1]
        assert part["license"] == PROJECT["license"]
        assert part["authors"] == PROJECT["authors"]
        assert part["title"].startswith(f"{PROJECT['name']}: ")
        assert part["type"] == "software"
    assert set(PROJECT["keywords"]) <= set(citation["keywords"])
    assert citation["cff-version"] == "1.2.0"
    assert 200 < len(citation["abstract"]) < 1000
