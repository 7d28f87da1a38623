"""Draws the figures of the documentation as SVG files.

Run: python -m scripts.docs_figures     (writes docs/_static/*.svg; the files are committed)
"""

import html
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

FOLDER = Path(__file__).parent.parent / "docs" / "_static"

INK = "#1f2933"
QUIET = "#7b8794"
BLUE = "#2563a8"
ORANGE = "#c2560c"
GREEN = "#2f7d4f"
PALE_BLUE = "#e3eef9"
PALE_ORANGE = "#fbe9dc"
PALE_GREEN = "#e2f2e8"
PALE = "#f3f5f7"
FONT = "font-family='DejaVu Sans, Verdana, Helvetica, Arial, sans-serif'"


class Drawing:
    """An SVG drawing of boxes, arrows and lines of text.

    Args:
        width: Width in pixels.
        height: Height in pixels.
        title: Text for readers who cannot see the drawing.
    """

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width = width
        self.height = height
        self.title = title
        self.parts: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: int = 14,
        color: str = INK,
        anchor: str = "middle",
        *,
        bold: bool = False,
    ) -> None:
        """Writes one line of text; y is its baseline.

        Args:
            x: Horizontal position, in pixels from the left.
            y: Position of the baseline, in pixels from the top.
            text: The text.
            size: Size of the font, in pixels.
            color: Color of the text.
            anchor: Part of the text at x: `start`, `middle` or `end`.
            bold: Whether the text is bold.
        """
        weight = " font-weight='bold'" if bold else ""
        self.parts.append(
            f"<text x='{x:g}' y='{y:g}' font-size='{size}' fill='{color}' "
            f"text-anchor='{anchor}'{weight} {FONT}>"
            f"{html.escape(text)}</text>"
        )

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        lines: list[str],
        fill: str = PALE_BLUE,
        border: str = BLUE,
    ) -> None:
        """Draws a box with centred lines of text, of which the first is bold.

        Args:
            x: Left edge, in pixels.
            y: Upper edge, in pixels.
            width: Width, in pixels.
            height: Height, in pixels.
            lines: The lines of text.
            fill: Color of the area.
            border: Color of the border.
        """
        self.parts.append(
            f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' rx='6' fill='{fill}' "
            f"stroke='{border}' "
            "stroke-width='1.4'/>"
        )
        step = 18
        top = y + height / 2 - step * (len(lines) - 1) / 2 + 5
        for number, line in enumerate(lines):
            first = number == 0
            self.text(
                x + width / 2,
                top + step * number,
                line,
                14 if first else 12,
                INK if first else "#52606d",
                bold=first,
            )

    def bar(self, x: float, y: float, width: float, color: str) -> None:
        """Draws a thin bar in a pale form of a colour.

        Args:
            x: Left edge, in pixels.
            y: Upper edge, in pixels.
            width: Width, in pixels.
            color: BLUE or ORANGE.
        """
        pale = {BLUE: PALE_BLUE, ORANGE: PALE_ORANGE}[color]
        self.parts.append(
            f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='13' rx='4' fill='{pale}' "
            f"stroke='{color}'/>"
        )

    def line(
        self,
        x1: float,
        y1: float,
        x2: float,
        y2: float,
        color: str = QUIET,
        *,
        dashed: bool = False,
    ) -> None:
        """Draws a straight line.

        Args:
            x1: Horizontal position of the start, in pixels.
            y1: Vertical position of the start, in pixels.
            x2: Horizontal position of the end, in pixels.
            y2: Vertical position of the end, in pixels.
            color: Color of the line.
            dashed: Whether the line is dashed.
        """
        dash = " stroke-dasharray='5 4'" if dashed else ""
        self.parts.append(
            f"<line x1='{x1:g}' y1='{y1:g}' x2='{x2:g}' y2='{y2:g}' stroke='{color}' "
            f"stroke-width='1.6'{dash}/>"
        )

    def arrow(
        self, x1: float, y1: float, x2: float, y2: float, label: str = "", *, dashed: bool = False
    ) -> None:
        """Draws an arrow with an optional label above its middle.

        Args:
            x1: Horizontal position of the start, in pixels.
            y1: Vertical position of the start, in pixels.
            x2: Horizontal position of the end, in pixels.
            y2: Vertical position of the end, in pixels.
            label: The label, or an empty text.
            dashed: Whether the line is dashed.
        """
        dash = " stroke-dasharray='5 4'" if dashed else ""
        self.parts.append(
            f"<line x1='{x1:g}' y1='{y1:g}' x2='{x2:g}' y2='{y2:g}' stroke='{QUIET}' "
            f"stroke-width='1.6'{dash} "
            "marker-end='url(#head)'/>"
        )
        if label:
            self.text((x1 + x2) / 2, min(y1, y2) + abs(y2 - y1) / 2 - 6, label, 12, "#52606d")

    def save(self, name: str) -> None:
        """Writes the drawing into docs/_static."""
        head = (
            "<marker id='head' viewBox='0 0 10 10' refX='9' refY='5' markerWidth='7' "
            "markerHeight='7' orient='auto-start-reverse'>"
            f"<path d='M0 0 L10 5 L0 10 z' fill='{QUIET}'/></marker>"
        )
        body = "\n".join(self.parts)
        text = (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {self.width} {self.height}' "
            f"width='{self.width}' "
            f"height='{self.height}' "
            f"role='img'>\n<title>{html.escape(self.title)}</title>\n<defs>{head}</defs>\n"
            f"<rect width='{self.width}' height='{self.height}' fill='#ffffff'/>\n{body}\n</svg>\n"
        )
        (FOLDER / name).write_text(text, "utf-8")


