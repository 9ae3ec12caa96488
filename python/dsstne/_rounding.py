"""Numbers of 2 bytes, each rounded once, to the nearest and of two to the even one; what is too large becomes infinite.

Those of bfloat16 are the upper halves of float32. NumPy does not have them: their bits are uint16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def to_float16(numbers: NDArray[Any]) -> NDArray[np.float16]:
    """Rounds numbers. NumPy itself rounds those of float64 twice on some processors."""
    return np.ascontiguousarray(_almost_float32(numbers), np.float16)


def to_bfloat16(numbers: NDArray[Any]) -> NDArray[np.uint16]:
    """Rounds numbers."""
    bits = np.ascontiguousarray(_almost_float32(numbers), np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    rounded[(bits & 0x7FFFFFFF) > 0x7F800000] = 0x7FC0  # NaN, whose bits may have run over
    return rounded


def from_bfloat16(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Returns the numbers as float32, which holds each of them."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _almost_float32(numbers: NDArray[Any]) -> NDArray[Any]:
    """Returns numbers of float32, or fewer bits, that round to the same numbers of 2 bytes as the given ones.

    A number between two of float32 becomes the one whose last bit is 1, since the other may be halfway between two
    numbers of 2 bytes.
    """
    if numbers.dtype in (np.float32, np.float16):
        return numbers
    exact = np.ascontiguousarray(numbers, np.float64)
    near = exact.astype(np.float32)
    bits = near.view(np.uint32)
    bits -= np.abs(near) > np.abs(exact)
    bits |= (near != exact) & np.isfinite(exact)
    return near
