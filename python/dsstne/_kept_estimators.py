"""Files of estimators that pickle to a reference: checkpoints in a folder that all processes of a search see.

A file never changes. Its name begins with the lineage of the estimator, drawn when it was fitted, and the number of the
version, and ends with a digest. Searches copy an estimator before they train it further, and may train it a second time
if a result was lost; so the last two versions are kept, and older ones are deleted unless an estimator of this process
refers to them. Where two copies go on in different ways, the second one begins a lineage of its own: what the first one
deletes is then never a file of the second.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import socket
import threading
import time
import warnings
import weakref
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsstne import _options
from dsstne._store import delete_above, limit_of
from dsstne._weights import check_model
from dsstne.errors import InputOutputError, InvalidArgumentError, MissingFileError
from dsstne.model import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsstne._partial_fit import Training
    from dsstne.model import Model
    from dsstne.trainer import Trainer

_KEPT = 2  # versions
_NAME = re.compile(r"(?P<lineage>[0-9a-f]{16})-(?P<version>\d+)-[0-9a-f]{32}\.dsstne")
# A file that is being written, and the one beside it that the engine fills.
_PART = re.compile(r"\.?\.[0-9a-f]{16}-[0-9a-f]{8}\.part(\.saving-[0-9a-f]{16})?")
_ABANDONED = 3600.0  # seconds since the last byte was written to a file of this kind: longer than clocks differ

_in_use: weakref.WeakSet[Reference] = weakref.WeakSet()  # by estimators of this process
_in_use_lock = threading.Lock()


@dataclass(frozen=True, eq=False)  # each object counts for itself in _in_use
class Reference:
    """What an estimator pickles to beside its parameters.

    Attributes:
        folder: The folder.
        lineage: What the versions of an estimator have in common.
        version: Number of calls that have changed the estimator.
        name: Name of the file.
        trains: Whether the file has the state of the optimizer.
    """

    folder: str
    lineage: str
    version: int
    name: str
    trains: bool

    def __post_init__(self) -> None:
        with _in_use_lock:
            _in_use.add(self)

    def __reduce__(self) -> Any:
        return Reference, astuple(self)

    def exists(self) -> bool:
        """Reports whether the file is there."""
        return (Path(self.folder) / self.name).exists()

    def path(self) -> str:
        """Returns the path of the file.

        Raises:
            MissingFileError: It is not there.
        """
        path = Path(self.folder) / self.name
        try:
            os.utime(path)  # it was used
        except OSError as error:
            what = "the folder is" if not path.parent.is_dir() else f"{self.name} is"
            raise MissingFileError(
                f"store: {self.folder}: {what} not there on {socket.gethostname()}. A Recommender with store= was sent "
                "here as a reference to a file in this folder, which all machines of a search must see; or it was "
                "deleted since, by somebody or because of disk_limit",
                error.errno or 0,
                str(path),
            ) from None
        return str(path)


class PickledByReference:
    """The part of an estimator that pickles to a reference, if it has a ``store``; else it pickles whole."""

    store: Any
    disk_limit: Any
    _kept: Reference  # of the state as it is; missing if there is none

    def __getstate__(self) -> dict[str, Any]:
        if self.store is None and "_kept" in self.__dict__:  # it had a store
            self.model_ = self.model_
        parent = getattr(super(), "__getstate__", None)  # Python 3.10 has none in object
        state = dict(parent() if parent is not None else self.__dict__)
        if self.store is None or not ({"_kept", "model_"} & set(self.__dict__)):
            return state
        if "_kept" not in self.__dict__ or ("model_" in self.__dict__ and not self._kept.exists()):
            self._kept = self._written()
        state["_kept"] = self._kept
        return {name: value for name, value in state.items() if name not in ("model_", "_training")}

    @property
    def model_(self) -> Model:
        """The model; that of a reference is read when it is used first."""
        if "model_" not in self.__dict__:
            if "_kept" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute 'model_'")
            self.__dict__["model_"] = load(self._kept.path())
        found: Model = self.__dict__["model_"]
        return found

    @model_.setter
    def model_(self, model: Model) -> None:
        check_model(model)
        self.__dict__.pop("_kept", None)
        self.__dict__["model_"] = model

    @model_.deleter
    def model_(self) -> None:
        del self.__dict__["model_"]

    def _written(self) -> Reference:
        """Writes the state as it is in memory, with a new lineage."""
        training: Training | None = self.__dict__.get("_training")
        if training is not None and training.trains(self.model_):
            return _write(self.store, training.save, True, self.disk_limit)
        if "_kept" in self.__dict__ and self._kept.trains:
            text = f"store: {self.store}: {self._kept.name} is not there any more. The model is written again, but the "
            warnings.warn(f"{text}optimizer begins anew with the next partial_fit()", stacklevel=3)
        return _write(self.store, self.model_.save, False, self.disk_limit)

    def _keeping(self, earlier: Reference | None) -> Callable[[Trainer], None] | None:
        """Returns what writes the state of a training, or None without a store."""
        if self.store is None:
            return None

        def keep(trainer: Trainer) -> None:
            self._kept = _write(self.store, trainer.save, True, self.disk_limit, earlier)

        return keep


def check_folder(folder: Any) -> Path:
    """Returns the path of a store.

    Raises:
        InvalidArgumentError: It cannot be a path.
    """
    try:
        with _options.path_argument(folder) as name:
            return Path(os.fsdecode(name)).absolute()
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"store: {error}") from None


def _write(
    folder: str,
    write: Callable[[Path], object],
    trains: bool,
    disk_limit: int | None,
    earlier: Reference | None = None,
) -> Reference:
    """Writes the next version of an estimator.

    Args:
        folder: The folder, which is made if it does not exist.
        write: Writes the file to a path.
        trains: Whether the file has the state of the optimizer.
        disk_limit: Most bytes of files in the folder; None = half of what would be free without them.
        earlier: The version before, or None.

    Raises:
        InputOutputError: The file cannot be written.
    """
    lineage = secrets.token_hex(8) if earlier is None else earlier.lineage
    version = 1 if earlier is None else earlier.version + 1
    place = check_folder(folder)
    temporary = place / f".{lineage}-{secrets.token_hex(4)}.part"
    try:
        place.mkdir(parents=True, exist_ok=True)
        write(temporary)
        digest = _digest(temporary)
        name = f"{lineage}-{version}-{digest}.dsstne"
        if not (place / name).exists() and any(n >= version for _, n in _versions(place, lineage)):
            lineage, version = secrets.token_hex(8), 1  # another copy has gone on from the earlier version
            name = f"{lineage}-{version}-{digest}.dsstne"
        reference = Reference(str(place), lineage, version, name, trains)
        temporary.replace(place / reference.name)
    except OSError as error:
        text = str(error) if isinstance(error, InputOutputError) else error.strerror
        raise InputOutputError(f"store: {place}: {text}", error.errno or 0, str(place)) from None
    finally:  # also after Ctrl-C
        with contextlib.suppress(OSError):
            temporary.unlink()
    _sweep(place)
    _forget(place, reference, disk_limit)
    return reference


def _versions(place: Path, lineage: str = "*") -> list[tuple[Path, int]]:
    """Returns the files of a lineage, or of all, and their versions."""
    found = ((path, _NAME.fullmatch(path.name)) for path in place.glob(f"{lineage}-*.dsstne"))
    return [(path, int(name["version"])) for path, name in found if name]


def _digest(path: Path) -> str:
    """Returns a digest of a model file: that of its header, which has the digests of all tensors."""
    with path.open("rb") as file:
        length = file.read(8)
        return hashlib.sha256(length + file.read(int.from_bytes(length, "little"))).hexdigest()[:32]


def _sweep(place: Path) -> None:
    """Deletes what processes that were killed had not written completely."""
    with contextlib.suppress(OSError):
        for path in place.glob(".*"):
            with contextlib.suppress(OSError):
                if _PART.fullmatch(path.name) and time.time() - path.stat().st_mtime > _ABANDONED:
                    path.unlink()


def _forget(place: Path, newest: Reference, disk_limit: int | None) -> None:
    """Deletes versions that nobody goes on from, and more files above the limit.

    Above the limit, the last version but one of each lineage is deleted first; it is only needed if the result of a
    call was lost. Then those go that were not used for longest.

    Args:
        place: The folder.
        newest: The version that was just written.
        disk_limit: Most bytes of files; None = half of what would be free without them.
    """
    with _in_use_lock:
        needed = {reference.name for reference in _in_use}
    with contextlib.suppress(OSError):
        files: list[tuple[str, int, os.stat_result, Path]] = []
        latest: dict[str, int] = {}
        for path, version in _versions(place):
            lineage = path.name.partition("-")[0]
            is_old = lineage == newest.lineage and version <= newest.version - _KEPT
            with contextlib.suppress(OSError):  # another process may have deleted it
                if is_old and path.name not in needed:
                    path.unlink()
                else:
                    files.append((lineage, version, path.stat(), path))
                    latest[lineage] = max(version, latest.get(lineage, 0))
        used = sum(about.st_size for _, _, about, _ in files)
        sortable = ((version == latest[lineage], about.st_mtime_ns, path) for lineage, version, about, path in files)
        order = [path for _, _, path in sorted(sortable) if path.name != newest.name]
        delete_above(limit_of(place, disk_limit, used), used, order)
