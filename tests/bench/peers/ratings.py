"""Matrix factorisation of ratings with the squared loss, an epoch of gradient steps: ours and LIBMF's.

Both go once over all stored ratings. LIBMF takes them one by one and adapts the rate of each row (Chin et al., 2015);
ours are steps over batches of users. LIBMF is compiled for this machine: see the Makefile.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from scipy import sparse

BATCH = 128


class Ours:
    """A network from one-hot users to items whose loss is that of the stored entries."""

    def __init__(self, ratings: sparse.csr_array, factors: int, threads: int) -> None:
        from scipy import sparse

        import dsstne

        start = {"kind": "normal", "scale": 0.1}
        layer = {"size": factors, "activation": "linear", "bias": False, "initializer": start}
        network = {
            "layers": [
                {"name": "user", "kind": "input"},
                {"name": "factors", "kind": "hidden", **layer},
                {"name": "item", "kind": "output", "bias": False, "initializer": start},
            ],
            "loss": {"kind": "squared", "stored_only": True},
        }
        users = sparse.eye_array(ratings.shape[0], format="csr", dtype=np.float32)
        model = dsstne.fit(users, ratings, network=network, epochs=0, progress=False)
        self.trainer = dsstne.Trainer(
            model,
            users,
            ratings,
            optimizer={"kind": "sgd", "learning_rate": 0.5},
            batch_size=BATCH,
            threads=threads,
            precision="float32",
        )
        self.trainer.run(epochs=1)

    def seconds(self, epochs: int) -> float:
        """Seconds of an epoch."""
        begin = time.perf_counter()
        self.trainer.run(epochs=epochs)
        return (time.perf_counter() - begin) / epochs


class LibMF:
    """LIBMF's matrix factorisation with the squared loss."""

    def __init__(self, ratings: sparse.csr_array, factors: int, threads: int) -> None:
        from libmf import mf

        entries = ratings.tocoo()
        self.entries = np.column_stack([entries.row, entries.col, entries.data]).astype(np.float32)
        self.fit = lambda epochs: mf.MF(
            fun=mf.P_L2_MFR, k=factors, nr_threads=threads, nr_iters=epochs, eta=0.05, quiet=True
        ).fit(self.entries)

    def seconds(self, epochs: int) -> float:
        """Seconds of an epoch, without what is done once."""
        taken = []
        for count in (2, 2 + epochs):
            begin = time.perf_counter()
            self.fit(count)
            taken.append(time.perf_counter() - begin)
        return (taken[1] - taken[0]) / epochs


def make(who: str, *arguments: Any) -> Ours | LibMF:
    """The contestant of a name."""
    return Ours(*arguments) if who == "dsstne" else LibMF(*arguments)
