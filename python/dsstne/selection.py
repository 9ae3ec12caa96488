"""One call that chooses a model: dsstne.auto."""

from __future__ import annotations

import itertools
import time
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dsstne import _auto_order, _blending, _checks, _validation, api
from dsstne._auto_trials import Trial, Trials, whole_refits
from dsstne.blending import blend
from dsstne.errors import CancelledError, DsstneError
from dsstne.progress import Budget
from dsstne.report import Report, table_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from dsstne._recipes import Recipe
    from dsstne._validation import Task
    from dsstne.model import Model

__all__ = ["auto"]

Part = tuple[Trial, float]  # with its weight
_NEAR = 0.8  # share of the best metric that a model must have to be refitted instead of the best


def auto(
    X: Any,
    metric: str = "ndcg@20",
    seconds: float = 300,
    seed: int = 0,
    times: Any = None,
    validation: Any = None,
    items: Sequence[str] | ArrayLike | None = None,
    devices: Any = "auto",
    threads: int | None = None,
    memory_limit: int | None = None,
    progress: bool = True,
) -> Model:
    """Chooses a model for the data: tries several kinds and settings on held-out items, and refits the best on all.

    It tries popularity, :func:`dsstne.item_knn`, :func:`dsstne.rp3beta`, :func:`dsstne.linear`,
    :func:`dsstne.spectral`, :func:`dsstne.factorize` and the autoencoder of :func:`dsstne.fit`, then other settings of
    the best of these, and sums of up to four models (:func:`dsstne.blend`). The page docs/choosing.md has the order and
    an example.

    The held-out items are a fifth of each row of X: the last ones by ``times``; without times the last ones in the
    order of storing, if X is CSR and most rows are not sorted by item; else random ones, in up to five splits if there
    are few. At most 4,000 rows count.

    The same seed gives the same model on the same kind of machine, unless the time decides what is tried. The report
    then says so.

    Args:
        X: Interaction matrix [rows, items], a sparse matrix of SciPy, or :class:`dsstne.Interactions`.
        metric: What to choose by: a metric of :func:`dsstne.evaluate` with a length of the list, except coverage.
        seconds: Budget, in which the chosen model is also refitted. It is kept to 10 % or 2 s: models whose trial and
            refit do not fit into what is left are not tried.
        seed: Seed of the split, of the rows that count, and of all models.
        times: CSR matrix of the times of X's entries, see :func:`dsstne.datasets.hold_out`. None = those of
            Interactions, if X is that and has times.
        validation: Held-out items instead of a split of X: a matrix for the rows of X, whose entries then belong to the
            data of the refit (X + validation), or a pair (V_in, V_out) for other rows, which no model learns from.
        items: Names of the items; None = those of Interactions, if X is that.
        devices, threads: As in :func:`dsstne.fit`.
        memory_limit: Maximum bytes of each computation together with the models that are kept to compare; models that
            need more are listed as failed.
        progress: Show a progress bar in terminals and notebooks, or a line every 30 seconds if stderr is a file.

    Returns:
        The model. Its attribute ``report``, a :class:`dsstne.report.Report`, has what was tried with the time and
        memory of each, the chosen settings as code, and notes. After Ctrl-C, the model is the best so far: refitted on
        all data if that was done, else as it was tried; the report says which.

    Raises:
        InvalidArgumentError: An argument is not valid, or no model could find any item of ``validation``.
        InvalidDataError: X is damaged; the message names row, column and value.
        OutOfMemoryError: Not even popularity can be evaluated within ``memory_limit``.
        KeyboardInterrupt: Ctrl-C, before any model was made.

    Warns:
        UserWarning: The data or the time allow no comparison, so that the model is popularity; the warning says why.

    Example:
        >>> import dsstne, numpy as np, scipy.sparse
        >>> X = scipy.sparse.csr_array(np.kron(np.eye(4), np.ones((5, 6))).astype(np.float32))
        >>> model = dsstne.auto(X, "ndcg@5", seconds=3, progress=False)
        >>> model.recommend(X[:1], k=2)[0].shape
        (1, 2)
        >>> model.report.metric, len(model.report.table) > 5
        ('ndcg@5', True)
    """
    start = time.monotonic()
    metric, seconds = _validation.check_metric(metric), _checks.duration(seconds, "seconds")
    seed, progress = _checks.integer(seed, "seed", 0), _checks.boolean(progress, "progress")
    limit = None if memory_limit is None else _checks.integer(memory_limit, "memory_limit", 1)
    compute = {"devices": devices, "threads": threads, "memory_limit": limit}
    given = _validation.given(X, items, times, validation)
    X, items, popular = given.X, given.items, given.popular
    _validation.try_metric(given, metric, compute)
    task = _validation.prepare(X, given.times, validation, seed)
    task = replace(task, preparation=given.begin + task.preparation)
    common = {"items": items, "seed": seed, **compute}
    by = _validation.compared(metric, task)
    if by != metric:
        task.notes.append(f"the held-out items are few, so models were compared by {by}, not {metric}")
    bar = Budget("auto", seconds, progress)
    try:
        trials = Trials(task, by, seconds, start, common, bar)
        if task.problem:
            warnings.warn(f"auto returns popularity: {task.problem}", UserWarning, stacklevel=2)
            return _popular(trials, popular, task.problem)
        return _Choice(trials).model()
    finally:
        bar.close()


