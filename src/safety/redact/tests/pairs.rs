//! Values whose name is beside them in a table or in another field, passwords in arguments, passphrases, and names that end in `key`.

use super::settled::check;
use super::*;

/// Texts with a secret in place of `@`, and of `~` for a passphrase.
const SECRETS: &[&str] = &[
    // Tables of names and values.
    "====== Data ======\nKey         Value\n---         -----\npassword    @\nusername    app\n",
    "Name                           Value\n----                           -----\nDB_PASSWORD                    @\nOS                             Linux\n",
    "NAME          VALUE                     UPDATED\nDEPLOY_TOKEN  @  1 month ago\n",
    "┌─────────────┬──────────────────────────┬──────┐\n│ NAME        │ VALUE                    │ NOTE │\n├─────────────┼──────────────────────────┼──────┤\n│ DB_PASSWORD │ @ │      │\n└─────────────┴──────────────────────────┴──────┘\n",
    "||  Name            |  Type         |  Value  ||\n|+------------------+---------------+---------+|\n||  /prod/password  |  SecureString |  @ ||\n",
    "||  Name             |  /prod/db/password  ||\n||  Type             |  SecureString       ||\n||  Value            |  @                  ||\n",
    "PARAMETER\tarn:aws:ssm:x\ttext\t/prod/x\tSecureString\t@\t3\n",
    "name,value\nregion,eu-west-1\nstripe_secret_key,@\n",
    "id|key|value\n1|site|Example\n2|smtp_password|@\n",
    "INSERT INTO options (option_name, option_value) VALUES ('site','x'),('smtp_password','@');\n",
    "║ DB_PASSWORD │ @ ║\n║──────────────║\n",
    "Data\n====\npassword:\n----\n@\nhost:\n----\nx\n",
    "1) \"password\"\n2) \"@\"\n3) \"email\"\n",
    // Fields.
    "{ \"label\": \"api key\", \"value\": \"@\" }\n",
    "{\"value\":\"@\",\"name\":\"DB_PASSWORD\"}\n",
    "{\"value\":\"@\",\"type\":\"password\",\"label\":\"password\"}\n",
    "{\"body\":\"{\\\"value\\\":\\\"@\\\",\\\"name\\\":\\\"DB_PASSWORD\\\"}\"}\n",
    "{\"ParameterKey\": \"DbPassword\", \"ParameterValue\": \"@\"}\n",
    "- value: \"@\"\n  name: DB_PASSWORD\n",
    "- name: DB_PASSWORD\n  description: of the database\n  value: @\n",
    "  - label: API token\n    value: @\n",
    "<add value=\"@\" key=\"ApiKey\"/>\n",
    "<property>\n  <name>fs.s3a.secret.key</name>\n  <value>@</value>\n</property>\n",
    "<param-name>password</param-name>\n  <param-value>@</param-value>\n",
    "[[env]]\nvalue = \"@\"\nname = \"DB_PASSWORD\"\n",
    "EnvVar { name: \"DB_PASSWORD\".to_string(), value: \"@\".to_string() },\n",
    "Name  : DB_PASSWORD\nValue : @\n",
    // With other objects, and braces in strings, between.
    "{\"name\":\"DB_PASSWORD\",\"labels\":{},\"value\":\"@\"}\n",
    "{\"name\": \"DB_PASSWORD\", \"meta\": {\"x\": {\"value\": 1}}, \"value\": \"@\"}\n",
    "{\"value\": \"@\", \"meta\": {\"x\": 1}, \"name\": \"DB_PASSWORD\"}\n",
    "{\"OutputKey\":\"DBPassword\",\"Description\":\"The {x} password\",\"OutputValue\":\"@\"}\n",
    "- value: @\n  name: DB_PASSWORD",
    // Arguments.
    "$db = new PDO(\n    'mysql:host=db;dbname=app',\n    'app',\n    '@'\n);\n",
    "$link = mysqli_connect('localhost', 'app', '@', 'appdb');\n",
    "DriverManager.getConnection(url, props.get(\"user\"), \"@\");\n",
    "new Sequelize(\"shop\", \"app\", \"@\", { host: \"db\" });\n",
    "my $dbh = DBI->connect(\"dbi:mysql:shop\", \"app\", \"@\");\n",
    "mysql_real_connect(con, \"db\", \"app\", \"@\", \"shop\", 0, NULL, 0);\n",
    "const tok = jwt.sign({id: 1}, \"@\");\n",
    "val conf = Map(\"db.password\" -> \"@\")\n",
    "connection b\nremote_username joe\nremote_password @\n",
    "Current stack outputs (2):\n    OUTPUT      VALUE\n    dbPassword  @\n    url         https://x.example\n",
    "server.login(os.environ['SMTP_USER'], '@')\n",
    "smtp.PlainAuth(\"\", \"bot@example.com\", \"@\", \"smtp.example.com\")\n",
    "127.0.0.1:6379> AUTH @\nOK\n",
    "redis-cli -h cache AUTH app @\n",
    "[0 127.0.0.1:51234] \"AUTH\" \"default\" \"@\"\n",
    "*2\r\n$4\r\nAUTH\r\n$24\r\n@\r\n",
    "environment:\n  KIBANA_BASIC_AUTH: 'elastic:@'\n",
    "a001 LOGIN ann@example.com @\n",
    "expect \"password:\"\nsend \"@\\r\"\n",
    "vault kv put secret/app jwt=@\n",
    "/msg NickServ IDENTIFY @\n",
    // Passphrases.
    "passphrase = \"~\"\n",
    "encryption_passphrase: ~\n",
    "BORG_PASSPHRASE=~\n",
    "ssid=Home\nwpa_passphrase=~\n",
    "The passphrase is: ~\n",
    "{\"password\": \"~\"}\n",
    "SEED=\"legal winner thank year wave sausage worth useful cruise eager spider flock\"\n",
    // Names that end in `key`.
    "COOKIE_KEY=@\n",
    "export MAPS_KEY=\"@\"\n",
    "\"stripeKey\": \"@\",\n",
    "const cookieKey = '@';\n",
    "jwt.key=@\n",
    "X-Service-Key: @\n",
];

