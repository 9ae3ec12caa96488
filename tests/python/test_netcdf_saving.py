"""The files of dsstne.netcdf on the disk: what a save replaces, what is left of it, and disks that are full."""

import errno
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import sys

import netCDF4
import numpy as np
import pytest

import dsstne
from dsstne import _netcdf_data

LIMITED = """
import errno, os, resource, sys
import numpy as np, scipy.sparse
import dsstne
folder, limit = sys.argv[1], int(sys.argv[2])
layers = [dict(name="in", kind="input", size=3000), dict(name="h", kind="hidden", size=20)]
model = dsstne.Model({"layers": [*layers, dict(name="out", kind="output", size=3000)], "loss": "sigmoid"})
model.items = [f"item {n}" for n in range(3000)]
X = scipy.sparse.random_array((3000, 3000), density=0.02, format="csr", rng=0, dtype=np.float32)
names = [f"name {n}" for n in range(3000)]
path = folder + "/gl.nc"
open(path, "w").write("old")
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
saves = (lambda: dsstne.netcdf.write(path, {"x": X}, items={"x": names}, rows=names)), (lambda: model.save(path))
for save in saves:
    try:
        save()
    except dsstne.InputOutputError as error:
        print(errno.errorcode[error.errno], error.filename == path, open(path).read(), os.listdir(folder))
"""


@pytest.mark.long
@pytest.mark.parametrize("limit", [1, 3000, 20_000, 100_000, 400_000])
def test_a_save_beyond_the_space_allowed_has_an_errno(tmp_path, python, limit):
    assert python(LIMITED, tmp_path, limit).splitlines() == ["EFBIG True old ['gl.nc']"] * 2


