import doctest
import importlib.util
import lzma
import sys
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import dsstne.datasets
from dsstne.datasets import hold_out, load_debian
from dsstne.errors import InvalidArgumentError, InvalidDataError, NotFoundError

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make_debian_data.py"


@pytest.fixture(scope="module")
def debian():
    return load_debian()


@pytest.fixture
def ragged():
    """Rows of 0 to 39 entries with values that tell them apart."""
    rows, columns = 40, 50
    rng = np.random.default_rng(1)
    indices = np.concatenate([np.sort(rng.choice(columns, n, replace=False)) for n in range(rows)])
    offsets = np.concatenate([[0], np.cumsum(np.arange(rows))])
    return sparse.csr_array((np.arange(1.0, len(indices) + 1), indices, offsets), shape=(rows, columns))


def test_the_debian_data_have_the_shape_that_their_readme_tells(debian):
    rows, items = debian.matrix.shape
    assert f"{rows:,} packages (rows) and {items:,} packages" in debian.description
    assert f"{debian.matrix.nnz:,} entries" in debian.description


def test_the_debian_matrix_is_a_canonical_float32_matrix_of_ones(debian):
    assert isinstance(debian.matrix, sparse.csr_array)
    assert debian.matrix.dtype == np.float32
    assert debian.matrix.has_canonical_format
    assert (debian.matrix.data == 1).all()


def test_every_debian_row_and_item_has_at_least_four_entries(debian):
    assert np.diff(debian.matrix.indptr).min() >= 4
    assert np.bincount(debian.matrix.indices, minlength=debian.matrix.shape[1]).min() >= 4


def test_no_two_debian_rows_are_the_same(debian):
    rows = np.split(debian.matrix.indices, debian.matrix.indptr[1:-1])
    assert len({row.tobytes() for row in rows}) == len(rows)


def test_debian_names_belong_to_their_rows_and_items(debian):
    row = debian.rows(["gimp"])[0]
    needs = debian.item_names[debian.matrix.indices[slice(*debian.matrix.indptr[row : row + 2])]]
    assert {"libc6", "libgimp2.0", "libtiff6"} <= set(needs)
    assert debian.row_descriptions[row] == "GNU Image Manipulation Program"
    assert debian.item_descriptions[debian.items(["zlib1g"])[0]] == "compression library - runtime"


def test_names_are_unique(debian):
    assert len(set(debian.row_names)) == len(debian.row_names) == debian.matrix.shape[0]
    assert len(set(debian.item_names)) == len(debian.item_names) == debian.matrix.shape[1]


def test_a_misspelt_name_is_an_error_with_the_nearest_name(debian):
    with pytest.raises(NotFoundError, match=r"no item is named 'libssl33'; did you mean 'libssl3'\?"):
        debian.items(["zlib1g", "libssl33"])


def test_new_rows_are_made_from_names(debian):
    X = debian.matrix_of([["zlib1g", "libc6", "zlib1g"], []])
    assert X.shape == (2, debian.matrix.shape[1])
    assert set(debian.item_names[X.indices]) == {"zlib1g", "libc6"}
    assert X.indptr.tolist() == [0, 2, 2]


def test_the_debian_file_is_small():
    data = resources.files("dsstne.datasets") / "debian" / "packages.txt.xz"
    assert len(data.read_bytes()) < 1_500_000


def test_the_split_loses_and_invents_nothing(ragged):
    shown, hidden = hold_out(ragged, fraction=0.3)
    assert abs(shown + hidden - ragged).nnz == 0
    assert shown.multiply(hidden).nnz == 0


def test_each_row_hides_its_share_and_keeps_one_entry(ragged):
    shown, hidden = hold_out(ragged, fraction=0.8)
    lengths = np.arange(40)
    expected = np.minimum(np.floor(lengths * 0.8 + 0.5), np.maximum(lengths - 1, 0))
    assert np.diff(hidden.indptr).tolist() == expected.tolist()
    assert np.diff(shown.indptr)[1:].min() == 1


def test_hiding_everything_leaves_one_entry_a_row(ragged):
    shown, _ = hold_out(ragged, fraction=1.0)
    assert np.diff(shown.indptr).tolist() == [0] + [1] * 39