#[test]
fn values_beside_their_names_are_found_however_the_text_arrives() {
    let redactor = Redactor::default();
    let c = &mut TestRandom(29);
    for sample in SECRETS {
        let value = c.of(ALNUM, 24);
        let phrase = "kettle purple battery monkey";
        let text = match *sample {
            // The address before the password has the sign.
            _ if sample.contains("@example.com") => sample
                .replace("@example.com", "\0")
                .replace('@', &value)
                .replace('\0', "@example.com"),
            _ => sample.replace('@', &value).replace('~', phrase),
        };
        let out = redactor.redact(&text);
        let is_found = !out.contains(&value) && !out.contains("purple") && !out.contains("wave");
        assert!(is_found && out != text, "{out}");
        let long = format!("{text}\nand then it goes on with more of it.\n");
        for size in [1, 7, 64] {
            let ends: Vec<_> = (0..long.len()).step_by(size).collect();
            let (streamed, _) = streamed(&redactor, long.as_bytes(), &ends);
            assert_eq!(String::from_utf8_lossy(&streamed), redactor.redact(&long));
            check(&redactor, &long, size);
        }
    }
}

/// Number of bytes that are inspected for each byte of a text.
fn inspected(unit: &str) -> usize {
    let text = unit.repeat(20_000 / unit.len());
    INSPECTED.set(0);
    Redactor::default().redact(&text);
    INSPECTED.get() / text.len()
}

#[test]
fn a_table_of_two_columns_may_have_a_chosen_password() {
    let redactor = Redactor::default();
    for text in [
        "name,value\npassword,Passwort2\n",
        "id,key,value\n1,password,Winter24!x\n",
    ] {
        assert!(redactor.redact(text) != text, "{text}");
    }
}

#[test]
fn keys_of_ipsec_are_found() {
    let key = TestRandom(37).of(HEX, 64);
    let text = format!("\tenc cbc(aes) 0x{key}\n\tauth-trunc hmac(sha256) 0x{key} 128\n");
    assert!(!Redactor::default().redact(&text).contains(&key[..8]));
}

#[test]
fn names_without_a_value_take_little_time() {
    for unit in [
        "aKey=",
        "A_KEY: ",
        "Value>",
        "Value=",
        "name,value\n",
        "| name | value |\n",
        "|| name | value ||\n",
        "send \"",
        "SecureString\t",
    ] {
        let inspected = inspected(unit);
        assert!(inspected < 160, "{unit:?}: {inspected}");
    }
}

/// A value without blanks goes on over all names behind it, and is classified at each of them.
#[test]
fn a_value_is_read_a_few_times_for_each_name_in_it() {
    let of = |unit: &str, length: usize| {
        INSPECTED.set(0);
        Redactor::default().redact(&unit.repeat(length / unit.len()));
        INSPECTED.get()
    };
    for unit in ["secret_key=", "AppKey=", "password:", "cookie", "auth"] {
        let (one, four) = (of(unit, 6_000), of(unit, 24_000));
        assert!(four < 5 * one, "{unit:?}: {one}, {four}");
    }
    let inspected = inspected("secret_key=");
    assert!(inspected < 1000, "{inspected}");
}

