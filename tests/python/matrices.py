"""Small matrices with something to learn in them."""

import numpy as np
import scipy.sparse


def blocks(rows=240, items=60, groups=6, seed=0):
    """Users of `groups` tastes: each takes about half of the items of its own group and one from anywhere."""
    random = np.random.default_rng(seed)
    taste, group = np.arange(rows) % groups, np.arange(items) % groups
    dense = (taste[:, None] == group) & (random.random((rows, items)) < 0.5)
    dense[np.arange(rows), random.integers(0, items, rows)] = True
    return scipy.sparse.csr_array(dense.astype(np.float32))