def test_hiding_nothing_gives_the_matrix_back(ragged):
    shown, hidden = hold_out(ragged, fraction=0.0)
    assert abs(shown - ragged).nnz == 0
    assert hidden.nnz == 0


def test_the_split_is_a_function_of_the_seed(ragged):
    first, again, other = (hold_out(ragged, seed=seed)[1] for seed in (3, 3, 4))
    assert np.array_equal(first.indices, again.indices)
    assert not np.array_equal(first.indices, other.indices)


def test_the_split_of_a_known_matrix_never_changes():
    # Results that people have published with a seed depend on it.
    X = sparse.csr_array(np.ones((3, 10), dtype=np.float32))
    _, hidden = hold_out(X, fraction=0.3, seed=0)
    assert hidden.indices.reshape(3, 3).tolist() == [[1, 2, 3], [1, 3, 5], [0, 1, 5]]


def test_every_entry_is_hidden_equally_often():
    X = sparse.csr_array(np.ones((20_000, 10), dtype=np.float32))
    _, hidden = hold_out(X, fraction=0.2)
    count = np.bincount(hidden.indices, minlength=10)
    # Binomial(20,000, 0.2) has a deviation of 57; ten columns exceed 4.5 of them with one seed in 15,000.
    assert np.abs(count - 4000).max() < 4.5 * 57


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
def test_the_parts_are_of_the_kind_and_type_of_the_matrix(ragged, kind):
    X = kind(ragged).astype(np.float32)
    for part in hold_out(X):
        assert type(part) is kind
        assert part.dtype == np.float32
        assert part.indices.dtype == X.indices.dtype
        assert part.has_canonical_format


def test_unsorted_entries_duplicates_and_stored_zeros_are_cleaned_in_a_copy():
    X = sparse.csr_array(([1.0, 2.0, 3.0, 0.0], [5, 1, 5, 2], [0, 4]), shape=(1, 6))
    shown, hidden = hold_out(X, fraction=0.5)
    assert sorted([*shown.indices, *hidden.indices]) == [1, 5]
    assert X.nnz == 4


def test_the_last_entries_of_a_row_are_held_out_in_their_order():
    X = sparse.csr_array((np.arange(1.0, 8), [7, 2, 9, 4, 3, 1, 8], [0, 4, 4, 7]), shape=(3, 10))
    shown, hidden = hold_out(X, fraction=0.5, last=True)
    assert hidden.toarray()[0].nonzero()[0].tolist() == [4, 9]
    assert hidden.toarray()[2].nonzero()[0].tolist() == [1, 8]  # 1.5 of 3 rounds to 2
    assert abs(shown + hidden - X).nnz == 0
    assert X.indices.tolist() == [7, 2, 9, 4, 3, 1, 8]


def test_times_decide_and_ties_go_to_the_later_stored(ragged):
    X = sparse.csr_array((np.ones(5), [0, 1, 2, 3, 4], [0, 5]), shape=(1, 5))
    times = sparse.csr_array((np.array([50, 10, 40, 40, 0]), [0, 1, 2, 3, 4], [0, 5]), shape=(1, 5))
    assert hold_out(X, fraction=0.4, last=times)[1].indices.tolist() == [0, 3]
    order = np.random.default_rng(0).permutation(ragged.nnz).astype(float)
    by_time = sparse.csr_array((order, ragged.indices, ragged.indptr), shape=ragged.shape)
    shown, hidden = hold_out(ragged, fraction=0.3, last=by_time)
    assert abs(shown + hidden - ragged).nnz == 0
    time = {int(value): order[n] for n, value in enumerate(ragged.data)}
    for row in range(2, 40):
        earlier, later = ([time[int(v)] for v in part[[row]].data] for part in (shown, hidden))
        assert not later or max(earlier) < min(later)


def test_of_an_item_stored_twice_the_latest_entry_counts():
    X = sparse.csr_array((np.array([1.0, 2, 4, 8]), [5, 1, 3, 5], [0, 4]), shape=(1, 6))
    shown, hidden = hold_out(X, fraction=0.3, last=True)
    assert (hidden.indices.tolist(), hidden.data.tolist()) == ([5], [9])
    assert shown.indices.tolist() == [1, 3]


