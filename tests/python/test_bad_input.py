"""What cannot be meant is an error that says what, where and what to do."""

import numpy as np
import pytest
import scipy.sparse

import dsstne

FAST = {"hidden": [4], "epochs": 1, "progress": False}


def damaged(X, field, position, value):
    made = X.copy()
    getattr(made, field)[position] = value
    return made


@pytest.mark.parametrize(
    ("field", "position", "value", "words"),
    [
        ("indices", 700, 60, r"row \d+.*column 60.*60"),
        ("indices", 700, -1, r"row \d+.*-1"),
        ("indptr", 100, 10**6, "row"),
        ("indptr", 100, 0, "row"),
        ("indptr", 0, -1, "row"),
        ("data", 700, np.nan, r"row \d+, column \d+.*NaN"),
        ("data", 700, -np.inf, r"row \d+, column \d+.*[Ii]nf"),
    ],
)
def test_damaged_matrices_are_refused_with_the_place(X, field, position, value, words):
    bad = damaged(X, field, position, value)
    with pytest.raises(dsstne.InvalidDataError, match=words):
        dsstne.fit(bad, **FAST)


def test_the_named_place_is_the_right_one(X):
    row = 17
    position = X.indptr[row] + 1
    bad = damaged(X, "data", position, np.nan)
    with pytest.raises(dsstne.InvalidDataError, match=rf"row {row}, column {X.indices[position]}\b"):
        dsstne.fit(bad, **FAST)


def test_a_damaged_validation_matrix_is_named(X):
    with pytest.raises(dsstne.InvalidDataError, match=r"^validation: "):
        dsstne.fit(X, **FAST, validation=damaged(X, "indices", 5, 60))


def test_arrays_that_are_too_short_are_refused(X):
    made = X.copy()
    made.data = made.data[:-1]
    with pytest.raises(dsstne.InvalidDataError, match=r"indptr ends at .* data has only"):
        dsstne.Dataset(made)
    made = X.copy()
    made.indptr = made.indptr[:-1]
    with pytest.raises(dsstne.InvalidDataError, match="needs 241"):
        dsstne.Dataset(made)


@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [
        (np.zeros(5), dsstne.InvalidArgumentError, "X must have two dimensions, rows and columns; it has 1"),
        (np.zeros((2, 2, 2)), dsstne.InvalidArgumentError, "it has 3"),
        (scipy.sparse.coo_array(np.ones(3)), dsstne.InvalidArgumentError, "it has 1"),
        ("text", dsstne.InvalidDataError, "X is a str with values of type <U4"),
        (None, dsstne.InvalidArgumentError, "X is None; expected a matrix"),
        ([["a"]], dsstne.InvalidDataError, "X is a list with values of type <U1"),
        ([[1, 2], [3]], dsstne.InvalidDataError, "X is a list whose rows have different lengths"),
        (object(), dsstne.InvalidDataError, "X is a object with values of type object"),
        ({"a": 1}, dsstne.InvalidArgumentError, "X: expected a matrix, got a mapping"),
        (np.zeros((2, 2), complex), dsstne.InvalidDataError, "complex128; expected numbers"),
    ],
)
def test_what_is_no_matrix_is_refused(bad, error, words):
    with pytest.raises(error, match=words):
        dsstne.Dataset(bad)


def test_a_dataset_is_not_wrapped_twice(X):
    with dsstne.Dataset(X) as data, pytest.raises(dsstne.InvalidArgumentError, match="X is a Dataset already"):
        dsstne.Dataset(data)


def test_errors_have_one_subject_which_is_the_parameter(X):
    with pytest.raises(dsstne.InvalidDataError, match=r"^validation is a str with values of type"):
        dsstne.fit(X, **FAST, validation="text")
    with pytest.raises(dsstne.InvalidArgumentError, match=r"^targets must have two dimensions"):
        dsstne.fit(X, np.zeros(3), **FAST)
    made = X.copy()
    made.indptr = made.indptr[:2]
    with pytest.raises(dsstne.InvalidDataError, match=r"^targets: indptr has 2 entries"):
        dsstne.fit(X, made, **FAST)


