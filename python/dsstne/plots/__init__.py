"""Plots of a training run, of models compared, and of what they recommend.

They need matplotlib: ``pip install dsstne[plots]``. Each returns the axes that it drew on; ``ax=`` draws on given axes,
``path=`` saves a file.
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