def save_chart(figure: Figure, name: str) -> None:
    """Writes a chart into docs/_static, without the time at which it was drawn.

    Args:
        figure: Chart to write.
        name: Name of the file, with the suffix that decides the format.
    """
    figure.savefig(FOLDER / name, metadata={"Date": None}, bbox_inches="tight")


def new_chart(width: float = 7.2, height: float = 4.2) -> Figure:
    """Returns an empty chart whose file is the same in every run.

    Args:
        width: Width in inches.
        height: Height in inches.
    """
    import matplotlib

    matplotlib.rcParams.update(
        {
            "svg.hashsalt": "nearkin",
            "svg.fonttype": "none",
            "font.size": 10,
            "axes.spines.top": False,
        }
    )
    matplotlib.rcParams.update({"axes.spines.right": False, "font.family": "sans-serif"})
    return Figure(figsize=(width, height), layout="constrained")


# -- charts

PAIR = "Jaccard similarity of a pair"


def draw_s_curves() -> None:
    """Draws the probability that a pair becomes a candidate, for several bandings."""
    similarity = np.linspace(0, 1, 501)
    figure = new_chart()
    axes = figure.subplots()
    for bands, rows, color, style in (
        (42, 3, GREEN, "-"),
        (20, 5, QUIET, "--"),
        (13, 7, BLUE, "-"),
        (9, 13, ORANGE, "-"),
        (5, 25, "#8a3ffc", "--"),
    ):
        candidate = 1 - (1 - similarity**rows) ** bands
        axes.plot(
            similarity,
            candidate,
            color=color,
            linestyle=style,
            label=f"{bands} bands of {rows} rows",
        )
    axes.axvline(0.8, color=INK, linewidth=0.8, linestyle=":")
    axes.text(0.795, 0.03, "threshold 0.8", ha="right", fontsize=9)
    axes.set(
        xlabel="Jaccard similarity of a pair",
        ylabel="probability that it becomes a candidate",
        xlim=(0, 1),
        ylim=(0, 1.02),
    )
    axes.legend(frameon=False, loc="upper left")
    save_chart(figure, "s-curves.svg")