def test_none_is_no_matrix_anywhere(model, X):
    for call in (model.recommend, model.predict, model.embed, lambda _: model.scores(None, [1]), dsstne.fit):
        with pytest.raises(dsstne.InvalidArgumentError, match=r"^X is None"):
            call(None)
    with pytest.raises(dsstne.InvalidArgumentError, match=r"^X_in is None"):
        dsstne.evaluate(model, None, X)
    with pytest.raises(dsstne.InvalidArgumentError, match=r"^X_held_out is None"):
        dsstne.evaluate(model, X, None)


def test_complex_sparse_values_and_float_indices_are_refused(X):
    with pytest.raises(dsstne.InvalidDataError, match="complex"):
        dsstne.Dataset(X.astype(complex))
    made = X.copy()
    made.indices = made.indices.astype(float)
    with pytest.raises(dsstne.InvalidDataError, match="integers"):
        dsstne.Dataset(made)


@pytest.mark.parametrize(
    ("rows", "columns", "words"),
    [(240, 59, "59 columns.*60 units"), (239, 60, "239 rows.*240"), (240, 61, "61 columns")],
)
def test_validation_of_another_shape_is_refused_before_training(X, rows, columns, words):
    other = scipy.sparse.csr_array((rows, columns), dtype=np.float32)
    with pytest.raises(dsstne.InvalidArgumentError, match=words):
        dsstne.fit(X, **FAST, validation=other)


def test_a_validation_pair_must_fit_itself_and_the_network(X):
    with pytest.raises(dsstne.InvalidArgumentError, match=r"validation\[1\] has 50 rows and validation\[0\] 60"):
        dsstne.fit(X, **FAST, validation=(X[:60], X[:50]))
    with pytest.raises(dsstne.InvalidArgumentError, match=r"validation\[0\] has 20 columns"):
        dsstne.fit(X, **FAST, validation=(X[:, :20], X))
    with pytest.raises(dsstne.InvalidArgumentError, match="pair"):
        dsstne.fit(X, **FAST, validation=(X,))


def test_targets_of_other_rows_are_refused(X):
    with pytest.raises(dsstne.InvalidArgumentError, match="targets has 200 rows and X 240"):
        dsstne.fit(X, X[:200], **FAST)


@pytest.mark.parametrize("call", ["recommend", "predict", "embed"])
def test_other_columns_than_the_models_are_refused_by_name(model, X, call):
    with pytest.raises(
        dsstne.InvalidArgumentError, match="X has 59 columns and layer 'input' of the model has 60 units"
    ):
        getattr(model, call)(X[:, :59])


def test_evaluate_refuses_other_shapes(model, X):
    with pytest.raises(dsstne.InvalidArgumentError, match="X_held_out has 59 columns"):
        dsstne.evaluate(model, X, X[:, :59])
    with pytest.raises(dsstne.InvalidArgumentError, match="X_held_out has 3 rows and X_in 240"):
        dsstne.evaluate(model, X, X[:3])
    with pytest.raises(dsstne.InvalidArgumentError, match="exclude has 3 rows"):
        dsstne.evaluate(model, X, X, exclude=X[:3])
    with pytest.raises(dsstne.InvalidArgumentError, match="'inputs' is not known"):
        dsstne.evaluate(model, X, X, exclude="inputs")


@pytest.mark.parametrize("k", [0, -1, 61, 10**12])
def test_k_must_be_possible(model, X, k):
    with pytest.raises(dsstne.InvalidArgumentError, match="1 to 60"):
        model.recommend(X, k=k)
    with pytest.raises(dsstne.InvalidArgumentError, match="1 to 60"):
        model.similar_items([1], k=k)


