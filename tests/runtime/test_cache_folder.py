import os
from pathlib import Path

import pytest

from nearkin.runtime.cache_folder import UntrustedFolderError, trusted_folder


def test_private_cache_folder_and_parents_are_created(tmp_path: Path) -> None:
    folder = trusted_folder(tmp_path / "a" / "b")
    assert folder == (tmp_path / "a" / "b").resolve()
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "a", folder)] == [0o700, 0o700]
    assert trusted_folder(folder) == folder


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_cache_folder_writable_by_others_is_rejected(tmp_path: Path, mode: int) -> None:
    folder = trusted_folder(tmp_path / "cache")
    folder.chmod(mode)
    with pytest.raises(UntrustedFolderError, match="writable by other users"):
        trusted_folder(folder)


@pytest.mark.parametrize(
    ("mode", "trusted"), [(0o777, False), (0o775, False), (0o1777, True), (0o755, True)]
)
def test_every_parent_of_cache_folder_is_verified(tmp_path: Path, mode: int, trusted: bool) -> None:
    """Other users cannot rename foreign files in a sticky folder, so /tmp is safe."""
    above = tmp_path / "above"
    trusted_folder(above / "inner" / "cache")
    above.chmod(mode)
    if trusted:
        assert trusted_folder(above / "inner" / "cache").is_dir()
    else:
        with pytest.raises(UntrustedFolderError, match="above is writable by other users"):
            trusted_folder(above / "inner" / "cache")


def test_symbolic_link_to_writable_folder_is_rejected(tmp_path: Path) -> None:
    target = trusted_folder(tmp_path / "target")
    (tmp_path / "link").symlink_to(target)
    assert trusted_folder(tmp_path / "link") == target
    target.chmod(0o777)
    with pytest.raises(UntrustedFolderError, match="target is writable by other users"):
        trusted_folder(tmp_path / "link")


def test_symbolic_link_through_writable_folder_is_rejected(tmp_path: Path) -> None:
    """Whoever can write the folder in which the link's target lies could exchange the target."""
    target = trusted_folder(tmp_path / "open" / "target")
    (tmp_path / "link").symlink_to("./elsewhere/../open/target")
    (tmp_path / "elsewhere").mkdir()
    assert trusted_folder(tmp_path / "link") == target
    target.parent.chmod(0o777)
    with pytest.raises(UntrustedFolderError, match="open is writable by other users"):
        trusted_folder(tmp_path / "link")


def test_circular_symbolic_link_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        trusted_folder(tmp_path / "loop" / "cache")


def test_folders_of_another_user_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root trusts no folders of other users either."""
    folder = trusted_folder(tmp_path / "cache")
    if os.getuid() == 0:
        os.chown(folder, 12345, -1)
        monkeypatch.setattr(os, "getuid", lambda: 0)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(UntrustedFolderError, match="belongs to user"):
        trusted_folder(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give folders away")
def test_root_rejects_cache_below_folder_of_another_user(tmp_path: Path) -> None:
    folder = trusted_folder(tmp_path / "home" / "cache")
    os.chown(folder.parent, 12345, -1)
    with pytest.raises(UntrustedFolderError, match="home belongs to user 12345"):
        trusted_folder(folder)


def test_cached_files_writable_by_others_are_rejected(tmp_path: Path) -> None:
    folder = trusted_folder(tmp_path / "cache")
    (folder / "kernel.nbi").touch()
    (folder / "kernel.nbi").chmod(0o666)
    assert trusted_folder(folder) == folder  # nobody else can enter the folder
    folder.chmod(0o755)
    with pytest.raises(UntrustedFolderError, match=r"kernel\.nbi is writable by other users"):
        trusted_folder(folder)


def test_symbolic_link_among_cached_files_is_rejected(tmp_path: Path) -> None:
    folder = trusted_folder(tmp_path / "cache")
    (folder / "kernel.nbi").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UntrustedFolderError, match="symbolic link"):
        trusted_folder(folder)
