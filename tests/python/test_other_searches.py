"""Searches of other packages: Optuna, and in environments of their own dask-ml and Ray Tune."""

import os
import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

optuna = pytest.importorskip("optuna")

ROOT = Path(__file__).resolve().parents[2]
X = scipy.sparse.random_array((300, 60), density=0.1, format="csr", rng=0, dtype=np.float32)

STUDY = """
import sys, time, warnings
import numpy as np, optuna, scipy.sparse, dsstne
X = scipy.sparse.random_array((300, 60), density=0.1, format="csr", rng=0, dtype=np.float32)
inputs, held_out = dsstne.datasets.hold_out(X)
optuna.logging.set_verbosity(optuna.logging.WARNING)

def objective(trial):
    def report(model, record):
        trial.report(record["ndcg@20"], int(record["epoch"]))
        if trial.should_prune():
            raise optuna.TrialPruned
    rate = trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True)
    options = {"hidden": 8, "epochs": 6, "schedule": None, "batch_size": 64, "progress": False}
    model = dsstne.fit(inputs, learning_rate=rate, validation=held_out, callbacks=report, **options)
    time.sleep(float(sys.argv[3]))
    return model.history[-1]["ndcg@20"]

storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(sys.argv[1]))
study = optuna.create_study(
    storage=storage, study_name="s", load_if_exists=True, direction="maximize",
    sampler=optuna.samplers.RandomSampler(seed=len(sys.argv[1])),
    pruner=optuna.pruners.MedianPruner(n_startup_trials=2, n_warmup_steps=1),
)
study.optimize(objective, n_trials=int(sys.argv[2]))
print(*[trial.state.name for trial in study.trials])
"""


def study(path, trials, pause=0.0):
    command = [sys.executable, "-c", STUDY, str(path), str(trials), str(pause)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_callback_can_prune_a_trial_of_optuna(tmp_path):
    out, error = study(tmp_path / "study.log", 12).communicate(timeout=120)
    states = out.split()
    assert len(states) == 12, error
    assert set(states) == {"COMPLETE", "PRUNED"}


@pytest.mark.slow
def test_a_study_of_optuna_goes_on_after_a_kill(tmp_path):
    path = tmp_path / "study.log"
    process = study(path, 50, pause=0.2)
    until = time.monotonic() + 60
    while path.exists() is False or path.read_bytes().count(b"op_code") < 30:
        assert time.monotonic() < until
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    out, error = study(path, 3).communicate(timeout=120)
    states = out.split()
    assert states.count("RUNNING") <= 1, error  # the one that was killed
    assert len(states) > 4
    assert set(states[-3:]) <= {"COMPLETE", "PRUNED"}


def test_rows_of_a_dataset_can_be_learned_by_number(tmp_path):
    pytest.importorskip("distributed")
    import dsstne.dask

    dsstne.Dataset(X).save(tmp_path / "x.arrow")
    kept = dsstne.dask.RowsOf(dsstne.Recommender("network", hidden=8, store=str(tmp_path)), str(tmp_path / "x.arrow"))
    plain = dsstne.Recommender("network", hidden=8)
    for numbers in (np.arange(100), np.arange(50, 250)[:, None], np.array([3, 1, 200])):
        kept = pickle.loads(pickle.dumps(kept.partial_fit(numbers, steps=2)))
        plain.partial_fit(X[numbers.ravel()], steps=2)
    assert len(pickle.dumps(kept)) < 2048
    assert np.array_equal(kept.predict(np.arange(9)), plain.predict(X[:9]))
    assert kept.score(np.arange(300)) == plain.score(X)
    for odd in (X, np.array([1.5]), np.eye(3), "abc"):
        with pytest.raises(dsstne.InvalidArgumentError, match="expected the numbers of rows of .*x.arrow"):
            kept.partial_fit(odd)
    with pytest.raises(dsstne.MissingFileError, match="no-such-file"):
        kept.set_params(path=str(tmp_path / "no-such-file")).predict(np.arange(3))


def environment(name, packages):
    """Returns the Python of an environment with these packages and this one, which is made once."""
    folder = ROOT / "build" / "environments" / name
    python = folder / "bin" / "python"
    marker = folder / "installed"
    if not marker.exists() or marker.read_text() != " ".join(packages):
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        quiet = ["-m", "pip", "-q", "--disable-pip-version-check", "install"]
        subprocess.run([python, *quiet, "numpy", "scipy", "tqdm", *packages], check=True)
        marker.write_text(" ".join(packages))
    return python


needs_environments = pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="these packages have no wheels for this version of Python"
)
DASK_ML = ["dask-ml==2025.1.0", "dask==2025.1.0", "distributed==2025.1.0", "scikit-learn==1.6.1", "pyarrow==25.0.1"]
RAY = ["ray[tune]==2.60.0"]


