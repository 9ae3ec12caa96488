"""What ``dsstne train`` does before the first epoch and after each one."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from dsstne import _netcdf_model
from dsstne._commands import interruption
from dsstne._commands.outputs import Series
from dsstne._metric_names import is_metric
from dsstne._netcdf_network import ATTRIBUTE
from dsstne.callbacks import Callback
from dsstne.errors import InputOutputError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable


def networks(given: Namespace) -> Series | None:
    """Returns the files of networks that are written between epochs, if there are any."""
    if not given.checkpoint_interval:
        return None
    ending = os.path.splitext(given.n)[1]  # noqa: PTH122 - a Path would change "./x"
    return Series(given.checkpoint_name or given.n, ending, given.checkpoint_interval, given.e)


class Epochs(Callback):
    """Checks the network before it is trained; after an epoch, writes a line to a log, and the network if it is time.

    Args:
        given: The flags.
        same_items: Whether the items of the input are those of the output, so that metrics leave out those of a row.
        digests: Digests of the features of layers, for the file of the network.
        begin: What is to be done when everything is known to fit.
    """

    def __init__(self, given: Namespace, same_items: bool, digests: dict[str, str], begin: Callable[[], None]) -> None:
        self._given, self._same_items, self._digests, self._begin = given, same_items, digests, begin
        self._is_log = not sys.stderr.isatty()
        self._networks = networks(given)
        self.metrics = given.metrics or ()

    def before_training(self, model: Any) -> None:
        """Finds what the file cannot express before there is work that would be lost."""
        kept = {**json.loads(model.attributes.get(ATTRIBUTE, "{}")), "features": self._digests}
        model.attributes[ATTRIBUTE] = json.dumps(kept)
        if self._same_items:
            model.same_items = True
        if self._given.n.endswith(".nc"):
            _netcdf_model.check(model, self._given.n)
        if self._given.dry_run:
            print(self._now().trainer.plan())
        else:
            self._begin()

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Ends a dry run."""
        return bool(self._given.dry_run)

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> None:
        """Writes a line, where the bar would be a sequence of control characters, and the network of the epoch."""
        now = model.history[-1]
        if self._is_log:
            metrics = "".join(f"{name} {value:.4f}, " for name, value in now.items() if is_metric(name))
            speed = f"{now['examples_per_second']:,.0f} examples a second"
            line = f"epoch {epoch}/{self._given.e}: loss {now['loss']:.5g}, {metrics}{speed}"
            sys.stderr.write(line + "\n")  # at once: Ctrl-C may come between two writes of print()
            sys.stderr.flush()
        if self._networks is not None and epoch % self._networks.every == 0:
            try:
                with interruption.deferred():  # the epoch does not come again
                    model.save(self._networks.name(epoch))
            except InputOutputError as error:  # as of a checkpoint: the end of the run may succeed
                print(f"training goes on without the network of epoch {epoch}: {error}", file=sys.stderr, flush=True)
