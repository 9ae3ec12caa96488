"""What the operating system refuses has its errno and the name of the file; names of files are any bytes."""

import errno
import os
import pickle
import resource
import shutil
import subprocess
import sys

import numpy as np
import pyarrow
import pyarrow.feather
import pytest

import dsstne

DENSE = np.array([[1, 0, 2, 0], [0, 0, 0, 0], [0, 3, 0, 1]], np.float32)
LONG = "x" * 300

READERS = {
    "load": dsstne.load,
    "from_file": lambda path: dsstne.Dataset.from_file(path, columns=4),
    "open": dsstne.Dataset.open,
    "network": dsstne.Model,
    "netcdf.network": dsstne.netcdf.network,
    "netcdf.read": dsstne.netcdf.read,
}


def refused(call, path, kind, number):
    """Checks the exception that a call raises for a path, also after a pickle."""
    with pytest.raises(kind) as caught:
        call(path)
    error = caught.value
    error.model = "mine"
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert isinstance(one, OSError)
        assert (one.errno, one.strerror, one.filename) == (number, os.strerror(number), path)
        assert (str(one), one.model) == (str(error), "mine")
        assert path[-200:] in str(one)


@pytest.mark.parametrize("call", READERS.values(), ids=READERS.keys())
def test_a_file_that_cannot_be_read_has_an_errno(call, tmp_path):
    (tmp_path / "file").write_text("{}")
    (tmp_path / "loop").symlink_to("loop")
    refused(call, str(tmp_path / "none"), dsstne.MissingFileError, errno.ENOENT)
    refused(call, str(tmp_path / "no folder" / "file"), dsstne.MissingFileError, errno.ENOENT)
    refused(call, str(tmp_path), dsstne.InputOutputError, errno.EISDIR)
    refused(call, str(tmp_path / "file" / "m"), dsstne.InputOutputError, errno.ENOTDIR)
    refused(call, str(tmp_path / "loop"), dsstne.InputOutputError, errno.ELOOP)
    refused(call, LONG, dsstne.InputOutputError, errno.ENAMETOOLONG)


def test_a_file_that_cannot_be_written_has_an_errno(tmp_path):
    save = dsstne.popularity(DENSE).save
    (tmp_path / "file").write_text("{}")
    refused(save, str(tmp_path / "no folder" / "file"), dsstne.InputOutputError, errno.ENOENT)
    refused(save, str(tmp_path), dsstne.InputOutputError, errno.EISDIR)
    refused(save, str(tmp_path / "file" / "m"), dsstne.InputOutputError, errno.ENOTDIR)
    refused(save, LONG, dsstne.InputOutputError, errno.ENAMETOOLONG)


def test_a_save_beyond_the_space_allowed_has_an_errno(tmp_path):
    save, path = dsstne.popularity(np.ones((1, 50_000), np.float32)).save, tmp_path / "m"
    path.write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        refused(save, str(path), dsstne.InputOutputError, errno.EFBIG)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["m"])


FULL = """
import errno, os, sys
import numpy as np
import dsstne
model, path = dsstne.popularity(np.ones((1, 50_000), np.float32)), sys.argv[1] + "/m"
open(path, "w").write("old")
try:
    model.save(path)
except OSError as error:
    print(error.errno == errno.ENOSPC, error.filename == path, open(path).read(), os.listdir(sys.argv[1]))
"""


def test_a_full_disk_has_an_errno(tmp_path):
    mount = 'mount -t tmpfs -o size=100k none "$1" && exec "$0" -c "$2" "$1"'  # seen by this process only
    command = ["unshare", "--user", "--map-root-user", "--mount"]
    trial = [*command, "mount", "-t", "tmpfs", "none", tmp_path]
    if shutil.which("unshare") is None or subprocess.run(trial, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small disk")
    command += ["sh", "-c", mount, sys.executable, tmp_path, FULL]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "True True old ['m']", done.stderr


def test_a_folder_without_permission_has_an_errno(python, tmp_path):
    code = """
import errno, os, sys
import numpy as np
import dsstne
model = dsstne.popularity(np.ones((1, 3), np.float32))
if os.geteuid() == 0:
    os.seteuid(65534)  # root may do everything
readers = (dsstne.load, dsstne.Model, lambda path: dsstne.Dataset.from_file(path, columns=3))
for call in (*readers, model.save):
    try:
        call(sys.argv[1])
    except dsstne.InputOutputError as error:
        assert (error.errno, error.filename) == (errno.EACCES, sys.argv[1]), error
        print(str(error).count(sys.argv[1]))
"""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0)
    assert python(code, folder / "m").split() == ["1"] * 4


def test_an_error_without_a_number_of_the_system_has_none(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(dsstne.InputOutputError, match="not a regular file") as caught:
        dsstne.load(tmp_path / "pipe")
    assert (caught.value.errno, caught.value.filename) == (None, str(tmp_path / "pipe"))


NAMES = """
import os, sys
import numpy as np
import dsstne
from dsstne import _options
encoding, folder = sys.argv[1:]
assert sys.getfilesystemencoding() == encoding, sys.getfilesystemencoding()
os.chdir(folder)
model = dsstne.popularity(np.eye(3, dtype=np.float32))
network = '{"kind": "item_weights", "items": 3, "weight": "none", "bias": true}'
for name in (b"m\\xc3\\xa8re", b"m\\xe8re", b"\\xff\\x80"):
    for path in (os.fsdecode(name), name):
        model.save(path)
        assert name in os.listdir(b"."), os.listdir(b".")
        assert dsstne.load(path).output_units == 3
    with open(name, "rb+") as file:
        file.truncate(100)
    try:
        dsstne.load(os.fsdecode(name))
    except dsstne.CorruptFileError as error:
        str(error).encode()
    else:
        raise AssertionError
    os.remove(name)
    os.rename("data.arrow", name)
    assert dsstne.Dataset.from_file(os.fsdecode(name), columns=4).shape == (2, 4)
    os.rename(name, "data.arrow")
    with open(name, "w") as file:
        file.write(network)
    assert dsstne.Model(os.fsdecode(name)).inputs == {"input": 3}
    os.remove(name)
    for call in (dsstne.load, dsstne.Model, lambda path: dsstne.Dataset.from_file(path, columns=4)):
        try:
            call(os.fsdecode(name))
        except dsstne.MissingFileError as error:
            assert error.filename == os.fsdecode(name)
            str(error).encode("utf-8", "backslashreplace")
        else:
            raise AssertionError
if encoding == "ascii":  # open() refuses this name too
    for call in (dsstne.load, dsstne.Model, model.save):
        try:
            call("m\\xe8re")
        except dsstne.InvalidArgumentError as error:
            print(error)
        else:
            raise AssertionError
"""


@pytest.mark.parametrize(("locale", "encoding"), [("C", "ascii"), ("C.UTF-8", "utf-8")])
def test_a_name_of_a_file_is_what_python_makes_of_it(tmp_path, locale, encoding):
    rows = pyarrow.array([[0, 2], [3]], pyarrow.list_(pyarrow.int32()))
    pyarrow.feather.write_feather(pyarrow.table({"a": rows}), tmp_path / "data.arrow", compression="uncompressed")
    utf8 = str(int(encoding == "utf-8"))
    settings = {"LC_ALL": locale, "PYTHONUTF8": utf8, "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-c", NAMES, encoding, str(tmp_path)]
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("'ascii' codec can't encode") == (3 if encoding == "ascii" else 0), done.stdout
