"""Files of estimators that pickle to a reference: checkpoints in a folder that all processes of a search see.

A file never changes. Its name begins with the lineage of the estimator, drawn when it was fitted, and the number of the
version, and ends with a digest. Searches copy an estimator before they train it further, and may train it a second time
if a result was lost; so the last two versions are kept, and older ones are deleted.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsstne import _options
from dsstne._weights import check_model
from dsstne.errors import InputOutputError, InvalidArgumentError, MissingFileError
from dsstne.model import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsstne.model import Model
    from dsstne.trainer import Trainer

_KEPT = 2  # versions
_NAME = re.compile(r"[0-9a-f]{16}-\d+-[0-9a-f]{32}\.dsstne")
_SHARE = 0.5  # of the disk's free space, that the files may take


@dataclass(frozen=True)
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
                "deleted since",
                error.errno or 0,
                str(path),
            ) from None
        return str(path)


class Kept:
    """The part of an estimator that pickles to a reference, if it has a ``store``; else it pickles whole."""

    store: Any
    _kept: Reference  # of the state as it is; missing if there is none

    def __getstate__(self) -> dict[str, Any]:
        parent = getattr(super(), "__getstate__", None)  # Python 3.10 has none in object
        state = dict(parent() if parent is not None else self.__dict__)
        if self.store is None or not ({"_kept", "model_"} & set(self.__dict__)):
            return state
        if "_kept" not in self.__dict__:
            self._kept = _write(self.store, self.model_.save, False)
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

    def _keeping(self, earlier: Reference | None) -> Callable[[Trainer], None] | None:
        """Returns what writes the state of a training, or None without a store."""
        if self.store is None:
            return None

        def keep(trainer: Trainer) -> None:
            self._kept = _write(self.store, trainer.save, True, earlier)

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


def _write(folder: str, write: Callable[[Path], object], trains: bool, earlier: Reference | None = None) -> Reference:
    """Writes the next version of an estimator.

    Args:
        folder: The folder, which is made if it does not exist.
        write: Writes the file to a path.
        trains: Whether the file has the state of the optimizer.
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
        reference = Reference(str(place), lineage, version, f"{lineage}-{version}-{_digest(temporary)}.dsstne", trains)
        temporary.replace(place / reference.name)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        text = str(error) if isinstance(error, InputOutputError) else error.strerror
        raise InputOutputError(f"store: {place}: {text}", error.errno or 0, str(place)) from None
    _forget(place, reference)
    return reference


def _digest(path: Path) -> str:
    """Returns a digest of a model file: that of its header, which has the digests of all tensors."""
    with path.open("rb") as file:
        length = file.read(8)
        return hashlib.sha256(length + file.read(int.from_bytes(length, "little"))).hexdigest()[:32]


def _forget(place: Path, newest: Reference) -> None:
    """Deletes versions that nobody goes on from and, over a limit, the files that were not used for longest."""
    files = []
    with contextlib.suppress(OSError):
        for path in place.glob("*.dsstne"):
            if not _NAME.fullmatch(path.name):
                continue  # not one of ours
            lineage, version, _ = path.name.split("-")
            is_old = int(version) <= newest.version - _KEPT
            with contextlib.suppress(OSError):
                if lineage == newest.lineage and is_old:
                    path.unlink()
                else:
                    files.append((path.stat().st_mtime_ns, path.stat().st_size, path))
        used = sum(size for _, size, _ in files)
        limit = _SHARE * (shutil.disk_usage(place).free + used)
        for _, size, path in sorted(files):
            if used <= limit or path.name == newest.name:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            used -= size
