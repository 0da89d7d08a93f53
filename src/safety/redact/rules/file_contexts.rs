//! The table of keywords that identify a secret in certain files, in the output of programs, and in what people and servers say.

use super::SecretFinder;
use super::calls::{CALL_KEYWORDS, call_argument};
use super::command_words::{KEYWORDS, QUOTED_NAMES, command_word, quoted};
use super::context::assigned;
use super::dialogues::{
    announced, changed, masked, ppp, reset_password, sasl_login, sasl_plain, sent_password,
    setting_word,
};
use super::key_text::{
    ansible_vault, bitlocker, encoded, listed_scalars, private_number, private_scalar, quoted_key,
    recovery_codes,
};
use super::logins::{
    LAST_WORDS, RESP_AUTH, expect_send, imap_login, listed_auth, login_pair, sent_auth,
};
use super::objects::{html_cell, named_value, random_result, secret_data};

pub(super) const MANUALS: &str = "the manual of the command";
pub(super) const NAMES: &str = "what people call such a value";

/// Kind, keywords, the function that finds the secret, and where the form is documented.
pub(super) type ContextRule = (
    &'static str,
    &'static [&'static str],
    SecretFinder,
    &'static str,
);

pub(super) const FILE_CONTEXTS: &[ContextRule] = &[
    ("password", KEYWORDS, command_word, MANUALS),
    (
        "password",
        &["changed from '", "changed from \"", "' to '", "\" to \""],
        changed,
        "what programs write of a new password",
    ),
    (
        "password",
        &["new value: "],
        reset_password,
        "www.elastic.co/guide: elasticsearch-reset-password",
    ),
    (
        "password",
        CALL_KEYWORDS,
        call_argument,
        "the manuals of PHP, Python, Java, Go, Ruby and of drivers for databases",
    ),
    (
        "password",
        LAST_WORDS,
        listed_auth,
        "redis.io/commands: auth, monitor",
    ),
    (
        "password",
        &[RESP_AUTH],
        sent_auth,
        "redis.io/docs: the protocol RESP",
    ),
    ("password", &[" LOGIN "], imap_login, "RFC 9051, 6.2.3"),
    (
        "password",
        &["send \"", "send -- \""],
        expect_send,
        "man expect",
    ),
    (
        "basic-auth",
        &["AUTH"],
        login_pair,
        "settings of proxies and services: user and password in one variable",
    ),
    (
        "password",
        QUOTED_NAMES,
        quoted,
        "developer.android.com: signing configurations; man ipsec.secrets",
    ),
    (
        "secret",
        &["secret \"", "encrypt = \""],
        quoted_key,
        "bind9.readthedocs.io: key blocks; developer.hashicorp.com/consul: encryption of gossip",
    ),
    (
        "secret",
        &[
            "{cipher}",
            "<master>{",
            "validationkey=\"",
            "decryptionkey=\"",
            "cbc(aes) 0x",
            "gcm(aes)) 0x",
            "hmac(sha1) 0x",
            "hmac(sha256) 0x",
            "hmac(sha512) 0x",
            "<D>",
            "<DP>",
            "<DQ>",
            "<InverseQ>",
        ],
        encoded,
        "docs.spring.io: encrypted values; maven.apache.org: settings-security.xml; learn.microsoft.com: machineKey, RSA.ToXmlString; man ip-xfrm",
    ),
    (
        "ansible-vault",
        &["$ANSIBLE_VAULT;"],
        ansible_vault,
        "docs.ansible.com: format of files encrypted by Vault",
    ),
    (
        "private-number",
        &[
            "priv:",
            "privateexponent:",
            "prime1:",
            "prime2:",
            "exponent1:",
            "exponent2:",
            "coefficient:",
        ],
        private_number,
        "docs.openssl.org: the option -text of openssl-pkey",
    ),
    (
        "private-scalar",
        &["_pk=0x", "_pk=\"0x", "_pk='0x", "_pk: 0x", "_pk: \"0x"],
        private_scalar,
        "ethereum.org/developers/docs/accounts: private keys",
    ),
    (
        "private-scalar",
        &["private keys"],
        listed_scalars,
        "getfoundry.sh: the accounts that anvil lists",
    ),
    (
        "recovery-key",
        &["recovery key", "recovery password", "password:"],
        bitlocker,
        "learn.microsoft.com: recovery passwords of BitLocker",
    ),
    (
        "recovery-code",
        &["recovery codes", "backup codes"],
        recovery_codes,
        "docs.github.com and support.google.com: codes of two-factor authentication",
    ),
    (
        "kubernetes-secret",
        &["data:", "\"data\":"],
        secret_data,
        "kubernetes.io/docs: Secrets",
    ),
    (
        "secret",
        &["\"value\":"],
        named_value,
        "the output of aws ssm get-parameter, az keyvault secret show and of containers' environments",
    ),
    (
        "password",
        &["\"result\":"],
        random_result,
        "registry.terraform.io: random_password in the state",
    ),
    (
        "password",
        &["</th>", "</td>", "</dt>"],
        html_cell,
        "the tables of HTML",
    ),
    (
        "secret",
        &[
            "password to ",
            "passwort auf ",
            "key created: ",
            "token created: ",
        ],
        announced,
        "what people and programs write of a new value",
    ),
    (
        "password",
        &["pass "],
        sent_password,
        "RFC 959, 4.1.1; RFC 1939, 7",
    ),
    (
        "password",
        &["password "],
        setting_word,
        "marlam.de/msmtp: configuration",
    ),
    ("password", &["\" * \""], ppp, "man pppd: secrets files"),
    (
        "basic-auth",
        &["auth plain "],
        sasl_plain,
        "RFC 4616; RFC 4954",
    ),
    (
        "password",
        &["334 UGFzc3dvcmQ6"],
        sasl_login,
        "the mechanism LOGIN of SMTP: Password: in base64",
    ),
    (
        "secret",
        &["::add-mask::"],
        masked,
        "docs.github.com/actions: workflow commands",
    ),
    (
        "token",
        &["x-csrf-token"],
        assigned,
        "guides.rubyonrails.org: cross-site request forgery",
    ),
];
