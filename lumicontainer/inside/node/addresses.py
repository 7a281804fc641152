"""Read the addresses of network interfaces from the kernel."""

import fcntl
import socket
import struct

_SIOCGIFADDR = 0x8915  # netdevice(7)
_LONGEST = 15  # bytes of an interface's name (IFNAMSIZ)


def address_of(interface: str) -> str:
    """Return the IPv4 address of an interface; "" if it has none."""
    request = struct.pack("256s", interface.encode()[:_LONGEST])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            answer = fcntl.ioctl(any_socket.fileno(), _SIOCGIFADDR, request)
        except OSError:
            return ""
    return socket.inet_ntoa(answer[20:24])
