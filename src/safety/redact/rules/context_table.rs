//! The table of keywords whose surroundings or whose command identify a secret. A keyword that begins with another one
//! comes first.

use super::FormatPattern::Custom;
use super::commands::{argument, cookie, encoded_login, encoded_pem, option, pgpass, piped};
use super::context::{assigned, authorization, basic, bearer, url};
use super::{FormatRule, SecretFinder};

const AWS: &str = "docs.aws.amazon.com/IAM: unique identifiers";
const AZURE: &str = "learn.microsoft.com/purview: sensitive information types, Azure keys";
const MANUALS: &str = "the manual of the command";
const NAMES: &str = "what people call such a value";

/// Kind, keywords, the function that finds the secret, and where the form is documented.
type ContextRule = (
    &'static str,
    &'static [&'static str],
    SecretFinder,
    &'static str,
);

const CONTEXTS: &[ContextRule] = &[
    (
        "aws-secret-key",
        &["aws_secret", "aws_session_token", "secretaccesskey"],
        assigned,
        AWS,
    ),
    ("azure-storage-key", &["AccountKey="], assigned, AZURE),
    ("azure-shared-key", &["SharedAccessKey="], assigned, AZURE),
    ("url-password", &["://"], url, "RFC 3986, 3.2.1"),
    ("bearer-token", &["bearer "], bearer, "RFC 6750"),
    ("basic-auth", &["basic "], basic, "RFC 7617"),
    (
        "authorization",
        &["authorization"],
        authorization,
        "RFC 9110, 11.6.2",
    ),
    ("cookie", &["cookie"], cookie, "RFC 6265, 4.1 and 4.2"),
    (
        "basic-auth",
        &["auth"],
        encoded_login,
        "docs.docker.com: config.json; docs.npmjs.com: npmrc",
    ),
    (
        "private-key",
        &["LS0tLS1CRUdJTi"],
        encoded_pem,
        "RFC 7468, in base64",
    ),
    (
        "private-key",
        &["key-data", "key_data"],
        assigned,
        "kubernetes.io/docs: kubeconfig",
    ),
    (
        "password",
        &[
            "password",
            "passwd",
            "passphrase",
            "pass",
            "pwd",
            "sshpass=",
            "rediscli_auth=",
            "psk=",
        ],
        assigned,
        NAMES,
    ),
    ("secret", &["secret"], assigned, NAMES),
    ("token", &["token"], assigned, NAMES),
    (
        "api-key",
        &[
            "api_key",
            "api-key",
            "api key",
            "access key",
            "apikey",
            "access_key",
            "access-key",
            "accesskey",
            "auth_key",
            "authkey",
        ],
        assigned,
        NAMES,
    ),
    (
        "secret",
        &[
            "private_key",
            "privatekey",
            "presharedkey",
            "signing_key",
            "encryption_key",
            "storage_key",
            "storagekey",
            "app_key",
            "appkey",
            "application_key",
            "master_key",
            "session_key",
            "login_key",
            "subscription-key",
            "functions-key",
            "credential",
        ],
        assigned,
        NAMES,
    ),
    (
        "password",
        &[
            " -u",
            "\"-u",
            " -b",
            "\"-b",
            " -a",
            "\"-a",
            " -p",
            "\"-p",
            " -hp",
            "\"-hp",
            " -w",
            "\"-w",
            " -k",
            "\"-k",
            " -x",
            "\"-x",
            " /p:",
            " --user",
            "\"--user",
            " --proxy-user",
            "\"--proxy-user",
            " --cookie",
            "\"--cookie",
            " --auth",
            "\"--auth",
            " -storepass",
            " -keypass",
            " -srcstorepass",
            " -deststorepass",
        ],
        option,
        MANUALS,
    ),
    (
        "password",
        &[
            "vault login",
            "rclone obscure",
            "wpa_passphrase",
            "rabbitmqctl add_user",
            "rabbitmqctl change_password",
            "htpasswd -nb",
            "htpasswd -bn",
            "htpasswd -bc",
            "htpasswd -cb",
            "htpasswd -b",
            "secret access key [none]:",
            "secret access key:",
            "requirepass",
            "masterauth",
            "bindpw",
            "rootpw",
            "identified by",
        ],
        argument,
        MANUALS,
    ),
    (
        "password",
        &[
            "sudo -S",
            "sudo -kS",
            "chpasswd",
            "--password-stdin",
            "--with-token",
            "passwd --stdin",
            "vncpasswd -f",
        ],
        piped,
        MANUALS,
    ),
    (
        "password",
        &[":5432:", ":*:"],
        pgpass,
        "postgresql.org/docs: the password file",
    ),
];

/// Whether secrets of a kind are recognised by what stands before them, so that their length and their signs are not known.
pub fn is_context_kind(kind: &str) -> bool {
    CONTEXTS.iter().any(|(context, ..)| *context == kind)
}

/// Returns a rule for each keyword of the table.
pub(super) fn context_rules() -> impl Iterator<Item = FormatRule> {
    CONTEXTS.iter().flat_map(|&(kind, keys, find, source)| {
        keys.iter().map(move |key| FormatRule {
            kind,
            key,
            pattern: Custom(find),
            source,
        })
    })
}
