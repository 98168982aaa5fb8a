"""A secret that anybody could read is noticed, in every form, and never repeated."""

import base64

import pytest

from pi_workflows.chaos.invariants import InvariantBroken
from pi_workflows.chaos.secrets_kept import check_secrets

SECRET = bytes(range(200, 232))
SHOWN = base64.urlsafe_b64encode(SECRET).rstrip(b"=")


def test_secret_that_stands_nowhere_is_kept() -> None:
    check_secrets([SECRET], {"a file": b"its digest", "a log": SHOWN[:-1]})


@pytest.mark.parametrize("form", [SECRET, SHOWN], ids=["raw", "as text"])
def test_secret_is_found_in_the_middle_of_what_is_readable(form: bytes) -> None:
    with pytest.raises(InvariantBroken, match=r"^the secret of a claim stands in a log$"):
        check_secrets([b"another", SECRET], {"a file": b"", "a log": b"before" + form + b"after"})
