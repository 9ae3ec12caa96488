"""The functions that download datasets, with a server on this machine and small files of the published formats."""

import errno
import gzip
import hashlib
import http.server
import io
import lzma
import resource
import socket
import threading
import zipfile

import numpy as np
import pytest

import dsstne
from dsstne import datasets
from dsstne.datasets import _fetch, _published

DATA = np.random.default_rng(0).bytes(300_000)


class Server(http.server.ThreadingHTTPServer):
    """Serves the bytes in `files` by path.

    Attributes:
        requests: The header Range of each request, or None, and the path.
        cut: Bytes that an answer may have before the connection ends; None = all.
        ranges: Whether the server understands Range.
        version: The ETag of all files.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.requests, self.cut, self.ranges, self.version = {}, [], None, True, '"1"'
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.answers = {}  # status and headers by path


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server, wanted = self.server, self.headers.get("Range")
        server.requests.append((wanted, self.path))
        if self.path in server.answers:
            status, headers = server.answers[self.path]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            return
        if self.path not in server.files:
            self.send_error(404)
            return
        body, first = server.files[self.path], 0
        if wanted and server.ranges and self.headers.get("If-Range") == server.version:
            first = int(wanted.removeprefix("bytes=").rstrip("-"))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body) - first))
        if server.version:
            self.send_header("ETag", server.version)
        self.end_headers()
        self.wfile.write(body[first:][: server.cut])
        if server.cut is not None:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch, tmp_path):
    monkeypatch.setenv("DSSTNE_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def md5(data):
    return "md5:" + hashlib.md5(data).hexdigest()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# ---- downloads ----


def test_a_file_is_downloaded_once(server, tmp_path):
    server.files["/a.bin"] = DATA
    for _ in range(2):
        assert _fetch.fetch(f"{server.url}/a.bin", md5(DATA)).read_bytes() == DATA
    assert server.requests == [(None, "/a.bin")]
    assert names(tmp_path / "cache") == ["a.bin", "a.bin.json"]


def test_an_interrupted_download_continues_where_it_ended(server):
    server.files["/a.bin"], server.cut = DATA, 100_000
    assert _fetch.fetch(f"{server.url}/a.bin", md5(DATA)).read_bytes() == DATA
    assert [wanted for wanted, _ in server.requests] == [None, "bytes=100000-", "bytes=200000-"]


def test_the_next_call_continues_what_another_one_began(server, tmp_path):
    server.files["/a.bin"], server.cut = DATA, 0
    part = tmp_path / "cache" / "a.bin.part"
    part.parent.mkdir()
    part.write_bytes(DATA[:70_000])
    part.with_name("a.bin.part.version").write_text('"1"')
    with pytest.raises(
        dsstne.InputOutputError, match=r"cannot download .*/a.bin: the connection ended early.*a.bin you"
    ):
        _fetch.fetch(f"{server.url}/a.bin", md5(DATA))
    assert part.read_bytes() == DATA[:70_000]
    server.cut = None
    assert _fetch.fetch(f"{server.url}/a.bin", md5(DATA)).read_bytes() == DATA
    assert {wanted for wanted, _ in server.requests} == {"bytes=70000-"}


@pytest.mark.parametrize("change", ["ranges", "version"])
def test_a_server_without_ranges_or_with_another_version_sends_the_whole_file_again(server, change):
    server.files["/a.bin"], server.cut = DATA, 100_000
    if change == "version":
        server.version = None
    else:
        server.ranges = False
    with pytest.raises(dsstne.InputOutputError, match="ended early"):
        _fetch.fetch(f"{server.url}/a.bin", md5(DATA))
    server.cut, server.version = None, '"2"'
    assert _fetch.fetch(f"{server.url}/a.bin", md5(DATA)).read_bytes() == DATA


def test_a_part_of_another_version_is_not_continued(server, tmp_path):
    server.files["/a.bin"] = DATA
    part = tmp_path / "cache" / "a.bin.part"
    part.parent.mkdir()
    part.write_bytes(bytes(400_000))
    part.with_name("a.bin.part.version").write_text('"0"')
    assert _fetch.fetch(f"{server.url}/a.bin", None).read_bytes() == DATA


def test_a_wrong_digest_is_refused_and_nothing_is_kept(server, tmp_path):
    server.files["/a.bin"] = DATA[:-1]
    with pytest.raises(dsstne.CorruptFileError, match="has the digest md5:.*the published file md5:"):
        _fetch.fetch(f"{server.url}/a.bin", md5(DATA))
    assert names(tmp_path / "cache") == ["a.bin.json"]


def test_without_a_known_digest_the_first_download_is_the_measure(server, tmp_path):
    server.files["/a.bin"] = DATA
    path = _fetch.fetch(f"{server.url}/a.bin", None)
    path.unlink()
    server.files["/a.bin"] = DATA[::-1]
    with pytest.raises(dsstne.CorruptFileError, match=r"its first download sha256:.*delete .*a.bin.json"):
        _fetch.fetch(f"{server.url}/a.bin", None)
    (tmp_path / "cache" / "a.bin.json").unlink()
    assert _fetch.fetch(f"{server.url}/a.bin", None).read_bytes() == DATA[::-1]


@pytest.mark.parametrize("digest", [md5(DATA), None])
def test_a_damaged_file_of_the_cache_is_downloaded_again(server, digest):
    server.files["/a.bin"] = DATA
    path = _fetch.fetch(f"{server.url}/a.bin", digest)
    path.write_bytes(DATA[:1000])
    assert _fetch.fetch(f"{server.url}/a.bin", digest).read_bytes() == DATA
    assert len(server.requests) == 2


def test_a_damaged_record_counts_as_none(server, tmp_path):
    server.files["/a.bin"] = DATA
    (tmp_path / "cache").mkdir()
    for text in ("", "[]", '{"digest": 1}', '{"digest": "x"}'):
        (tmp_path / "cache" / "a.bin.json").write_text(text)
        assert _fetch.fetch(f"{server.url}/a.bin", None).read_bytes() == DATA
    assert len(server.requests) == 1


def test_a_file_that_somebody_has_put_into_the_cache_is_used(server, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "a.bin").write_bytes(DATA)
    assert _fetch.fetch(f"{server.url}/a.bin", None).read_bytes() == DATA
    assert server.requests == []


READ_ONLY = """
from dsstne.datasets import _fetch
drop_privileges()
folder, url, md5 = sys.argv[1:]
assert str(_fetch.fetch(url + "/a.bin", md5)) == folder + "/a.bin"
with pytest.raises(dsstne.InputOutputError, match="cannot write"):
    _fetch.fetch(url + "/b.bin", None)