@pytest.mark.parametrize("k", [2.5, "3", True])
def test_k_must_be_an_integer(model, X, k):
    with pytest.raises(dsstne.InvalidArgumentError, match="integer"):
        model.recommend(X, k=k)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"items": [60]}, r"items\[0\] is 60; expected 0 to 59"),
        ({"items": [-1]}, r"items\[0\] is -1"),
        ({"filter_items": [1.5]}, "filter_items: expected one list of integers, got 1 dimensions of float64"),
        ({"items": [1], "filter_items": [2]}, "not both"),
        ({"rows": [240]}, r"rows\[0\] is 240; expected 0 to 239"),
        ({"rows": [-1]}, r"rows\[0\] is -1"),
        ({"items": np.ones(59, bool)}, "items: a mask must have 60 entries"),
        ({"items": [[1, 2], [3, 4]]}, "items: expected one list of integers, got 2 dimensions"),
        ({"exclude_seen": False, "exclude": 1}, "exclude= and exclude_seen=False contradict each other"),
        ({"exclude": True}, "exclude is True.*use exclude_seen="),
        ({"exclude": np.False_}, "use exclude_seen="),
        ({"batch_size": -5}, "batch_size must be at least 1, not -5"),
        ({"batch_size": "5"}, "batch_size must be an integer, not '5'"),
        ({"devices": "gpu:7"}, "gpu:7"),
    ],
)
def test_impossible_choices_are_refused(model, X, options, words):
    with pytest.raises(dsstne.InvalidArgumentError, match=words):
        model.recommend(X, **options)


def test_arguments_of_other_types_are_refused_by_name(model, X):
    with pytest.raises(dsstne.InvalidArgumentError, match="layer must be a str, not 3"):
        model.predict(X, layer=3)
    with pytest.raises(dsstne.InvalidArgumentError, match="name must be a str, not 3"):
        model.tensor(3)
    with pytest.raises(dsstne.InvalidArgumentError, match="columns must be an integer, not '21'"):
        dsstne.Dataset(X, columns="21")
    with pytest.raises(dsstne.InvalidArgumentError, match="metrics must be a list, not 20"):
        dsstne.evaluate(model, X, X, 20)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"activation": "thanh"}, "tanh"),
        ({"loss": "sofmax"}, "softmax"),
        ({"optimizer": "adm"}, "adam"),
        ({"optimizer": {"kind": "adam", "betta2": 0.9}}, "beta2"),
        ({"input_scaling": "l1"}, "l2"),
        ({"loss": {"kind": "softmax", "wieght": 2}}, "weight"),
        ({"precision": "float31"}, "float32"),
    ],
)
def test_unknown_words_are_named_with_the_nearest_known_one(X, options, words):
    with pytest.raises((dsstne.InvalidArgumentError, dsstne.UnsupportedError), match=words):
        dsstne.fit(X, **{**FAST, **options})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"learning_rate": 0}, "learning_rate"),
        ({"learning_rate": -0.1}, "learning_rate"),
        ({"learning_rate": float("nan")}, "learning_rate.*nan"),
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"weight_decay": -1}, "weight_decay"),
        ({"optimizer": {"kind": "sgd", "l1": -1}}, r"optimizer\.l1"),
        ({"optimizer": {"kind": "sgd", "l1": "much"}}, r"optimizer\.l1"),
        ({"optimizer": {"kind": "adadelta", "decay_rate": 1}}, r"optimizer\.decay_rate"),
        ({"optimizer": {"kind": "adadelta", "epsilon": 0}}, r"optimizer\.epsilon"),
        ({"optimizer": {"kind": "adadelta", "beta2": 0.9}}, r"adadelta.*beta2|beta2.*adadelta"),
        ({"batch_size": 0}, "batch_size"),
        ({"epochs": -1}, "epochs"),
        ({"denoising": 1.0}, "denoising"),
        ({"denoising": -0.1}, "denoising"),
        ({"dropout": 1.5}, "dropout"),
        ({"temperature": 0}, "temperature"),
        ({"temperature": -1.0}, "temperature"),
        ({"hidden": []}, "hidden"),
        ({"hidden": 4.5}, "hidden must be an integer, not 4.5"),
        ({"hidden": None}, "hidden must be an integer, not None"),
        ({"hidden": "12"}, "hidden must be an integer, not '12'"),
        ({"hidden": [4, True]}, r"hidden\[1\] must be an integer, not True"),
        ({"activation": None}, "activation must be a str such as 'tanh', or a list of them, not None"),
        ({"loss": None}, "loss must be a str such as 'softmax' or a mapping, not None"),
        ({"optimizer": None}, "optimizer must be a str such as 'adam'"),
        ({"optimizer": 3}, "optimizer must be a str such as 'adam' or a mapping, not 3"),
        ({"network": {"layers": 3}}, "layers"),
        ({"network": 3}, "network must be a mapping, JSON text or a path, not 3"),
        ({"temperature": "0.1"}, "temperature must be a number, None or 'auto', not '0.1'"),
        ({"temperature": float("inf")}, "temperature must be above 0, not inf"),
        ({"epochs": "3"}, "epochs must be an integer or 'auto', not '3'"),
        ({"epochs": 2.5}, "epochs must be an integer, not 2.5"),
        ({"max_seconds": "3"}, "max_seconds must be a number, not '3'"),
        ({"callbacks": 3}, "callbacks must be a function, an object of .*, or a list of these, not 3$"),
        ({"callbacks": [3]}, "callbacks must be .* a list of these, not 3 in a list"),
        ({"epochs": 0, "learning_rate": -1}, "learning_rate"),
        ({"epochs": 0, "optimizer": "nonsense"}, "nonsense"),
        ({"epochs": 0, "precision": "foo"}, "foo"),
        ({"hidden": [0]}, "size"),
        ({"hidden": [3, 4], "activation": ["tanh"]}, "activation"),
        ({"seed": -1}, "seed"),
        ({"max_seconds": 0}, "max_seconds"),
        ({"threads": -2}, "threads"),
        ({"memory_limit": -1}, "memory_limit"),
        ({"tied": True, "hidden": [4, 5]}, "shared"),
        ({"network": {"layers": []}, "hidden": [4]}, "hidden= and network= exclude each other"),
        ({"optimizer": {"kind": "adam", "beta1": object()}}, "beta1.*object"),
    ],
)
def test_impossible_options_are_refused_by_name(X, options, words):
    defaults = {} if "network" in options else FAST
    with pytest.raises(dsstne.InvalidArgumentError, match=words):
        dsstne.fit(X, **{**defaults, **options})