def test_a_full_disk_has_an_errno(tmp_path):
    mount = 'mount -t tmpfs -o size=100k none "$1" && exec "$0" -c "$2" "$1" 0'  # seen by this process only
    command = ["unshare", "--user", "--map-root-user", "--mount"]
    trial = [*command, "mount", "-t", "tmpfs", "none", tmp_path]
    if shutil.which("unshare") is None or subprocess.run(trial, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small disk")
    command += ["sh", "-c", mount, sys.executable, tmp_path, LIMITED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["ENOSPC True old ['gl.nc']"] * 2, done.stderr


INTERRUPTED = """
import os, signal, sys
import numpy as np
import dsstne
from dsstne import _netcdf_saving
folder, wanted, calls, seek = sys.argv[1], int(sys.argv[2]), 0, _netcdf_saving.Sink.seek
def counting(sink, *arguments):
    global calls
    calls += 1
    if calls == wanted:
        os.kill(os.getpid(), signal.SIGINT)
    return seek(sink, *arguments)
_netcdf_saving.Sink.seek = counting
try:
    dsstne.netcdf.write(folder + "/gl.nc", {"x": np.eye(300)}, items={"x": list(map(str, range(300)))})
except KeyboardInterrupt:
    print("interrupted", end=" ")
print(calls if wanted == 0 else os.listdir(folder))
"""


REFUSING = """
import errno, os, sys
import numpy as np
import dsstne
from dsstne import _netcdf_saving
folder, last, calls, begin = sys.argv[1], int(sys.argv[2]), 0, _netcdf_saving.Sink.__init__
class Full:
    def __init__(self, file):
        self.file = file
    def __getattr__(self, name):
        return getattr(self.file, name)
    def write(self, data):
        global calls
        calls += 1
        if calls > last >= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.file.write(data)
_netcdf_saving.Sink.__init__ = lambda sink, file: begin(sink, Full(file))
names = list(map(str, range(300)))
try:
    dsstne.netcdf.write(folder + "/gl.nc", {"x": np.eye(300), "y": np.eye(300)}, items={"y": names}, rows=names)
except dsstne.InputOutputError as error:
    print(errno.errorcode[error.errno], end=" ")
print(calls if last < 0 else os.listdir(folder))
"""


@pytest.mark.long
def test_each_write_may_be_the_one_that_the_disk_refuses(tmp_path, python):
    calls = int(python(REFUSING, tmp_path, -1))
    (tmp_path / "gl.nc").unlink()
    for last in (0, calls // 4, calls // 2, calls - 4, calls - 1):
        assert python(REFUSING, tmp_path, last).strip() == "ENOSPC []", last


@pytest.mark.long
def test_an_interrupt_while_hdf5_writes_leaves_nothing(tmp_path, python):
    calls = int(python(INTERRUPTED, tmp_path, 0))
    (tmp_path / "gl.nc").unlink()
    for call in (1, calls // 3, calls // 2, calls - 4):
        assert python(INTERRUPTED, tmp_path, call).strip() == "interrupted []", call


SAVES = {
    "data": lambda path: dsstne.netcdf.write(path, {"x": np.eye(3)}),
    "network": lambda path: network().save(path),
}


def network():
    layers = [{"name": "in", "kind": "input", "size": 3}, {"name": "out", "kind": "output", "size": 3}]
    return dsstne.Model({"layers": layers, "loss": "sigmoid"})


@pytest.mark.parametrize("save", SAVES.values(), ids=SAVES)
def test_only_a_regular_file_is_replaced(tmp_path, save):
    os.mkfifo(tmp_path / "pipe.nc")
    (tmp_path / "folder.nc").mkdir()
    (tmp_path / "link.nc").symlink_to("pipe.nc")
    before = sorted(tmp_path.iterdir())
    for name, message, number in (
        ("pipe.nc", r"cannot save .*pipe\.nc: it is not a regular file", None),
        ("link.nc", r"cannot save .*link\.nc: it is not a regular file", None),
        ("folder.nc", r"cannot save .*folder\.nc: it is a folder; add a file name", errno.EISDIR),
    ):
        with pytest.raises(dsstne.InputOutputError, match=message) as caught:
            save(tmp_path / name)
        assert (caught.value.errno, caught.value.filename) == (number, str(tmp_path / name))
    assert sorted(tmp_path.iterdir()) == before
    assert stat.S_ISFIFO((tmp_path / "pipe.nc").stat().st_mode)


def test_a_file_that_is_not_writable_stays(read_only):
    (read_only.folder / "gl.nc").write_text("old")
    (read_only.folder / "gl.nc").chmod(0o444)
    read_only.run("""
path = sys.argv[1] + "/gl.nc"
dsstne.netcdf.write(sys.argv[1] + "/other.nc", {"x": np.eye(3)})  # which imports everything
drop_privileges()
with pytest.raises(dsstne.InputOutputError, match="replacing the old file failed: Permission denied"):
    dsstne.netcdf.write(path, {"x": np.eye(3)})
assert open(path).read() == "old"
""")


@pytest.mark.parametrize("save", SAVES.values(), ids=SAVES)
def test_a_file_keeps_its_mode(tmp_path, save):
    path, link = tmp_path / "gl.nc", tmp_path / "link.nc"
    link.symlink_to(path)
    before = os.umask(0o027)
    try:
        save(link)
        modes = [path.stat().st_mode & 0o777]
        for mode in (0o600, 0o666):
            path.chmod(mode)
            save(link)
            modes.append(path.stat().st_mode & 0o777)
    finally:
        os.umask(before)
    assert modes == [0o640, 0o600, 0o666]
    assert link.is_symlink()


@pytest.mark.parametrize("save", SAVES.values(), ids=SAVES)
def test_a_name_may_have_as_many_bytes_as_the_system_takes(tmp_path, save):
    path = tmp_path / ("\u00fc" * 126 + ".nc")
    save(path)
    with netCDF4.Dataset(tmp_path / os.listdir(tmp_path)[0]) as file:
        assert file.ncattrs()
    assert list(tmp_path.iterdir()) == [path]


KILLED = """
import os, signal, sys
import numpy as np
import dsstne
from dsstne import _netcdf_data
_netcdf_data.write(sys.argv[1], {"x": np.eye(3)}, None, {}, {}, None, (), lambda: os.kill(os.getpid(), signal.SIGKILL))
"""


def test_the_next_save_removes_what_a_killed_one_has_left(tmp_path, python):
    path = tmp_path / "gl.nc"
    assert python(KILLED, path, check=False).returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".gl.nc.saving-")
    dsstne.netcdf.write(path, {"x": np.eye(3)})
    assert left.exists(), "it may be of a process that has not locked it yet"
    os.utime(left, (0, 0))
    dsstne.netcdf.write(path, {"x": np.eye(3)})
    assert list(tmp_path.iterdir()) == [path]


def test_a_save_removes_nothing_else(tmp_path):
    names = [
        ".gl.nc.saving-0123456789abcde",  # too short
        ".gl.nc.saving-0123456789abcdef0",
        ".other.nc.saving-0123456789abcdef",
        "gl.nc.saving-0123456789abcdef",
        ".gl.nc.saving-0000000000000001",  # locked
    ]
    for name in names:
        (tmp_path / name).write_text("mine")
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / ".gl.nc.saving-0000000000000002").mkdir()
    (tmp_path / ".gl.nc.saving-0000000000000003").symlink_to(tmp_path / names[0])
    os.utime(tmp_path / ".gl.nc.saving-0000000000000002", (0, 0))
    before = {path.name for path in tmp_path.iterdir()}
    with (tmp_path / names[-1]).open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        dsstne.netcdf.write(tmp_path / "gl.nc", {"x": np.eye(3)})
    assert {path.name for path in tmp_path.iterdir()} == before | {"gl.nc"}


def test_a_save_that_is_under_way_is_not_taken_for_abandoned(tmp_path):
    def save_again():
        (other,) = tmp_path.iterdir()
        os.utime(other, (0, 0))
        dsstne.netcdf.write(tmp_path / "gl.nc", {"y": np.eye(3)})

    _netcdf_data.write(tmp_path / "gl.nc", {"x": np.eye(3)}, None, {}, {}, None, (), save_again)
    assert [one.name for one in dsstne.netcdf.datasets(tmp_path / "gl.nc")] == ["x"]
    assert len(list(tmp_path.iterdir())) == 1
