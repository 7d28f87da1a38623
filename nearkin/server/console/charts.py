"""Charts, as plotly takes them.

Colours stand on light and dark ground alike; those of labels are the style sheet's.
"""

from collections.abc import Sequence
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from nearkin.server.console import components as shown

BLUE, PURPLE, GREEN, ORANGE, GREY, RED = (
    "#4d86d9",
    "#9a6fd6",
    "#3a9c8c",
    "#cf7f2a",
    "#8591a0",
    "#d4525f",
)
FAINT = "rgba(128, 138, 150, 0.25)"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
NONE = "rgba(0, 0, 0, 0)"
Trace = dict[str, Any]


def axis(title: str, **more: Any) -> dict[str, Any]:
    """One axis."""
    return {
        "title": {"text": title, "standoff": 8}, "gridcolor": FAINT, "linecolor": FAINT, "zeroline": False, "fixedrange": True,
        "automargin": True, **more,
    }  # fmt: skip


def line(
    name: str, x: Sequence[float], y: Sequence[float | None], colour: str, **more: Any
) -> Trace:
    """A curve."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": x,
        "y": y,
        "line": {"color": colour, "width": 2},
        **more,
    }


def area(name: str, x: Sequence[float], y: Sequence[float], colour: str) -> Trace:
    """One of several areas, the later on top of the earlier."""
    return line(name, x, y, colour, stackgroup="one", line={"color": colour, "width": 1})


def bars(
    name: str, x: Sequence[float], y: Sequence[float | None], colour: str, **more: Any
) -> Trace:
    """A histogram."""
    return {"type": "bar", "name": name, "x": x, "y": y, "marker": {"color": colour}, **more}


def upright(x: float, label: str) -> dict[str, Any]:
    """A dashed line at an x, and its label."""
    stroke = {"color": GREY, "width": 1.5, "dash": "dash"}
    shape = {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": stroke}
    side = "right" if x > 0.5 else "left"
    told = {
        "x": x,
        "y": 1,
        "yref": "paper",
        "yanchor": "bottom",
        "text": label,
        "showarrow": False,
        "xanchor": side,
    }
    return {"shapes": [shape], "annotations": [told]}


def chart(
    id: str, caption: str, told: str, traces: Sequence[Trace], height: int = 300, **layout: Any
) -> Component:
    """A figure.

    Args:
        id: Of the element.
        caption: Above it.
        told: What it shows, for those who do not see it.
        traces: From the functions above.
        height: In pixels.
        **layout: Axes and more.
    """
    whole = {
        "height": height, "margin": {"l": 8, "r": 20, "t": 28, "b": 8}, "paper_bgcolor": NONE, "plot_bgcolor": NONE,
        "font": {"family": FONT, "size": 12, "color": GREY}, "hovermode": "x", "dragmode": False, "bargap": 0.08,
        "legend": {"orientation": "h", "x": 0, "y": -0.2, "yanchor": "top", "traceorder": "normal"},
        # so that a chart that is drawn anew with other data stays the same chart
        "uirevision": id, **layout,
    }  # fmt: skip
    drawn = dcc.Graph(
        id=id, figure={"data": list(traces), "layout": whole}, config={"displayModeBar": False, "responsive": True},
        style={"height": f"{height}px"},
    )  # fmt: skip
    # the place is kept until plotly is there, lest what lies below jumps
    frame = html.Div(
        drawn, role="img", style={"minHeight": f"{height}px"}, **shown.aria(label=told)
    )
    return html.Figure([html.Figcaption(caption), frame])
