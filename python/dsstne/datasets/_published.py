"""Published datasets: where they are, and how their files are read."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import re
import warnings
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dsstne import _checks
from dsstne._layers import nearest
from dsstne.errors import CorruptFileError, InvalidArgumentError
from dsstne.interactions import Interactions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

_MOST_STARS = 5
_TIME = "datetime64[s]"
_BLOCK = 1 << 26  # bytes of a file that are parsed at a time

_GROUPLENS = "https://files.grouplens.org/datasets/movielens"
_SNAP = "https://snap.stanford.edu/data"
_LIGHTGCN = (
    "https://raw.githubusercontent.com/gusye1234/LightGCN-PyTorch/947ca2b3b1d2d3545b114145710cb06c4e57b3d2/data/gowalla"
)
_AMAZON = "https://mcauleylab.ucsd.edu/public_datasets/data/amazon_2023/benchmark"


class _MovieLens(NamedTuple):
    digest: str  # that GroupLens publishes beside the file, as ml-100k.zip.md5
    ratings: str
    movies: str
    separator: str
    encoding: str = "utf-8"


_MOVIELENS = {
    "100k": _MovieLens("0e33842e24a9c977be4e0107933c0723", "ml-100k/u.data", "ml-100k/u.item", "\t", "latin-1"),
    "1m": _MovieLens("c4d9eecfca2ab87c1945afe126590906", "ml-1m/ratings.dat", "ml-1m/movies.dat", "::", "latin-1"),
    "10m": _MovieLens("ce571fd55effeba0271552578f2648bd", "ml-10M100K/ratings.dat", "ml-10M100K/movies.dat", "::"),
    "20m": _MovieLens("cd245b17a1ae2cc31bb14903e1204af3", "ml-20m/ratings.csv", "ml-20m/movies.csv", ","),
    "25m": _MovieLens("6b51fb2759a8657d3bfcbfc42b592ada", "ml-25m/ratings.csv", "ml-25m/movies.csv", ","),
    "32m": _MovieLens("d472be332d4daa821edc399621853b57", "ml-32m/ratings.csv", "ml-32m/movies.csv", ","),
}

# SNAP publishes no digest; this one is in the registry of the DataRec library (github.com/sisinflab/DataRec).
_CHECKINS_MD5 = "md5:8ebd5ed2dd376d8982987c49429cb9f9"

# Of the files at the commit that the address names.
_SPLIT_SHA256 = {
    "train.txt": "7244696fdeb23911319cf7b689f2e15a3c4c92549c873a5677b44e3f13cc3e62",
    "test.txt": "099a2a73924e4b754dc6efd730d764f492321b53c38eb93298850c83acf57be3",
    "item_list.txt": "6b186f92890cc3f0c15a6dae5d6285f125a302bb8c5ea0cd9a16cf9c16347139",
    "user_list.txt": "5344c4d0deef610e1f148f23ad216a0db03b36f88834cd39a06786a672c5f5a1",
}


def fetch_movielens(
    size: str = "100k", *, minimum_rating: float | None = None, folder: Any = None, progress: bool = True
) -> Interactions:
    """Downloads ratings of films by the users of MovieLens.

    The download is kept and not repeated; docs/datasets.md describes the cache. The data have their own licence, which
    is in the file: research only, and GroupLens forbids to redistribute them without permission. Harper and Konstan,
    "The MovieLens Datasets: History and Context", 2015.

    Args:
        size: ``"100k"``, ``"1m"``, ``"10m"``, ``"20m"``, ``"25m"`` or ``"32m"`` ratings.
        minimum_rating: Keep only ratings of at least this number of stars, 0.5 to 5, with the value 1; None = all
            ratings, and the values are the stars.
        folder: Folder of the cache; None = ``$DSSTNE_DATA``, or ``dsstne`` in the user's cache.
        progress: Show a progress bar if stderr is a terminal or a notebook.

    Returns:
        Interactions with the numbers of the users as names of the rows, titles as names of the items, genres as
        descriptions (of "100k" none), and times. Of films with the same title, the names end with their numbers.

    Raises:
        InvalidArgumentError: There is no such size, or an option is not valid.
        InputOutputError: There is no connection, or the file cannot be written.
        CorruptFileError: The file has another digest than the published one.

    Example:
        >>> from dsstne.datasets import fetch_movielens
        >>> movies = fetch_movielens("1m", minimum_rating=4)  # doctest: +SKIP
    """
    if _checks.text(size, "size") not in _MOVIELENS:
        raise InvalidArgumentError(f"size: there is no MovieLens {_checks.shown(size)}; {nearest(size, _MOVIELENS)}")
    least = _least(minimum_rating)
    kind = _MOVIELENS[size]
    path = _fetch(f"{_GROUPLENS}/ml-{size}.zip", f"md5:{kind.digest}", folder, progress)
    with _reading(path), zipfile.ZipFile(path) as archive:
        with archive.open(kind.ratings) as file:
            users, items, ratings, times = _numbers(file, kind.separator, kind.ratings.endswith(".csv"))
        with io.TextIOWrapper(archive.open(kind.movies), encoding=kind.encoding, newline="") as text:
            titles, genres = _films(text, "|" if size == "100k" else kind.separator)
    whole = [column.astype(np.int64) for column in (users, items, times)]
    made = _rated(whole[0], whole[1], ratings, whole[2].astype(_TIME), least)
    ids = made.item_names.tolist()
    names = [titles.get(n, str(n)) for n in ids]
    count = dict(zip(*np.unique(names, return_counts=True), strict=True))
    unique = [name if count[name] == 1 else f"{name} [{n}]" for n, name in zip(ids, names, strict=True)]
    return Interactions(
        made.matrix,
        made.row_names,
        np.array(unique),
        item_descriptions=np.array([genres.get(n, "") for n in ids]) if genres else np.empty(0, str),
        description=f"MovieLens {size}, {path.name} of GroupLens, for research only; not to be redistributed.",
        times=made.times,
    )


def fetch_gowalla(*, folder: Any = None, progress: bool = True) -> Interactions:
    """Downloads the 6.4 million check-ins of the users of Gowalla, February 2009 to October 2010.

    The file is that of the Stanford Network Analysis Project (SNAP), 105 MB. The download is kept; docs/datasets.md
    describes the cache. SNAP states no licence. Cho, Myers and Leskovec, "Friendship and Mobility", 2011.

    Args:
        folder, progress: See :func:`fetch_movielens`.

    Returns:
        Interactions with the numbers of users and locations as names; the values are the numbers of check-ins, the
        times those of the last ones.

    Raises:
        InputOutputError: There is no connection, or the file cannot be written.
        CorruptFileError: The file has another digest than the known one.

    Example:
        >>> from dsstne.datasets import fetch_gowalla
        >>> checkins = fetch_gowalla()  # doctest: +SKIP
    """
    path = _fetch(f"{_SNAP}/loc-gowalla_totalCheckins.txt.gz", _CHECKINS_MD5, folder, progress)
    kinds = {0: np.int64, 1: _TIME, 4: np.int64}
    with _reading(path), gzip.open(path) as file:
        users, times, items = _columns(file, "\t", kinds)
    made = Interactions.from_frame({"user": users, "item": items, "time": times}, time="time")
    return _described(made, "Check-ins of Gowalla, from SNAP (Cho, Myers and Leskovec, 2011).")


def fetch_gowalla_split(*, folder: Any = None, progress: bool = True) -> tuple[Interactions, Interactions]:
    """Downloads the training and test part of Gowalla on which many graph models were published.

    29,858 users and 40,981 locations with at least ten interactions, split 80 to 20 for each user at random; the order
    of a row is lost. The files are those of LightGCN (He et al., 2020), by way of its implementation in PyTorch. NGCF
    (Wang et al., 2019) introduced them.

    Args:
        folder, progress: See :func:`fetch_movielens`.

    Returns:
        ``(train, test)``: interactions with the same users and locations, named by their numbers in Gowalla's data.

    Raises:
        InputOutputError: There is no connection, or a file cannot be written.
        CorruptFileError: A file has another digest than the known one.

    Example:
        >>> from dsstne.datasets import fetch_gowalla_split
        >>> train, test = fetch_gowalla_split()  # doctest: +SKIP
        >>> train.matrix.shape, train.matrix.nnz, test.matrix.nnz  # doctest: +SKIP
        ((29858, 40981), 810128, 217242)
    """
    paths = {}
    for name, digest in _SPLIT_SHA256.items():
        place = f"{_LIGHTGCN}/{name}"
        paths[name] = _fetch(place, f"sha256:{digest}", folder, progress, f"gowalla-split-{name}")
    names, parts = {}, []
    for name in ("user_list.txt", "item_list.txt"):
        with _reading(paths[name]):
            lines = paths[name].read_text(encoding="ascii").splitlines()[1:]
            names[name] = np.array([line.split()[0] for line in lines]).astype(np.int64)
    for name in ("train.txt", "test.txt"):
        with _reading(paths[name]):
            rows = [line.split() for line in paths[name].read_text(encoding="ascii").splitlines()]
            users = np.repeat([int(row[0]) for row in rows], [len(row) - 1 for row in rows])
            items = np.array([item for row in rows for item in row[1:]]).astype(np.int64)
            frame = {"user": names["user_list.txt"][users], "item": names["item_list.txt"][items]}
        made = Interactions.from_frame(frame, users=names["user_list.txt"], items=names["item_list.txt"])
        parts.append(_described(made, f"Gowalla, {name} of NGCF and LightGCN."))
    return parts[0], parts[1]


def fetch_amazon(
    category: str,
    *,
    core: int = 5,
    minimum_rating: float | None = None,
    folder: Any = None,
    progress: bool = True,
) -> Interactions:
    """Downloads the ratings of a category of the Amazon Reviews of 2023.

    The download is kept; docs/datasets.md describes the cache. The publisher gives no digests: the first download
    counts as right, and later ones are compared with it. Hou et al., "Bridging Language and Items for Retrieval and
    Recommendation", 2024; their page https://amazon-reviews-2023.github.io lists the categories and the terms of use.

    Args:
        category: Such as ``"All_Beauty"``, ``"Video_Games"`` or ``"Books"``.
        core: 5 = only users and products with at least five ratings each, 0 = all of them.
        minimum_rating: As in :func:`fetch_movielens`, 1 to 5.
        folder, progress: See :func:`fetch_movielens`.

    Returns:
        Interactions with the ids of the users and the parent ASINs of the products as names, and times.

    Raises:
        InvalidArgumentError: The category is not a word, or an option is not valid.
        InputOutputError: There is no such category (HTTP status 404) or no connection, or the file cannot be written.
        CorruptFileError: The file is damaged, or has another digest than its first download.

    Example:
        >>> from dsstne.datasets import fetch_amazon
        >>> games = fetch_amazon("Video_Games", minimum_rating=4)  # doctest: +SKIP
    """
    if not re.fullmatch("[A-Za-z_]{1,100}", _checks.text(category, "category")):
        raise InvalidArgumentError(f"category must be a name such as 'Video_Games', not {_checks.shown(category)}")
    if _checks.integer(core, "core") not in (0, 5):
        raise InvalidArgumentError(f"core must be 0 or 5, not {_checks.shown(core)}")
    least = _least(minimum_rating)
    url = f"{_AMAZON}/{core:d}core/rating_only/{category}.csv.gz"
    path = _fetch(url, None, folder, progress, f"amazon-2023-{core:d}core-{category}.csv.gz")
    with _reading(path), gzip.open(path) as file:
        file.readline()  # user_id,parent_asin,rating,timestamp
        users, items, ratings, times = _columns(file, ",", {0: str, 1: str, 2: np.float64, 3: np.int64})
    made = _rated(users, items, ratings, times.astype("datetime64[ms]"), least)
    return _described(made, f"Amazon Reviews 2023, {category}, ratings, {core}-core (Hou et al., 2024).")


def _least(minimum_rating: Any) -> float | None:
    if minimum_rating is None:
        return None
    least = _checks.positive(minimum_rating, "minimum_rating")
    if least > _MOST_STARS:
        raise InvalidArgumentError(f"minimum_rating: a rating has at most {_MOST_STARS} stars, not {least:g}")
    return least


def _fetch(url: str, digest: str | None, folder: Any, progress: bool, name: str | None = None) -> Path:
    from dsstne.datasets._fetch import fetch  # imports urllib, http and ssl

    return fetch(url, digest, folder, progress, name)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Names the file in errors of the block."""
    try:
        yield
    except (zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, KeyError, IndexError, ValueError) as error:
        raise CorruptFileError(
            f"{path} is damaged or has another format: {error}; delete it to download it again"
        ) from None


