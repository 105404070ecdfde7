"""How a process proves to Redis who it is, and Redis to it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.credentials import CredentialProvider


@dataclass(frozen=True)
class Login:
    """Files, which each new connection reads: what they have now is used then.

    `password` is that of `username`, or of the default user where there is none.
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
        """The same for the Sentinels, which have no users of ours."""
        return {"ssl": tls, **self._options("", self.sentinel_password, tls=tls)}

    def _options(self, username: str, password: Path | None, *, tls: bool) -> dict[str, Any]:
        files = {"ssl_ca_certs": self.ca, "ssl_certfile": self.certificate, "ssl_keyfile": self.key}
        options: dict[str, Any] = {name: str(path) for name, path in files.items() if path} if tls else {}
        if password:
            # Without a login, the name of the client stays: redis-py takes TLS 1.3's tickets, which come by themselves,
            # for an answer that nobody asked for, unless it has read one. A user would need a further right for it.
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
