"""`nearkin warm-up`."""

import pytest

from nearkin.cli import warm_up as command
from nearkin.cli.app import run
from nearkin.runtime import kernel_list, warm_up
from nearkin.runtime.kernel_list import ListedKernel


@pytest.fixture(autouse=True)
def one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of one small kernel."""
    kernel = ListedKernel("nearkin.quality.lab.kernels.start_stream", "uint64, uint64, uint64")
    monkeypatch.setattr(warm_up, "list_kernels", lambda use: [kernel])


def test_number_of_kernels_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["warm-up", "--use", "index"]) == 0
    assert capsys.readouterr().out.startswith("1 kernels are ready; ")


def test_quiet_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["warm-up", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_unknown_use_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["warm-up", "--use", "serve"]) == 2
    assert "dedup" in capsys.readouterr().err


def test_command_has_the_uses_of_the_library() -> None:
    assert command.USES == kernel_list.USES