class _Choice:
    """The choice of a model, its refit and its report."""

    def __init__(self, trials: Trials) -> None:
        self._trials, self._task = trials, trials.task
        self._options: list[list[Part]] = []  # what may be chosen, the best first
        self._sums: list[dict[str, Any]] = []  # rows of the table
        self._notes: list[str] = list(trials.task.notes)
        self._made: tuple[Model, list[tuple[Recipe, float]]] | None = None

    def model(self) -> Model:
        """Searches, refits and reports."""
        try:
            _auto_order.search(self._trials)
            self._rank()
            self._refit()
        except KeyboardInterrupt:
            if not self._trials.best:
                raise
            self._after_interrupt()
        assert self._made is not None
        model, parts = self._made
        self._warn_of_popularity()
        model.report = self._report(parts)
        return model

    # ---- choosing ----

    def _rank(self) -> None:
        """Orders what may be chosen: sums that are better than their parts, then single models."""
        trials = self._trials
        self._options = [[(trial, 1.0)] for trial in trials.ranked()]
        parts = trials.parts()
        while parts and sum(trial.cheapest for trial in parts) + trials.panel_seconds(parts) > trials.left:
            parts.remove(max(parts, key=lambda trial: trial.cheapest))
            trials.decided.append("not all sums of models were tried")
        if len(parts) < 2:
            if len(trials.parts()) > 1:
                trials.decided.append("sums of models were not tried")
            return
        trials.bar.update("sums")
        begun = time.monotonic()
        try:
            found, sums = self._sums_of(parts)
        except CancelledError:
            trials.decided.append("sums of models were not tried")
            return
        except (DsstneError, MemoryError) as error:
            self._notes.append(f"sums of models were not tried: {type(error).__name__}: {error}")
            return
        best = parts[0].value
        for choice in sums[1:]:
            mix = [(parts[part], choice.weights[part] / _blending.GRID) for part in choice.parts]
            helps = choice.mean > best
            if helps:
                self._options.insert(0, mix)
                best = choice.mean
            note = "" if helps else "not better than fewer parts"
            of_sum = {"rows": self._task.rows, "seconds": time.monotonic() - begun, "kept": True, "note": note}
            self._sums.append(table_row(trials.metric, "sum", _words(mix), choice.mean, **of_sum))
            weights = [weight / _blending.GRID for weight in choice.weights]
            if helps and any(candidates.unproven(weights) for candidates in found):
                self._notes.append(f"the metric of {_words(mix)} is approximate")

    def _sums_of(self, parts: Sequence[Trial]) -> tuple[list[_blending.Candidates], list[_blending.Choice]]:
        """Tries sums for as long as all parts can still be refitted."""
        trials, task = self._trials, self._task
        needed = whole_refits(parts)
        if needed + trials.panel_seconds(parts) > trials.left:
            needed = sum(trial.cheapest for trial in parts)

        def check() -> None:
            if trials.left < needed:
                raise CancelledError("there was no more time to compare sums")

        def values(weights: Sequence[float]) -> NDArray[np.float64]:
            check()
            values: NDArray[np.float64] = np.mean([one.values(weights, trials.metric) for one in found], axis=0)
            return values

        length = _blending.length_of(trials.metric)
        found = [
            _blending.Candidates(models, fold.inputs, fold.held_out, length, trials.options, check)
            for fold, *models in zip(task.folds, *(trial.models for trial in parts), strict=True)
        ]
        search = _blending.Search(values, len(parts))
        try:
            return found, search.best_of_each_size()
        except CancelledError:
            trials.decided.append("not all sums of models were tried")
            return found, search.best_so_far()

    # ---- refitting ----

    def _refit(self) -> None:
        """Makes the best model that can be made of all data in the time that is left."""
        trials, wanted = self._trials, self._options[0]
        if not self._task.is_whole:  # the others would only take memory
            for trial in trials.best.values():
                if all(trial is not part for part, _ in wanted):
                    trial.models = []
        for option in self._options:
            if _value(option) < _NEAR * _value(wanted):
                break  # better than a much worse model is one that has not learnt from the held-out items
            ways = self._ways(option)
            if ways is None:
                trials.decided.append(f"{_words(option)} was better, but its refit does not fit into the time")
                continue
            try:
                made = [
                    self._make(trial, way, seconds) for (trial, _), (way, seconds) in zip(option, ways, strict=True)
                ]
                weights = [weight for _, weight in option]
                self._finish(made, [(way, weight) for (way, _), weight in zip(ways, weights, strict=True)])
                return
            except (DsstneError, MemoryError) as error:
                self._notes.append(f"the refit of {_words(option)} failed: {type(error).__name__}: {error}")
        self._take_trials("there was no refit")

    def _ways(self, option: Sequence[Part]) -> list[tuple[Recipe, float]] | None:
        """Returns how to refit the parts in the time that is left; the first way of as many parts as possible."""
        lists = [[(index, *way) for index, way in enumerate(trial.refits)] for trial, _ in option]
        left = self._trials.left + max(0.04 * self._trials.seconds, 0.5)
        fitting = [ways for ways in itertools.product(*lists) if sum(way[2] for way in ways) <= left]
        if not fitting:
            return None
        # A shorter training costs quality; a linear model that solves for each row is only slower to use.
        chosen = min(fitting, key=lambda ways: sum(way[0] * (1 + (way[1].family == "autoencoder")) for way in ways))
        for (trial, _), way in zip(option, chosen, strict=True):
            if way[0]:
                first = trial.refits[0][0]
                self._trials.decided.append(
                    f"{way[1].family} was refitted with ({way[1].settings}), for ({first.settings or 'the defaults'}) "
                    f"would take about {trial.refits[0][1]:,.0f} s"
                )
        return [way[1:] for way in chosen]

    def _make(self, trial: Trial, way: Recipe, seconds: float) -> Model:
        """Makes one model of all data; a model that learnt from all data already is taken as it is."""
        trials = self._trials
        if self._task.is_whole and seconds == 0.0 and trial.models:
            return trial.models[0]
        trials.bar.update(f"refit of {way.family}")
        limit = trials.left + 0.02 * trials.seconds + max(0.05 * trials.seconds, 1.0)
        common = {**trials.common, "memory_limit": trials.options["memory_limit"]}
        model = way.make(self._task.whole, common, limit)
        if model.history and model.history[-1]["epoch"] % 1:
            epoch = model.history[-1]["epoch"]
            trials.decided.append(f"the training of the autoencoder ended at epoch {epoch:.1f}")
        return model

    def _finish(self, models: Sequence[Model], parts: list[tuple[Recipe, float]]) -> None:
        """Makes the sum of models, if there are several."""
        model = models[0] if len(models) == 1 else blend(models, weights=[weight for _, weight in parts])
        self._made = model, parts

    def _after_interrupt(self) -> None:
        """Takes what is best after Ctrl-C."""
        trials = self._trials
        for trial in trials.tried[-1:]:
            if trial.values is None and not trial.note:
                trial.note = "ended by Ctrl-C"
        if self._made is not None:
            self._notes.append("Ctrl-C came after the refit: the model was made of all data")
            return
        if not self._options:
            self._options = [[(trial, 1.0)] for trial in trials.ranked()]
        self._take_trials("Ctrl-C ended the search")

    def _take_trials(self, reason: str) -> None:
        """Takes the best models as they were tried."""
        option = self._options[0]
        models = [trial.models[0] for trial, _ in option]
        try:
            self._finish(models, [(trial.refits[0][0], weight) for trial, weight in option])
        except (DsstneError, MemoryError):  # a sum has copies of its parts
            best = max((trial for trial, _ in option), key=lambda trial: trial.value)
            self._finish(best.models[:1], [(best.refits[0][0], 1.0)])
        if self._task.is_whole:
            self._notes.append(f"{reason}; the model is the best so far")
        else:
            self._notes.append(
                f"{reason}; the model is the best so far, trained without the held-out items. The code below makes it "
                "from all data"
            )

    # ---- reporting ----

    def _warn_of_popularity(self) -> None:
        """Warns if only popularity was there to choose."""
        if set(self._trials.best) == {"popularity"}:
            notes = "; ".join(dict.fromkeys(trial.note for trial in self._trials.tried if trial.note))
            text = f"auto returns popularity, since nothing else could be tried in seconds={self._trials.seconds:g}: "
            warnings.warn(text + notes[:600], UserWarning, stacklevel=4)

    def _report(self, parts: Sequence[tuple[Recipe, float]]) -> Report:
        trials = self._trials
        chosen = self._chosen(parts)
        table = [
            table_row(
                trials.metric,
                trial.recipe.family,
                trial.recipe.settings,
                None if trial.values is None else trial.value,
                rows=trial.rows,
                seconds=trial.seconds,
                score_seconds=trial.score_seconds,
                refit_seconds=trial.refits[0][1] if trial.refits else None,
                memory=trial.memory,
                kept=trial is trials.best.get(trial.recipe.family),
                chosen=len(chosen) == 1 and trial is chosen[0],
                note=trial.note,
            )
            for trial in trials.tried
        ]
        words = _words([(trial, weight) for trial, (_, weight) in zip(chosen, parts, strict=True)])
        table += [{**line, "chosen": len(chosen) > 1 and line["settings"] == words} for line in self._sums]
        notes = list(self._notes)
        if trials.decided:
            notes.append("time decided: " + "; ".join(dict.fromkeys(trials.decided)))
        if len(chosen) == 1 and parts[0][0].arguments:
            words += f" ({parts[0][0].settings})"
        code = _code(parts, trials.common, self._task)
        return Report(trials.metric, self._task.split, words, code, trials.elapsed, table, notes)

    def _chosen(self, parts: Sequence[tuple[Recipe, float]]) -> list[Trial]:
        """Returns the trials of the chosen parts."""
        return [self._trials.best[recipe.family] for recipe, _ in parts]


