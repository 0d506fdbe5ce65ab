"""Access control: accounts, signatures, addresses and permissions. Pure, but for reading its file.

The names listed here stay stable.
"""

from checkback.security.access_control import AccessControl
from checkback.security.addresses import RemoteAddressStrategy
from checkback.security.signing import SignatureAlgorithm, sign

__all__ = ["AccessControl", "RemoteAddressStrategy", "SignatureAlgorithm", "sign"]
