"""Importing costs little and loads nothing native."""

import inspect
import operator
import re

import pytest

import dsstne


def test_import_loads_no_library_and_no_module_of_the_package(python):
    out = python(
        "import sys, dsstne\n"
        "print(sorted(m for m in sys.modules if m.startswith('dsstne')))\n"
        "print('libdsstne' in open('/proc/self/maps').read())\n"
        "print(any(m in sys.modules for m in ('numpy', 'scipy', 'tqdm', 'sklearn', 'matplotlib', 'onnx')))"
    )
    assert out.split("\n")[:3] == ["['dsstne']", "False", "False"]


def test_names_of_the_package_load_no_library(python):
    out = python(
        "import sys, dsstne\n"
        "names = [getattr(dsstne, name) for name in dsstne.__all__ if name not in ('plots', 'Recommender')]\n"
        "print('libdsstne' in open('/proc/self/maps').read(), 'tqdm' in sys.modules, 'sklearn' in sys.modules)"
    )
    assert out.split() == ["False", "False", "False"]


def test_import_after_numpy_and_scipy_loads_nothing_more_that_is_large(python):
    out = python(
        "import sys, numpy, scipy.sparse\n"
        "before = set(sys.modules)\n"
        "import dsstne\n"
        "dsstne.fit, dsstne.Dataset, dsstne.load, dsstne.DsstneError\n"
        "print({name.split('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names))"
    )
    assert out.strip() == "{'dsstne'}"


@pytest.mark.long
@pytest.mark.parametrize("name", ["errors", "trainer", "datasets", "callbacks", "metrics"])
def test_submodules_are_there_without_an_import_of_their_own(python, name):
    assert python(f"import dsstne\nprint(dsstne.{name}.__name__)").strip() == f"dsstne.{name}"


def test_first_use_loads_the_library(python):
    out = python("import dsstne\ndsstne.doctor()\nprint('libdsstne' in open('/proc/self/maps').read())")
    assert out.strip() == "True"


def test_all_names_are_there():
    for name in dsstne.__all__:
        if name != "plots":  # needs an optional package
            assert getattr(dsstne, name) is not None
    assert set(dsstne.__all__) <= set(dir(dsstne))


def test_functions_are_not_hidden_by_modules_of_the_same_name(python):
    out = python("import dsstne.api, dsstne\nprint(callable(dsstne.evaluate), callable(dsstne.doctor))")
    assert out.split() == ["True", "True"]


def test_missing_library_is_told_with_its_path_and_a_remedy(python):
    out = python(
        "import os\n"
        "os.environ['DSSTNE_LIBRARY'] = '/nowhere/libdsstne.so'\n"
        "import dsstne\n"
        "try:\n    dsstne.load(__import__('sys').executable)\n"
        "except ImportError as error:\n    print(type(error).__name__, error)\n"
        "print(dsstne.doctor())"
    )
    assert out.startswith("LibraryError")
    assert "/nowhere/libdsstne.so: no such file" in out
    assert "make build" in out
    assert out.count("problem") == 1


def test_library_of_another_version_is_refused(python, tmp_path):
    import shutil
    import subprocess

    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    source, library = tmp_path / "other.c", tmp_path / "libdsstne.so"
    source.write_text("unsigned dsstne_abi_version(void) { return 7u << 16; }\n")
    subprocess.run(["cc", "-shared", "-o", library, source], check=True)
    out = python(
        "import os, sys\nos.environ['DSSTNE_LIBRARY'] = sys.argv[1]\nimport dsstne\nprint(dsstne.doctor().problems)",
        library,
    )
    assert "version 7.0 of the C interface" in out
    assert str(library) in out


def described(function):
    """The parameters that the docstring lists under Args; one line may list several."""
    text = inspect.getdoc(function).partition("\nArgs:\n")[2].partition("\n\n")[0]
    lines = re.findall(r"^    (\S[^:`]*):", text, re.MULTILINE)
    return [name.strip(" *") for line in lines for name in line.split(",")]


@pytest.mark.parametrize(
    "call",
    [
        "fit",
        "auto",
        "search",
        "popularity",
        "evaluate",
        "beyond_accuracy",
        "compare",
        "keep_devices",
        "set_limits",
        "tfidf_weight",
        "bm25_weight",
        "Dataset",
        "Dataset.from_file",
        "OpenPredictor",
        "OpenPredictor.recommend",
        "Dataset.open",
        "Dataset.product",
        "Dataset.save",
        "Trainer",
        "Trainer.run",
        "Trainer.save",
        "Trainer.resume",
        "Trainer.fork",
        "Model",
        "Recommender",
        "Interactions.from_frame",
        "Interactions.similar_items",
        "dask.submit",
        "dask.fit",
        "dask.recommend",
        "dask.predict",
        *(f"model_selection.{name}" for name in dsstne.model_selection.__all__),
        "export.to_onnx",
        "export.item_vectors",
        "export.query_vectors",
        "export.views",
    ]
    + [f"callbacks.{name}" for name in dsstne.callbacks.__all__ if name not in ("Callback", "MLflow")]
    + [f"Model.{name}" for name in ("from_item_weights", "recommend", "predict", "embed", "scores", "plan")]
    + ["Model.neighbors", "Model.similar_items", "Model.similar_users"]
    + [f"metrics.{name}" for name in dsstne.metrics.__all__]
    + [f"plots.{name}" for name in dsstne.plots.__all__],
)
def test_every_parameter_is_described(call):
    function = operator.attrgetter(call)(dsstne)
    parameters = [name for name in inspect.signature(function).parameters if name != "self"]
    assert sorted(described(function)) == sorted(parameters)
