"""Training in bfloat16: chosen, warned about where it is emulated, and as good as float32."""

import json
import warnings

import numpy as np
import pytest

import dsstne
from dsstne.datasets import hold_out, load_debian

HEAD = """
import json, sys, warnings
import numpy as np, scipy.sparse, dsstne
from dsstne import _native
def only(instruction_set):
    _native.call("configure", json.dumps({"instruction_set": instruction_set}).encode())
"""
SETS = ("avx512bf16", "avx512vnni", "avx512", "avx2", "portable")
"""Instruction sets, widest first."""


@pytest.fixture(scope="module")
def usable():
    """Those of SETS that this CPU has."""
    widest = _cpu()["kind"]
    return SETS[SETS.index(widest) :]


def _cpu():
    return next(device for device in dsstne.doctor().engine["devices"] if device["name"] == "cpu")


def fit(X, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # emulated here, perhaps
        return dsstne.fit(X, progress=False, **options)


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads(X, loss):
    options = {"hidden": [13, 7], "epochs": 3, "batch_size": 50, "loss": loss}
    one, two = (fit(X, precision="bfloat16", threads=threads, **options) for threads in (1, 2))
    wide = fit(X, precision="float32", **options)
    for name in one.tensors:
        assert one.tensor(name).tobytes() == two.tensor(name).tobytes(), name
        assert one.tensor(name).dtype == np.float32
    assert any((one.tensor(name) != wide.tensor(name)).any() for name in one.tensors)
    assert one.history[-1]["loss"] < one.history[0]["loss"]
    assert one.history[-1]["loss"] == pytest.approx(wide.history[-1]["loss"], rel=2**-7)


def test_a_trainer_takes_the_precision_too(X):
    model = fit(X, hidden=[8], epochs=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with dsstne.Trainer(model, X, precision="bfloat16") as trainer:
            assert trainer.run(epochs=3).loss > 0


@pytest.mark.long
def test_a_warning_tells_where_bfloat16_is_emulated(python, usable):
    program = (
        HEAD
        + """
only(sys.argv[1])
X = scipy.sparse.csr_array(np.eye(8, dtype=np.float32))
told = {}
for precision in ("bfloat16", "float32"):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dsstne.fit(X, hidden=[2], epochs=1, precision=precision, progress=False)
    told[precision] = [str(warning.message) for warning in caught]
print(json.dumps(told))
"""
    )
    for name in usable:
        told = json.loads(python(program, name))
        assert told["float32"] == []
        if name == "avx512bf16":
            assert told["bfloat16"] == []
        else:
            (text,) = told["bfloat16"]
            assert f"this CPU ({name}) has no instructions for bfloat16" in text
            assert "slower" in text


def test_the_doctor_lists_the_precisions_that_have_instructions(usable):
    assert _cpu()["precisions"] == (["float32", "bfloat16"] if "avx512bf16" in usable else ["float32"])


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("tensorfloat32", "only CUDA devices have; on the CPU use bfloat16 or float32"),
        ("bfloat61", 'did you mean "bfloat16"'),
    ],
)
def test_other_precisions_are_refused_with_words(X, word, answer):
    with pytest.raises(dsstne.InvalidArgumentError, match=word) as caught:
        dsstne.fit(X, hidden=[4], epochs=1, precision=word, progress=False)
    assert answer in str(caught.value)


# Another seed moves both metrics by 0.01 to 0.02 here, and rounding by 0.0005 at most with seeds 0 to 3.
TOLERANCE = 0.0025


@pytest.mark.long
def test_the_metrics_on_the_bundled_data_are_those_of_float32():
    X_in, X_held_out = hold_out(load_debian().matrix, fraction=0.2, seed=0)
    found = {}
    for precision in ("float32", "bfloat16"):
        model = fit(X_in, hidden=[64, 64], epochs=3, learning_rate=3e-3, precision=precision)
        found[precision] = dsstne.evaluate(model, X_in, X_held_out)
    assert found["bfloat16"] == pytest.approx(found["float32"], abs=TOLERANCE)
    assert found["bfloat16"]["recall@20"] > 0.3  # popularity has 0.15


@pytest.mark.long
def test_all_instruction_sets_rank_alike_at_both_precisions(python, usable):
    program = (
        HEAD
        + """
only(sys.argv[1])
warnings.simplefilter("ignore", UserWarning)
from dsstne.datasets import hold_out, load_debian
X_in, X_held_out = hold_out(load_debian().matrix[::8], fraction=0.2, seed=0)
found = {}
for precision in ("float32", "bfloat16"):
    options = dict(hidden=[32], epochs=3, batch_size=128, learning_rate=0.01, precision=precision)
    model = dsstne.fit(X_in, progress=False, **options)
    found[precision] = dsstne.evaluate(model, X_in, X_held_out)
print(json.dumps(found))
"""
    )
    found = {name: json.loads(python(program, name)) for name in usable}
    first = found[usable[0]]
    for name in usable[1:]:
        for precision in ("float32", "bfloat16"):
            # The same numbers, added in other orders. A near tie may come out otherwise, in a list or two of 2,000.
            assert found[name][precision] == pytest.approx(first[precision], abs=0.001), (name, precision)
