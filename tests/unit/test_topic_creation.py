"""The plans of topics that `topics create` creates and compares with."""

from __future__ import annotations

import pytest

from checkback.deploy.topics import plans_for
from checkback.protocol.configuration import Settings


@pytest.mark.parametrize(
    ("keep_compression", "stored"), [(False, "uncompressed"), (True, "producer")]
)
def test_topics_that_producers_write_keep_compressed_batches_only_where_asked(
    keep_compression: bool, stored: str
) -> None:
    settings = Settings(keep_compression=keep_compression)

    plans = {plan.name: plan.configs.get("compression.type") for plan in plans_for(settings)}

    assert {name for name, found in plans.items() if found == stored} == {*settings.topics.read}
    assert set(plans.values()) == {stored, None}