def test_a_core_leaves_rare_items_out_before_the_split():
    X = sparse.csr_array(np.array([[1, 1, 0, 1], [1, 1, 0, 0], [1, 0, 1, 0]], np.float32))
    for last in (False, X):
        shown, hidden = hold_out(X, fraction=0.5, core=2, last=last)
        assert (shown + hidden).toarray().tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0]]
        assert np.diff(hidden.indptr).tolist() == [1, 1, 0]
    assert sum(part.nnz for part in hold_out(X, core=4)) == 0


def test_rows_in_the_order_of_the_items_have_no_last_entries(ragged):
    with pytest.warns(UserWarning, match="most rows of X are sorted by item"):
        hold_out(ragged, last=True)


def test_times_that_do_not_belong_to_the_matrix_are_refused(ragged):
    with pytest.raises(InvalidArgumentError, match="with last=, it must be CSR, because converting it would sort"):
        hold_out(ragged.tocoo(), last=True)
    with pytest.raises(InvalidArgumentError, match="as many entries in each row"):
        hold_out(ragged, last=ragged[:, :20])
    other = ragged.copy()
    other.indices[[3, 4]] = other.indices[[4, 3]]
    with pytest.raises(InvalidArgumentError, match=r"in row 3 it has item \d+ where X has item \d+"):
        hold_out(ragged, last=other)
    other = ragged.copy()
    other.data[7] = np.nan
    with pytest.raises(InvalidDataError, match="last: the time in row 4 is not a number"):
        hold_out(ragged, last=other)
    with pytest.raises(InvalidArgumentError, match="last must be True or False, not 'times'"):
        hold_out(ragged, last="times")


def test_a_fraction_beyond_one_is_refused(ragged):
    with pytest.raises(InvalidArgumentError, match="fraction must be from 0 to 1, not 20"):
        hold_out(ragged, fraction=20)


def test_a_dense_array_is_refused_with_a_hint():
    with pytest.raises(InvalidArgumentError, match="csr_array"):
        hold_out(np.eye(3))


def test_the_examples_in_the_documentation_are_true():
    assert doctest.testmod(dsstne.datasets).failed == 0
    assert doctest.testmod(dsstne.datasets._split).failed == 0
    assert doctest.testmod(dsstne.datasets._published).failed == 0


PACKAGES = """\
Package: app
Depends: liba (>= 1.0), libb | libz, virtual-one, virtual-two [amd64]
Pre-Depends: init:any
Description: An application

Package: twin
Depends: libb, liba, provider, virtual-two, init
Description: Needs the same as app

Package: lonely
Depends: liba
Description: Needs too little

Package: other
Depends: liba, libb, provider

Package: provider
Provides: virtual-one (= 2), virtual-two

Package: second
Provides: virtual-two
"""


def test_the_data_maker_reads_relations_and_leaves_out_repeated_and_short_rows():
    maker = _load_script()
    packages = maker.read_packages(PACKAGES, ["Pre-Depends", "Depends"])
    needs = maker.resolve(packages)
    assert needs["app"] == {"init", "liba", "libb", "provider", "virtual-two"}
    assert set(maker.prune(needs, 2, 1)) == {"app", "other"}


def test_the_data_maker_writes_what_the_loader_reads(tmp_path):
    maker = _load_script()
    packages = maker.read_packages(PACKAGES, ["Pre-Depends", "Depends"])
    text = maker.encode({"app": frozenset({"liba", "libb"}), "other": frozenset({"libb"})}, packages)
    assert text == "2\nlibb\t\nliba\t\napp\tAn application\t0 1\nother\t\t0\n"
    path = tmp_path / "Packages.xz"
    path.write_bytes(lzma.compress(PACKAGES.encode()))
    assert maker.read_text(path) == PACKAGES


def _load_script():
    spec = importlib.util.spec_from_file_location("make_debian_data", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("dtype", [np.float64, bool])
def test_hold_out_splits_a_dataset_as_its_matrix(dtype):
    X = sparse.random_array((30, 20), density=0.3, format="csr", rng=0, dtype=np.float64).astype(dtype)
    X.indices[1] = X.indices[0]  # duplicates are summed, boolean ones count once
    X.has_sorted_indices = X.has_canonical_format = False
    with dsstne.Dataset(X) as data:
        for part, want in zip(hold_out(data), hold_out(X), strict=True):
            assert np.array_equal(part.toarray(), want.toarray())