def test_numbers_of_numpy_are_numbers(X):
    options = {"epochs": np.int32(1), "learning_rate": np.float32(0.01), "temperature": np.float64(0.5)}
    model = dsstne.fit(X, **{**FAST, **options}, batch_size=np.int64(64), max_seconds=np.float32(60))
    assert model.recommend(X, k=np.int16(2), batch_size=np.uint8(9))[0].shape == (240, 2)
    for hidden in (np.int64(64), np.array([64]), [np.int8(64)], range(64, 65)):
        assert dsstne.fit(X, hidden=hidden, epochs=0).tensors["hidden1.bias"] == (64,)


def test_an_input_by_name_needs_its_output_by_name(X):
    with pytest.raises(dsstne.InvalidArgumentError, match="give targets= as a mapping of output layers"):
        dsstne.fit({"input": X}, **FAST)
    with pytest.raises(dsstne.NotFoundError, match='the network has no layer "imput"; did you mean "input"'):
        dsstne.fit({"imput": X}, {"output": X}, **FAST)
    with pytest.raises(
        dsstne.NotFoundError, match="targets: the network has no such layer 'hidden1'.*the known ones are 'output'"
    ):
        dsstne.fit({"input": X}, {"hidden1": X[:, :4], "output": X}, **{**FAST, "hidden": 4})


def test_a_trainer_names_the_layer_that_a_matrix_should_feed(model, X):
    with pytest.raises(dsstne.NotFoundError, match="X: the network has no such layer 'imput'; did you mean 'input'"):
        dsstne.Trainer(model, {"imput": X}, {"output": X})
    with pytest.raises(
        dsstne.NotFoundError, match="targets: the network has no such layer 'out'; did you mean 'output'"
    ):
        dsstne.Trainer(model, {"input": X}, {"out": X})


def test_an_unknown_parameter_is_a_type_error(X):
    with pytest.raises(TypeError, match="hiden"):
        dsstne.fit(X, hiden=[4])