def draw_missed_and_wasted() -> None:
    """Draws one S-curve with the pairs that it misses and those that it compares for nothing."""
    similarity = np.linspace(0, 1, 501)
    candidate = 1 - (1 - similarity**7) ** 13
    above = similarity >= 0.8
    figure = new_chart()
    axes = figure.subplots()
    axes.plot(similarity, candidate, color=BLUE)
    axes.fill_between(similarity[~above], candidate[~above], color=PALE_BLUE)
    axes.fill_between(similarity[above], candidate[above], 1, color=ORANGE, alpha=0.6)
    axes.axvline(0.8, color=INK, linewidth=0.8, linestyle=":")
    axes.annotate(
        "compared for nothing:\nverification removes them",
        (0.73, 0.45),
        (0.26, 0.55),
        arrowprops={"arrowstyle": "-"},
    )
    axes.annotate("missed: 1 − recall", (0.815, 0.985), (0.42, 0.9), arrowprops={"arrowstyle": "-"})
    axes.set(
        xlabel="Jaccard similarity of a pair",
        ylabel="probability that it becomes a candidate",
        xlim=(0, 1),
        ylim=(0, 1.02),
    )
    save_chart(figure, "missed-and-wasted.svg")


def draw_estimate_error() -> None:
    """Draws the standard error of the estimate by the number of slots."""
    similarity = np.linspace(0, 1, 201)
    figure = new_chart()
    axes = figure.subplots()
    for slots, color in ((64, QUIET), (128, BLUE), (256, GREEN), (512, ORANGE)):
        axes.plot(
            similarity,
            np.sqrt(similarity * (1 - similarity) / slots),
            color=color,
            label=f"k = {slots}",
        )
    axes.set(
        xlabel="Jaccard similarity",
        ylabel="standard error of the estimate",
        xlim=(0, 1),
        ylim=(0, None),
    )
    axes.legend(frameon=False)
    save_chart(figure, "estimate-error.svg")


# -- diagrams


def draw_shingles() -> None:
    """Draws the shingles of two sentences that differ in one word."""
    drawing = Drawing(900, 250, "Shingles of three words of two sentences that differ in one word")
    left = ["storm", "closed", "the", "harbour", "for", "two", "days", "in", "May"]
    changed = 5
    right = [*left[:changed], "three", *left[changed + 1 :]]
    for row, words in enumerate((left, right)):
        y = 34 + 110 * row
        for number, word in enumerate(words):
            different = number == changed
            drawing.text(
                60 + 97 * number, y, word, 16, ORANGE if different else INK, bold=different
            )
        for number in range(len(words) - 2):
            different = number <= changed <= number + 2
            drawing.bar(
                16 + 97 * number, y + 14 + 17 * (number % 3), 282, ORANGE if different else BLUE
            )
    drawing.text(
        450, 240, "blue: shared shingles, orange: shingles of one sentence alone", 13, "#52606d"
    )
    drawing.save("shingles.svg")


def draw_pipeline() -> None:
    """Draws the stages of a batch run."""
    drawing = Drawing(980, 330, "The stages of a batch run, from files to files and a report")
    stages = [
        (["read", "files, batches,", "quarantine"], PALE, QUIET),
        (["shingle", "words or", "characters"], PALE_BLUE, BLUE),
        (["sketch", "k slots for", "each document"], PALE_BLUE, BLUE),
        (["band", "equal bands make", "candidates"], PALE_BLUE, BLUE),
        (["verify", "exact", "similarity"], PALE_GREEN, GREEN),
        (["cluster", "leaders or", "components"], PALE_GREEN, GREEN),
    ]
    width, gap = 132, 26
    for number, (lines, fill, border) in enumerate(stages):
        x = 22 + (width + gap) * number
        drawing.box(x, 60, width, 84, lines, fill, border)
        if number:
            drawing.arrow(x - gap + 2, 102, x - 3, 102)
    drawing.text(88, 40, "input files", 13, "#52606d")
    drawing.arrow(88, 46, 88, 58)
    drawing.box(180, 210, 200, 62, ["exact duplicates", "one fingerprint, one member"], PALE, QUIET)
    drawing.arrow(246, 146, 270, 208)
    drawing.arrow(382, 232, 560, 148, dashed=True)
    drawing.box(600, 210, 170, 62, ["shingle hashes", "of candidates only"], PALE, QUIET)
    drawing.arrow(712, 208, 720, 147)
    drawing.box(
        808,
        196,
        150,
        96,
        ["output folder", "kept/, clusters,", "pairs, rejected,", "report, run.json"],
        PALE,
        QUIET,
    )
    drawing.arrow(880, 146, 882, 194)
    drawing.save("pipeline.svg")


