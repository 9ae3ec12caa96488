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


def valued(seed=0, dtype=np.float32):
    """Interactions with values, in rows that are neither sorted nor free of duplicates; every tenth row is empty."""
    X = blocks(seed=seed).astype(dtype)
    random = np.random.default_rng(seed)
    X.data[:] = random.integers(1, 5, X.nnz)
    keep = np.repeat(np.arange(X.shape[0]) % 10 != 9, np.diff(X.indptr))
    lengths = np.diff(X.indptr) * (np.arange(X.shape[0]) % 10 != 9)
    made = scipy.sparse.csr_array(X.shape, dtype=dtype)
    made.indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    made.indices, made.data = X.indices[keep], X.data[keep]
    for first, end in zip(made.indptr, made.indptr[1:], strict=False):
        order = random.permutation(end - first)
        made.indices[first:end], made.data[first:end] = made.indices[first:end][order], made.data[first:end][order]
        if end - first > 1:
            made.indices[first] = made.indices[end - 1]
    return made


def ratings():
    """Values in 40 rows and 25 columns; one row and one column are empty, and float32 rounds some decimals."""
    X = scipy.sparse.random_array((40, 25), density=0.2, format="lil", rng=0, dtype=np.float32)
    X[7] = 0
    X[:, 11] = 0
    X[3, 2], X[3, 4], X[5, 5] = 1e-8, 3.1e20, -2
    return scipy.sparse.csr_array(X)
