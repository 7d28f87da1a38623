"""The axes on which results are drawn with Matplotlib."""

from typing import TYPE_CHECKING

from nearkin.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def open_axes(axes: "Axes | None") -> "Axes":
    """Returns the given axes, or those of a new figure.

    Raises:
        MissingExtraError: If matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingExtraError.for_extra("plots require matplotlib", "plot") from error
    return pyplot.subplots(layout="constrained")[1] if axes is None else axes
