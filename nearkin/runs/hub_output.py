"""Outputs in dataset repositories of the Hugging Face Hub.

An output is made in a local folder first, where it stays, and is uploaded in one commit when it is
complete. It needs the extra `hub`.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from nearkin.corpus.foreign_errors import translate_foreign_errors
from nearkin.corpus.remote_errors import CREDENTIALS, HUB
from nearkin.errors import RunError, UsageError
from nearkin.reports.card import find_section
from nearkin.runs.card import DatasetCard
from nearkin.runs.destinations import Destination
from nearkin.runs.run_record import RUN
from nearkin.runtime.outputs import MARKER, files_below
from nearkin.runtime.setting_names import name_flag, name_setting

URL = re.compile(rf"{HUB}:/{{1,2}}(?P<place>.*)", re.DOTALL)
"""A URL of the hub. A path in its place has one slash."""
PLACE = re.compile(
    r"datasets/(?P<repository>[^/@]+/[^/@]+)"
    r"(?:@(?P<branch>refs/(?:convert|pr)/[^/]+|[^/]+))?(?:/(?P<path>.+))?"
)
CARD = "README.md"
UNTOUCHED = re.compile(r"(?:README\.md|LICENSE[^/]*|\.git[^/]*)")
"""The files at the top of a repository that an output there neither needs nor replaces."""
BLOCK = 1 << 20
"""The number of bytes that are hashed at a time."""


@dataclass(frozen=True)
class HubState:
    """The head of a branch.

    Attributes:
        commit: Its commit, or None if the repository does not exist.
        files: The files at the place of the output, as `HfApi.list_repo_tree` describes them.
        card: The content of README.md. Empty if there is none.
    """

    commit: str | None
    files: Mapping[str, Any]
    card: bytes


@dataclass(frozen=True)
class HubOutput(Destination):
    """A place in a dataset repository.

    Attributes:
        repository: The repository, as `ORG/NAME`.
        branch: The branch.
        path: The path of the output in the repository. Empty for the repository itself.
    """

    repository: str
    branch: str
    path: str

    @classmethod
    def parse(cls, out: str | Path) -> "HubOutput | None":
        """Returns the place that an output names, or None if it is not a URL of the hub."""
        url = URL.fullmatch(str(out))
        if url is None:
            return None
        place = PLACE.fullmatch(url["place"].rstrip("/"))
        parts = re.split("[/@]", url["place"])
        if place is None or any(part in (".", "..") for part in parts):
            raise UsageError(
                f"{HUB}://{url['place']} cannot be an output; write "
                f"{HUB}://datasets/ORG/NAME, and after it @BRANCH or /PATH if needed"
            )
        path = place["path"] or ""
        top = path.partition("/")[0]
        if UNTOUCHED.fullmatch(top):
            raise UsageError(
                f"{HUB}://{url['place']} cannot be an output, because {top} belongs to the "
                "repository; choose another path"
            )
        return cls(place["repository"], place["branch"] or "main", path)

    @property
    def url(self) -> str:
        """The URL of the place."""
        branch = "" if self.branch == "main" else f"@{self.branch}"
        path = f"/{self.path}" if self.path else ""
        return f"{HUB}://datasets/{self.repository}{branch}{path}"

    @property
    def local(self) -> Path:
        """The path below the current folder where the output is made: NAME/PATH."""
        return Path(self.repository.partition("/")[2], self.path)

    def require_writable(self, *, may_exist: bool) -> None:
        """Requires that the output can be uploaded, as far as it is known before it is made."""
        with self._translated_errors("cannot upload to", "correct that and run again"):
            self._require_token()
            state = self._read_state()
        # Raises an error for a card whose section could not be updated.
        find_section(state.card)
        try:
            state.card.decode()
        except UnicodeDecodeError as error:
            raise UsageError(
                f"{CARD} of {self.repository} is not valid UTF-8 (byte {error.start}), so the hub "
                "would refuse it; correct the file"
            ) from error
        if state.files and not may_exist:
            raise UsageError(
                f"{self.url} is not empty: it has {min(state.files)!r}; replace an earlier output "
                f"with {name_flag('overwrite')}, or choose another {name_setting('out')}"
            )

    def publish(self, *, overwrite: bool) -> str:
        """Uploads the output in one commit.

        It has no effect if the repository holds the same files already. A repository that does not
        exist is created, and is private. A folder of `nearkin dedup` also updates the section of
        the run in README.md.
        """
        with self._translated_errors(
            f"{self.local} is complete, but cannot be uploaded to",
            "upload it with the program hf (hf upload, type of repository: dataset), or repeat "
            f"the command with {name_flag('resume')} if it has that option",
        ):
            commit = self._upload(overwrite=overwrite)
        return f"uploaded {self.local} to {self.url}, commit {commit}"

    def _upload(self, *, overwrite: bool) -> str:
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        state = self._read_state()
        files = self._files_to_upload()
        if state.commit is not None and _holds_all(state.files, files):
            return state.commit
        outdated: Sequence[str] = []
        if state.files:
            outdated = self._replaceable_files(state, files, overwrite=overwrite)
        if state.commit is None:
            created = {"repo_type": "dataset", "private": True, "exist_ok": True}
            self._api.create_repo(self.repository, **created)
            state = self._read_state()
        operations: list[Any] = [
            CommitOperationAdd(path_in_repo=name, path_or_fileobj=path)
            for name, path in files.items()
        ]
        operations += [CommitOperationDelete(path_in_repo=name) for name in outdated]
        card = self._updated_card(state.card)
        if card is not None:
            operations.append(CommitOperationAdd(path_in_repo=CARD, path_or_fileobj=card))
        commit: str = self._api.create_commit(
            self.repository,
            operations,
            commit_message="Upload an output of nearkin",
            repo_type="dataset",
            revision=self.branch,
            parent_commit=state.commit,
        ).oid
        self._require_uploaded(files, commit)
        return commit

    def _updated_card(self, card: bytes) -> bytes | None:
        """Returns README.md with the figures of the run, or None if it need not change."""
        if not (self.local / RUN).is_file() or not (self.local / "kept").is_dir():
            return None
        folder = f"{self.path}/kept" if self.path else "kept"
        updated = DatasetCard(self.local).update(card, f"{folder}/**")
        return None if updated == card else updated

    def _files_to_upload(self) -> dict[str, Path]:
        """Returns the local files of the output by their paths in the repository."""
        if not self.local.is_dir():
            return {self.path: self.local}
        prefix = f"{self.path}/" if self.path else ""
        names = sorted(files_below(self.local))
        if (self.local / MARKER).is_file():
            names.append(MARKER)
        return {f"{prefix}{name}": self.local / name for name in names}

    def _replaceable_files(
        self, state: HubState, files: Mapping[str, Path], *, overwrite: bool
    ) -> list[str]:
        """Returns the files of an earlier output that the new one does not have."""
        if not overwrite:
            raise UsageError(
                f"{self.url} has appeared while the output was made; replace it with "
                f"{name_flag('overwrite')}, or choose another {name_setting('out')}"
            )
        if list(state.files) == list(files):
            return []
        prefix = f"{self.path}/" if self.path else ""
        own = {f"{prefix}{name}" for name in self._listed_files(state)}
        strangers = sorted(state.files.keys() - own - {prefix + MARKER})
        if strangers:
            raise UsageError(
                f"{self.url} has {strangers[0]!r}, which no nearkin run wrote, so "
                f"{name_flag('overwrite')} does not replace it; choose another "
                f"{name_setting('out')}"
            )
        return sorted(state.files.keys() - files.keys())

    def _listed_files(self, state: HubState) -> list[str]:
        """Returns the files that the marker of an earlier output lists."""
        marker = f"{self.path}/{MARKER}" if self.path else MARKER
        if marker not in state.files:
            return []
        try:
            listed = orjson.loads(self._read_file(marker, state.commit))["files"]
        except (ValueError, KeyError, TypeError):
            return []
        return [str(name) for name in listed]

    @property
    def _api(self) -> Any:
        from huggingface_hub import HfApi

        from nearkin.corpus.hub import endpoint

        return HfApi(endpoint=endpoint())

    def _require_token(self) -> None:
        """Requires a token that is valid and not for reading only."""
        account = self._api.whoami()
        token = account.get("auth", {}).get("accessToken", {})
        if token.get("role") == "read":
            raise UsageError(
                f"the token can only read, so nothing can be written to {self.url}; "
                "make a token with the right to write"
            )

    def _read_state(self) -> HubState:
        """Returns what the repository holds at the place of the output."""
        from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

        try:
            info = self._api.repo_info(self.repository, repo_type="dataset", revision=self.branch)
        except RevisionNotFoundError as error:
            raise UsageError(
                f"{self.url} cannot be an output: {self.repository} has no branch "
                f"{self.branch!r}; create it first"
            ) from error
        except RepositoryNotFoundError as error:
            if self.branch != "main":
                raise UsageError(
                    f"{self.url} cannot be an output: the repository does not exist, or the token "
                    "may not read it"
                ) from error
            return HubState(None, {}, b"")
        tree = self._api.list_repo_tree(
            self.repository, recursive=True, repo_type="dataset", revision=info.sha
        )
        everything = {entry.path: entry for entry in tree if hasattr(entry, "blob_id")}
        files = {name: entry for name, entry in everything.items() if self._is_at_place(name)}
        card = self._read_file(CARD, info.sha) if CARD in everything else b""
        return HubState(info.sha, files, card)

    def _is_at_place(self, name: str) -> bool:
        if not self.path:
            return UNTOUCHED.fullmatch(name) is None
        return name == self.path or name.startswith(f"{self.path}/")

    def _read_file(self, name: str, commit: str | None) -> bytes:
        from nearkin.corpus.hub import open_hub

        filesystem, path = open_hub(f"{HUB}://datasets/{self.repository}@{commit}/{name}")
        content: bytes = filesystem.cat_file(path)
        return content

    def _require_uploaded(self, files: Mapping[str, Path], commit: str) -> None:
        """Requires that a commit has all files, which a .gitignore can leave out."""
        tree = self._api.list_repo_tree(
            self.repository, recursive=True, repo_type="dataset", revision=commit
        )
        missing = sorted(files.keys() - {entry.path for entry in tree})
        if missing:
            raise OSError(
                f"the commit {commit} lacks {missing[0]!r} and {len(missing) - 1} more files; does "
                "a .gitignore of the repository leave them out?"
            )

    @contextmanager
    def _translated_errors(self, failure: str, advice: str) -> Iterator[None]:
        """Raises the errors of huggingface_hub as errors of nearkin."""
        from huggingface_hub.errors import LocalTokenNotFoundError

        def translate(error: BaseException) -> BaseException:
            if isinstance(error, LocalTokenNotFoundError):
                return UsageError(f"no credentials for {self.url}; {CREDENTIALS[HUB]}")
            return self._upload_error(failure, advice, error)

        with translate_foreign_errors(translate):
            yield

    def _upload_error(
        self, failure: str, advice: str, error: BaseException
    ) -> UsageError | RunError:
        """Returns the error to raise for an exception of huggingface_hub."""
        status = getattr(getattr(error, "response", None), "status_code", None)
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        if status in (401, 403):
            return UsageError(
                f"{failure} {self.url}: the token was refused ({reason}); {CREDENTIALS[HUB]}; "
                f"{advice}"
            )
        return RunError(f"{failure} {self.url}: {reason}; {advice}")


def _holds_all(remote: Mapping[str, Any], files: Mapping[str, Path]) -> bool:
    """Returns whether a repository holds exactly some local files."""
    if remote.keys() != files.keys():
        return False
    if any(remote[name].size != path.stat().st_size for name, path in files.items()):
        return False
    return all(_has_content(remote[name], path) for name, path in files.items())


def _has_content(entry: Any, path: Path) -> bool:
    """Returns whether a file of a repository has the content of a local file."""
    if entry.lfs is not None:
        return bool(entry.lfs.sha256 == _hash_file(path, hashlib.sha256()))
    # Git hashes a header before the content.
    header = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    return bool(entry.blob_id == _hash_file(path, header))


def _hash_file(path: Path, digest: Any) -> str:
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return str(digest.hexdigest())