"""


def test_a_cache_that_cannot_be_written_can_be_read(server, read_only, monkeypatch):
    monkeypatch.setenv("DSSTNE_DATA", str(read_only.folder))
    server.files["/a.bin"] = server.files["/b.bin"] = DATA
    _fetch.fetch(f"{server.url}/a.bin", md5(DATA))
    read_only.run(READ_ONLY, server.url, md5(DATA))


def test_errors_of_servers_and_networks_are_told(server):
    for path, message in (("/none.bin", "HTTP status 404 Not Found"), ("/busy.bin", "HTTP status 503")):
        server.answers["/busy.bin"] = (503, {"Content-Length": "0"})
        with pytest.raises(dsstne.InputOutputError, match=f"cannot download .*{path}: {message}"):
            _fetch.fetch(server.url + path, None)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}/a.bin"
        with pytest.raises(dsstne.InputOutputError, match="Connection refused"):
            _fetch.fetch(address, None)


def test_only_https_is_followed(server):
    server.answers["/away.bin"] = (302, {"Location": "http://example.invalid/a.bin"})
    for address in (f"{server.url}/away.bin", "http://example.invalid/a.bin"):
        with pytest.raises(dsstne.InputOutputError, match="http://example.invalid/a.bin: the address is not HTTPS"):
            _fetch.fetch(address, None)


def test_the_proxy_of_the_environment_is_asked(server, monkeypatch):
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", server.url)
    server.files["http://localhost:9/a.bin"] = DATA
    assert _fetch.fetch("http://localhost:9/a.bin", md5(DATA)).read_bytes() == DATA


def test_a_full_disk_is_told_and_the_download_continues_later(server, tmp_path):
    server.files["/a.bin"] = DATA
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, hard))
    try:
        with pytest.raises(dsstne.InputOutputError, match=r"cannot write '.*a.bin': .*DSSTNE_DATA") as caught:
            _fetch.fetch(f"{server.url}/a.bin", md5(DATA))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == errno.EFBIG
    assert _fetch.fetch(f"{server.url}/a.bin", md5(DATA)).read_bytes() == DATA


def test_two_processes_do_not_download_the_same_file(server, tmp_path):
    server.files["/a.bin"] = DATA
    (tmp_path / "cache").mkdir()
    with _fetch._alone(tmp_path / "cache" / "a.bin"), pytest.raises(dsstne.BusyError, match="another process"):
        _fetch.fetch(f"{server.url}/a.bin", None)


def test_the_folder_of_the_cache_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("DSSTNE_DATA", str(tmp_path / "a"))
    assert _fetch.data_folder() == tmp_path / "a"
    assert _fetch.data_folder("b").name == "b"
    monkeypatch.delenv("DSSTNE_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert _fetch.data_folder() == tmp_path / "dsstne"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _fetch.data_folder().expanduser() == tmp_path / ".cache" / "dsstne"
    with pytest.raises(dsstne.InputOutputError, match="cannot write '~nobody-of-this-name"):
        _fetch.fetch("https://localhost/a.bin", None, "~nobody-of-this-name")


# ---- formats ----


def zipped(**files):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return file.getvalue()


ML100K = {
    "ml-100k/u.data": "1\t20\t5\t874965758\n1\t3\t2\t876893171\n7\t20\t4\t878542960\n",
    "ml-100k/u.item": "3|Caf\xe9, Le (1994)|01-Jan-1994||http://x|0|1\n20|Toy Story (1995)|01-Jan-1995||y|0|0\n".encode(
        "latin-1"
    ),
}
MOVIES = "3::Caf\xe9, Le (1994)::Comedy|Drama\n20::Toy Story (1995)::Animation\n"
ML1M = {
    "ml-1m/ratings.dat": "1::20::5::874965758\n1::3::2::876893171\n7::20::4::878542960\n",
    "ml-1m/movies.dat": MOVIES.encode("latin-1"),
}
ML10M = {
    "ml-10M100K/ratings.dat": "1::20::5::874965758\n1::3::2::876893171\n7::20::4::878542960\n",
    "ml-10M100K/movies.dat": MOVIES.encode(),
}
RATINGS = "userId,movieId,rating,timestamp\r\n1,20,5.0,874965758\r\n1,3,2.0,876893171\r\n7,20,4.0,878542960\r\n"
FILMS = 'movieId,title,genres\r\n3,"Caf\xe9, Le (1994)",Comedy|Drama\r\n20,Toy Story (1995),Animation\r\n'


@pytest.fixture
def grouplens(server, monkeypatch):
    """Serves a zip file as MovieLens of a size."""
    monkeypatch.setattr(_published, "_GROUPLENS", server.url)

    def serve(size, files):
        server.files[f"/ml-{size}.zip"] = zipped(**files)
        digest = md5(server.files[f"/ml-{size}.zip"]).removeprefix("md5:")
        kinds = {**_published._MOVIELENS, size: _published._MOVIELENS[size]._replace(digest=digest)}
        monkeypatch.setattr(_published, "_MOVIELENS", kinds)

    return serve


@pytest.mark.parametrize(
    ("size", "files"),
    [("100k", ML100K), ("1m", ML1M), ("10m", ML10M)]
    + [(n, {f"ml-{n}/ratings.csv": RATINGS, f"ml-{n}/movies.csv": FILMS.encode()}) for n in ("20m", "25m", "32m")],
)
def test_every_format_of_movielens_is_read(grouplens, size, files):
    grouplens(size, files)
    made = datasets.fetch_movielens(size)
    assert made.row_names.tolist() == [1, 7]
    assert made.item_names.tolist() == ["Caf\xe9, Le (1994)", "Toy Story (1995)"]
    assert made.item_descriptions.tolist() == ([] if size == "100k" else ["Comedy|Drama", "Animation"])
    assert made.matrix.toarray().tolist() == [[2, 5], [0, 4]]
    assert made.times.astype("datetime64[s]").astype(int).tolist() == [876893171, 874965758, 878542960]
    assert "not to be redistributed" in made.description


def test_low_ratings_are_left_out_and_the_others_are_ones(grouplens):
    grouplens("100k", ML100K)
    made = datasets.fetch_movielens("100k", minimum_rating=4)
    assert made.item_names.tolist() == ["Toy Story (1995)"]
    assert made.matrix.toarray().tolist() == [[1], [1]]
    ids = dsstne.popularity(made.matrix, items=made.item_names).recommend(made.matrix, k=1)[0]
    assert ids.shape == (2, 1)


def test_films_with_the_same_title_keep_names_of_their_own(grouplens):
    films = FILMS.replace("Toy Story (1995)", '"Caf\xe9, Le (1994)"').encode()
    grouplens("20m", {"ml-20m/ratings.csv": RATINGS, "ml-20m/movies.csv": films})
    assert datasets.fetch_movielens("20m").item_names.tolist() == ["Caf\xe9, Le (1994) [3]", "Caf\xe9, Le (1994) [20]"]


def test_blocks_of_a_file_are_joined(grouplens, monkeypatch):
    monkeypatch.setattr(_published, "_BLOCK", 7)
    grouplens("1m", ML1M)
    assert datasets.fetch_movielens("1m").matrix.toarray().tolist() == [[2, 5], [0, 4]]


@pytest.mark.parametrize(
    "files",
    [
        {**ML1M, "ml-1m/ratings.dat": "1::20::x::874965758\n"},
        {**ML1M, "ml-1m/ratings.dat": "1::20::5\n"},
        {**ML1M, "ml-1m/ratings.dat": ""},
        {**ML1M, "ml-1m/movies.dat": "3\n"},
        {"other": ""},
    ],
)
def test_a_damaged_archive_is_named(grouplens, files):
    grouplens("1m", files)
    with pytest.raises(dsstne.CorruptFileError, match=r"ml-1m.zip is damaged or has another format"):
        datasets.fetch_movielens("1m")


def test_the_digest_of_movielens_is_the_published_one(server, monkeypatch):
    monkeypatch.setattr(_published, "_GROUPLENS", server.url)
    server.files["/ml-1m.zip"] = zipped(**ML1M)
    with pytest.raises(dsstne.CorruptFileError, match="the published file md5:c4d9eecfca2ab87c1945afe126590906"):
        datasets.fetch_movielens("1m")


def test_checkins_are_counted_and_keep_the_last_time(server, monkeypatch):
    text = (
        "0\t2010-10-19T23:55:27Z\t30.2359091167\t-97.7951395833\t22847\n"
        "0\t2010-10-18T22:17:43Z\t30.2691029532\t-97.7493953705\t420315\n"
        "3\t2010-10-17T23:42:03Z\t30.2557309927\t-97.7633857727\t22847\n"
        "0\t2010-10-20T00:00:00Z\t30.2359091167\t-97.7951395833\t22847\n"
    )
    monkeypatch.setattr(_published, "_SNAP", server.url)
    body = server.files["/loc-gowalla_totalCheckins.txt.gz"] = gzip.compress(text.encode())
    monkeypatch.setattr(_published, "_CHECKINS_MD5", md5(body))
    made = datasets.fetch_gowalla()
    assert (made.row_names.tolist(), made.item_names.tolist()) == ([0, 3], [22847, 420315])
    assert made.matrix.toarray().tolist() == [[2, 1], [1, 0]]
    assert str(made.times[0]) == "2010-10-20T00:00:00"


def test_the_split_of_gowalla_has_the_names_of_both_lists(server, monkeypatch):
    files = {
        "train.txt": "0 0 2\n1 1\n",
        "test.txt": "0 1 \n1\n",
        "item_list.txt": "org_id remap_id\n900 0\n800 1\n700 2\n",
        "user_list.txt": "org_id remap_id\n50 0\n40 1\n",
    }
    server.files = {f"/{name}": text.encode() for name, text in files.items()}
    monkeypatch.setattr(_published, "_LIGHTGCN", server.url)
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    monkeypatch.setattr(_published, "_SPLIT_SHA256", digests)
    train, test = datasets.fetch_gowalla_split()
    assert train.matrix.toarray().tolist() == [[1, 0, 1], [0, 1, 0]]
    assert test.matrix.toarray().tolist() == [[0, 1, 0], [0, 0, 0]]
    for part in (train, test):
        assert (part.row_names.tolist(), part.item_names.tolist()) == ([50, 40], [900, 800, 700])


@pytest.mark.parametrize("core", [0, 5])
def test_ratings_of_amazon_are_read(server, monkeypatch, core):
    text = "user_id,parent_asin,rating,timestamp\nAZ,B01,3.0,1452647382000\nAA,B01,5.0,1454675785000\nAA,B02,4.0,1\n"
    monkeypatch.setattr(_published, "_AMAZON", server.url)
    server.files[f"/{core}core/rating_only/Video_Games.csv.gz"] = gzip.compress(text.encode())
    made = datasets.fetch_amazon("Video_Games", core=core)
    assert (made.row_names.tolist(), made.item_names.tolist()) == (["AA", "AZ"], ["B01", "B02"])
    assert made.matrix.toarray().tolist() == [[5, 4], [3, 0]]
    assert str(made.times[2]).startswith("2016-01-13T01:09:42")
    assert datasets.fetch_amazon("Video_Games", core=core, minimum_rating=4).matrix.toarray().tolist() == [[1, 1]]


def test_a_truncated_gzip_file_is_named(server, monkeypatch):
    monkeypatch.setattr(_published, "_AMAZON", server.url)
    server.files["/5core/rating_only/Books.csv.gz"] = gzip.compress(DATA)[:-100_000]
    with pytest.raises(dsstne.CorruptFileError, match=r"amazon-2023-5core-Books.csv.gz is damaged"):
        datasets.fetch_amazon("Books")


def test_mistakes_are_told_before_anything_is_downloaded(server):
    for call, message in (
        (lambda: datasets.fetch_movielens("1"), "there is no MovieLens '1'; did you mean '1m'|the known ones"),
        (lambda: datasets.fetch_movielens("1m", minimum_rating=0), "minimum_rating must be above 0"),
        (lambda: datasets.fetch_movielens("1m", progress=1), "progress must be True or False"),
        (lambda: datasets.fetch_movielens("1m", folder=1), "folder must be a str"),
        (lambda: datasets.fetch_amazon("../Books"), "category must be a name such as 'Video_Games'"),
        (lambda: datasets.fetch_amazon("Books", core=3), "core must be 0 or 5"),
    ):
        with pytest.raises(dsstne.InvalidArgumentError, match=message):
            call()


@pytest.mark.long
def test_the_real_split_of_gowalla_has_the_digests(shared_data, tmp_path):
    folder = shared_data / "gowalla-lightgcn"
    if not folder.is_dir():
        pytest.skip(f"{folder} does not exist")
    for name in _published._SPLIT_SHA256:
        (tmp_path / f"gowalla-split-{name}").write_bytes(lzma.decompress((folder / f"{name}.xz").read_bytes()))
    train, test = datasets.fetch_gowalla_split(folder=tmp_path)
    assert (train.matrix.shape, train.matrix.nnz, test.matrix.nnz) == ((29858, 40981), 810128, 217242)
