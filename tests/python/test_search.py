"""dsstne.search: what it finds, that it can be repeated and stopped, and what it says of failures."""

import contextlib
import contextvars
import glob
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types

import numpy as np
import pytest
import scipy.sparse
import scipy.stats

import dsstne
from dsstne import _candidates, _native, _search_run, _space, _store
from dsstne._candidates import Outcome
from dsstne._halving import Job
from dsstne._study import Trial

optuna = pytest.importorskip("optuna")


def interactions(rows=200, items=60, seed=0):
    """Rows of hidden tastes and popular items."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, 4)) @ rng.normal(size=(4, items)) + rng.normal(size=items) - 2
    return scipy.sparse.csr_array((rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.float32))


X = interactions()
SPACE = {"hidden": [4, 8, 16], "learning_rate": (1e-3, 3e-2, "log"), "denoising": (0.2, 0.8)}
SMALL = {"metric": "ndcg@10", "epochs": 18, "rungs": 3, "batch_size": 50, "progress": False}


def found(space=SPACE, budget="12 trials", **options):
    return dsstne.search(X, space, budget=budget, **{**SMALL, **options})


def results(model):
    """What of a report does not depend on time."""
    keys = ("trial", "settings", "epochs", "ndcg@10", "note", "chosen")
    return [{key: row[key] for key in keys} for row in model.report.table]


def bits(model):
    return {name: model.tensor(name).tobytes() for name in model.tensors}


@pytest.fixture(scope="module")
def model():
    return found()


# ---- what it finds ----


def test_the_best_of_each_rung_train_three_times_as_long(model):
    lengths = [row["epochs"] for row in model.report.table]
    assert sorted(set(lengths)) == [2, 6, 18]
    assert lengths.count(2) == 12
    assert 4 <= lengths.count(6) <= 8
    assert 1 <= lengths.count(18) <= 6


def test_the_chosen_trial_has_the_best_value(model):
    table = model.report.table
    chosen = [row for row in table if row["chosen"]]
    assert len(chosen) == 1
    assert chosen[0]["ndcg@10"] == max(row["ndcg@10"] for row in table)
    assert model.report.chosen == f"trial {chosen[0]['trial']}"


def test_the_code_of_the_report_makes_the_same_model(model):
    known = {"X": X}
    exec(model.report.code, known)
    assert bits(known["model"]) == bits(model)


def test_a_result_is_that_of_a_training_that_was_never_paused():
    settings = [{"hidden": 8, "learning_rate": rate} for rate in (0.001, 0.003, 0.01, 0.03)]
    tried = found(settings, refit=False)
    row = next(row for row in tried.report.table if row["chosen"])
    assert row["epochs"] == 18
    inputs, _ = dsstne.datasets.hold_out(X, seed=0, core=10)
    seed = _space.seed_of(0, row["trial"])
    schedule = _candidates.Lengths(200, 18, 3, 3).schedule(2, 50)
    model = dsstne.fit(inputs, **row["arguments"], epochs=18, schedule=schedule, seed=seed, progress=False)
    assert bits(model) == bits(tried)


def test_the_same_seed_gives_the_same_search(model):
    again = found()
    assert results(again) == results(model)
    assert bits(again) == bits(model)
    assert results(found(seed=1)) != results(model)


def test_trials_at_the_same_time_give_the_same_search_each_time():
    first, second = found(jobs=3), found(jobs=3)
    assert results(first) == results(second)
    assert bits(first) == bits(second)


@pytest.mark.long
@pytest.mark.parametrize(
    ("threads", "available", "devices", "most"),
    [(16, 1 << 40, ["cpu"], 4), (3, 1 << 40, ["cpu"], 3), (16, 1 << 16, ["cpu"], 1), (16, 1 << 40, ["cpu", "cuda"], 1)],
    ids=["four", "few threads", "little memory", "a CUDA device"],
)
def test_how_many_trials_train_at_the_same_time_changes_no_result(
    model, monkeypatch, threads, available, devices, most
):
    describe, advance, now, seen = _native.call_json, _candidates.advance, [], []

    def described(name, *given):
        about = describe(name, *given)
        if name == "describe":
            about["cpu"]["threads"], about["memory"]["available"] = threads, available
            about["devices"] = [{"name": device} for device in devices]
        return about

    def counted(*given, **more):
        now.append(None)
        seen.append(len(now))
        try:
            return advance(*given, **more)
        finally:
            now.pop()

    monkeypatch.setattr(_native, "call_json", described)
    monkeypatch.setattr(_candidates, "advance", counted)
    again = found()
    assert results(again) == results(model)
    assert bits(again) == bits(model)
    assert max(seen) <= most
    assert (max(seen) > 1) == (most > 1)


def test_trials_share_the_threads_that_are_given(model, monkeypatch):
    advance, seen = _candidates.advance, []

    def noted(*given, **more):
        seen.append(given[5]["threads"])
        return advance(*given, **more)

    monkeypatch.setattr(_candidates, "advance", noted)
    assert results(found(threads=2)) == results(model)
    assert seen[0] == 2  # the first training is by itself
    assert set(seen[1:]) == {1}


def test_the_seed_of_a_trial_follows_from_its_number_only():
    short, long = found([{"hidden": 4}] * 3, rungs=1), found([{"hidden": 4}] * 6, rungs=1)
    values = [[row["ndcg@10"] for row in results(model)] for model in (short, long)]
    assert values[0] == values[1][:3]
    assert len(set(values[1])) > 1


def test_hyperband_begins_trials_at_several_rungs():
    begins = {}
    for row in found(budget="20 trials", brackets=3).report.table:
        begins.setdefault(row["trial"], row["epochs"])
    assert set(begins.values()) == {2, 6, 18}


def test_a_budget_of_seconds_is_kept():
    begun = time.monotonic()
    report = found(budget="1.5 s").report
    assert len(report.table) > 1
    assert time.monotonic() - begun < 10  # generous: a busy machine


def test_a_list_ends_the_search():
    assert len(found([{"hidden": 4}, {"hidden": 8}], budget="100 h", rungs=1).report.table) == 2


def test_validation_and_names_are_those_of_fit():
    frame = dsstne.datasets.load_debian()
    part = frame[np.arange(0, 20_000)]
    model = dsstne.search(part, [{"hidden": 4}], metric="ndcg@5", epochs=1, progress=False)
    assert list(model.items[:3]) == list(part.item_names[:3])
    pair = dsstne.datasets.hold_out(interactions(seed=4))
    other = dsstne.search(X, [{"hidden": 4}], validation=pair, metric="ndcg@5", epochs=1, progress=False)
    assert other.report.split.startswith("the pair")


# ---- the space ----


def test_settings_are_drawn_from_the_space():
    space = {
        "hidden": (3, 9),
        "activation": ["tanh", "relu"],
        "learning_rate": (1e-4, 1e-1, "log"),
        "denoising": scipy.stats.uniform(0.1, 0.2),
        "dropout": optuna.distributions.FloatDistribution(0.0, 0.4, step=0.2),
        "loss": [{"kind": "softmax"}, "sigmoid"],
    }
    source = _space.Drawn(space)
    drawn = [source.draw(number, number) for number in range(60)]
    assert {settings["hidden"] for settings in drawn} == set(range(3, 10))
    assert {settings["activation"] for settings in drawn} == {"tanh", "relu"}
    assert {settings["dropout"] for settings in drawn} == {0.0, 0.2, 0.4}
    assert all(0.1 <= settings["denoising"] <= 0.3 for settings in drawn)
    assert sum(settings["learning_rate"] < 10**-2.5 for settings in drawn) > 15  # uniform in the logarithm
    assert any(settings["loss"] == {"kind": "softmax"} for settings in drawn)
    assert list(drawn[0]) == list(space)


def test_later_settings_are_near_those_that_did_well():
    source = _space.Drawn({"denoising": (0.0, 0.9)})
    for number in range(60):
        settings = source.draw(number, number)
        source.learn(settings, number, -abs(settings["denoising"] - 0.3))
    late = [source.draw(number, number)["denoising"] for number in range(60, 80)]
    assert np.median(np.abs(np.array(late) - 0.3)) < 0.1


def test_a_sampler_of_optuna_can_be_given():
    grid = found(
        {"hidden": [4, 8]},
        budget="2 trials",
        sampler=lambda seed: optuna.samplers.RandomSampler(seed=3),
        rungs=1,
    )
    assert len(grid.report.table) == 2


def test_without_optuna_a_list_can_be_searched_and_a_space_says_what_to_install():
    script = (
        "import sys; sys.modules['optuna'] = None\n"
        "import dsstne, scipy.sparse, numpy as np\n"
        "X = scipy.sparse.csr_array(np.kron(np.eye(4), np.ones((9, 6))).astype(np.float32))\n"
        "dsstne.search(X, [{'hidden': 4}], epochs=1, metric='ndcg@3', progress=False)\n"
        "try:\n    dsstne.search(X, {'hidden': [4]}, progress=False)\n"
        "except ImportError as error:\n    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install 'dsstne[search]'" in run.stdout


# ---- failures ----


def test_a_trial_that_fails_is_listed_and_the_search_goes_on():
    model = found([{"hidden": 4}, {"loss": "squared", "learning_rate": 1e30}, {"hidden": 8}, {"denoising": 3.0}])
    notes = {row["trial"]: row["note"] for row in model.report.table if row["note"]}
    assert set(notes) == {1, 3}
    assert "NotFiniteError" in notes[1]
    assert "denoising" in notes[3]
    assert "trial 1 " in str(model.report)


def test_if_all_trials_fail_the_error_has_the_first_reason():
    with pytest.raises(dsstne.DsstneError, match="all 2 trials failed; the first one: .*memory_limit"):
        found([{"hidden": 4000}, {"hidden": 8000}], memory_limit=1_000_000)


def test_a_full_disk_costs_time_only(model, monkeypatch):
    def full(self, path, **_):
        raise dsstne.InputOutputError("no space left on device", 28, path)

    monkeypatch.setattr(dsstne.Trainer, "save", full)
    with pytest.warns(UserWarning, match="the search goes on without this file"):
        assert results(found()) == results(model)


@pytest.mark.filterwarnings("ignore:a paused candidate could not be written")
def test_a_folder_of_checkpoints_that_is_lost_costs_time_only(model, tmp_path, monkeypatch):
    real, calls = _candidates.advance, []

    def advance(*arguments, **more):
        calls.append(arguments)
        if len(calls) in (5, 12):
            shutil.rmtree(tmp_path / "checkpoints", ignore_errors=True)
        return real(*arguments, **more)

    monkeypatch.setattr(_candidates, "advance", advance)
    assert results(found(store=tmp_path)) == results(model)


def test_a_trial_that_the_machine_ended_is_done_again(tmp_path, monkeypatch):
    def failing(self, *_, **__):
        raise dsstne.InputOutputError("input/output error", 5)

    real, calls = dsstne.Trainer.run, []

    def run(*arguments, **more):
        calls.append(arguments)
        return (failing if len(calls) == 3 else real)(*arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(dsstne.Trainer, "run", run)
        model = found([{"hidden": 4}, {"hidden": 8}], rungs=1, store=tmp_path, jobs=1, refit=False)
    assert [row["trial"] for row in model.report.table] == [0]
    assert "trial 1: InputOutputError: input/output error" in " ".join(model.report.notes)
    again = found([{"hidden": 4}, {"hidden": 8}], rungs=1, store=tmp_path, jobs=1)
    assert results(again) == results(found([{"hidden": 4}, {"hidden": 8}], rungs=1, jobs=1))


def test_a_checkpoint_belongs_to_the_settings(tmp_path):
    with contextlib.closing(_store.Store(tmp_path, None)) as store:
        assert store.checkpoint(3, 1, '{"hidden": 4}') != store.checkpoint(3, 1, '{"hidden": 8}')
        for rung in range(3):
            store.checkpoint(3, rung, "").write_bytes(b"12")
        store.drop(3, below=2)
        assert store.used() == 2


def test_trials_train_in_the_context_of_the_call(monkeypatch):
    where = contextvars.ContextVar("where")  # as in workers of Dask, which take one of all devices
    real, seen = _candidates.advance, []
    monkeypatch.setattr(_candidates, "advance", lambda *a, **k: seen.append(where.get(None)) or real(*a, **k))
    where.set("worker")
    found([{"hidden": 4}, {"hidden": 8}], rungs=1, jobs=2)
    assert seen == ["worker", "worker"]


def test_without_room_for_checkpoints_the_result_is_the_same(tmp_path, monkeypatch):
    wanted, used = results(found(jobs=1)), []
    real = _store.Store.keep_within_limit

    def kept(self, worst_first):
        real(self, worst_first)
        used.append(self.used())

    monkeypatch.setattr(_store.Store, "keep_within_limit", kept)
    assert results(found(disk_limit=0, store=tmp_path, jobs=1)) == wanted
    assert len(used) > 12
    assert not any(used)


def test_at_the_end_the_journal_is_left(tmp_path):
    found([{"hidden": 4}, {"hidden": 8}], store=tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["journal.jsonl", "lock"]


def test_a_damaged_checkpoint_is_not_used(model, tmp_path, monkeypatch):
    real = dsstne.Trainer.save

    def damaged(self, path, **_):
        real(self, path)
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            byte = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([byte[0] ^ 1]))

    monkeypatch.setattr(dsstne.Trainer, "save", damaged)
    assert results(found()) == results(model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"space": {"hiden": [4]}}, "'hiden' is not an argument of fit.. that a search can set; did you mean 'hidden'"),
        ({"space": {"epochs": [4]}}, "epochs= is the length of a whole training"),
        ({"space": {"hidden": 4}}, "hidden: expected a list of choices"),
        ({"space": {"hidden": []}}, "hidden: the list of choices is empty"),
        ({"space": {"learning_rate": (0.1, 0.01)}}, "two finite numbers in ascending order"),
        ({"space": {"learning_rate": (0.0, 0.01, "log")}}, "and above 0"),
        ({"space": {"learning_rate": (0.1, 0.2, "lin")}}, "can only be 'log'"),
        ({"space": {}}, "space: it is empty"),
        ({"space": []}, "space: the list is empty"),
        ({"space": [4]}, r"space\[0\]: expected a mapping"),
        ({"space": 4}, "space must be a mapping from arguments"),
        ({"budget": 4}, "budget: expected '300 s'"),
        ({"budget": "4 parsecs"}, "budget: expected '300 s'"),
        ({"budget": "2.5 trials"}, "trials must be an integer"),
        ({"budget": {"seconds": -1}}, "seconds must be above 0"),
        ({"metric": "coverage@10"}, "coverage"),
        ({"rungs": 9}, "rungs=9: a whole training has 72 steps"),
        ({"rungs": "few"}, "rungs must be an integer or 'auto'"),
        ({"eta": 1}, "eta must be at least 2"),
        ({"brackets": 4}, "brackets=4: there are 3 rungs"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"jobs": 0}, "jobs must be at least 1"),
        ({"sampler": 3}, "sampler: expected a function"),
        ({"hiden": 3}, "'hiden' is not an argument"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_errors_say_what_is_wrong(change, message):
    space = change.pop("space", SPACE)
    with pytest.raises(dsstne.InvalidArgumentError, match=message):
        found(space, **change)


def test_too_few_data_are_an_error():
    with pytest.raises(dsstne.InvalidDataError, match="too few to compare models"):
        dsstne.search(X[:5], SPACE, budget="2 trials", progress=False)


# ---- going on ----


def test_a_search_goes_on_in_its_store(model, tmp_path):
    found(budget="12 trials", store=tmp_path)
    lines = (tmp_path / "journal.jsonl").read_bytes().splitlines()
    (tmp_path / "journal.jsonl").write_bytes(b"\n".join(lines[:8]) + b'\n{"trial": 5, "ru')  # as after a kill
    trained = []
    real = _candidates.advance

    def counted(*arguments, **named):
        trained.append(arguments[3])
        return real(*arguments, **named)

    _candidates.advance = counted
    try:
        again = found(budget="12 trials", store=tmp_path)
    finally:
        _candidates.advance = real
    assert results(again) == results(model)
    assert bits(again) == bits(model)
    assert len(trained) == len(lines) - 8
    assert "7 results are those of an earlier call" in again.report.notes


def test_a_search_with_a_budget_of_seconds_goes_on(tmp_path):
    first = found(budget={"seconds": 100, "trials": 4}, store=tmp_path)
    again = found(budget={"seconds": 100, "trials": 4}, store=tmp_path)
    assert results(again) == results(first)
    assert bits(again) == bits(first)


@pytest.mark.parametrize("change", [{"seed": 1}, {"metric": "recall@10"}, {"epochs": 9}, {"hidden": 4}])
def test_a_store_of_another_search_is_refused(tmp_path, change):
    found([{"denoising": 0.3}], store=tmp_path, rungs=1)
    with pytest.raises(dsstne.InvalidArgumentError, match="has a search with another"):
        found([{"denoising": 0.3}], store=tmp_path, rungs=1, **change)


def test_other_data_are_refused(tmp_path):
    found([{"hidden": 4}], store=tmp_path, rungs=1)
    options = {**SMALL, "rungs": 1, "budget": "12 trials"}
    with pytest.raises(dsstne.InvalidArgumentError, match="another data"):
        dsstne.search(interactions(seed=3), [{"hidden": 4}], store=tmp_path, **options)


def test_other_validation_data_are_refused(tmp_path):
    pairs = [dsstne.datasets.hold_out(interactions(seed=seed)) for seed in (4, 5)]
    found([{"hidden": 4}], store=tmp_path, rungs=1, validation=pairs[0])
    with pytest.raises(dsstne.InvalidArgumentError, match="another data"):
        found([{"hidden": 4}], store=tmp_path, rungs=1, validation=pairs[1])


def test_files_of_others_in_the_store_stay(tmp_path):
    for name in ("checkpoints/x.bin", "models/my.pt", "data/my.csv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("precious")
    found([{"hidden": 4}, {"hidden": 8}], store=tmp_path)
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["checkpoints/x.bin", "data/my.csv", "journal.jsonl", "lock", "models/my.pt"]


def test_settings_may_be_numbers_and_arrays_of_numpy():
    listed = [{"hidden": hidden, "learning_rate": np.float32(0.01)} for hidden in np.array([4, 8])]
    model = found([*listed, {"hidden": np.array([4, 4]), "activation": ["tanh", "relu"]}])
    assert {row["note"] for row in model.report.table} == {""}


def test_if_the_refit_fails_the_model_is_the_best_as_it_was_tried(monkeypatch):
    for error in (KeyboardInterrupt(), dsstne.NotFiniteError("diverged")):

        def failing(*_, error=error, **__):
            raise error

        monkeypatch.setattr("dsstne._recipes.Recipe.make", failing)
        model = found([{"hidden": 4}], rungs=1)
        assert model.recommend(X[:1], k=2)[0].shape == (1, 2)
        assert any("no refit" in note for note in model.report.notes)


def test_results_that_time_does_not_come_to_again_count_all_the_same(tmp_path):
    budget = {"seconds": 1000, "trials": 6}
    first = found(budget=budget, store=tmp_path)
    again = found(budget={"seconds": 0.05, "trials": 6}, store=tmp_path, refit=False)
    assert results(again) == results(first)


def test_a_trial_that_had_no_time_for_its_next_rung_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    trained = []
    real = _candidates.advance

    def slowly(data, settings, lengths, rung, *arguments, source, **named):
        trained.append((rung, source is not None and source.exists()))
        time.sleep(0.1)  # three trials with a first rung each; the next rung would take three times as long
        return real(data, settings, lengths, rung, *arguments, source=source, **named)

    def needed(self, job):
        return 0.0 if job.before is None else 3 * 0.1

    listed = [{"hidden": 4}, {"hidden": 8}, {"hidden": 16}]
    options = {"epochs": 6, "rungs": 2, "refit": False, "store": tmp_path}
    monkeypatch.setattr(_candidates, "advance", slowly)
    monkeypatch.setattr(_search_run.Clock, "needed", needed)
    monkeypatch.setattr(_search_run.Clock, "left", lambda self: 0.2)
    first = found(listed, budget="1 s", **options)
    assert trained == [(0, False)] * 3
    assert [row["epochs"] for row in first.report.table] == [2, 2, 2]  # no row for what was not begun
    assert max(row["ndcg@10"] for row in first.report.table if row["chosen"]) > 0
    assert any("no result" in note and "not begun: it would take" in note for note in first.report.notes)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()]
    monkeypatch.setattr(_search_run.Clock, "left", lambda self: 1000.0)
    again = found(listed, budget="1000 s", **options)
    assert trained[3:] == [(1, True)]
    monkeypatch.undo()
    assert bits(again) == bits(found(listed, budget="1000 s", **{**options, "store": None}))


def test_a_search_goes_on_with_a_larger_budget(model, tmp_path):
    first = found(budget="6 trials", store=tmp_path)
    again = found(store=tmp_path)
    assert f"{len(first.report.table)} results are those of an earlier call" in again.report.notes

    def tried(report):
        return {(row["trial"], row["epochs"], row["ndcg@10"]) for row in report.table}

    assert tried(again.report) == tried(first.report) | tried(model.report)


def test_the_time_to_measure_a_trial_is_predicted():
    lengths = _candidates.Lengths(rows=100, epochs=9, rungs=3, eta=3)
    tried = Trial({"batch_size": 10}, {}, 0, {0: Outcome(0.5, epochs=1, seconds=2, score_seconds=7)})
    study = types.SimpleNamespace(trials={0: tried, 1: Trial({"batch_size": 10}, {}, 1)}, best=None)
    asked = types.SimpleNamespace(limits={"seconds": 100.0}, refit=False, begun=time.monotonic())
    clock = _search_run.Clock(study, lengths, asked)
    assert clock.needed(Job(1, 1, 0)) == pytest.approx(2 + 7)  # as long as the other one
    assert clock.needed(Job(1, 0, 1, before=0)) == pytest.approx(2 * (3 - 0.8) + 7)
    study.trials[1].settings["hidden"] = [512, 1024]  # three times as many units
    assert clock.needed(Job(1, 1, 0)) == pytest.approx(3 * 2 + 7)
    study.trials[1].settings["hidden"] = 8
    assert clock.needed(Job(1, 1, 0)) == pytest.approx(2 + 7)


def test_odd_distributions_are_drawn_from():
    distributions = optuna.distributions
    source = _space.Drawn(
        {
            "denoising": distributions.CategoricalDistribution([0.1, 0.2]),
            "dropout": distributions.FloatDistribution(0, 0.9, step=0.00003),
            "learning_rate": scipy.stats.loguniform(1e-4, 1e-2),
        }
    )
    drawn = [source.draw(number, number) for number in range(20)]
    assert {settings["denoising"] for settings in drawn} == {0.1, 0.2}
    assert all(abs(round(settings["dropout"] / 0.00003) * 0.00003 - settings["dropout"]) < 1e-12 for settings in drawn)
    assert " at 0x" not in source.described()


def test_a_store_that_is_in_use_is_refused(tmp_path):
    store = _store.Store(tmp_path, None)
    with pytest.raises(dsstne.BusyError, match="another search is using this folder"):
        found(store=tmp_path)
    store.close()
    found([{"hidden": 4}], store=tmp_path, rungs=1)


def test_a_store_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(dsstne.InputOutputError, match="store: .*file"):
        found(store=tmp_path / "file")


SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
import test_search
print("begun", flush=True)
model = test_search.found(budget="12 trials", store={store!r}, progress=False)
print(len(model.report.table), *model.report.notes, flush=True)
"""


