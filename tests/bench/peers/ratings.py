"""Matrix factorisation, an epoch of gradient steps: ours, LIBMF's with the squared loss and implicit's with BPR.

All take as many stored entries as there are. LIBMF takes them one by one and adapts the rate of each row (Chin et al.,
2015). implicit draws an entry at random, and its negative in proportion to how often items are stored. Ours are steps
over batches of users, with negatives of which each is as likely as any other. LIBMF is compiled for this machine: see
the Makefile.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scipy import sparse

BATCH = 128


class Ours:
    """A network from one-hot users to items whose loss is that of the stored entries, or of some others, too."""

    def __init__(
        self, ratings: sparse.csr_array, factors: int, threads: int, loss: Mapping[str, Any], rate: float
    ) -> None:
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
            "loss": loss,
        }
        users = sparse.eye_array(ratings.shape[0], format="csr", dtype=np.float32)
        model = dsstne.fit(users, ratings, network=network, epochs=0, progress=False)
        self.trainer = dsstne.Trainer(
            model,
            users,
            ratings,
            optimizer={"kind": "sgd", "learning_rate": rate},
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


class Implicit:
    """implicit's Bayesian personalised ranking, with its checks that a negative is none of the user's items."""

    def __init__(self, stored: sparse.csr_array, factors: int, threads: int) -> None:
        from implicit.cpu.bpr import BayesianPersonalizedRanking
        from scipy import sparse

        self.stored = sparse.csr_matrix(stored)
        self.fit = lambda epochs: BayesianPersonalizedRanking(
            factors=factors - 1,  # it adds one for the biases of the items
            learning_rate=0.05,
            num_threads=threads,
            iterations=epochs,
            random_state=0,
        ).fit(self.stored, show_progress=False)

    seconds = LibMF.seconds


def make(who: str, *arguments: Any) -> Ours | LibMF | Implicit:
    """The contestant of a name."""
    contestants: dict[str, Any] = {"squared": Ours, "bpr": Ours, "LIBMF": LibMF, "implicit": Implicit}
    losses = {
        "squared": ({"kind": "squared", "stored_only": True}, 0.5),
        "bpr": ({"kind": "bpr", "negatives": 1}, 0.05),
    }
    return contestants[who](*arguments, *losses.get(who, ()))
