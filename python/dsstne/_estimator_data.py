"""The data that an estimator is given: conversions and checks, with the messages that scikit-learn's tools expect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne._layers import row_weights
from dsstne._matrices import as_csr
from dsstne.dataset import Dataset
from dsstne.errors import InvalidArgumentError, InvalidDataError
from dsstne.interactions import Interactions

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def matrix_of(X: Any) -> Any:
    return X.matrix if isinstance(X, Interactions) else X


def pair_of(held_out: Any) -> Any:
    """Returns validation data as :func:`dsstne.fit` takes them; a part of Interactions becomes a pair."""
    if isinstance(held_out, Interactions) and held_out.given is not None:
        return held_out.given, held_out
    if isinstance(held_out, (tuple, list)):
        if len(held_out) != 2:
            raise InvalidArgumentError(f"eval_set: expected a matrix or a pair of two, got {len(held_out)} items")
        return tuple(held_out)
    return held_out


def compressed(X: Any) -> Any:
    """Returns a matrix as compressed rows; the messages have the words by which tools of scikit-learn know them."""
    shape, dtype = getattr(X, "shape", None), getattr(X, "dtype", None)
    if shape is not None and len(shape) == 1:
        raise InvalidArgumentError(
            f"Reshape your data: X has one dimension, of {shape[0]}, and needs rows and columns; one row is X[[0]]"
        )
    if getattr(dtype, "kind", None) == "c":
        raise InvalidDataError(f"Complex data not supported: X is of type {dtype}, expected real numbers")
    if getattr(dtype, "kind", None) == "O":
        X = _numbers(X)
    X = as_csr(X, "X")
    if X.data.dtype.kind == "f":
        refuse(X, lambda values: ~np.isfinite(values), "X has values that are NaN or inf")
    return X


class _NotNumbersError(InvalidDataError, TypeError):
    """As NumPy, which raises a TypeError for values that are no numbers."""


def _numbers(X: Any) -> NDArray[np.float64]:
    """Returns an array of objects as numbers, if they are numbers."""
    try:
        return np.asarray(X).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise _NotNumbersError(f"X is an array of objects that are no numbers: {error}") from None


def refuse(X: Any, is_wrong: Callable[[NDArray[Any]], NDArray[np.bool_]], what: str) -> None:
    """Raises an error about the first wrong value of compressed rows, if there is one; others report damaged rows."""
    first, last = (max(0, int(X.indptr[n])) for n in (0, -1)) if len(X.indptr) else (0, 0)
    at = np.flatnonzero(is_wrong(X.data[first:last]))  # what lies outside is not part of the matrix
    if len(at):
        row = np.searchsorted(X.indptr, first + at[0], "right") - 1
        raise InvalidDataError(f"{what}: row {row:,} has the value {X.data[first + at[0]]}")


def weights_of(sample_weight: Any, X: Any) -> NDArray[np.float64]:
    """Returns the weights of the rows."""
    return row_weights(sample_weight, matrix_of(X).shape[0])


def column_names(X: Any) -> NDArray[Any] | None:
    """Returns the names of the columns of a DataFrame, if they are strings."""
    if isinstance(X, (Dataset, Interactions)) or not (hasattr(X, "columns") and hasattr(X, "to_numpy")):
        return None
    names = np.array(list(X.columns), object)
    return names if len(names) and all(isinstance(name, str) for name in names) else None


def check_names(names: NDArray[Any], fitted: NDArray[Any]) -> None:
    """Raises an error if the columns are not those of the fit."""
    if np.array_equal(names, fitted):
        return
    lists = {
        "Feature names unseen at fit time": sorted(set(names) - set(fitted)),
        "Feature names seen at fit time, yet now missing": sorted(set(fitted) - set(names)),
    }
    text = "The feature names should match those that were passed during fit.\n"
    for what, differing in lists.items():
        if differing:
            text += f"{what}:\n" + "".join(f"- {name}\n" for name in differing[:5])
            text += "- ...\n" if len(differing) > 5 else ""
    if not any(lists.values()):
        text += "Feature names must be in the same order as they were in fit.\n"
    raise InvalidArgumentError(text)
