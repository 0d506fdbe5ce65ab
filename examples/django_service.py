"""A Django service in one file: POST /orders books an order and announces it, or does neither.

    pip install checkback django
    CHECKBACK_BOOTSTRAP_SERVERS=localhost:9092 python django_service.py migrate
    CHECKBACK_BOOTSTRAP_SERVERS=localhost:9092 python django_service.py runserver --noreload

Or with gunicorn, whose workers are forked from one process that has the service imported:

    CHECKBACK_BOOTSTRAP_SERVERS=localhost:9092 gunicorn --preload -w 4 django_service:application

Every process of the service answers checks, also for orders of a process that died.

The topics have to be there: `checkback topics create --real-topic paid` makes them.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from django.conf import settings
from django.core.management import execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.db import connection
from django.http import HttpRequest, JsonResponse
from django.urls import path

from checkback.client import Producer

settings.configure(
    SECRET_KEY="example",  # noqa: S106 - no secret here
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["checkback.client.django"],
    USE_TZ=True,
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": os.environ.get("DATABASE_PATH", "orders.db"),
        }
    },
)
producer = Producer(
    "order-service",
    bootstrap_servers=os.environ["CHECKBACK_BOOTSTRAP_SERVERS"],
    topic_prefix=os.environ.get("CHECKBACK_TOPIC_PREFIX", ""),
    database=connection,
)


def create_order(request: HttpRequest) -> JsonResponse:
    """Book an order and announce it."""
    amount = int(request.GET["amount"])
    with producer.atomic():
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, amount INT)")
            cursor.execute("INSERT INTO orders (amount) VALUES (%s)", [amount])
            order: Any = cursor.lastrowid
        sent = producer.send("paid", {"order": order, "amount": amount}, key=f"order-{order}")
    return JsonResponse({"transaction_id": sent.transaction_id}, status=201)


urlpatterns = [path("orders", create_order)]
application = get_wsgi_application()

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
