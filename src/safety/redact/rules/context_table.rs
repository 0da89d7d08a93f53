//! The table of keywords whose surroundings or whose command identify a secret. A keyword that begins with another one
//! comes first.

use std::sync::LazyLock;

use super::FormatPattern::Custom;
use super::FormatRule;
use super::arguments::{argument, net_use};
use super::calls::second_argument;
use super::commands::{cookie, curl_options, encoded_login, encoded_pem, option, pgpass, piped};
use super::context::assigned;
use super::fields::{FIELD_VALUE, field_value};
use super::file_contexts::{ContextRule, FILE_CONTEXTS, MANUALS, NAMES};
use super::files::{cookie_jar, ntlm_hash, seed_phrase, terraform_change, terraform_default, wifi};
use super::headers::{authorization, basic, bearer, header_parameter};
use super::key_text::{access_token, secret_id};
use super::objects::tabbed_parameter;
use super::random_keys::{RANDOM_KEY, random_key};
use super::urls::{go_address, oracle, url};

const AWS: &str = "docs.aws.amazon.com/IAM: unique identifiers";
const AZURE: &str = "learn.microsoft.com/purview: sensitive information types, Azure keys";

/// The kind of a secret access key of AWS.
pub(in super::super) const AWS_SECRET_KEY: &str = "aws-secret-key";