@pytest.mark.parametrize("shape", [(0, 60), (240, 0), (0, 0)])
def test_a_matrix_without_rows_or_columns_teaches_nothing(shape):
    with pytest.raises((dsstne.InvalidArgumentError, dsstne.InvalidDataError)):
        dsstne.fit(scipy.sparse.csr_array(shape, dtype=np.float32), **FAST)


def test_a_matrix_of_empty_rows_teaches_nothing():
    with pytest.raises(dsstne.InvalidDataError, match="empty"):
        dsstne.fit(scipy.sparse.csr_array((10, 60), dtype=np.float32), **FAST)


def test_some_empty_rows_do_no_harm(X):
    made = X.copy().tolil()
    made[::3] = 0
    model = dsstne.fit(made.tocsr(), **FAST)
    assert np.isfinite(model.history[0]["loss"])


def test_targets_a_loss_has_no_meaning_for_are_refused_with_a_remedy(X):
    with pytest.raises(dsstne.InvalidDataError, match=r"sigmoid|from 0 to 1"):
        dsstne.fit(X * 5, **FAST, loss="sigmoid")
    with pytest.raises(dsstne.InvalidDataError, match="at least 0"):
        dsstne.fit(X * -1, **FAST)


def test_a_diverging_run_names_tensor_step_and_remedy_and_keeps_a_finite_model(X):
    wild = {"activation": "relu", "loss": "squared", "optimizer": "sgd", "learning_rate": 1e4, "input_scaling": None}
    with pytest.raises(dsstne.NotFiniteError) as caught:
        dsstne.fit(X * 100, hidden=[8], epochs=50, batch_size=16, progress=False, **wild)
    message = str(caught.value)
    assert "step" in message
    assert "learning_rate" in message
    assert any(name in message for name in ("hidden1", "output", "loss"))
    model = caught.value.model
    for name in model.tensors:
        assert np.isfinite(model.tensor(name)).all(), name
    model.recommend(X)


def test_a_broken_network_definition_is_told_with_its_place(X):
    layers = [
        {"name": "in", "kind": "input", "size": 60},
        {"name": "h", "kind": "hidden", "size": 4, "activaton": "tanh"},
    ]
    output = {"name": "o", "kind": "output", "size": 60}
    with pytest.raises(dsstne.InvalidArgumentError, match=r"layers\[1\].*activaton.*activation"):
        dsstne.fit(X, network={"layers": [*layers, output]})
    with pytest.raises(dsstne.InvalidArgumentError):
        dsstne.fit(X, network='{"layers": [')
    with pytest.raises(FileNotFoundError):
        dsstne.fit(X, network="nowhere.json")
    with pytest.raises(dsstne.InvalidArgumentError, match=r"60.*59|59.*60"):
        dsstne.Model({"layers": [*layers[:1], {"name": "h", "kind": "hidden", "size": 4}, output]}, sizes={"in": 59})


def test_names_where_numbers_are_expected_come_with_the_way_to_numbers(model, X):
    with pytest.raises(dsstne.InvalidArgumentError, match=r"items: .* Interactions.rows\(names\), .items\(names\)"):
        model.recommend(X, items=["tea"])


def test_a_value_of_several_lines_is_one_line_of_a_message(X):
    with pytest.raises(dsstne.InvalidArgumentError) as raised:
        dsstne.fit(X, hidden=np.eye(9), epochs=0)
    assert "\n" not in str(raised.value)


def test_an_output_of_inputs_alone_that_overflows_is_an_error():
    layers = [{"name": "in", "kind": "input", "size": 2}, {"name": "out", "kind": "output", "size": 2}]
    model = dsstne.Model({"layers": layers, "loss": "squared"})
    model.set_tensor("out.weight", np.full((2, 2), 3e38, np.float32))
    X = scipy.sparse.csr_array(np.array([[3e38, 1], [1, 1]], np.float32))
    with dsstne.Trainer(model, X, devices="cpu") as trainer, pytest.raises(dsstne.NotFiniteError, match='"?out"?'):
        trainer.run(epochs=1)
