"""Charts for plotly, in colours that are readable on light and dark backgrounds.

The style sheet sets the colours of labels.
"""

from collections.abc import Sequence
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from nearkin.service.server.console import components as ui

BLUE = "#4d86d9"
PURPLE = "#9a6fd6"
ORANGE = "#cf7f2a"
GREY = "#8591a0"
GRID_COLOUR = "rgba(128, 138, 150, 0.25)"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
TRANSPARENT = "rgba(0, 0, 0, 0)"
PlotlyProperties = dict[str, Any]
"""Properties of a trace, an axis or a layout, as JSON for plotly."""


def make_axis(title: str, **more: Any) -> PlotlyProperties:
    """Returns an axis."""
    return {
        "title": {"text": title, "standoff": 8},
        "gridcolor": GRID_COLOUR,
        "linecolor": GRID_COLOUR,
        "zeroline": False,
        "fixedrange": True,
        "automargin": True,
        **more,
    }


def line_trace(
    name: str, x: Sequence[float], y: Sequence[float | None], colour: str, **more: Any
) -> PlotlyProperties:
    """Returns a curve."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": x,
        "y": y,
        "line": {"color": colour, "width": 2},
        **more,
    }


def area_trace(name: str, x: Sequence[float], y: Sequence[float], colour: str) -> PlotlyProperties:
    """Returns an area that is stacked on the previous ones."""
    return line_trace(name, x, y, colour, stackgroup="one", line={"color": colour, "width": 1})


def bar_trace(
    name: str, x: Sequence[float], y: Sequence[float | None], colour: str, **more: Any
) -> PlotlyProperties:
    """Returns bars."""
    return {"type": "bar", "name": name, "x": x, "y": y, "marker": {"color": colour}, **more}


def vertical_line(x: float, label: str) -> PlotlyProperties:
    """Returns layout properties for a dashed vertical line with a label."""
    stroke = {"color": GREY, "width": 1.5, "dash": "dash"}
    shape = {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": stroke}
    anchor = "right" if x > 0.5 else "left"
    annotation = {
        "x": x,
        "y": 1,
        "yref": "paper",
        "yanchor": "bottom",
        "text": label,
        "showarrow": False,
        "xanchor": anchor,
    }
    return {"shapes": [shape], "annotations": [annotation]}


def make_chart(
    id: str,
    caption: str,
    description: str,
    traces: Sequence[PlotlyProperties],
    height: int = 300,
    **layout: Any,
) -> Component:
    """Returns a chart with a caption."""
    layout_properties = {
        "height": height,
        "margin": {"l": 8, "r": 20, "t": 28, "b": 8},
        "paper_bgcolor": TRANSPARENT,
        "plot_bgcolor": TRANSPARENT,
        "font": {"family": FONT, "size": 12, "color": GREY},
        "hovermode": "x",
        "dragmode": False,
        "bargap": 0.08,
        "legend": {"orientation": "h", "x": 0, "y": -0.2, "yanchor": "top", "traceorder": "normal"},
        # keeps the state of a chart that is redrawn with other data
        "uirevision": id,
        **layout,
    }
    graph = dcc.Graph(
        id=id,
        figure={"data": list(traces), "layout": layout_properties},
        config={"displayModeBar": False, "responsive": True},
        style={"height": f"{height}px"},
    )
    # reserves the space until plotly is loaded, so that the content below does not move
    frame = html.Div(
        graph,
        role="img",
        style={"minHeight": f"{height}px"},
        **ui.aria_attributes(label=description),
    )
    return html.Figure([html.Figcaption(caption), frame])
