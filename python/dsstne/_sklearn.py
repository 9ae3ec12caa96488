"""What the estimator takes from scikit-learn, or has instead where scikit-learn is not installed."""

from __future__ import annotations

import functools
import inspect
from types import MethodType
from typing import TYPE_CHECKING, Any

from dsstne import _checks
from dsstne._layers import nearest
from dsstne.errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BaseEstimator", "NotFittedError", "OnlyFor"]

try:
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import NotFittedError
except ImportError:

    class BaseEstimator:  # type: ignore[no-redef]
        """What scikit-learn's class of this name is needed for here, where scikit-learn is not installed."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Returns the parameters."""
            return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

        def set_params(self, **params: Any) -> Any:
            """Sets parameters; returns self."""
            known = inspect.signature(type(self)).parameters
            for name, value in params.items():
                if name not in known:
                    raise InvalidArgumentError(f"{name!r} is not a parameter; {nearest(name, known)}")
                setattr(self, name, value)
            return self

        def __repr__(self) -> str:
            known = inspect.signature(type(self)).parameters
            changed = {name: value for name, value in self.get_params().items() if value is not known[name].default}
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    class NotFittedError(ValueError, AttributeError):  # type: ignore[no-redef]
        pass


class _MissingMethodError(UnsupportedError, AttributeError):
    """``hasattr`` has to be False for a method that the model does not have."""


class OnlyFor:
    """A method that only some models have, as scikit-learn's ``available_if``."""

    def __init__(self, has: Callable[[Any], bool], why: str, function: Callable[..., Any]) -> None:
        self._has, self._why, self._function = has, why, function
        functools.update_wrapper(self, function)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self._function
        if not self._has(instance):
            method, name = _checks.shown(instance.method), self._function.__name__
            raise _MissingMethodError(f"Recommender(method={method}) has no {name}: {self._why}")
        return MethodType(self._function, instance)
