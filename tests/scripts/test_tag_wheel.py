"""The tags of wheels with compiled kernels."""

from scripts.tag_wheel import read_tags


def test_tags_are_those_of_the_wheel_of_numba() -> None:
    text = (
        "Wheel-Version: 1.0\nRoot-Is-Purelib: false\n"
        "Tag: cp311-cp311-manylinux_2_27_x86_64\nTag: cp311-cp311-manylinux_2_28_x86_64\n"
    )
    assert read_tags(text) == {
        "--python-tag": "cp311",
        "--abi-tag": "cp311",
        "--platform-tag": "manylinux_2_27_x86_64.manylinux_2_28_x86_64",
    }
