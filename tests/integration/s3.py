"""An S3 server of moto's inside the test's process, which counts what it is asked for."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import boto3
import httpx
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

BUCKET = "checkback"
KEY = "testing"
PREFIX = f"/{BUCKET}/"


@dataclass
class S3Server:
    """A running server with one bucket.

    Args:
        endpoint: where it listens.
        requests: how often it was asked, by kind: GET, LIST, PUT, PUT-IF-NEW, COPY, ...
        refused: keys whose conditional PUT it refused.
    """

    endpoint: str = ""
    requests: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)

    @property
    def spark(self) -> dict[str, str]:
        """The settings with which Spark reaches it."""
        return {
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": KEY,
            "spark.hadoop.fs.s3a.secret.key": KEY,
        }

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which delta-rs reaches it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": KEY,
        }

    def client(self) -> Any:
        """Return boto3's client."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=KEY,
            aws_secret_access_key=KEY,
        )

    def keys(self, prefix: str) -> list[str]:
        """Return the keys below a prefix."""
        pages = self.client().get_paginator("list_objects_v2")
        found = pages.paginate(Bucket=BUCKET, Prefix=prefix)
        return [one["Key"] for page in found for one in page.get("Contents", [])]


class Counting:
    """Counts requests, and lets one in at a time: moto looks and writes in two steps."""

    def __init__(self, application: Any, server: S3Server) -> None:
        self._application, self._server = application, server
        self._turn = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request."""
        kind = kind_of(environ)

        def answered(status: str, *rest: Any) -> Any:
            if status.startswith("412"):
                self._server.refused.append(environ["PATH_INFO"])
            return start_response(status, *rest)

        with self._turn:
            self._server.requests[kind] += 1
            return list(self._application(environ, answered))


def kind_of(environ: Mapping[str, Any]) -> str:
    """Return what S3 would bill a request as."""
    method, query = environ["REQUEST_METHOD"], parse_qs(environ["QUERY_STRING"], True)
    if method == "GET" and ("list-type" in query or "prefix" in query):
        return "LIST"
    if method == "POST":
        return "DELETE" if "delete" in query else "POST"
    if method == "PUT" and "HTTP_X_AMZ_COPY_SOURCE" in environ:
        return "COPY"
    return "PUT-IF-NEW" if method == "PUT" and "HTTP_IF_NONE_MATCH" in environ else str(method)


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run a server with an empty bucket."""
    server = S3Server()
    application = Counting(DomainDispatcherApplication(create_backend_app), server)
    listening = make_server("127.0.0.1", 0, application, threaded=True)
    server.endpoint = f"http://127.0.0.1:{listening.port}"
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        # moto keeps what an earlier server of this process was given.
        httpx.post(f"{server.endpoint}/moto-api/reset").raise_for_status()
        server.requests.clear()
        server.client().create_bucket(Bucket=BUCKET)
        yield server
    finally:
        listening.shutdown()
        thread.join()
