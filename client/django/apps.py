"""The app's configuration."""

from __future__ import annotations

from django.apps import AppConfig


class CheckbackConfig(AppConfig):  # type: ignore[misc]
    """Has migrations and nothing else."""

    name = "checkback.client.django"
    label = "checkback"
    verbose_name = "Checkback"
