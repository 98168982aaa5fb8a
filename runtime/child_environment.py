"""What a child process sees of the server's environment: an allow-list (README 22)."""

import os
from collections.abc import Mapping
from typing import Final

_ALLOWED: Final = frozenset({
    "HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER",
    "ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
    "all_proxy", "http_proxy", "https_proxy", "no_proxy",
    "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE",
    "SSH_AUTH_SOCK", "VIRTUAL_ENV",
    "PI_WORKFLOWS_RUNNER_FILES", "PI_WORKFLOWS_RUNNER_MEMORY_MIB",
})  # fmt: skip
_PREFIXES_ALLOWED: Final = ("LC_", "XDG_")


def child_environment(
    extra: Mapping[str, str] | None = None, *, inherited: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the allowed part of the server's environment, overlaid with `extra`.

    Args:
        extra: Set as given, allowed or not.
        inherited: Filtered instead of this process's own environment.
    """
    source = os.environ if inherited is None else inherited
    allowed = {
        name: value
        for name, value in source.items()
        if name in _ALLOWED or name.startswith(_PREFIXES_ALLOWED)
    }
    return allowed | dict(extra or {})
