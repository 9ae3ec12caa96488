"""Alternating least squares of the same objective: ours and implicit's.

Observations weigh 1 and pairs that are not observed `unobserved`; the regularisation does not follow how often a row or
an item occurs (nu = 0). implicit's confidence of an observation is then 1 + 1 / unobserved, and its regularisation
that many times ours: its objective is ours but for a factor, and its factors are ours but for another.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from scipy import sparse

EPOCHS = 16


class Ours:
    """dsstne.factorize."""

    def __init__(self, X: sparse.csr_array, factors: int, unobserved: float, ridge: float, threads: int) -> None:
        import dsstne

        self.X, self.threads, self.data = X, threads, dsstne.Dataset(X)
        self.options = {"factors": factors, "unobserved_weight": unobserved, "regularization": ridge}

    def name(self) -> str:
        """The peer's name, with its setting."""
        return "dsstne"

    def fitted(self, epochs: int) -> Any:
        """Returns a model trained for the given number of epochs."""
        import dsstne

        return dsstne.factorize(self.data, epochs=epochs, nu=0.0, threads=self.threads, progress=False, **self.options)

    def seconds(self, few: int, many: int) -> float:
        """Seconds of an epoch, without what is done once."""
        taken = []
        for epochs in (few, many):
            begin = time.perf_counter()
            self.fitted(epochs)
            taken.append(time.perf_counter() - begin)
        return (taken[1] - taken[0]) / (many - few)

    def evaluate(self, test: sparse.csr_array) -> dict[str, float]:
        """Metrics of the test set after 16 epochs."""
        import dsstne

        return dsstne.evaluate(self.fitted(EPOCHS), self.X, test, ["ndcg@20", "recall@20"])


class Implicit(Ours):
    """implicit.als.AlternatingLeastSquares: three steps of conjugate gradients, its default, or exact."""

    def __init__(self, *arguments: Any, exact: bool = False) -> None:
        from scipy import sparse

        super().__init__(*arguments)
        self.exact, self.data = exact, sparse.csr_matrix(self.X)

    def name(self) -> str:
        """The peer's name, with its setting."""
        return f"implicit, {'exact' if self.exact else '3 steps of CG'}"

    def fitted(self, epochs: int) -> Any:
        """Returns a model trained for the given number of epochs."""
        from implicit.als import AlternatingLeastSquares

        alpha = 1 + 1 / self.options["unobserved_weight"]
        model = AlternatingLeastSquares(
            factors=self.options["factors"],
            alpha=alpha,
            regularization=alpha * self.options["regularization"],
            iterations=epochs,
            use_cg=not self.exact,
            num_threads=self.threads,
            use_gpu=False,
            random_state=0,
        )
        model.fit(self.data, show_progress=False)
        return model

    def evaluate(self, test: sparse.csr_array) -> dict[str, float]:
        """Metrics of the test set after 16 epochs, as dsstne counts them."""
        import dsstne
        from peers.rankers import model_of

        fitted = self.fitted(EPOCHS)
        model, rows = model_of(np.asarray(fitted.item_factors), np.asarray(fitted.user_factors))
        return dsstne.evaluate(model, rows, test, ["ndcg@20", "recall@20"], exclude=self.X)


def make(who: str, *arguments: Any) -> Ours:
    """The contestant of a name."""
    return Ours(*arguments) if who == "dsstne" else Implicit(*arguments, exact=who == "exact")
