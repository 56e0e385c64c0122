"""waitress around the app: how it listens, and how it stops without losing what is under way."""

from __future__ import annotations

import logging
import resource
import socket
import time
from collections.abc import Callable, Collection

from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer, create_server
from waitress.task import ErrorTask

from onmt_exhird.errors import ExhirdError
from onmt_exhird.serve.app import create_app
from onmt_exhird.serve.limits import Limits
from onmt_exhird.serve.metrics import Metrics
from onmt_exhird.serve.problems import PROBLEM_JSON, problem_body
from onmt_exhird.serve.worker import Generator, Worker

DRAIN_SECONDS = 8.0  # for what is under way when the server is stopped; the process must end within 10
FLUSH_SECONDS = 1.0  # then, for telling those who wait in vain
IDLE_SECONDS = 60  # a connection on which nothing happens is closed
CONNECTIONS = 1000
SPARE_FILES = 64  # of those that a process may open, not for connections

_SENTENCES = {
    400: "This is not HTTP as it should be; look at the first line, the headers and the length of the body.",
    413: "The body is far too large; send fewer documents at once.",
    431: "The headers are too large.",
    501: "Send the body as it is or chunked; other transfer encodings are not known here.",
}


class _ProblemTask(ErrorTask):
    """Replaces waitress' own error page, of plain text, for requests that never reach the app."""

    def execute(self) -> None:
        code = self.request.error.code
        body = problem_body(code, _SENTENCES.get(code, "The server failed on this request; its log says where."))
        self.status = f"{code} {self.request.error.reason}"
        self.response_headers.append(("Content-Type", PROBLEM_JSON))
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class _Channel(HTTPChannel):
    error_task_class = _ProblemTask


class Server:
    """The service on a socket.

    load    gives the model, in a thread of its own
    names   hosts to answer to beside localhost and bare addresses
    """

    def __init__(
        self, load: Callable[[], Generator], host: str, port: int, limits: Limits, names: Collection[str] = ()
    ):
        self._sockets: dict[int, object] = {}
        self._stopping = self._closed = False
        listening = _listen(host, port)
        self.port: int = listening.getsockname()[1]
        self.worker = Worker(load, limits, Metrics(), self._wake)
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._waitress: TcpWSGIServer = create_server(
            create_app(self.worker, {host, *names}),
            map=self._sockets,
            sockets=[listening],
            threads=limits.threads,
            connection_limit=max(SPARE_FILES, min(CONNECTIONS, files - SPARE_FILES)),
            asyncore_use_poll=True,  # select() ends at 1024 files
            channel_timeout=IDLE_SECONDS,
            channel_request_lookahead=1,  # read on while a request is under way, to see its client go
            max_request_body_size=limits.unread_bytes,
            clear_untrusted_proxy_headers=True,
            log_socket_errors=False,
            ident=None,
        )
        self._waitress.channel_class = _Channel

    def stop(self) -> None:
        """Begin to stop; may be called from a signal handler, so it takes no lock."""
        self._stopping = True
        self._wake()

    def run(self, when_ready: Callable[[], None] = lambda: None) -> None:
        """Serve until stopped, then answer what is under way, for `DRAIN_SECONDS` at most.

        Raises what `load` raised, if it did.
        """
        self.worker.start()
        told = False
        while not self._stopping:
            self._turn(1.0)
            if self.worker.failure is not None:
                self._close()
                raise self.worker.failure
            if self.worker.ready and not told:
                told = True
                when_ready()
        self.worker.stop()
        self._drain(DRAIN_SECONDS)
        self.worker.abandon()
        self._drain(FLUSH_SECONDS)
        self._close()

    def _drain(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._drained():
            self._turn(0.02)

    def _drained(self) -> bool:
        channels = list(self._waitress.active_channels.values())
        return self.worker.idle and not any(one.requests or one.total_outbufs_len for one in channels)

    def _turn(self, seconds: float) -> None:
        wasyncore.loop(timeout=seconds, use_poll=True, map=self._sockets, count=1)

    def _wake(self) -> None:
        if not self._closed:
            self._waitress.pull_trigger()

    def _close(self) -> None:
        self._closed = True
        self._waitress.task_dispatcher.shutdown(timeout=0.5)
        wasyncore.close_all(self._sockets)


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port < 65_536:  # getaddrinfo would take the remainder
        raise ExhirdError(f"there is no port {port}; choose another --port, up to 65535")
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family)
    except socket.gaierror:
        raise ExhirdError(f"--host {host} is no address of this machine; 127.0.0.1 is the usual one") from None
    except OSError as error:
        raise ExhirdError(
            f"cannot listen on {host} port {port} ({error.strerror}); choose another --port or --host"
        ) from None


def quieten_waitress() -> None:
    """Its warnings, of requests that wait and of threads that end late, say nothing that /metrics does not."""
    logging.getLogger("waitress").setLevel(logging.ERROR)
