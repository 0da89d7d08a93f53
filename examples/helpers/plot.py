# /// script
# requires-python = ">=3.10"
# dependencies = ["matplotlib>=3.8,<4"]
# ///
"""Plots as PNG images."""

import io
import os
import tempfile
from pathlib import Path
from typing import Literal, Optional


def plot(
    series: dict[str, list[float]],
    x: Optional[list[float]] = None,
    labels: Optional[list[str]] = None,
    kind: Literal["line", "scatter", "bar"] = "line",
    title: str = "",
    x_label: str = "",
    y_label: str = "",
    save_to: Optional[Path] = None,
) -> list:
    """Draws a plot and returns it as a PNG image.

    Args:
        series: The values of each line, by its name.
        x: The positions of the values; 0, 1, 2 … by default.
        labels: Names of the positions, in place of numbers.
        kind: The kind of plot.
        title: Text above the plot.
        x_label: Text below the x axis.
        y_label: Text beside the y axis.
        save_to: Also write the image to this file.
    """
    # matplotlib writes a cache of fonts, and the home directory may be closed to it.
    os.environ.setdefault("MPLCONFIGDIR", tempfile.mkdtemp(prefix="aish-plot-"))
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    if not series:
        raise ValueError("series is empty")
    length = max(len(values) for values in series.values())
    positions = x if x is not None else list(range(length))
    figure = Figure(figsize=(8, 5), dpi=100, layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / len(series)
    for i, (name, values) in enumerate(series.items()):
        if len(values) > len(positions):
            raise ValueError(f"{name} has {len(values)} values, and x has {len(positions)}")
        at = positions[: len(values)]
        if kind == "bar":
            axes.bar([p + (i - (len(series) - 1) / 2) * width for p in at], values, width, label=name)
        elif kind == "scatter":
            axes.scatter(at, values, label=name)
        else:
            axes.plot(at, values, label=name)
    if labels:
        axes.set_xticks(positions[: len(labels)], labels[: len(positions)])
    if len(series) > 1:
        axes.legend()
    axes.set(title=title, xlabel=x_label, ylabel=y_label)
    image = io.BytesIO()
    figure.savefig(image, format="png")
    if save_to is None:
        return [image.getvalue()]
    save_to.write_bytes(image.getvalue())
    return [f"saved to {save_to.absolute()}", image.getvalue()]
