"""Certificates: one authority for each fleet, and one certificate for each node, for both server and client use."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rlctl.secrets import Authority, Secret

AUTHORITY_LIFE = timedelta(days=3650)
NODE_LIFE = timedelta(days=825)
# Certificates must be valid immediately on machines whose clocks are behind.
_BACKDATE = timedelta(hours=1)


def new_authority(fleet: str) -> Authority:
    """Generate a certificate authority for a new fleet."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"rlctl {fleet} authority")
    builder = _builder(name, name, key, AUTHORITY_LIFE)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(authority=True), critical=True)
    return Authority(certificate=_pem(builder.sign(key, hashes.SHA256())), key=Secret(_key_pem(key)))


def node_certificate(authority: Authority, common_name: str, addresses: tuple[str, ...]) -> tuple[str, str]:
    """Generate certificate and key of a node, valid for these addresses; both as PEM."""
    issuer, issuer_key = read_authority(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.IPAddress(ip_address(address)) for address in addresses]
    builder = _builder(_name(common_name), issuer.subject, key, NODE_LIFE)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(authority=False), critical=True)
    roles = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = builder.add_extension(x509.ExtendedKeyUsage(roles), critical=False)
    return _pem(builder.sign(issuer_key, hashes.SHA256())), _key_pem(key)


def read_authority(authority: Authority) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Parse the authority's certificate and key. Raises ValueError if one is invalid; its message quotes neither."""
    try:
        certificate = x509.load_pem_x509_certificate(authority.certificate.encode())
    except ValueError:
        raise ValueError("ca_certificate is not a certificate") from None
    try:
        key = serialization.load_pem_private_key(authority.key.reveal().encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("ca_key is not a private key") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise ValueError("ca_key is not the key of ca_certificate")
    return certificate, key


def expires_at(certificate: str) -> datetime:
    """End of a PEM certificate's validity."""
    return x509.load_pem_x509_certificate(certificate.encode()).not_valid_after_utc


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, life: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(now + life)
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not authority,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
