"""A solver from C: open, bind, plan, run, progress, model, close."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from native import Failure, Library, Matrix


def test_a_solver_makes_a_model_once(library: Library) -> None:
    solver = library.open("solver_open", b'{"kind": "item_knn", "k": 1, "metric": "dot", "threads": 1}')
    matrix = Matrix(library, [[0, 1], [1, 2], [0, 1]], 3)
    data = library.dataset(matrix)

    def refused(status: str, words: str, name: str, *arguments: object) -> None:
        with pytest.raises(Failure, match=words) as caught:
            library.call(name, *arguments)
        assert caught.value.status == status

    refused("INVALID_STATE", "no dataset is bound", "solver_run", solver, 0.0, None)
    refused("NOT_FOUND", 'its only one is "input"', "solver_bind", solver, b"output", data)
    library.call("solver_bind", solver, b"input", data)
    refused("INVALID_STATE", "has a dataset already", "solver_bind", solver, b"input", data)
    refused("BUSY", "in use", "dataset_close", data)
    plan = library.text("solver_plan", solver)
    assert {"data", "the matrix by row", "similar items", "the model"} <= {part["name"] for part in plan["parts"]}
    assert plan["operations"] == ["Neighborhood: the 1 items that are most similar to each of 3"]
    with pytest.raises(Failure, match="is not done yet: 0 of 1 steps"):
        library.open("model_from_solver", solver)
    library.call("cancel", solver)  # without a run it does nothing
    library.call("solver_run", solver, 0.0, None)
    model = library.open("model_from_solver", solver)
    with pytest.raises(Failure, match="has given its model already"):
        library.open("model_from_solver", solver)
    values = np.empty(3, np.float32)
    library.call("model_get_tensor", model, b"weight.values", values.ctypes.data, values.nbytes)
    assert values.tolist() == [2, 2, 1]
    for name, handle in [("solver", solver), ("model", model), ("dataset", data)]:
        library.call(f"{name}_close", handle)


def test_an_unknown_method_or_parameter_is_named(library: Library) -> None:
    for options, words in [
        (b'{"kind": "item_nn"}', 'did you mean "item_knn"'),
        (b"{}", "kind"),
        (b'{"kind": "rp3beta", "shrink": 1}', "shrink"),
        (b'{"kind": "item_knn", "k": 0}', "k"),
    ]:
        with pytest.raises(Failure, match=words) as caught:
            library.open("solver_open", options)
        assert caught.value.status == "INVALID_ARGUMENT"


def test_a_run_goes_on_where_the_last_one_ended(library: Library) -> None:
    random = np.random.default_rng(0)
    rows = [np.flatnonzero(random.random(1000) < 0.5).tolist() for _ in range(1000)]
    matrix = Matrix(library, rows, 1000)
    data = library.dataset(matrix)

    def solved(seconds: float) -> tuple[int, bytes]:
        solver = library.open("solver_open", b'{"kind": "item_knn", "k": 5}')
        library.call("solver_bind", solver, b"input", data)
        runs, done = 0, False
        while not done:
            library.call("solver_run", solver, seconds, None)
            runs += 1
            with contextlib.suppress(Failure):
                model = library.open("model_from_solver", solver)
                done = True
        values = np.empty(5000, np.float32)
        library.call("model_get_tensor", model, b"weight.values", values.ctypes.data, values.nbytes)
        library.call("model_close", model)
        library.call("solver_close", solver)
        return runs, values.tobytes()

    once, many = solved(0), solved(1e-9)
    assert once[0] == 1 < many[0]
    assert once[1] == many[1]
    library.call("dataset_close", data)


def test_the_arrays_of_a_result_are_copied_by_name(library: Library) -> None:
    matrix = Matrix(library, [[0], [1], [0, 1]], 2)
    data = library.dataset(matrix)
    solver = library.open("solver_open", b'{"kind": "svd", "k": 2}')
    library.call("solver_bind", solver, b"input", data)
    values = np.empty(2, np.float32)
    with pytest.raises(Failure) as caught:
        library.call("solver_get_array", solver, b"s", values.ctypes.data, values.nbytes)
    assert caught.value.status == "INVALID_STATE"
    library.call("solver_run", solver, 0.0, None)
    library.call("solver_get_array", solver, b"s", values.ctypes.data, values.nbytes)
    np.testing.assert_allclose(values, np.sqrt([3, 1]), rtol=1e-6)
    for name, size, status in [
        (b"w", 8, "NOT_FOUND"),
        (b"s", 4, "INVALID_ARGUMENT"),
        (b"s", 7, "INVALID_ARGUMENT"),
        (None, 8, "INVALID_ARGUMENT"),
    ]:
        with pytest.raises(Failure) as caught:
            library.call("solver_get_array", solver, name, values.ctypes.data, size)
        assert caught.value.status == status
    with pytest.raises(Failure, match="svd"):
        library.open("model_from_solver", solver)
    library.call("solver_close", solver)
    library.call("dataset_close", data)
