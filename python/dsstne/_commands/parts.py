"""What ``dsstne convert`` moves: a matrix with its names, weights and marks, in blocks of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from dsstne.dataset import Dataset
from dsstne.errors import InvalidDataError, OutOfMemoryError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dsstne._commands.sources import Source

_BLOCK = 1 << 18  # entries that are in memory beside the matrix, about


class Part:
    """A matrix that is converted.

    Args:
        source: What was read. A matrix in memory is changed: the columns of each row ascend, and entries that are there
            twice are summed.
        path: The file, for messages.

    Attributes:
        data: The matrix as a Dataset, which has checked it.
        exact: The matrix with the values of the file; None if that is what ``data`` has.
        source: What was read beside the matrix.
        path: The file, for messages.
    """

    def __init__(self, source: Source, path: str) -> None:
        self.source, self.path = source, path
        try:
            if isinstance(source.matrix, Dataset):
                self.data, self.exact = source.matrix, None
            else:
                self.exact = _canonical(source.matrix)
                self.data = Dataset(self.exact)
        except InvalidDataError as error:
            raise InvalidDataError(f"{path}: {error}") from None

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.data.shape

    @property
    def is_boolean(self) -> bool:
        """Whether all values are 1."""
        return bool(self.data.info["minimum"] == self.data.info["maximum"] == 1)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values in blocks."""
        return np.dtype(np.float32) if self.exact is None else self.exact.dtype

    def blocks(self) -> Iterator[Any]:
        """Yields the rows in order, as matrices in compressed row form."""
        step = max(1, _BLOCK * self.shape[0] // max(1, self.data.nnz))
        for first in range(0, self.shape[0], step):
            rows = slice(first, first + step)
            yield self.data[rows] if self.exact is None else self.exact[rows]

    def counts(self) -> NDArray[np.int64]:
        """Counts the entries of each row in the blocks."""
        lengths = [np.diff(block.indptr).astype(np.int64) for block in self.blocks()]
        return np.concatenate([*lengths, np.empty(0, np.int64)])

    def zeros(self) -> int:
        """Counts the stored zeros that :attr:`data` leaves out."""
        if self.exact is not None:
            return int(self.exact.nnz - np.count_nonzero(self.exact.data))
        if self.source.name is None:  # a file of Dataset.save, which has none
            return 0
        return self.data.nnz - int(self.counts().sum())  # of a NetCDF file whose examples share rows

    def is_rounded(self) -> bool:
        """Reports whether a value has more digits than float32 has; 0.1 does not have, and is 0.1 as a float32."""
        exact = self.exact
        return exact is not None and exact.dtype.kind != "b" and any(_is_rounded(block.data) for block in self.blocks())


def _is_rounded(values: NDArray[Any]) -> bool:
    rounded = values.astype(np.float32)
    changed = rounded.astype(values.dtype) != values
    if values.dtype.kind != "f":
        return bool(changed.any())
    decimals = np.array([float(str(value)) for value in np.unique(rounded[changed])])
    return not np.isin(values[changed], decimals).all()


def _canonical(matrix: Any) -> Any:
    """Returns a matrix in compressed row form with ascending columns, each once; zeros stay, False does not."""
    if matrix.dtype.kind == "f" and matrix.dtype.itemsize not in (4, 8):  # which SciPy cannot compute with
        matrix = matrix.astype(np.float32 if matrix.dtype.itemsize < 4 else np.float64)
    if matrix.dtype.kind not in "biuf":
        raise InvalidDataError(f"the values are of type {matrix.dtype}; expected numbers or booleans")
    matrix = scipy.sparse.csr_array(matrix)
    matrix.sum_duplicates()
    if matrix.dtype.kind == "b" and not matrix.data.all():
        matrix.eliminate_zeros()
    return matrix


def need(given: Namespace, path: str, size: float) -> None:
    """Refuses to read what takes more memory than ``--memory-limit``."""
    if given.memory_limit is not None and size > given.memory_limit:
        raise OutOfMemoryError(
            f"{path}: its conversion takes about {int(size):,} bytes of memory, more than --memory-limit allows, "
            f"{given.memory_limit:,}"
        )
