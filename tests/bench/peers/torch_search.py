"""A prepared search in PyTorch with Optuna: a trial reports at its rungs, and is pruned at the last one it reaches.

How a step is fastest (`torch_settings`) is found once for each size of the hidden layer, before the clock starts, and
by the first trials what is fastest for all: float32, or bfloat16 where the CPU has instructions for it; one trial after
the other on all threads, or as many at once with a thread each.
"""

from __future__ import annotations

import itertools
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import optuna
import torch
from measure.network import Network
from measure.resident import forget_most, resident

from peers.torch_network import TorchNetwork

if TYPE_CHECKING:
    from measure.searches import Replay

    from peers.torch_settings import Setting


class _Known(TorchNetwork):
    """A network whose fastest setting is known."""

    def __init__(self, replay: Replay, network: Network, known: Setting) -> None:
        self._known = known
        super().__init__(replay.train, network, known.threads)

    def _fastest(self) -> Any:
        return self._known, {}


class TorchSearch:
    """Replays a list of trials."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        precisions = ["float32"] + ["bfloat16"] * torch.cpu._is_avx512_bf16_supported()
        ways = itertools.product(sorted({1, replay.threads}), precisions)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        _compile_all()
        self.settings = {way: self._settings(replay.threads // way[0], way[1]) for way in ways}
        few = max(4, len(replay.trials) // 5)
        self.best = min(self.settings, key=lambda way: self.run(way, few)["seconds"])

    def _settings(self, threads: int, precision: str) -> dict[int, Setting]:
        found = {}
        for hidden in sorted({settings["hidden"] for settings in self.replay.trials}):
            network = Network(hidden=(hidden,), temperature=0.1, precision=precision)
            found[hidden] = TorchNetwork(self.replay.train, network, threads).setting
        return found

    def run(self, way: tuple[int, str] | None = None, count: int | None = None) -> dict[str, float]:
        """Returns seconds, the peak of the memory in bytes, and the best value of all or the first trials."""
        jobs, precision = way = way or self.best
        trials = self.replay.trials[:count]
        study = optuna.create_study(direction="maximize")
        for given in trials:
            study.enqueue_trial(given)
        forget_most()
        begin = time.perf_counter()
        objective = partial(self._objective, settings=self.settings[way], precision=precision)
        study.optimize(objective, n_trials=len(trials), n_jobs=jobs)
        best = max(value for trial in study.trials for value in trial.intermediate_values.values())
        return {"seconds": time.perf_counter() - begin, "peak": resident("VmHWM"), "best": best}

    def name(self) -> str:
        """What was found to be fastest, in words."""
        (jobs, precision), settings = self.best, self.settings[self.best]
        version = torch.__version__.split("+")[0]
        return f"PyTorch {version}, Optuna: {jobs} at once, {precision}, {settings[max(settings)]}"

    def _objective(self, trial: optuna.Trial, settings: dict[int, Setting], precision: str) -> float:
        _compile_all()
        replay, planned = self.replay, self.replay.trials[trial.number]
        hidden = trial.suggest_categorical("hidden", sorted(settings))
        network = Network(
            hidden=(hidden,),
            learning_rate=trial.suggest_float("learning_rate", 1e-4, 1e-1, log=True),
            denoising=trial.suggest_float("denoising", 0.0, 0.9),
            temperature=trial.suggest_float("temperature", 0.01, 1.0, log=True),
            precision=precision,
        )
        assert hidden == planned["hidden"]
        run = _Known(replay, network, settings[hidden])
        lengths = replay.lengths()
        batches = itertools.chain.from_iterable(run._shuffled() for _ in itertools.count())
        done, value = 0, 0.0
        for rung in range(replay.reached[trial.number] + 1):
            steps = lengths.steps(rung, network.batch_size)
            for rows in itertools.islice(batches, steps - done):
                run._step(run._batch(rows, training=True), run.setting)
            done = steps
            value = run.evaluate(replay.held_out)["ndcg@20"]
            trial.report(value, steps)
        if replay.reached[trial.number] < replay.rungs - 1:
            raise optuna.TrialPruned
        return value


def _compile_all() -> None:
    """Lets no size and setting fall back to eager code; this holds for the thread that calls."""
    torch._dynamo.config.recompile_limit = 64


def make(replay: Replay) -> TorchSearch:
    """For `alternate.Contestant`."""
    return TorchSearch(replay)
