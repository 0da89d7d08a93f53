//! The table of secrets as files have them: private keys, tokens and hashes of passwords.

use super::FormatPattern::{AtLeast, Custom, Exactly, HighEntropy};
use super::FormatRule;
use super::byte_classes::{base32, base58, base64, both64, crypt, dot, lower_digit, scram, upper};
use super::custom_formats::{aws_pair, jwk, mysql_hash, pem, putty, ssh2};
use super::table::rule;
use super::vendor_formats::{ceph, k3s, nix};

const AWS: &str = "docs.aws.amazon.com/IAM: the file of an access key";
const CRYPT: &str = "man 5 crypt";
const HASHES: &str =
    "RFC 2307; passlib.readthedocs.io; the manuals of Django, PostgreSQL and MySQL";
const WIF: &str = "en.bitcoin.it/wiki: wallet import format";
const NKEYS: &str = "github.com/nats-io/nkeys: seeds, 58 characters of base32";
const PASETO: &str = "github.com/paseto-standard/paseto-spec";

pub(super) const STORED_SECRETS: &[FormatRule] = &[
    rule(
        "private-key",
        "-----BEGIN ",
        Custom(pem),
        "RFC 7468; RFC 9580 for PGP; the manual of openvpn; github.com/nats-io/nkeys",
    ),
    rule(
        "private-key",
        "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----",
        Custom(ssh2),
        "the manual of ssh-keygen of SSH2",
    ),
    rule(
        "private-key",
        "Private-Lines: ",
        Custom(putty),
        "PuTTY, ppk files",
    ),
    rule("jwk", "\"d\"", Custom(jwk), "RFC 7518, 6.2.2 and 6.3.2"),
    rule("jwk", "\"d\\", Custom(jwk), "RFC 7518, 6.2.2 and 6.3.2"),
    rule("jwk", "\"k\"", Custom(jwk), "RFC 7518, 6.4.1"),
    rule("jwk", "\"k\\", Custom(jwk), "RFC 7518, 6.4.1"),
    rule("aws-secret-key", "AKIA", Custom(aws_pair), AWS),
    rule(
        "age-secret-key",
        "AGE-SECRET-KEY-1",
        AtLeast(50, upper),
        "age-encryption.org/v1",
    ),
    rule(
        "age-secret-key",
        "AGE-SECRET-KEY-PQ-1",
        AtLeast(50, upper),
        "age-encryption.org/v1",
    ),
    rule("password-hash", "$1$", HighEntropy(25, crypt), CRYPT),
    rule("password-hash", "$5$", HighEntropy(45, crypt), CRYPT),
    rule("password-hash", "$6$", HighEntropy(60, crypt), CRYPT),
    rule("password-hash", "$y$", HighEntropy(45, crypt), CRYPT),
    rule("password-hash", "$2a$", HighEntropy(50, crypt), CRYPT),
    rule("password-hash", "$2b$", HighEntropy(50, crypt), CRYPT),
    rule("password-hash", "$2y$", HighEntropy(50, crypt), CRYPT),
    rule("password-hash", "$apr1$", HighEntropy(26, crypt), CRYPT),
    rule("password-hash", "$argon2", HighEntropy(60, crypt), HASHES),
    rule("password-hash", "$7$", HighEntropy(45, crypt), HASHES),
    rule("password-hash", "$scrypt$", HighEntropy(45, crypt), HASHES),
    rule("password-hash", "{SHA}", HighEntropy(27, base64), HASHES),
    rule("password-hash", "{SSHA}", HighEntropy(32, base64), HASHES),
    rule(
        "password-hash",
        "{SSHA256}",
        HighEntropy(44, base64),
        HASHES,
    ),
    rule(
        "password-hash",
        "{SSHA512}",
        HighEntropy(88, base64),
        HASHES,
    ),
    rule(
        "password-hash",
        "pbkdf2_sha256$",
        HighEntropy(44, crypt),
        HASHES,
    ),
    rule(
        "password-hash",
        "SCRAM-SHA-256$",
        HighEntropy(80, scram),
        HASHES,
    ),
    rule("mysql-hash", "'*", Custom(mysql_hash), HASHES),
    rule("mysql-hash", "\"*", Custom(mysql_hash), HASHES),
    rule("mysql-hash", "| *", Custom(mysql_hash), HASHES),
    rule("bitcoin-key", "5H", Exactly(49, base58), WIF),
    rule("bitcoin-key", "5J", Exactly(49, base58), WIF),
    rule("bitcoin-key", "5K", Exactly(49, base58), WIF),
    rule("bitcoin-key", "Kw", Exactly(50, base58), WIF),
    rule("bitcoin-key", "Kx", Exactly(50, base58), WIF),
    rule("bitcoin-key", "Ky", Exactly(50, base58), WIF),
    rule("bitcoin-key", "Kz", Exactly(50, base58), WIF),
    rule("bitcoin-key", "L1", Exactly(50, base58), WIF),
    rule("bitcoin-key", "L2", Exactly(50, base58), WIF),
    rule("bitcoin-key", "L3", Exactly(50, base58), WIF),
    rule("bitcoin-key", "L4", Exactly(50, base58), WIF),
    rule("bitcoin-key", "L5", Exactly(50, base58), WIF),
    rule(
        "nostr-key",
        "nsec1",
        Exactly(58, lower_digit),
        "github.com/nostr-protocol/nips: NIP 19",
    ),
    rule("paseto", "v2.local.", HighEntropy(60, dot), PASETO),
    rule("paseto", "v2.public.", HighEntropy(60, dot), PASETO),
    rule("paseto", "v4.local.", HighEntropy(60, dot), PASETO),
    rule("paseto", "v4.public.", HighEntropy(60, dot), PASETO),
    rule(
        "macaroon",
        "MDAxY2xvY2F0aW9u",
        AtLeast(40, both64),
        "github.com/rescrv/libmacaroons: version 1 in base64",
    ),
    rule(
        "k3s-token",
        "K10",
        Custom(k3s),
        "docs.k3s.io: format of tokens",
    ),
    rule("nats-seed", "SUA", Exactly(55, base32), NKEYS),
    rule("nats-seed", "SAA", Exactly(55, base32), NKEYS),
    rule("nats-seed", "SOA", Exactly(55, base32), NKEYS),
    rule("nats-seed", "SNA", Exactly(55, base32), NKEYS),
    rule("ceph-key", "AQ", Custom(ceph), "docs.ceph.com: keyrings"),
    rule(
        "nix-key",
        "-1:",
        Custom(nix),
        "nix.dev/manual: nix key generate-secret",
    ),
    rule(
        "docker-config",
        "eyJhdXRocy",
        AtLeast(24, base64),
        "kubernetes.io/docs: .dockerconfigjson, {\"auths in base64",
    ),
    rule(
        "docker-config",
        "ewoJImF1dGhzIj",
        AtLeast(24, base64),
        "kubernetes.io/docs: .dockerconfigjson, {\"auths in base64",
    ),
    rule(
        "docker-config",
        "ewogICJhdXRocy",
        AtLeast(24, base64),
        "kubernetes.io/docs: .dockerconfigjson, {\"auths in base64",
    ),
    rule(
        "minisign-key",
        "RWRTY0Iy",
        AtLeast(100, base64),
        "github.com/jedisct1/minisign: format of secret keys",
    ),
    rule(
        "signify-key",
        "RWRCSwAA",
        AtLeast(60, base64),
        "man signify: format of secret keys",
    ),
    rule(
        "otp-secret",
        "otpauth-migration://",
        AtLeast(40, |b| both64(b) || b"%?&".contains(&b)),
        "github.com/google/google-authenticator: export of accounts",
    ),
];
