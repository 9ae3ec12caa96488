"""The settings that a search tries: a space to draw from, with Optuna, or a list."""

from __future__ import annotations

import inspect
import json
import math
import warnings
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dsstne import _checks, api
from dsstne._layers import nearest
from dsstne.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Settings = dict[str, Any]

# Arguments of fit() that belong to the search as a whole.
OF_THE_SEARCH = {
    "epochs": "epochs= is the length of a whole training; give it to the search itself",
    "schedule": "a search has a schedule of its own, which makes short and long trainings comparable",
    "seed": "the seed of each trial follows from seed= of the search",
}
_OF_NO_SEARCH = (
    *(
        "X",
        "targets",
        "items",
        "sample_weight",
        "validation",
        "progress",
        "callbacks",
        "checkpoint",
        "checkpoint_every",
        "resume",
    ),
    *("max_seconds", "devices", "threads", "memory_limit", *OF_THE_SEARCH),
)
SEARCHED = tuple(name for name in inspect.signature(api.fit).parameters if name not in _OF_NO_SEARCH)


def seed_of(seed: int, number: int) -> int:
    """Returns the seed of a trial, which follows from that of the search and the number of the trial."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def check_names(settings: Mapping[str, Any], where: str) -> None:
    """Refuses what is not an argument of fit() that a search can set."""
    for name in settings:
        if name in OF_THE_SEARCH:
            raise InvalidArgumentError(f"{where}: {OF_THE_SEARCH[name]}")
        if name not in SEARCHED:
            shown = _checks.shown(name)
            hint = nearest(name, SEARCHED) if isinstance(name, str) else "expected a str"
            raise InvalidArgumentError(f"{where}: {shown} is not an argument of fit() that a search can set; {hint}")


class Source(Protocol):
    """Where the settings of trials come from.

    Attributes:
        count: How many there are; None = no limit.
    """

    count: int | None

    def draw(self, number: int, seed: int, known: Settings | None = None) -> Settings:
        """Returns the settings of a trial; ``known`` are those that it had before the search was ended and went on."""
        ...

    def learn(self, settings: Settings, number: int, value: float) -> None:
        """Takes the first result of a trial; -inf if it failed."""
        ...

    def described(self) -> str:
        """Returns a text that is the same for the same source."""
        ...


class Listed:
    """Settings from a list.

    Args:
        listed: Mappings from arguments of :func:`dsstne.fit` to values.
    """

    def __init__(self, listed: Sequence[Any]) -> None:
        self._listed: list[Settings] = []
        for place, settings in enumerate(listed):
            if not _checks.is_mapping(settings):
                shown = _checks.shown(settings)
                raise InvalidArgumentError(f"space[{place}]: expected a mapping of arguments to values, not {shown}")
            check_names(settings, f"space[{place}]")
            self._listed.append({name: plain(value) for name, value in settings.items()})
        if not self._listed:
            raise InvalidArgumentError("space: the list is empty, so there is nothing to try")
        self.count: int | None = len(self._listed)

    def draw(self, number: int, seed: int, known: Settings | None = None) -> Settings:
        """Returns the settings of a trial."""
        return dict(self._listed[number])

    def learn(self, settings: Settings, number: int, value: float) -> None:
        """Does nothing: the settings are given."""

    def described(self) -> str:
        """Returns a text that is the same for the same list."""
        return text(self._listed)


class Drawn:
    """Settings that Optuna draws: at random at first, then near those that did well (``TPESampler``).

    Args:
        space: For each argument a list of choices, a pair ``(low, high)`` or ``(low, high, "log")``, a distribution of
            Optuna, or one of SciPy, which is drawn from at random always.
        sampler: Makes a sampler of Optuna from a seed; None = ``TPESampler``.
    """

    def __init__(self, space: Mapping[str, Any], sampler: Callable[[int], Any] | None = None) -> None:
        optuna = import_optuna()
        check_names(space, "space")
        if not space:
            raise InvalidArgumentError("space: it is empty, so there is nothing to search")
        self.count: int | None = None
        self._choices: dict[str, list[Any]] = {}
        self._random: dict[str, Any] = {}
        self._distributions: dict[str, Any] = {}
        self._space = dict(space)
        for name, values in space.items():
            self._distributions[name] = self._read(optuna.distributions, name, values)
        self._distributions = {name: found for name, found in self._distributions.items() if found is not None}
        self._sampler = sampler or (lambda seed: optuna.samplers.TPESampler(seed=seed, constant_liar=True))
        self._study = _quietly(optuna.create_study, direction="maximize")
        self._drawn: dict[int, Any] = {}

    def _read(self, known: Any, name: str, values: Any) -> Any:
        """Returns a distribution of Optuna, or None for one of SciPy."""
        if isinstance(values, known.BaseDistribution):
            return values
        if hasattr(values, "rvs"):
            self._random[name] = values
            return None
        if isinstance(values, tuple) and 2 <= len(values) <= 3 and all(map(_checks.is_number, values[:2])):
            low, high, *word = values
            if word and word != ["log"]:
                raise InvalidArgumentError(
                    f"space: {name}: {_checks.shown(values)}: the third element can only be 'log'; choices are a list"
                )
            if not (math.isfinite(low) and math.isfinite(high) and low < high) or (word and low <= 0):
                above = " and above 0" if word else ""
                raise InvalidArgumentError(
                    f"space: {name}: {_checks.shown(values)}: expected two finite numbers in ascending order{above}"
                )
            if all(isinstance(value, (int, np.integer)) for value in (low, high)):
                return known.IntDistribution(int(low), int(high), log=bool(word))
            return known.FloatDistribution(float(low), float(high), log=bool(word))
        if isinstance(values, (str, bytes)) or not isinstance(values, (list, tuple, range, np.ndarray)):
            raise InvalidArgumentError(
                f"space: {name}: expected a list of choices, a pair (low, high) or (low, high, 'log'), or a "
                f"distribution, not {_checks.shown(values)}; a single value is an argument of the search itself"
            )
        choices = [plain(value) for value in values]
        if not choices:
            raise InvalidArgumentError(f"space: {name}: the list of choices is empty")
        self._choices[name] = choices
        return known.CategoricalDistribution(range(len(choices)))

    def draw(self, number: int, seed: int, known: Settings | None = None) -> Settings:
        """Returns the settings of a trial: a function of the seed and of what was learned.

        Args:
            number: Number of the trial.
            seed: Its seed.
            known: What the trial was given before the search was ended and went on; None = it is new.
        """
        state = np.random.default_rng(seed)
        self._study.sampler = self._sampler(int(state.integers(1 << 31)))
        drawn = _quietly(self._study.ask, self._distributions)
        found = {}
        for name, values in self._random.items():
            found[name] = plain(values.rvs(random_state=int(state.integers(1 << 31))))
        for name in self._distributions:
            value = drawn.params[name]
            found[name] = (
                self._choices[name][value] if name in self._choices else _rounded(value, self._distributions[name])
            )
        found = {name: found[name] for name in self._space}
        if known is None or text(known) == text(found):
            self._drawn[number] = drawn
            return found
        self._finish(drawn, -math.inf)
        return known

    def learn(self, settings: Settings, number: int, value: float) -> None:
        """Takes the first result of a trial; -inf if it failed."""
        if number in self._drawn:
            self._finish(self._drawn.pop(number), value)
        elif math.isfinite(value):  # it was drawn when other results were known
            optuna = import_optuna()
            given = {}
            for name in self._distributions:
                choices = [text(choice) for choice in self._choices.get(name, ())]
                given[name] = choices.index(text(settings[name])) if choices else settings[name]
            made = {"params": given, "distributions": self._distributions, "value": value}
            _quietly(self._study.add_trial, _quietly(optuna.trial.create_trial, **made))

    def _finish(self, drawn: Any, value: float) -> None:
        states = import_optuna().trial.TrialState
        is_value = math.isfinite(value)
        state = states.COMPLETE if is_value else states.FAIL
        _quietly(self._study.tell, drawn, value if is_value else None, state)

    def described(self) -> str:
        """Returns a text that is the same for the same space."""
        named = {name: repr(found) for name, found in self._distributions.items()}
        for name, values in self._random.items():  # whose repr has an address
            frozen = getattr(values, "dist", values)
            arguments = [getattr(values, "args", ()), getattr(values, "kwds", {})]
            named[name] = f"{getattr(frozen, 'name', type(frozen).__name__)} {arguments}"
        return text({**self._space, **named})


def _rounded(value: Any, distribution: Any) -> Any:
    """Returns a number with four digits, which a table shows completely."""
    if not isinstance(value, float) or not hasattr(distribution, "low") or distribution.step is not None:
        return value
    return min(max(float(f"{value:.4g}"), distribution.low), distribution.high)


def plain(value: Any) -> Any:
    """Returns numbers and arrays of NumPy as those of Python, also in lists and mappings."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def import_optuna() -> Any:
    """Returns the module.

    Raises:
        ImportError: It is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tqdm, which Optuna imports, warns in a notebook without ipywidgets
            import optuna
    except ImportError:
        raise ImportError(
            "drawing settings from a space needs Optuna: pip install 'dsstne[search]'; a list of settings needs nothing"
        ) from None
    return optuna


def _quietly(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Calls Optuna without its warnings about experimental arguments and its lines of log."""
    optuna = import_optuna()
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*arguments, **named)
    finally:
        optuna.logging.set_verbosity(level)


def text(value: Any) -> str:
    return json.dumps(value, default=repr, sort_keys=True)