def _value(parts: Sequence[Part]) -> float:
    """Returns the best metric of the parts, which a sum exceeds."""
    return max(trial.value for trial, _ in parts)


def _words(parts: Sequence[Part]) -> str:
    """Returns a choice in words."""
    if len(parts) == 1:
        return parts[0][0].recipe.family
    ordered = sorted(parts, key=lambda part: -part[1])
    return " + ".join(f"{weight:g} {trial.recipe.family}" for trial, weight in ordered)


def _code(parts: Sequence[tuple[Recipe, float]], common: Mapping[str, Any], task: Task) -> str:
    """Returns Python that makes a model again."""
    texts = {} if common["items"] is None else {"items": "items"}
    texts |= {"seed": repr(common["seed"])}
    texts |= {} if common["devices"] == "auto" else {"devices": repr(common["devices"])}
    calls = [recipe.code(texts) for recipe, _ in parts]
    begin = f"import dsstne\n\n{task.preparation}"
    if len(calls) == 1:
        return f"{begin}model = {calls[0]}\n"
    listed = "".join(f"    {call},\n" for call in calls)
    weights = ", ".join(f"{weight:g}" for _, weight in parts)
    return f"{begin}models = [\n{listed}]\nmodel = dsstne.blend(models, weights=[{weights}])\n"


def _popular(trials: Trials, popular: Model, problem: str) -> Model:
    """Returns popularity, with a report that says why."""
    task, common = trials.task, trials.common
    model = popular if task.whole is task.train else api.popularity(task.whole, items=common["items"])
    only = table_row(trials.metric, "popularity", "", None, refit_seconds=0.0, kept=True, chosen=True, note=problem)
    recipe = _auto_order.POPULARITY
    code = _code([(recipe, 1.0)], common, task)
    notes = [*task.notes, f"popularity was not compared with anything: {problem}"]
    model.report = Report(trials.metric, task.split, "popularity", code, trials.elapsed, [only], notes)
    return model
