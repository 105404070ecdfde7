"""The authentication of a process to Redis, and of Redis to the process."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.credentials import CredentialProvider


@dataclass(frozen=True)
class Login:
    """Files, read anew by each new connection.

    `password` is the password of `username`, by default of the default user.
    """

    username: str = ""
    password: Path | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    sentinel_password: Path | None = None

    def options(self, *, tls: bool) -> dict[str, Any]:
        """redis-py's arguments of connections to Redis."""
        return self._options(self.username, self.password, tls=tls)

    def sentinel_options(self, *, tls: bool) -> dict[str, Any]:
        """The same for the Sentinels, without a user."""
        return {"ssl": tls, **self._options("", self.sentinel_password, tls=tls)}

    def _options(self, username: str, password: Path | None, *, tls: bool) -> dict[str, Any]:
        files = {"ssl_ca_certs": self.ca, "ssl_certfile": self.certificate, "ssl_keyfile": self.key}
        options: dict[str, Any] = {name: str(path) for name, path in files.items() if path} if tls else {}
        if password:
            # Without a login, the name of the client stays: unless it has read an answer, redis-py mistakes TLS 1.3's
            # unsolicited session tickets for an unexpected answer. A user would need a further right for it.
            options |= {"credential_provider": _File(username, password), "driver_info": None}
        return options


NO_LOGIN = Login()
"""No proof, as on a laptop."""


class _File(CredentialProvider):
    def __init__(self, username: str, password: Path) -> None:
        self._username = username
        self._password = password

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        password = self._password.read_text().strip("\r\n")
        return (self._username, password) if self._username else (password,)

    async def get_credentials_async(self) -> tuple[str] | tuple[str, str]:
        return self.get_credentials()