def draw_banding() -> None:
    """Draws how two signatures meet in a bucket."""
    drawing = Drawing(
        900, 330, "Two signatures are cut into bands; equal bands lead to the same bucket"
    )
    left = [["17", "03", "88"], ["41", "09", "52"], ["66", "30", "12"], ["05", "77", "24"]]
    right = [["17", "03", "81"], ["41", "09", "52"], ["66", "31", "12"], ["90", "77", "24"]]
    for row, (name, bands) in enumerate((("document A", left), ("document B", right))):
        y = 46 + 200 * row
        drawing.text(20, y + 27, name, 15, anchor="start", bold=True)
        for number, band in enumerate(bands):
            same = left[number] == right[number]
            x = 140 + 188 * number
            drawing.box(
                x,
                y,
                168,
                42,
                ["   ".join(band)],
                PALE_GREEN if same else PALE,
                GREEN if same else QUIET,
            )
            if row == 0:
                drawing.text(x + 84, 32, f"band {number + 1}", 13, "#52606d")
    drawing.box(
        318, 136, 188, 62, ["bucket of band 2", "A and B: a candidate pair"], PALE_GREEN, GREEN
    )
    drawing.arrow(412, 90, 412, 133)
    drawing.arrow(412, 244, 412, 201)
    for number in (0, 2, 3):
        drawing.text(224 + 188 * number, 171, "different buckets", 12, QUIET)
    drawing.save("banding.svg")


def draw_clusters() -> None:
    """Draws what leaders and components make of a chain."""
    drawing = Drawing(900, 330, "A chain of four documents, clustered by leaders and by components")
    for title, x, colors in (
        ("leaders", 40, (BLUE, BLUE, ORANGE, ORANGE)),
        ("components with a floor of 0.6", 490, (BLUE, BLUE, BLUE, ORANGE)),
    ):
        drawing.text(x + 185, 34, title, 17, bold=True)
        places = [(x + 40, 130), (x + 140, 90), (x + 240, 130), (x + 340, 90)]
        for (x1, y1), (x2, y2) in pairwise(places):
            drawing.line(x1, y1, x2, y2)
        drawing.text(x + 84, 96, "0.85", 12, "#52606d")
        drawing.text(x + 196, 96, "0.85", 12, "#52606d")
        drawing.text(x + 284, 96, "0.85", 12, "#52606d")
        for name, (cx, cy), color in zip("ABCD", places, colors, strict=True):
            drawing.parts.append(f"<circle cx='{cx}' cy='{cy}' r='20' fill='{color}'/>")
            drawing.text(cx, cy + 6, name, 16, "#ffffff", bold=True)
    lines = (
        ("B joins A, the kept document that it resembles.", 225, 200),
        ("C does not resemble A, so it is kept.", 225, 224),
        ("D resembles C and joins it.", 225, 248),
        ("kept: A and C", 225, 286),
        ("A, B, C and D are one chain.", 675, 200),
        ("C resembles A by 0.7, above the floor: it stays.", 675, 224),
        ("D resembles A by 0.5 and is split off.", 675, 248),
        ("kept: A and D", 675, 286),
    )
    for text, x, y in lines:
        drawing.text(x, y, text, 14, bold=text.startswith("kept"))
    drawing.save("clusters.svg")


