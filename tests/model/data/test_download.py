"""Downloads from real local servers: whole, broken off, absent, and with a false certificate."""

import shutil
import ssl
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from model.data.catalogue import Archive, Counts, KnownDataset
from model.data.download import FIRST_PAUSE_SECONDS, TRIES, UnreachableError, download
from model.data.sources import fetch_known, load
from model.errors import RequestError

CONTENT = bytes(range(256)) * 1000


class Site:
    """Serves one content; each request is answered as the next of `answers` says, the last again.

    `whole`; a number of bytes after which the connection is cut; `ignores ranges`; or a status.
    """

    def __init__(self, content, *answers):
        self.content, self.answers, self.asked = content, list(answers), []

    def next(self):
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def served(site, *, tls=None):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer, wanted = site.next(), self.headers.get("Range")
            site.asked.append((self.path, wanted))
            if isinstance(answer, tuple):
                self.send_error(answer[0])
                return
            start = int(wanted[6:-1]) if wanted and answer != "ignores ranges" else 0
            body = site.content[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body if isinstance(answer, str) else body[:answer])

        def log_message(self, *_):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://localhost:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def pauses():
    return []


def test_a_file_comes_whole_and_its_progress_is_told(tmp_path, pauses):
    told = []
    with served(Site(CONTENT, "whole")) as url:
        download(
            f"{url}/a.bin",
            tmp_path / "a.bin",
            progress=lambda done, total: told.append((done, total)),
            pause=pauses.append,
        )
    assert (tmp_path / "a.bin").read_bytes() == CONTENT
    assert told[-1] == (256_000, 256_000)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert pauses == []
    assert [file.name for file in tmp_path.iterdir()] == ["a.bin"]


def test_a_connection_that_is_cut_off_is_continued_where_it_broke(tmp_path, pauses):
    site = Site(CONTENT, 100_000, 50_000, "whole")
    with served(site) as url:
        download(f"{url}/a.bin", tmp_path / "a.bin", pause=pauses.append)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT
    assert [wanted for _, wanted in site.asked] == [None, "bytes=100000-", "bytes=150000-"]
    assert pauses == [FIRST_PAUSE_SECONDS, 2 * FIRST_PAUSE_SECONDS]


def test_a_server_without_ranges_sends_all_again(tmp_path, pauses):
    with served(Site(CONTENT, 100_000, "ignores ranges")) as url:
        download(f"{url}/a.bin", tmp_path / "a.bin", pause=pauses.append)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


def test_a_connection_that_always_breaks_is_unreachable_and_its_part_stays(tmp_path, pauses):
    with (
        served(Site(CONTENT, 1_000)) as url,
        pytest.raises(UnreachableError, match=rf"broke off at .* of 256,000 bytes \({TRIES} tries"),
    ):
        download(f"{url}/a.bin", tmp_path / "a.bin", pause=pauses.append)
    assert len(pauses) == TRIES - 1
    assert (tmp_path / "a.bin.part").stat().st_size == TRIES * 1_000
    assert not (tmp_path / "a.bin").exists()


def test_a_missing_file_is_not_asked_for_twice(tmp_path, pauses):
    site = Site(CONTENT, (404,))
    with served(site) as url, pytest.raises(UnreachableError, match="the server said 404"):
        download(f"{url}/a.bin", tmp_path / "a.bin", pause=pauses.append)
    assert len(site.asked) == 1


def test_a_busy_server_is_asked_again(tmp_path, pauses):
    with served(Site(CONTENT, (503,), "whole")) as url:
        download(f"{url}/a.bin", tmp_path / "a.bin", pause=pauses.append)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT
    assert pauses == [FIRST_PAUSE_SECONDS]


def test_a_part_that_the_server_has_no_more_of_is_begun_anew(tmp_path, pauses):
    (tmp_path / "a.bin.part").write_bytes(b"x" * 10)
    with served(Site(CONTENT, (416,), "whole")) as url:
        download(f"{url}/a.bin", tmp_path / "a.bin", pause=pauses.append)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


def test_nobody_there_is_unreachable(tmp_path, pauses):
    with served(Site(CONTENT, "whole")) as url:
        pass
    with pytest.raises(UnreachableError, match="refused"):
        download(f"{url}/a.bin", tmp_path / "a.bin", pause=pauses.append)


def test_a_certificate_that_nobody_vouches_for_is_refused_at_once(tmp_path, pauses):
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    pair = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    subprocess.run([*words, "-subj", "/CN=localhost", *pair], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    site = Site(CONTENT, "whole")
    with (
        served(site, tls=tls) as url,
        pytest.raises(UnreachableError, match=r"certificate not valid: .*self-signed"),
    ):
        download(f"{url}/a.bin", tmp_path / "a.bin", pause=pauses.append)
    assert (site.asked, pauses) == ([], [])


RATINGS = b"".join(b"A%d,B%d,5.0,%d\n" % (n, n % 7, 1_300_000_000 + n) for n in range(50))
"""As Amazon's files: no header, and user, item, rating, seconds."""


def known(url, *, rows=50):
    places = (Archive(f"{url}/ratings_Small.csv"),)
    return KnownDataset("small", "A small one", places, Counts(rows, 50, 7), terms="cite us")


def test_amazon_s_file_format_is_fetched_verified_and_stored(tmp_path):
    said = []
    with served(Site(RATINGS, "whole")) as url:
        fetch_known(known(url), folder=tmp_path, report=said.append)
    rows = load("small", tmp_path)
    assert (len(rows), rows.users[1], rows.items[1], rows.ratings[1]) == (50, "A1", "B1", 5.0)
    assert said[0] == "cite us"
    assert not list((tmp_path / "small").glob("unfinished-*"))


def test_another_content_is_refused_and_nothing_of_it_is_kept(tmp_path):
    said = []
    with (
        served(Site(RATINGS, "whole")) as url,
        pytest.raises(RequestError, match="meantime data import PATH --as small"),
    ):
        fetch_known(known(url, rows=51), folder=tmp_path, report=said.append)
    assert "must be Counts(rows=51" in said[-1]
    assert [file.name for file in (tmp_path / "small").iterdir()] == ["lock"]


def test_a_later_fetch_continues_what_an_earlier_one_left(tmp_path):
    (tmp_path / "small" / "unfinished-0").mkdir(parents=True)
    (tmp_path / "small" / "unfinished-0" / "ratings_Small.csv.part").write_bytes(RATINGS[:600])
    site = Site(RATINGS, "whole")
    with served(site) as url:
        fetch_known(known(url), folder=tmp_path, report=[].append)
    assert site.asked == [("/ratings_Small.csv", "bytes=600-")]
    assert len(load("small", tmp_path)) == 50