def output(python, folder, *arguments):
    """Returns what a program prints that runs in a folder with another Python."""
    variables = {**os.environ, "PYTHONPATH": f"{ROOT / 'python'}{os.pathsep}{ROOT / 'examples'}"}
    command = [python, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=variables, timeout=500, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    print(run.stdout)
    return run.stdout


@pytest.mark.slow
@needs_environments
def test_hyperband_of_dask_ml_moves_references_and_finds_the_same_again(tmp_path):
    python = environment("dask_ml_hyperband", DASK_ML)
    first, second = (output(python, tmp_path, ROOT / "examples" / "dask_ml_hyperband.py") for _ in range(2))
    found = re.match(r"\{'estimator__.*\} ndcg@20 (0\.\d+)\n(\d+) results, (\d+) bytes a candidate", first)
    assert found, first
    assert float(found[1]) > 0.3
    assert int(found[3]) < 2048
    assert second.splitlines()[0] == first.splitlines()[0]  # the best settings and their score


@pytest.mark.slow
@needs_environments
def test_the_example_of_ray_finds_settings(tmp_path):
    out = output(environment("ray_tune", RAY), tmp_path, ROOT / "examples" / "ray_tune.py")
    assert re.search(r"best: \{'hidden': .*\} ndcg@20 0\.\d+ after 4 epochs\n\(1, 3\)", out), out


TRIAL = """
import hashlib, os, pathlib, signal, sys
import numpy as np, ray, scipy.sparse
from ray import tune
import dsstne
import ray_tune as example

marks, kill = pathlib.Path(sys.argv[1]).absolute(), sys.argv[2] == "kill"
marks.mkdir()

def train(config, inputs, held_out):
    report, resume, calls = tune.report, dsstne.Trainer.resume, []
    def killing(metrics, checkpoint):
        report(metrics, checkpoint=checkpoint)
        calls.append(metrics)
        if kill and len(calls) == 2 and not (marks / "killed").exists():
            (marks / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    def marking(path, X):
        (marks / "resumed").touch()
        return resume(path, X)
    tune.report, dsstne.Trainer.resume = killing, marking
    example.train(config, inputs, held_out)

X = scipy.sparse.random_array((300, 60), density=0.1, format="csr", rng=0, dtype=np.float32)
inputs, held_out = dsstne.datasets.hold_out(X, seed=0)
ray.init(num_cpus=2, include_dashboard=False)
options = {"storage_path": str(marks), "verbose": 0, "stop": {"training_iteration": 5}}
run = tune.RunConfig(**options, failure_config=tune.FailureConfig(max_failures=1))
trainable = tune.with_resources(tune.with_parameters(train, inputs=inputs, held_out=held_out), {"cpu": 1})
result = tune.Tuner(trainable, param_space={"hidden": 8, "learning_rate": 0.01}, run_config=run).fit()[0]
with result.checkpoint.as_directory() as folder:
    model = dsstne.load(f"{folder}/run.checkpoint")
print("weights:", hashlib.sha256(b"".join(model.tensor(name).tobytes() for name in model.tensors)).hexdigest())
print("values:", list(result.metrics_dataframe["ndcg"]), model.step)
print("marks:", *sorted(path.name for path in marks.iterdir() if path.is_file()))
"""


@pytest.mark.slow
@needs_environments
def test_a_trial_of_ray_that_is_killed_goes_on_with_the_same_bits(tmp_path):
    python = environment("ray_tune", RAY)
    told = {}
    for mode in ("leave", "kill"):
        lines = [line.partition(": ") for line in output(python, tmp_path, "-c", TRIAL, mode, mode).splitlines()]
        told[mode] = {name: value for name, _, value in lines}
    assert told["kill"].pop("marks") == "killed resumed"
    assert told["leave"].pop("marks", "") == ""
    assert told["kill"]["weights"] == told["leave"]["weights"]
    assert told["kill"]["values"] == told["leave"]["values"]