def draw_index() -> None:
    """Draws the layers in which an upsert is looked up, and the stores."""
    drawing = Drawing(940, 400, "An upsert goes through four layers before its document is stored")
    drawing.box(20, 30, 130, 60, ["upsert", "scope, id, text"], PALE, QUIET)
    layers = [
        (["1  own record", "is the id known?"], PALE_BLUE),
        (["2  memory", "resolutions used last"], PALE_BLUE),
        (["3  resolutions", "of the store"], PALE_BLUE),
        (["4  search", "buckets, estimate, verify"], PALE_GREEN),
    ]
    for number, (lines, fill) in enumerate(layers):
        x = 186 + 188 * number
        drawing.box(x, 30, 170, 60, lines, fill, GREEN if number == 3 else BLUE)
        drawing.arrow(x - 34 if number == 0 else x - 16, 60, x - 3, 60)
    drawing.arrow(835, 92, 835, 148)
    drawing.box(
        570,
        150,
        350,
        56,
        ["one step: all of it or nothing", "record, postings, counts, log, epoch"],
        PALE_ORANGE,
        ORANGE,
    )
    drawing.text(280, 136, "a known document is answered here", 13, "#52606d")
    drawing.arrow(280, 122, 280, 93)
    stores = [
        ("memory://", "a process"),
        ("sqlite:///", "a file"),
        ("redis://", "a script"),
        ("postgresql://", "a transaction"),
        ("aerospike://", "a plan"),
    ]
    drawing.box(
        20,
        250,
        900,
        34,
        ["store interface: records, postings, counts, log, migration state"],
        PALE,
        QUIET,
    )
    drawing.arrow(745, 208, 745, 248)
    for number, (url, step) in enumerate(stores):
        x = 20 + 183 * number
        drawing.box(x, 318, 168, 56, [url, step], PALE_BLUE, BLUE)
        drawing.line(x + 84, 286, x + 84, 316)
    drawing.save("index.svg")


def draw_service() -> None:
    """Draws the parts of the service."""
    drawing = Drawing(940, 400, "The parts of the service, from clients to the store")
    drawing.box(20, 40, 140, 56, ["clients", "JSON, NDJSON, Arrow"], PALE, QUIET)
    drawing.box(20, 130, 140, 56, ["browsers", "console"], PALE, QUIET)
    drawing.box(20, 220, 140, 56, ["Prometheus", "metrics"], PALE, QUIET)
    drawing.parts.append(
        f"<rect x='200' y='20' width='520' height='340' rx='10' fill='none' stroke='{QUIET}' "
        f"stroke-dasharray='6 4'/>"
    )
    drawing.text(460, 384, "one worker process; several share a store", 13, "#52606d")
    drawing.box(
        222,
        44,
        150,
        120,
        ["protection", "connections, heads,", "tokens, rates,", "shares, sizes"],
        PALE_ORANGE,
        ORANGE,
    )
    drawing.box(
        222,
        200,
        150,
        130,
        ["routes", "documents, query,", "clusters, tune,", "explain, metrics,", "console"],
        PALE_BLUE,
        BLUE,
    )
    drawing.box(
        404,
        44,
        140,
        120,
        ["micro-batches", "single documents", "that arrive", "meanwhile"],
        PALE_BLUE,
        BLUE,
    )
    drawing.box(
        404,
        200,
        140,
        130,
        ["streams", "batches in turns,", "answers wait", "in files"],
        PALE_BLUE,
        BLUE,
    )
    drawing.box(578, 44, 124, 286, ["index", "sketch, search,", "verify, apply"], PALE_GREEN, GREEN)
    drawing.box(780, 60, 140, 70, ["store", "SQLite, Redis,", "PostgreSQL, …"], PALE_GREEN, GREEN)
    drawing.box(780, 200, 140, 70, ["event streams", "nearkin stream"], PALE, QUIET)
    for y in (68, 158, 248):
        drawing.arrow(162, y, 219, min(y, 150) if y < 200 else 252)
    drawing.arrow(297, 166, 297, 197)
    drawing.arrow(374, 230, 401, 130)
    drawing.arrow(374, 266, 401, 266)
    drawing.arrow(546, 104, 575, 104)
    drawing.arrow(546, 266, 575, 266)
    drawing.arrow(704, 95, 777, 95)
    drawing.arrow(850, 198, 850, 133)
    drawing.save("service.svg")


FIGURES: tuple[Callable[[], None], ...] = (
    draw_s_curves,
    draw_missed_and_wasted,
    draw_estimate_error,
    draw_shingles,
    draw_pipeline,
    draw_banding,
    draw_clusters,
    draw_index,
    draw_service,
)


def main() -> None:
    """Draws all figures, or those whose names are given as arguments."""
    for draw in FIGURES:
        name = draw.__name__.removeprefix("draw_").replace("_", "-")
        if not sys.argv[1:] or name in sys.argv[1:]:
            draw()
            print(f"docs/_static/{name}.svg")


if __name__ == "__main__":
    main()
