"""Stands in for `ssl`, which Python on WASI does not have. The host speaks TLS and checks certificates, so all
settings here have no effect."""

import enum
import socket

OPENSSL_VERSION = "OpenSSL 3.0.0 (stand-in: the host speaks TLS)"
OPENSSL_VERSION_INFO = (3, 0, 0, 0, 0)
OPENSSL_VERSION_NUMBER = 0x30000000
HAS_SNI = HAS_ALPN = HAS_TLSv1_2 = HAS_TLSv1_3 = True
HAS_NPN = HAS_SSLv2 = HAS_SSLv3 = HAS_TLSv1 = HAS_TLSv1_1 = HAS_PSK = False
HAS_NEVER_CHECK_COMMON_NAME = True
CHANNEL_BINDING_TYPES = []


class VerifyMode(enum.IntEnum):
    CERT_NONE = 0
    CERT_OPTIONAL = 1
    CERT_REQUIRED = 2


class TLSVersion(enum.IntEnum):
    MINIMUM_SUPPORTED = -2
    MAXIMUM_SUPPORTED = -1
    SSLv3 = 768
    TLSv1 = 769
    TLSv1_1 = 770
    TLSv1_2 = 771
    TLSv1_3 = 772


class Purpose(enum.Enum):
    SERVER_AUTH = "1.3.6.1.5.5.7.3.1"
    CLIENT_AUTH = "1.3.6.1.5.5.7.3.2"


class Options(enum.IntFlag):
    OP_ALL = 0x80000050
    OP_NO_SSLv2 = 0
    OP_NO_SSLv3 = 0x2000000
    OP_NO_TLSv1 = 0x4000000
    OP_NO_TLSv1_1 = 0x10000000
    OP_NO_TLSv1_2 = 0x8000000
    OP_NO_TLSv1_3 = 0x20000000
    OP_NO_COMPRESSION = 0x20000
    OP_NO_TICKET = 0x4000
    OP_NO_RENEGOTIATION = 0x40000000
    OP_CIPHER_SERVER_PREFERENCE = 0x400000
    OP_SINGLE_DH_USE = 0
    OP_SINGLE_ECDH_USE = 0
    OP_LEGACY_SERVER_CONNECT = 4
    OP_IGNORE_UNEXPECTED_EOF = 128
    OP_ENABLE_MIDDLEBOX_COMPAT = 0x100000


class VerifyFlags(enum.IntFlag):
    VERIFY_DEFAULT = 0
    VERIFY_CRL_CHECK_LEAF = 4
    VERIFY_CRL_CHECK_CHAIN = 12
    VERIFY_X509_STRICT = 32
    VERIFY_ALLOW_PROXY_CERTS = 64
    VERIFY_X509_TRUSTED_FIRST = 32768
    VERIFY_X509_PARTIAL_CHAIN = 0x80000


for _members in (VerifyMode, Options, VerifyFlags):
    globals().update(_members.__members__)
PROTOCOL_TLS = PROTOCOL_SSLv23 = 2
PROTOCOL_TLSv1, PROTOCOL_TLSv1_1, PROTOCOL_TLSv1_2 = 3, 4, 5
PROTOCOL_TLS_CLIENT, PROTOCOL_TLS_SERVER = 16, 17


class SSLError(OSError):
    reason = library = None


class SSLZeroReturnError(SSLError):
    pass


class SSLWantReadError(SSLError):
    pass


class SSLWantWriteError(SSLError):
    pass


class SSLSyscallError(SSLError):
    pass


class SSLEOFError(SSLError):
    pass


class SSLCertVerificationError(SSLError, ValueError):
    verify_code, verify_message = 1, "the server's certificate is not valid"


CertificateError = SSLCertVerificationError


class SSLSocket(socket.socket):
    """No socket is of this class. Libraries ask whether one is."""


class SSLObject:
    """No object is of this class. Libraries ask whether one is."""


class SSLSession:
    """No object is of this class. Libraries ask whether one is."""


class MemoryBIO:
    """No object is of this class: asyncio makes no connections."""


class SSLContext:
    """Keeps the settings that it is given, and ignores them."""

    sslsocket_class, sslobject_class = SSLSocket, SSLObject

    def __init__(self, protocol=PROTOCOL_TLS_CLIENT, *arguments, **named):
        self.protocol = protocol
        self.verify_mode = CERT_NONE if protocol == PROTOCOL_TLS_SERVER else CERT_REQUIRED
        self.check_hostname = protocol == PROTOCOL_TLS_CLIENT
        self.verify_flags = VERIFY_DEFAULT
        self.options = OP_ALL
        self.minimum_version = TLSVersion.TLSv1_2
        self.maximum_version = TLSVersion.TLSv1_3
        self.hostname_checks_common_name = False
        self.post_handshake_auth = False
        self.keylog_filename = None
        self.sni_callback = None

    def wrap_socket(self, sock, server_side=False, do_handshake_on_connect=True, suppress_ragged_eofs=True,
                    server_hostname=None, session=None):
        if server_side:
            raise SSLError("the sandbox has no servers")
        return sock.start_tls(server_hostname)

    def wrap_bio(self, *arguments, **named):
        raise SSLError("the sandbox has no sockets")

    def _ignore(self, *arguments, **named):
        """Does nothing."""

    load_verify_locations = load_default_certs = load_cert_chain = set_default_verify_paths = _ignore
    set_ciphers = set_alpn_protocols = set_npn_protocols = load_dh_params = set_ecdh_curve = _ignore
    set_servername_callback = _ignore

    def get_ca_certs(self, binary_form=False):
        return []

    get_ciphers = get_ca_certs

    def cert_store_stats(self):
        return {"x509": 0, "crl": 0, "x509_ca": 0}


def create_default_context(purpose=Purpose.SERVER_AUTH, *, cafile=None, capath=None, cadata=None):
    return SSLContext(PROTOCOL_TLS_CLIENT if purpose == Purpose.SERVER_AUTH else PROTOCOL_TLS_SERVER)


def _create_unverified_context(*arguments, **named):
    context = SSLContext()
    context.check_hostname, context.verify_mode = False, CERT_NONE
    return context


_create_default_https_context = create_default_context
_create_stdlib_context = _create_unverified_context


class DefaultVerifyPaths(tuple):
    cafile = capath = None
    openssl_cafile_env, openssl_capath_env = "SSL_CERT_FILE", "SSL_CERT_DIR"
    openssl_cafile = openssl_capath = ""


def get_default_verify_paths():
    return DefaultVerifyPaths()


def get_server_certificate(*arguments, **named):
    raise SSLError("the sandbox sees no certificates: the host checks them")


def match_hostname(certificate, hostname):
    """Does nothing: the host checks names."""


def RAND_bytes(count):
    import os
    return os.urandom(count)


def RAND_status():
    return True


def DER_cert_to_PEM_cert(data):
    import base64
    text = base64.encodebytes(data).decode()
    return f"-----BEGIN CERTIFICATE-----\n{text}-----END CERTIFICATE-----\n"
