"""The address of a server, host:port, the host of IPv6 in brackets (RFC 3986, 3.2.2)."""

import ipaddress
import re
import socket
from typing import NamedTuple, Self

_ADDRESS = r"([^:/@,\s\[\]]+|\[[0-9A-Fa-f:.]+(%[^\]\s]+)?\]):[0-9]{1,5}"
ADDRESS = f"^{_ADDRESS}$"
ADDRESSES = f"^{_ADDRESS}(,{_ADDRESS})*$"
ALL = "*"
"""The host for all addresses of this machine, of IPv4 and IPv6."""


class Address(NamedTuple):
    """A host, without brackets, and a port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse host:port. Raises `ValueError` for any other text."""
        if not re.match(ADDRESS, text):
            msg = f"{text} is no address; write host:port, or [host]:port for IPv6"
            raise ValueError(msg)
        host, _, of_host = text.rpartition(":")
        return cls(host.strip("[]"), int(of_host))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_name(self) -> bool:
        """Whether the host is a DNS name instead of an IP address."""
        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            return True
        return False

    @property
    def bound(self) -> "Address":
        """The address that a server binds: `*` binds every address of the machine's families."""
        if self.host != ALL:
            return self
        return self._replace(host="::" if socket.has_dualstack_ipv6() else "0.0.0.0")
