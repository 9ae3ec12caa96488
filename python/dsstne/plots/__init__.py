"""Plots of a training run, of models compared, and of what they recommend.

They need matplotlib: ``pip install dsstne[plots]``. Each function returns the axes that it drew on, and takes:

- ``title``: the title of the plot;
- ``ax``: axes to draw on; None = those of a new figure;
- ``path``: a file to save the plot to (.png, .svg, .pdf).

Each raises ImportError without matplotlib, InvalidArgumentError if an argument has another type, and InputOutputError
if the operating system refuses to write the file.
"""

from __future__ import annotations

from dsstne.plots._comparison import comparison, metric_at_k
from dsstne.plots._embedding import embedding_map
from dsstne.plots._learning import learning_curve
from dsstne.plots._popularity import popularity_bias
from dsstne.plots._profile import profile
from dsstne.plots._search import search_results

__all__ = [
    "comparison",
    "embedding_map",
    "learning_curve",
    "metric_at_k",
    "popularity_bias",
    "profile",
    "search_results",
]
