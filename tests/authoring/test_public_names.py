"""What `import pi_workflows` offers, and what it costs."""

import subprocess
import sys

import pytest

import pi_workflows
from pi_workflows import authoring


def test_every_public_name_is_offered_by_the_package() -> None:
    for name in authoring.__all__:
        assert getattr(pi_workflows, name) is getattr(authoring, name)
    assert set(authoring.__all__) <= set(dir(pi_workflows))


def test_a_star_import_brings_every_public_name() -> None:
    offered: dict[str, object] = {}
    exec("from pi_workflows import *", offered)  # noqa: S102 - only a module can say it otherwise
    assert set(authoring.__all__) == offered.keys() - {"__builtins__"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nope'"):
        _ = pi_workflows.nope


def loaded_after(statement: str, *names: str) -> list[str]:
    """Return which of `names` a fresh interpreter has imported after a statement."""
    code = f"import sys\n{statement}\nprint(*[n for n in {names!r} if n in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return ran.stdout.split()


def test_importing_the_package_alone_brings_no_pydantic() -> None:
    assert loaded_after("import pi_workflows", "pydantic", "trio") == []


def test_importing_the_authoring_api_brings_pydantic_but_no_trio() -> None:
    heavy = ("pydantic", "trio", "apsw", "click", "rich", "psutil", "rfc8785", "asyncio")
    assert loaded_after("import pi_workflows.authoring", *heavy) == ["pydantic"]