/// Texts of these keywords and of what may stand around them, in any order: text shown early stays.
#[test]
fn what_follows_a_name_does_not_change_what_is_settled() {
    const FIRST: &[&str] = &[
        "*3\r\n$4\r\nAUTH\r\n$8\r\n",
        "redis-cli auth ",
        "\"AUTH\" \"",
        "BASIC_AUTH=",
        "a1 LOGIN ",
        "Password:\nsend \"",
        "passphrase: ",
        "passphrase = \"",
        "password = \"",
        "COOKIE_KEY=",
        "\"stripeKey\": \"",
        "{\"value\": \"",
        "<name>api.token</name><value>",
        "- value: ",
        "new PDO(",
        "mysqli_connect(host, ",
        ".auth(",
        "jwt.sign({id: 1}, ",
        "\"db.password\" -> \"",
        "remote_password ",
        "1) \"requirepass\"\n2) \"",
        "db2 connect to shop user ",
        "Name  Value\n",
        "SecureString\t",
    ];
    const NEXT: &[&str] = &[
        "Joe12!xy",
        "Falcon77!x",
        "Zk38QhTq0vPz91LmXc7R",
        "joe",
        "horse battery staple",
        "\r\n",
        "\r\n$10\r\n",
        "\n",
        " ",
        "\"",
        "\", \"",
        "\"name\": \"DB_PASSWORD\"",
        "\n  name: API_TOKEN\n",
        "</value>",
        ":",
        ", ",
        ")",
        "\\r\"",
        "  ",
        " using ",
    ];
    let redactor = Redactor::default();
    let c = &mut TestRandom(83);
    for _ in 0..300 {
        let mut text = FIRST[c.below(FIRST.len())].to_owned();
        for _ in 0..1 + c.below(6) {
            text.push_str(NEXT[c.below(NEXT.len())]);
        }
        check(&redactor, &text, 1 + c.below(3));
        check(&redactor, &format!("{text}and more of it\n"), 1);
    }
}

#[test]
fn near_misses_stay() {
    let redactor = Redactor::default();
    let c = &mut TestRandom(31);
    let (hex, mixed) = (c.of(HEX, 64), c.of(ALNUM, 24));
    let commit = c.of(HEX, 40);
    for text in [
        "Key                 Value\n---                 -----\npassword_policy     default\ntoken_policies      [\"default\" \"app-read2\"]\nCluster Name        vault-cluster-5a3c\n",
        "| Setting | Default | Value |\n|---|---|---|\n| `token_ttl` | 3600 | 15m |\n| `password` | none | a word |\n",
        "NAME                  TYPE     DATA   AGE\ndb-password           Opaque   1      12d\n",
        "{\"name\":\"token_ttl\",\"value\":\"3600\"},{\"label\":\"Password\",\"value\":\"password\"}",
        "{\"name\":\"DB_PASSWORD\",\"value\":\"$(VAULT_DB_PASSWORD)\"}",
        "{ name: 'password', type: 'password', value: form.password2 },",
        "INSERT INTO translations (key, value, lang) VALUES ('password', 'Passwort2', 'de');\n",
        "id,key,value\n1,password,Passwort2\n2,token,Schluessel3\n",
        "RegEnumKey = win32api.RegEnumKey\nRegEnumValue = win32api.RegEnumValue\n",
        "{\"name\":\"DB_PASSWORD\"},{\"name\":\"region\",\"value\":\"eu-west-1a2b3c\"}",
        "{\"value\":\"eu-west-1a2B3c\",\"ref\":{\"name\":\"DB_PASSWORD\"}}",
        "{\"value\":\"eu-west-1a2B3c\"},{\"name\":\"DB_PASSWORD\"}",
        "{\"ref\":{\"name\":\"DB_PASSWORD\"},\"value\":\"eu-west-1a2B3c\"}",
        "x\"name\":\"DB_PASSWORD\"}],\"value\":\"eu-west-1a2B3c\"}",
        "- name: DB_PASSWORD\n- name: REGION\n  value: eu-west-1a2b3c\n",
        "<property name=\"password\"/>\n<property name=\"version\" value=\"v12-a2b3c4\"/>\n",
        "new PDO($dsn, $user, $password2);",
        "new PDO('mysql:host=x', 'user', 'password');",
        "mysqli_connect('localhost', 'app', getenv('DB_PASS2'), 'appdb2');",
        "cy.login('admin', 'admin'); ftp.login('anonymous', 'anonymous@');",
        "127.0.0.1:6379> AUTH <password>\nOK\nauth required pam_unix.so nullok_secure2\n",
        "BASIC_AUTH=$USER:$PASS2\nAUTH_PROXY=host1:8080\nHTTP_AUTH=kerberos:negotiate\n",
        "a001 OK LOGIN completed, now in authenticated state\nALTER ROLE app2 LOGIN NOSUPERUSER2;\n",
        "passphrase: must have at least four words\npassphrase: required\n",
        "\"passphrase\": \"Enter the passphrase of your key\", \"password\": \"this field is required\"",
        "passphrase = \"<four random words>\"\npsk: pre shared key of the network\n",
        "PRIMARY_KEY=id\nSORT_KEY=created_at\ncache_key=user:1\nKEY_FILE=/etc/ssl/private/server1.key\n",
        "translation_key = \"errors.messages.too_short2\"\nmonkey=ChimpanzeeBonobo2024Gorilla\n",
        &format!("cacheKey: '{hex}'\nCACHE_KEY=v1-{hex}\nfileKey: {mixed}\nPUBLIC_KEY={mixed}\n"),
        &format!("GPG_KEY={commit}\nrowKey: {commit}\nkey: {hex}\nidempotency_key={mixed}\n"),
    ] {
        assert_eq!(redactor.redact(text), text);
        check(&redactor, text, 1);
    }
}
