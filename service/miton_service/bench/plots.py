"""Plots of a result's samples: per measure, what share of the samples lies below a value, one line per system."""

from __future__ import annotations

from pathlib import Path

from miton_service.bench.errors import BenchmarkError
from miton_service.bench.result import Result


def write_plots(result: Result, directory: Path) -> list[Path]:
    """Write one SVG per measure. Raises `BenchmarkError` when matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise BenchmarkError("--plot needs matplotlib; install it with: pip install matplotlib") from None
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for measure, systems in result.samples.items():
        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.subplots()
        for system, values in systems.items():
            if values:
                axes.ecdf(values, label=system)
        if measure.endswith("ms"):
            axes.set_xscale("log")
        axes.set_xlabel(measure)
        axes.set_ylabel("share of samples at or below")
        axes.set_title(f"{result.name}, {result.machine['processor']}, {result.machine['cores']} cores")
        axes.grid(alpha=0.3)
        axes.legend()
        path = directory / f"{result.name}-{measure.replace(' ', '-').replace('/', '-per-')}.svg"
        figure.savefig(path)
        paths.append(path)
    return paths
