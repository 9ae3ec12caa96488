"""An estimator that learns from rows of a saved dataset by their numbers, for searches that want arrays."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dsstne import _checks, _sklearn
from dsstne._dask_data import open_path
from dsstne.errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class RowsOf(_sklearn.BaseEstimator):  # type: ignore[misc]
    """Lets an estimator learn from rows of a saved dataset, of which it is given the numbers.

    Searches such as dask-ml's ``HyperbandSearchCV`` divide X into blocks, send these to workers, and take their
    lengths, which a sparse matrix does not have. Numbers of rows are small, and an array can have them; the rows stay
    in the file, which each worker maps into its memory once.

    Args:
        estimator: A :class:`dsstne.Recommender`; give it a ``store``. Its parameters have the prefix ``estimator__``.
        path: A file of :meth:`dsstne.Dataset.save` that all workers see.

    Example:
        >>> import dsstne, dsstne.dask, numpy as np, scipy.sparse, tempfile
        >>> X = scipy.sparse.random_array((100, 20), density=0.2, format="csr", rng=0, dtype=np.float32)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     dsstne.Dataset(X).save(f"{folder}/x.arrow")
        ...     rows = dsstne.dask.RowsOf(dsstne.Recommender("network", hidden=4), f"{folder}/x.arrow")
        ...     rows.partial_fit(np.arange(60)).score(np.arange(60, 100)) > 0
        True
    """

    def __init__(self, estimator: Any, path: str | os.PathLike[str]) -> None:
        self.estimator, self.path = estimator, path

    def fit(self, X: Any, y: Any = None, **options: Any) -> RowsOf:
        """Fits the estimator to the rows with the numbers X, [rows] or [rows, 1]; ``y`` is ignored."""
        self.estimator.fit(self._rows(X), **options)
        return self

    def partial_fit(self, X: Any, y: Any = None, **options: Any) -> RowsOf:
        """Trains the estimator with the rows with the numbers X, [rows] or [rows, 1]; ``y`` is ignored."""
        self.estimator.partial_fit(self._rows(X), **options)
        return self

    def predict(self, X: Any) -> NDArray[np.float32]:
        """Computes the scores of all items for the rows with the numbers X, float32 [rows, items]."""
        scores: NDArray[np.float32] = self.estimator.predict(self._rows(X))
        return scores

    def score(self, X: Any, y: Any = None) -> float:
        """Returns the metric of the estimator on the rows with the numbers X; ``y`` is ignored."""
        return float(self.estimator.score(self._rows(X)))

    def _rows(self, X: Any) -> Any:
        """Returns the rows as a matrix.

        Raises:
            InvalidArgumentError: X is not an array of integers.
            MissingFileError: The file does not exist.
        """
        numbers = _checks.array(X)
        if numbers.ndim == 2 and numbers.shape[1] == 1:
            numbers = numbers[:, 0]
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise InvalidArgumentError(
                f"X: expected the numbers of rows of {os.fsdecode(self.path)}, integers [rows] or [rows, 1], got an "
                f"array of {numbers.dtype} with the shape {numbers.shape}"
            )
        return open_path(os.fsdecode(self.path), "path")[numbers]
