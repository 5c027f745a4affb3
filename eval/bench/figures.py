"""How a benchmark tells its figures: a line for each on the terminal, and all of them in a file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import psutil

Figures: TypeAlias = dict[str, float]


def machine() -> Figures:
    """The cores, and how busy they were with other things before the benchmark began."""
    return {"cores": psutil.cpu_count() or 1, "load before": psutil.getloadavg()[0]}


def tell(figures: Mapping[str, Figures], file: Path | None) -> None:
    """Print everything; write it to the file if there is one."""
    width = max(len(what) for what in figures)
    for what, measured in figures.items():
        print(f"{what:{width}} ", "  ".join(f"{name} {value:.4g}" for name, value in measured.items()))
    if file is not None:
        file.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
