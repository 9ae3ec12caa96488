"""The lines that ``dsstne predict`` writes: a sample, a TAB, and pairs of a label and a number between colons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_PARTS = 1 << 16  # of a piece of text


def lines(
    samples: Sequence[str], names: NDArray[np.object_], ids: NDArray[Any], values: NDArray[np.float32], form: str
) -> Iterator[str]:
    """Formats lines, some at a time.

    Args:
        samples: Labels of the samples.
        names: Labels of the units.
        ids: Units of each sample [samples, width]; -1 behind the last one.
        values: Their values.
        form: Format of a value by printf.
    """
    width = ids.shape[1]
    step = max(1, _PARTS // (1 + 2 * width))
    pair, whole = f"%s,{form}:", f"%s\t{f'%s,{form}:' * width}\n"
    for start in range(0, len(samples), step):
        part = slice(start, start + step)
        there = ids[part] >= 0
        parts = np.empty((len(there), 1 + 2 * width), object)
        parts[:, 0] = samples[part]
        parts[:, 1::2] = names[ids[part]]
        parts[:, 2::2] = values[part]
        if there.all():
            template, arguments = whole * len(there), parts.ravel()
        else:
            counts = np.count_nonzero(there, axis=1).tolist()
            template = "".join(f"%s\t{pair * count}\n" for count in counts)
            arguments = parts[np.column_stack([np.ones(len(there), bool), np.repeat(there, 2, axis=1)])]
        yield template % tuple(arguments.tolist())