/// In a keyword with letters on both sides of it, `_` stands for `_`, `-`, a blank and nothing: `api_key`, `Api-Key`, `API key`, `apiKey`.
const CONTEXTS: &[ContextRule] = &[
    (
        AWS_SECRET_KEY,
        &["aws_secret", "aws_session_token", "secretaccesskey"],
        assigned,
        AWS,
    ),
    ("azure-storage-key", &["AccountKey="], assigned, AZURE),
    ("azure-shared-key", &["SharedAccessKey="], assigned, AZURE),
    ("url-password", &["://"], url, "RFC 3986, 3.2.1"),
    (
        "password",
        &[
            "jdbc:oracle:thin:",
            "sqlplus ",
            "rman target ",
            "expdp ",
            "impdp ",
            "sqlldr ",
        ],
        oracle,
        "docs.oracle.com: database URLs and logons",
    ),
    (
        "oracle-password",
        &["connect ", "conn "],
        oracle,
        "docs.oracle.com: the CONNECT command of SQL*Plus",
    ),
    (
        "url-password",
        &["@tcp(", "@unix("],
        go_address,
        "github.com/go-sql-driver/mysql: data source names",
    ),
    (
        "bearer-token",
        &["bearer ", "ssws "],
        bearer,
        "RFC 6750; developer.okta.com: API tokens",
    ),
    ("basic-auth", &["basic "], basic, "RFC 7617"),
    (
        "authorization",
        &["authorization"],
        authorization,
        "RFC 9110, 11.6.2",
    ),
    ("cookie", &["cookie"], cookie, "RFC 6265, 4.1 and 4.2"),
    (
        "cookie-jar",
        // A terminal shows blanks in place of the tabs.
        &[
            "\ttrue\t/",
            "true /",
            "true  /",
            "true   /",
            "true    /",
            "true     /",
            "true      /",
            "true       /",
            "true        /",
            "\tfalse\t/",
            "false /",
            "false  /",
            "false   /",
            "false    /",
            "false     /",
            "false      /",
            "false       /",
            "false        /",
        ],
        cookie_jar,
        "curl.se/docs/http-cookies.html",
    ),
    (
        "wifi-password",
        &["wifi:"],
        wifi,
        "github.com/zxing/zxing/wiki/Barcode-Contents",
    ),
    (
        "secret",
        // As `terraform fmt` aligns it with other arguments.
        &[
            "default = \"",
            "default  = \"",
            "default   = \"",
            "default     = \"",
        ],
        terraform_default,
        "developer.hashicorp.com/terraform/language: variable blocks",
    ),
    (
        "secret",
        &["\" -> \""],
        terraform_change,
        "developer.hashicorp.com/terraform: output of plan",
    ),
    (
        "password",
        &[
            "networkcredential(",
            "pscredential(",
            "passwordcredentials(",
            "basicauth(",
            "basic_auth(",
            "auth=(",
            "auth = (",
            "auth=[",
            "auth: [",
            "passwordauthentication(",
            "passwordauthenticator(",
        ],
        second_argument,
        "the documentation of .NET, Java, Node.js and python-requests",
    ),
    ("password", &["net use "], net_use, MANUALS),
    (
        "password-hash",
        &[":::"],
        ntlm_hash,
        "github.com/fortra/impacket: output of secretsdump",
    ),
    (
        "seed-phrase",
        &[
            "mnemonic",
            "seed_phrase",
            "recovery_phrase",
            "secret_phrase",
            "backup_phrase",
            "seed_words",
            "SEED=",
        ],
        seed_phrase,
        "github.com/bitcoin/bips: BIP 39",
    ),
    (
        "authorization",
        &["response=\"", "oauth_signature=\"", "signature="],
        header_parameter,
        "RFC 7616, 3.4; RFC 5849, 3.5.1; docs.aws.amazon.com: Signature Version 4",
    ),
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
        &["key_data"],
        assigned,
        "kubernetes.io/docs: kubeconfig",
    ),
    (
        "password",
        &[
            "password",
            "passwd",
            "pass_phrase",
            "pass",
            "pwd",
            "sshpass=",
            "rediscli_auth=",
            "redis_auth",
            "psk",
            "pw",
            "key content",
            "pragma key",
            "passwort",
            "kennwort",
            "mot de passe",
            "contrasena",
            "senha",
            "wachtwoord",
            "haslo",
            "hasło",
            "Hasło",
            "contraseña",
            "Contraseña",
            "пароль",
            "Пароль",
            "密码",
            "密碼",
            "パスワード",
            "비밀번호",
        ],
        assigned,
        NAMES,
    ),
    (
        "secret",
        &["secret_id"],
        secret_id,
        "developer.hashicorp.com: AppRole of Vault, tokens of Consul and Nomad",
    ),
    ("secret", &["secret"], assigned, NAMES),
    ("token", &["token", "sonar.login="], assigned, NAMES),
    (
        "token",
        &["pat"],
        access_token,
        "learn.microsoft.com/azure/devops: personal access tokens",
    ),
    (
        "api-key",
        &["api_key", "access_key", "auth_key", "fastly_key"],
        assigned,
        NAMES,
    ),
    (
        "secret",
        &[
            "secret_key",
            "private_key",
            "presharedkey",
            "signing_key",
            "encryption_key",
            "storage_key",
            "app_key",
            "application_key",
            "master_key",
            "session_key",
            "login_key",
            "subscription_key",
            "functions_key",
            "ssh_key",
            "hmac_key",
            "admin_key",
            "global_key",
            "unseal_key",
            "wif",
            "deploy_key",
            "license_key",
            "jwt_key",
            "routing_key",
            "integration_key",
            "mailgun_key",
            "cosmos_key",
            "service_key",
            "server_key",
            "recovery_key",
            "erlang_cookie",
            "pepper",
            "OP_SESSION_",
            "certificate-key",
            "certificateKey",
            "BW_SESSION",
            "_SALT",
            "credential",
        ],
        assigned,
        NAMES,
    ),
    ("secret", &[RANDOM_KEY], random_key, NAMES),
    (
        "secret",
        &[FIELD_VALUE],
        field_value,
        "objects with a name and a value: developer.1password.com, docs.aws.amazon.com, kubernetes.io/docs",
    ),
    (
        "secret",
        &["SecureString\t"],
        tabbed_parameter,
        "docs.aws.amazon.com: ssm get-parameter --output text",
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
            " -c",
            "\"-c",
            " -k",
            "\"-k",
            " -x",
            "\"-x",
            " -t",
            "\"-t",
            " -n",
            "\"-n",
            " --body",
            "\"--body",
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
    ("password", &["curl -"], curl_options, MANUALS),
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
            "remote_password",
            "bindpw",
            "rootpw",
            "identified by",
            "identified with",
            "convertto-securestring",
            "rocommunity",
            "rwcommunity",
            "snmp-server community",
            "ngrok config add-authtoken",
            "ngrok authtoken",
            "radtest",
            "nickserv identify",
            "isql -v",
            "db2 connect to",
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
            "--passwd-on-stdin",
            "--passphrase-fd 0",
            "secret put",
            "secret set",
            "secret create",
            "secret-tool store",
            "pass insert",
            "kinit",
            "cryptsetup",
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

/// Returns the entries of all tables of keywords.
fn contexts() -> impl Iterator<Item = &'static ContextRule> {
    FILE_CONTEXTS.iter().chain(CONTEXTS)
}

/// Whether secrets of a kind may have been recognised by what stands before them, so that their length and their signs are not known.
pub fn is_context_kind(kind: &str) -> bool {
    contexts().any(|(context, ..)| *context == kind)
}

/// The keywords of each entry of the table, in all their spellings.
static SPELLINGS: LazyLock<Vec<Vec<String>>> = LazyLock::new(|| {
    let spelled = |key: &&str| match key.split_once('_') {
        Some(_) if key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') => ["_", "-", " ", ""]
            .map(|sign| key.replace('_', sign))
            .to_vec(),
        _ => vec![(*key).to_owned()],
    };
    let keys = contexts().map(|(_, keys, ..)| keys.iter());
    keys.map(|keys| keys.flat_map(spelled).collect()).collect()
});

/// Returns a rule for each keyword of the table.
pub(super) fn context_rules() -> impl Iterator<Item = FormatRule> {
    let entries = contexts().zip(SPELLINGS.iter());
    entries.flat_map(|(&(kind, _, find, source), keys)| {
        keys.iter().map(move |key| FormatRule {
            kind,
            key,
            pattern: Custom(find),
            source,
        })
    })
}
