"""All 15 x 16 pairs of a needed and an owned permission."""

from __future__ import annotations

import pytest

from checkback.security.accounts import NOTHING, WORDS, Permission, is_granted, word_of

DENY, ANY, PUB, SUB = Permission
# One row per needed permission, 1 to 15; one column per owned one, 0 to 15. An owned DENY (the odd
# columns) refuses. A needed ANY asks for PUB or SUB (4 or 8 in the column).
MATRIX = {
    "DENY": "................",
    "ANY": "....x.x.x.x.x.x.",
    "DENY+ANY": "....x.x.x.x.x.x.",
    "PUB": "....x.x.....x.x.",
    "PUB+DENY": "....x.x.....x.x.",
    "PUB+ANY": "....x.x.x.x.x.x.",
    "PUB+ANY+DENY": "....x.x.x.x.x.x.",
    "SUB": "........x.x.x.x.",
    "SUB+DENY": "........x.x.x.x.",
    "SUB+ANY": "....x.x.x.x.x.x.",
    "SUB+ANY+DENY": "....x.x.x.x.x.x.",
    "SUB+PUB": "....x.x.x.x.x.x.",
    "SUB+PUB+DENY": "....x.x.x.x.x.x.",
    "SUB+PUB+ANY": "....x.x.x.x.x.x.",
    "SUB+PUB+ANY+DENY": "....x.x.x.x.x.x.",
}


def test_the_matrix_is_complete() -> None:
    needed = [sum(Permission[one] for one in name.split("+")) for name in MATRIX]

    assert needed == list(range(1, 16))
    assert {len(row) for row in MATRIX.values()} == {16}


@pytest.mark.parametrize("name", MATRIX)
def test_what_is_owned_grants_what_is_needed(name: str) -> None:
    needed = Permission(sum(Permission[one] for one in name.split("+")))
    found = "".join("x" if is_granted(needed, Permission(owned)) else "." for owned in range(16))

    assert found == MATRIX[name]


@pytest.mark.parametrize(
    ("word", "bits"),
    [
        ("DENY", DENY), ("ANY", ANY), ("PUB", PUB), ("SUB", SUB), ("PUB|SUB", PUB | SUB),
        ("SUB|PUB", PUB | SUB),
    ],
)  # fmt: skip
def test_words(word: str, bits: Permission) -> None:
    assert WORDS[word] == bits
    assert word_of(bits) == ("PUB|SUB" if word == "SUB|PUB" else word)


def test_a_combination_without_a_word_is_shown_as_its_number() -> None:
    assert word_of(NOTHING) == "0"
