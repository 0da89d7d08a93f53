//! The table of secrets as files have them: private keys and hashes of passwords.

use super::FormatPattern::{AtLeast, Custom, HighEntropy};
use super::FormatRule;
use super::byte_classes::{base64, crypt, scram, upper};
use super::custom_formats::{aws_pair, jwk, mysql_hash, pem, putty, ssh2};
use super::table::rule;

const AWS: &str = "docs.aws.amazon.com/IAM: the file of an access key";
const CRYPT: &str = "man 5 crypt";
const HASHES: &str =
    "RFC 2307; passlib.readthedocs.io; the manuals of Django, PostgreSQL and MySQL";

pub(super) const STORED_SECRETS: &[FormatRule] = &[
    rule(
        "private-key",
        "-----BEGIN ",
        Custom(pem),
        "RFC 7468; RFC 9580 for PGP",
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
];