def started(store, **environment):
    script = SCRIPT.format(folder=os.path.dirname(__file__), store=store)
    return subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def results_so_far(journal, count, process):
    """Waits until the journal of a search has ``count`` lines after the header."""
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        if journal.exists() and journal.read_bytes().count(b"\n") > count:
            return
        time.sleep(0.002)


@pytest.mark.long
@pytest.mark.parametrize("count", [0, 3, 9])
def test_a_search_that_was_killed_goes_on_with_the_same_result(model, tmp_path, count):
    process = started(str(tmp_path))
    results_so_far(tmp_path / "journal.jsonl", count, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    again = found(budget="12 trials", store=tmp_path)
    assert results(again) == results(model)
    assert bits(again) == bits(model)


def test_nothing_is_left_of_a_temporary_store(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found([{"hidden": 4}])
    with pytest.raises(dsstne.DsstneError):
        found([{"hidden": 4000}], memory_limit=1_000_000)
    assert os.listdir(tmp_path) == []


@pytest.mark.long
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path, monkeypatch):
    process = started(None, TMPDIR=str(tmp_path))
    until = time.monotonic() + 60
    while not (left := glob.glob(str(tmp_path / "dsstne-search-*" / "models"))) and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found([{"hidden": 4}], rungs=1)  # the folder is too new to tell whether its process has locked it
    monkeypatch.setattr(_store, "_FRESH", 0.0)
    found([{"hidden": 4}], rungs=1)
    assert glob.glob(str(tmp_path / "dsstne-search-*" / "models")) == left != []  # of a process that lives
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (tmp_path / "dsstne-search-0").mkdir()  # of a process that was killed before it made the lock
    found([{"hidden": 4}], rungs=1)
    assert os.listdir(tmp_path) == []


@pytest.mark.long
def test_ctrl_c_returns_the_best_so_far_and_the_same_call_goes_on(model, tmp_path):
    process = started(str(tmp_path))
    results_so_far(tmp_path / "journal.jsonl", 5, process)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=30)
    assert process.returncode == 0, error
    assert "Ctrl-C ended the search" in out
    assert results(found(budget="12 trials", store=tmp_path)) == results(model)


