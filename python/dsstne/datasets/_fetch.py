"""Downloads published files into a cache, checks their digests, and resumes what was interrupted."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import ssl
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsstne import _checks
from dsstne.errors import BusyError, CorruptFileError, DsstneError, InputOutputError
from dsstne.progress import Download

if TYPE_CHECKING:
    from collections.abc import Iterator

if sys.platform != "win32":
    import fcntl

_CHUNK = 1 << 20
_TIMEOUT = 60  # seconds without an answer
_ATTEMPTS = 3  # without a new byte


def data_folder(folder: Any = None) -> Path:
    """Returns the folder of the cache: the one given, else ``$DSSTNE_DATA``, else ``dsstne`` in the user's cache."""
    if folder is None:
        folder = os.environ.get("DSSTNE_DATA")
    elif not isinstance(folder, Path):
        folder = _checks.text(folder, "folder")
    if folder:
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "dsstne"


def fetch(url: str, digest: str | None, folder: Any = None, progress: bool = True, name: str | None = None) -> Path:
    """Returns the path of a published file in the cache; downloads it unless it is there and undamaged.

    Beside a file lies ``<file>.json`` with the digest of its first download, which is what later ones are compared with
    if no digest is known beforehand.

    Args:
        url: Address, by HTTPS (by HTTP only of this machine).
        digest: ``"md5:..."`` or ``"sha256:..."``; None = that of the first download.
        folder: See :func:`data_folder`.
        progress: Show a progress bar if stderr is a terminal or a notebook.
        name: Name of the file in the cache; None = as in the address.

    Raises:
        InputOutputError: There is no connection, the server refuses, or the file cannot be written.
        CorruptFileError: The downloaded file has another digest.
        BusyError: Another process is downloading the file.
    """
    progress = _checks.boolean(progress, "progress")
    _check_scheme(url)
    path = data_folder(folder) / (name or url.rpartition("/")[2])
    try:
        path = path.expanduser()
        path.parent.mkdir(parents=True, exist_ok=True)
        return _fetched(url, digest, path, progress)
    except DsstneError:
        raise
    except (OSError, ValueError, RuntimeError) as error:  # names that cannot be represented, users that do not exist
        number = getattr(error, "errno", 0) or 0
        reason = getattr(error, "strerror", None) or error
        text = (
            f"cannot write {str(path)!r:.300}: {reason!s:.300}; set DSSTNE_DATA or give folder= to store data elsewhere"
        )
        raise InputOutputError(text, number, str(path)) from None


def _fetched(url: str, digest: str | None, path: Path, progress: bool) -> Path:
    record, part = path.with_name(path.name + ".json"), path.with_name(path.name + ".part")
    first = digest or _recorded(record)
    if path.exists():
        got = _digest(path, first or "sha256:")
        if first is None:
            with contextlib.suppress(OSError):  # others may read a folder that they cannot write
                _write(record, url, got)
        if first in (None, got):
            return path
    with _alone(path):
        _download(url, part, progress)
        got = _digest(part, first or "sha256:")
        if first not in (None, got):
            part.unlink()
            known = "the published file" if digest else "its first download"
            hint = "" if digest else f"; if the publisher has changed the file, delete {record} and try again"
            raise CorruptFileError(f"{url}: the download has the digest {got}, {known} {first}{hint}")
        _write(record, url, got)
        part.replace(path)
    return path


def _write(record: Path, url: str, digest: str) -> None:
    record.write_text(json.dumps({"url": url, "digest": digest}))


def _download(url: str, part: Path, progress: bool) -> None:
    """Downloads a file, beginning with what a partial file has; raises InputOutputError."""
    attempts, reason = 0, ""
    with contextlib.closing(Download(part.stem, progress)) as bar:
        while attempts < _ATTEMPTS:
            before = part.stat().st_size if part.exists() else 0
            try:
                if _continue(url, part, bar):
                    return
                reason = "the connection ended early"
            except urllib.error.HTTPError as error:
                error.close()
                if error.code == 416:  # the partial file does not belong to the file of the server
                    part.unlink()
                reason = f"HTTP status {error.code} {error.reason}"
                if error.code in (401, 403, 404, 410):
                    break
            except urllib.error.URLError as error:
                reason = str(error.reason)
            except (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
                reason = f"the connection ended early ({error})"
            grown = part.exists() and part.stat().st_size > before
            attempts = 0 if grown else attempts + 1
    raise InputOutputError(
        f"cannot download {url}: {reason}; what has arrived is kept, and the next call continues. "
        f"You can also put the file at {part.with_suffix('')} yourself"
    )


def _continue(url: str, part: Path, bar: Download) -> bool:
    """Appends what is missing to a partial file; returns whether the file is complete.

    ``If-Range`` has the server send the whole file if it has changed since; the name of its version is kept beside the
    partial file.
    """
    version = part.with_name(part.name + ".version")
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "dsstne", "Accept-Encoding": "identity"}
    if have and version.exists():
        headers |= {"Range": f"bytes={have}-", "If-Range": version.read_text()}
    request = urllib.request.Request(url, headers=headers)
    opener = urllib.request.build_opener(_SecureRedirects)  # with the proxies of the environment
    with opener.open(request, timeout=_TIMEOUT) as response:
        resumed = response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        if not resumed:
            have = 0
        length = response.headers.get("Content-Length")
        whole = have + int(length) if length else None
        tag = response.headers.get("ETag") or ""
        name = response.headers.get("Last-Modified") if tag.startswith("W/") or not tag else tag
        version.unlink(missing_ok=True)
        if name:
            version.write_text(name)
        bar.begin(have, whole)
        with part.open("ab" if resumed else "wb") as file:
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                have += len(chunk)
                bar.update(len(chunk))
    complete = whole in (None, have)
    if complete:
        version.unlink(missing_ok=True)
    return complete


class _SecureRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        _check_scheme(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_scheme(url: str) -> None:
    """Refuses plain HTTP but to this machine."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in ("localhost", "127.0.0.1"):
        raise InputOutputError(f"cannot download {url}: the address is not HTTPS")


def _digest(path: Path, like: str) -> str:
    """Returns the digest of a file, of the kind of another one, such as ``"md5:..."``."""
    kind = like.partition(":")[0]
    with path.open("rb") as file:
        found = hashlib.new(kind, usedforsecurity=False)
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return f"{kind}:{found.hexdigest()}"


def _recorded(record: Path) -> str | None:
    """Returns the digest of the first download; None = there is none, or the file is damaged."""
    try:
        value = json.loads(record.read_text())["digest"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return value if isinstance(value, str) and value.startswith(("md5:", "sha256:")) else None


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keeps other processes from downloading the same file."""
    if sys.platform == "win32":
        yield
        return
    with path.with_name(path.name + ".json").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(f"another process is downloading {path}; try again when it is done") from None
        yield
