"""The decomposition of Gowalla's normalised matrix, and the pair of sparse products that it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from measure.alternate import Contestant, UnavailableError, take_turns
from measure.lines import Goal, Line
from measure.ops import Op
from peers import decompositions
from scipy import sparse

from workloads import gowalla

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure.bench import Bench

TITLE = "(o) 448 singular vectors of Gowalla, normalised; X'(X p) of a matrix of its shape and 64 columns of float32"

K, SHAPE = 448, (29_858, 40_981, 27)  # rows, items, entries of a row
GOAL = Goal("ratio", 3, 6)


def lines(bench: Bench) -> Iterator[Line]:
    """The pair; scikit-learn's randomised method beside one iteration; in full, SciPy's beside those that converge."""
    if bench.wants("pair"):
        yield from pair(bench)
    X = gowalla.load(bench.data, "train")
    if X is None:
        yield Line("448 singular vectors", unavailable=gowalla.MISSING)
        return
    R = normalised(X)
    if bench.wants("scikit-learn"):
        yield decomposition(bench, R, "ours", "scikit-learn")
    if bench.full and bench.wants("SciPy"):
        yield decomposition(bench, R, "ours, converged", "SciPy")


def normalised(X: sparse.csr_array) -> sparse.csr_array:
    """Each entry divided by the roots of the numbers of entries of its row and its column."""
    rows, columns = np.diff(X.indptr), np.bincount(X.indices, minlength=X.shape[1])
    scale = sparse.diags_array(1 / np.sqrt(np.maximum(rows, 1)))
    scaled = scale @ X.astype(np.float64) @ sparse.diags_array(1 / np.sqrt(np.maximum(columns, 1)))
    return sparse.csr_array(scaled.astype(np.float32))


def decomposition(bench: Bench, R: sparse.csr_array, name: str, peer: str) -> Line:
    """Both in turns, with the residuals of both."""
    case = f"448 singular vectors, beside {peer}"
    threads = {variable: str(bench.threads) for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
    try:
        with (
            Contestant(decompositions.make, name, R, K, bench.threads) as us,
            Contestant(decompositions.make, peer, R, K, bench.threads, environment=threads) as them,
        ):
            turns = take_turns(lambda: us.call("run"), lambda: them.call("run"), None, bench.repeats(1, 3))
            residuals = us.call("residual"), them.call("residual")
    except UnavailableError as error:
        return Line(case, unavailable=str(error))
    note = f"largest residual {residuals[0]:.2g}, theirs {residuals[1]:.2g}"
    return Line(case, "s", turns.ours, turns.peer, peer, goal=GOAL, note=note)


def pair(bench: Bench) -> Iterator[Line]:
    """Beside SciPy's products, and the rate at which rows of a panel can be read."""
    rows, items, length = SHAPE
    shape = {"rows": rows, "items": items, "row_length": length, "units": 1}
    with (
        Op(op="pair", threads=bench.threads, **shape) as ours,
        Contestant(decompositions.make_pair, rows, items, length) as scipy,
    ):
        turns = take_turns(
            lambda: ours.run(20),
            lambda: scipy.call("run"),
            lambda: bench.limits.rows(bench.threads),
            bench.repeats(5, 9),
        )
        work = 2 * 256 * ours.entries / 1e9  # a row of 256 bytes for each entry, twice
        goals = {"SciPy's products": Goal("ratio", 2, 4), "the rate of rows": Goal("share", 0.5, 0.8)}
        for beside, goal in goals.items():
            yield Line(
                f"pair, beside {beside}",
                "ms",
                turns.ours,
                turns.peer,
                "SciPy: csr @ dense, one thread",
                work=work,
                limit=turns.limit,
                limit_name=f"rows of 256 bytes out of 8 MB, {bench.threads} threads",
                goal=goal,
            )
