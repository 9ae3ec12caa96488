"""One family of exceptions that are also the built-in ones."""

import pickle

import pytest

from dsstne import errors

BUILTIN = {
    "InvalidArgumentError": ValueError,
    "InvalidDataError": ValueError,
    "NotFoundError": KeyError,
    "MissingFileError": FileNotFoundError,
    "InputOutputError": OSError,
    "CorruptFileError": ValueError,
    "UnsupportedError": NotImplementedError,
    "OutOfMemoryError": MemoryError,
    "NotFiniteError": ArithmeticError,
    "LibraryError": ImportError,
    "ForkError": RuntimeError,
    "ClusterError": RuntimeError,
    "InternalError": RuntimeError,
}


@pytest.mark.parametrize(("name", "builtin"), BUILTIN.items())
def test_error_is_the_builtin_a_user_expects(name, builtin):
    kind = getattr(errors, name)
    assert issubclass(kind, builtin)
    assert issubclass(kind, errors.DsstneError)


@pytest.mark.parametrize("status", range(1, 16))
def test_every_status_of_the_header_has_its_own_class(status):
    error = errors.from_status(status, "row 1: it is 'bad'")
    assert type(error) is not errors.DsstneError
    assert str(error) == "row 1: it is 'bad'"
    assert status == 15 or not isinstance(error, errors.InternalError)
    assert len({type(errors.from_status(n, "")) for n in range(1, 16)}) == 15


def test_unknown_status_is_an_internal_error():
    assert isinstance(errors.from_status(99, "new"), errors.InternalError)


def test_errors_pickle():
    error = pickle.loads(pickle.dumps(errors.InvalidDataError("row 3")))
    assert (type(error), str(error)) == (errors.InvalidDataError, "row 3")