def test_ctrl_c_before_the_first_result_is_raised(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(_candidates, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        found()
    with pytest.raises(KeyboardInterrupt):
        found(jobs=2)


# ---- the report ----


def test_the_report_is_kept_in_the_model_file(model, tmp_path):
    model.save(tmp_path / "model")
    report = dsstne.load(tmp_path / "model").report
    assert str(report) == str(model.report)
    assert json.dumps(report.table) == json.dumps(model.report.table)


def test_the_plot_has_a_line_for_each_trial(model):
    trials = {row["trial"] for row in model.report.table}
    for ax in (model.report.plot(), dsstne.plots.search_results(model)):
        assert len(ax.lines) == len(trials)
        assert any(f"{max(row['ndcg@10'] for row in model.report.table):.4f}" in text.get_text() for text in ax.texts)


def test_a_long_table_shows_the_best(model):
    rows = [{**row, "model": f"trial {n}", "trial": n} for n in range(8) for row in model.report.table]
    report = dsstne.report.Report("ndcg@10", "split", "trial 0", "code", 1.0, rows, [])
    assert len(report.best()) == 8
    many = [{**rows[0], "model": f"trial {n}", "trial": n, "ndcg@10": n / 100, "chosen": n == 0} for n in range(50)]
    text = str(dsstne.report.Report("ndcg@10", "split", "trial 0", "code", 1.0, many, []))
    assert "> trial 0 " in text
    assert "trial 49" in text
    assert "trial 5 " not in text
    assert "29 more trials" in text
    assert not math.isnan(model.report.seconds)
