"""The routes: requests in, JSON out. See openapi.json, which is served as it is and tested against."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException

from onmt_exhird import __version__
from onmt_exhird.serve.body import read_order
from onmt_exhird.serve.guards import HEADERS, check_sender
from onmt_exhird.serve.problems import PROBLEM_JSON, ClientGone, Problem, problem_body, to_bytes
from onmt_exhird.serve.worker import Worker, log_without_message

HERE = Path(__file__).parent
JSON = "application/json"
_SENTENCES = {
    404: "There is nothing at this address; /openapi.json lists what there is.",
    405: "This address does not take this method; /openapi.json lists what it takes.",
}

logger = logging.getLogger(__name__)


def create_app(worker: Worker, names: Collection[str] = ()) -> Flask:
    """The service on a worker. `names`: hosts it answers to beside localhost and bare addresses."""
    app = Flask(__name__, static_folder=str(HERE / "static"), static_url_path="/static")
    _add_service(app, worker)
    _add_state(app, worker)
    _add_page(app)
    _add_frame(app, worker, frozenset(name.lower() for name in names))
    return app


def _add_service(app: Flask, worker: Worker) -> None:
    def keyphrases() -> Response:
        if request.mimetype != JSON or request.content_encoding not in (None, "identity"):
            raise Problem(415, f"Send the body as Content-Type: {JSON}, in UTF-8 and not compressed.")
        most = worker.limits.bytes
        if (request.content_length or 0) > most:
            raise Problem(413, f"The body is larger than {most:,} bytes; send fewer documents at once.")
        order = read_order(request.get_data(cache=False), worker.limits)
        g.documents = len(order.documents)
        gone = request.environ.get("waitress.client_disconnected", lambda: False)
        found = worker.generate(order.documents, order.options, gone)
        results = [{"id": identity} | result.to_dict() for identity, result in zip(order.ids, found, strict=True)]
        assert worker.generator is not None
        return _json({"model": worker.generator.name, "results": results})

    def model() -> Response:
        generator = worker.generator
        if generator is None:
            raise Problem(503, "The model is still being loaded; try again in a moment.", retry_after=2)
        facts: dict[str, Any] = {"name": generator.name, "config": dict(generator.config), "card": generator.card}
        return _json(facts | {"version": __version__, "limits": worker.limits.to_dict()})

    _route(app, "/v1/keyphrases", keyphrases, "POST")
    _route(app, "/v1/model", model)


def _add_state(app: Flask, worker: Worker) -> None:
    def healthz() -> Response:
        return _json({"status": "alive"})

    def readyz() -> Response:
        if not worker.ready:
            doing = "is stopping" if worker.generator is not None else "still loads its model"
            raise Problem(503, f"The server {doing}.", retry_after=2)
        return _json({"status": "ready"})

    def metrics() -> Response:
        gauges = {
            "exhird_waiting_documents": worker.waiting,
            "exhird_waiting_documents_limit": worker.limits.waiting,
            "exhird_ready": int(worker.ready),
        }
        return Response(worker.metrics.render(gauges), content_type="text/plain; version=0.0.4; charset=utf-8")

    _route(app, "/healthz", healthz)
    _route(app, "/readyz", readyz)
    _route(app, "/metrics", metrics)


def _add_page(app: Flask) -> None:
    openapi = (HERE / "openapi.json").read_bytes()

    def page() -> Response:
        return app.send_static_file("index.html")

    def favicon() -> Response:
        return app.send_static_file("favicon.svg")

    def description() -> Response:
        return Response(openapi, content_type=JSON)

    _route(app, "/", page)
    _route(app, "/favicon.ico", favicon)
    _route(app, "/openapi.json", description)


def _route(app: Flask, path: str, view: Any, method: str = "GET") -> None:
    app.add_url_rule(path, view_func=view, methods=[method], provide_automatic_options=False)


def _add_frame(app: Flask, worker: Worker, names: frozenset[str]) -> None:
    """What happens around every request: checks before, headers, counts and a line of the log after, errors."""

    @app.before_request
    def begin() -> None:
        g.began = time.perf_counter()
        check_sender(request.headers.get("Host", ""), request.headers.get("Origin"), names)

    @app.after_request
    def end(response: Response) -> Response:
        for name, value in HEADERS.items():
            response.headers[name] = value
        if not request.path.startswith("/static/"):
            response.headers["Cache-Control"] = "no-store"
        seconds = time.perf_counter() - g.began
        route = request.url_rule.rule if request.url_rule else "none"  # never the path: anything can stand in it
        worker.metrics.count_request(route, request.method, response.status_code, seconds)
        documents = f", {g.documents} documents" if "documents" in g else ""
        logger.info("%s %s %d, %.0f ms%s", request.method, route, response.status_code, 1000 * seconds, documents)
        return response

    @app.errorhandler(Problem)
    def refuse(problem: Problem) -> Response:
        return _problem(problem.status, problem.detail, problem.retry_after)

    @app.errorhandler(ClientGone)
    def forget(_: ClientGone) -> Response:
        return _problem(503, "The client went away.")

    @app.errorhandler(HTTPException)
    def stock(error: HTTPException) -> Response:
        code = error.code or 500
        if code < 400:  # not an error: a redirection, say
            return Response(status=code, headers=error.get_headers())
        response = _problem(code, _SENTENCES.get(code, "The request cannot be answered as it is."))
        if isinstance(allowed := getattr(error, "valid_methods", None), list):
            response.headers["Allow"] = ", ".join(sorted(allowed))
        return response

    @app.errorhandler(Exception)
    def fail(error: Exception) -> Response:
        log_without_message(logger, error)
        return _problem(500, "The server failed on this request; its log says where.")


def _json(value: Any) -> Response:
    return Response(to_bytes(value), content_type=JSON)


def _problem(status: int, detail: str, retry_after: int | None = None) -> Response:
    response = Response(problem_body(status, detail), status=status, content_type=PROBLEM_JSON)
    if retry_after is not None:
        response.headers["Retry-After"] = str(retry_after)
    return response
