"""By which of its addresses and interfaces a machine reaches the others."""

from __future__ import annotations

import fcntl
import socket
import struct

from core.errors import ConfigError

SIOCGIFADDR = 0x8915  # netdevice(7)


def local_address(host: str, key: str) -> str:
    """Returns the address from which this machine sends to `host`; nothing is sent.

    Args:
        host: A name or address.
        key: Where the user gave it, for the message.

    Raises:
        ConfigError: The name does not resolve, or no way leads there.
    """
    try:
        family, kind, _, _, target = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise ConfigError(
            f"This machine finds no way to '{host}': {error.strerror or error}.",
            received=key,
            allowed="a name or address of machine 0 that every machine can reach",
        ) from None


def interface_of(address: str) -> str | None:
    """Returns the name of the interface that has an IPv4 address; None when none has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:  # it has none
                continue
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return None