def _blocks(file: Any) -> Iterator[bytes]:
    """Yields the lines of a file, many at a time."""
    rest = b""
    while block := file.read(_BLOCK):
        lines, newline, rest = (rest + block).rpartition(b"\n")
        if newline:
            yield lines
    if rest:
        yield rest


def _columns(file: Any, separator: str, kinds: dict[int, Any]) -> list[NDArray[Any]]:
    """Returns some columns of a table of text, by number, as arrays of these types; times end with Z."""
    parts: list[list[NDArray[Any]]] = []
    for block in _blocks(file):
        fields = list(zip(*(line.split(separator) for line in block.decode("ascii").splitlines()), strict=True))
        texts = {
            n: np.char.rstrip(fields[n], "Z") if kind == _TIME else np.array(fields[n]) for n, kind in kinds.items()
        }
        parts.append([texts[n].astype(kind) for n, kind in kinds.items()])
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _numbers(file: Any, separator: str, headed: bool) -> list[NDArray[np.float64]]:
    """Returns the columns of a file of numbers."""
    if headed:
        file.readline()
    parts = []
    for block in _blocks(file):
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # what is not a number
            try:
                flat = np.fromstring(block.replace(separator.encode(), b" "), np.float64, sep=" ")
            except DeprecationWarning as error:
                raise ValueError(error) from None
        parts.append(flat.reshape(-1, 4))
    return list(np.concatenate(parts).T)


def _films(text: Any, separator: str) -> tuple[dict[int, str], dict[int, str]]:
    """Returns the titles and, if the file has them in words, the genres of films by their numbers."""
    lines: Any = (line.rstrip("\r\n").split(separator) for line in text)
    if separator == ",":
        next(text)
        lines = csv.reader(text)
    lines = list(lines)
    titles = {int(line[0]): line[1] for line in lines}
    return titles, {} if separator == "|" else {int(line[0]): line[2] for line in lines}


def _rated(users: Any, items: Any, ratings: Any, times: Any, least: float | None) -> Interactions:
    """Makes interactions of ratings: all of them, or ones for those that are at least ``least``."""
    frame = {"user": users, "item": items, "value": ratings, "time": times}
    if least is not None:
        frame = {name: column[ratings >= least] for name, column in frame.items()}
        frame["value"] = np.ones(len(frame["user"]))
    return Interactions.from_frame(frame, value="value", time="time", duplicates="last")


def _described(made: Interactions, description: str) -> Interactions:
    return Interactions(made.matrix, made.row_names, made.item_names, description=description, times=made.times)
