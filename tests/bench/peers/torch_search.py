"""A prepared search in PyTorch with Optuna: a trial reports at its rungs, and is pruned at the last one it reaches.

How a step is fastest (`torch_settings`) is found once for each size of the hidden layer, before the clock starts.
"""

from __future__ import annotations

import itertools
import time
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

    known: Setting | None = None

    def _fastest(self) -> Any:
        return (self.known, {}) if self.known is not None else super()._fastest()


class TorchSearch:
    """Replays a list of trials."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.settings = {}
        for hidden in sorted({settings["hidden"] for settings in replay.trials}):
            _Known.known = None
            network = Network(hidden=(hidden,), temperature=0.1)
            self.settings[hidden] = _Known(replay.train, network, replay.threads).setting
        optuna.logging.set_verbosity(optuna.logging.WARNING)

    def run(self) -> dict[str, float]:
        """Returns seconds, the peak of the memory in bytes, and the best value."""
        replay = self.replay
        study = optuna.create_study(direction="maximize")
        for settings in replay.trials:
            study.enqueue_trial(settings)
        forget_most()
        begin = time.perf_counter()
        study.optimize(self._objective, n_trials=len(replay.trials))
        best = max(value for trial in study.trials for value in trial.intermediate_values.values())
        return {"seconds": time.perf_counter() - begin, "peak": resident("VmHWM"), "best": best}

    def name(self) -> str:
        """What was found to be fastest, in words."""
        hidden = max(self.settings)
        return f"PyTorch {torch.__version__.split('+')[0]}, Optuna: {self.settings[hidden]}"

    def _objective(self, trial: optuna.Trial) -> float:
        replay, planned = self.replay, self.replay.trials[trial.number]
        hidden = trial.suggest_categorical("hidden", sorted(self.settings))
        network = Network(
            hidden=(hidden,),
            learning_rate=trial.suggest_float("learning_rate", 1e-4, 1e-1, log=True),
            denoising=trial.suggest_float("denoising", 0.0, 0.9),
            temperature=trial.suggest_float("temperature", 0.01, 1.0, log=True),
        )
        assert hidden == planned["hidden"]
        _Known.known = self.settings[hidden]
        run = _Known(replay.train, network, replay.threads)
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


def make(replay: Replay) -> TorchSearch:
    """For `alternate.Contestant`."""
    return TorchSearch(replay)
