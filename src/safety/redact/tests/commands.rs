//! Passwords that people chose, in commands, headers and files.

use super::*;

const PASSWORDS: &[&str] = &[
    "hunter2",
    "Tr0ub4dor&3",
    "correct-horse-battery-staple",
    "S3cr3t!pw",
    "p@ss;w0rd9",
    "Zx8&ab!9qq",
    "kD9#mQ2v",
    "MyDogRex2019",
    "1q2w3e4r",
    "pässw0rt!",
    "Sup3rSecretPass!",
];

/// Forms of which no part of any password may remain. `{}` is replaced by the password.
const FORMS: &[&str] = &[
    "curl -u admin:{} https://x.example/api",
    "curl -s -X POST https://api.example.com/v1/a/path/with/many/parts?and=queries -H 'Content-Type: application/json' -u 'admin:{}'",
    "curl \\\"-u\\\", \\\"admin:{}\\\"",
    "[\"curl\", \"-u\", \"admin:{}\"]",
    "curl --user admin:{} https://x",
    "curl -uadmin:{} https://x",
    "curl --proxy-user=bob:{} https://x",
    "wget --user=bob --password={} https://x",
    "https -a bob:{} api.example.com",
    "mysql -u root -p{} db",
    "/usr/bin/mysqldump -uroot -p'{}' db > dump.sql",
    "PGPASSWORD={} psql -h db",
    "export MYSQL_PWD='{}'",
    "SSHPASS={} sshpass -e ssh h",
    "sshpass -p {} ssh h",
    "sshpass -p'{}' ssh h",
    "machine api.example.com login bob password {}",
    "machine x\n  login bob\n  password {}\n",
    "redis-cli -h h -a {} ping",
    "REDISCLI_AUTH={} redis-cli",
    "mongosh -u root -p {} --authenticationDatabase admin",
    "docker login -u bob -p {} registry.example",
    "docker login --username bob --password '{}' registry.example",
    "smbclient //h/s -U bob%{}",
    "ldapsearch -x -D cn=admin -w '{}' -b dc=x",
    "openssl enc -aes-256-cbc -k {} -in f",
    "openssl pkcs12 -export -passout pass:{} -out f",
    "unzip -P {} f.zip",
    "7z x -p{} f.7z",
    "htpasswd -b -c users bob {}",
    "htpasswd -nb bob {}",
    "echo '{}' | sudo -S ls",
    "echo \"bob:{}\" | chpasswd",
    "echo {} | docker login -u bob --password-stdin",
    "vncpasswd -f <<< {}",
    "wpa_passphrase home {}",
    "xfreerdp /u:bob /p:{} /v:h",
    "keytool -genkey -storepass {} -alias x",
    "DB_PASSWORD={}\n",
    "password={}\n",
    "password: \"{}\"",
    "Server=h;User Id=sa;Password={};Encrypt=yes",
    "https://x/login?user=bob&password={}&next=/",
    "ENV DB_PASSWORD {}",
    "CREATE USER bob IDENTIFIED BY '{}'",
    "ALTER USER bob WITH PASSWORD '{}'",
    "requirepass {}",
    "localhost:5432:mydb:bob:{}",
    "postgres://bob:{}@db:5432/x",
    "//registry.example/:_password=\"{}\"",
    "psk=\"{}\"",
];

#[test]
fn a_key_that_is_exported_by_hand_is_found_whatever_its_form() {
    let redactor = Redactor::default();
    for name in [
        "TEAM_API_KEY",
        "APIKEY",
        "GITHUB_TOKEN",
        "MYTOKEN",
        "APP_SECRET",
    ] {
        for value in ["plainword77", "shortk99", "'zz-word-88'"] {
            let line = format!("cd x; export A=1 {name}={value} && make");
            let value = value.trim_matches('\'');
            assert!(!redactor.redact(&line).contains(value), "{line}");
        }
    }
}

/// Prefixes that programs print before each line of a file.
const PREFIXES: &[&str] = &[
    "",
    "+",
    "-",
    "> ",
    "# ",
    "// ",
    "2\t",
    "  12 | ",
    "12:",
    "12-",
    "a.netrc:1:",
    "src/a-b/conf.d/app.env-14-",
    "app.env:",
    "my notes.txt:3:",
    "deploy/x.patch:17:+",
    "src/main.rs:3:7:    # ",
];

#[test]
fn no_part_of_a_password_remains() {
    let redactor = Redactor::default();
    for (prefix, form) in PREFIXES
        .iter()
        .flat_map(|p| FORMS.iter().map(move |f| (p, f)))
    {
        for password in PASSWORDS {
            let text = format!("{prefix}{}", form.replace('\n', &format!("\n{prefix}")));
            let text = text.replace("{}", password);
            let out = redactor.redact(&text);
            // The rest after a separator would be enough to guess the password.
            for part in password
                .split(['&', ';', '!', '#'])
                .filter(|part| part.len() >= 3)
            {
                assert!(!out.contains(part), "{text}\n{out}");
            }
            assert_eq!(redactor.redact(&out), out, "twice");
        }
    }
}

#[test]
fn the_end_of_a_secret_is_where_the_next_value_begins() {
    let redactor = Redactor::default();
    for (text, redacted) in [
        (
            "password=hunter2&next=/",
            "password=[REDACTED:password]&next=/",
        ),
        (
            "password=Zx81ab9q;Encrypt=yes",
            "password=[REDACTED:password];Encrypt=yes",
        ),
        (
            "password=Zx81ab9q && ls",
            "password=[REDACTED:password] && ls",
        ),
        (
            "{password:Zx81ab9q,user:bob}",
            "{password:[REDACTED:password],user:bob}",
        ),
        ("(password=Zx81ab9q)", "(password=[REDACTED:password])"),
        (
            "mysql -pZx81ab9q -h db",
            "mysql -p[REDACTED:password] -h db",
        ),
        (
            "curl -u bob:Zx81ab9q https://x",
            "curl -u bob:[REDACTED:password] https://x",
        ),
    ] {
        assert_eq!(redactor.redact(text), redacted);
    }
}

#[test]
fn tokens_in_headers_and_files_are_found() {
    let c = &mut TestRandom(17);
    let redactor = Redactor::default();
    for _ in 0..200 {
        let login = "Ym9iOmtEOSNtUTJ2"; // bob:kD9#mQ2v
        let pem = "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0t";
        for (before, secret, after) in [
            ("Cookie: session=", c.of(ALNUM, 32), ""),
            ("Cookie: theme=dark; sid=", c.of(ALNUM, 26), "; lang=en"),
            (
                "Set-Cookie: PHPSESSID=",
                c.of(ALNUM, 26),
                "; Path=/; HttpOnly\r\n",
            ),
            ("curl -b 'sid=", c.of(ALNUM, 26), "' https://x"),
            ("\"Cookie\": \"auth=", c.of(ALNUM, 40), "\""),
            ("{\"auths\":{\"r\":{\"auth\":\"", login.to_string(), "\"}}}"),
            ("//registry.example/:_auth=", login.to_string(), "\n"),
            (
                "    client-key-data: ",
                format!("{pem}{}", c.of(BASE64, 200)),
                "\n",
            ),
            (
                "    some-data: ",
                format!("{pem}{}", c.of(BASE64, 200)),
                "\n",
            ),
            ("AWS_SECRET_ACCESS_KEY=/", c.of(BASE64, 39), "\n"),
            (
                "aws configure set aws_secret_access_key /",
                c.of(BASE64, 39),
                "\n",
            ),
            ("AWS Secret Access Key [None]: ", c.of(BASE64, 40), "\n"),
            ("PrivateKey = ", format!("{}=", c.of(BASE64, 43)), "\n"),
            ("machine h login x password ", c.of(ALNUM, 40), "\n"),
            ("gh auth login --with-token <<< ", c.of(HEX, 40), "\n"),
            ("X-Amz-Signature=", c.of(HEX, 64), "&x=1"),
            ("Ocp-Apim-Subscription-Key: ", c.of(HEX, 32), "\r\n"),
        ] {
            let text = format!("{before}{secret}{after}");
            let out = redactor.redact(&text);
            assert!(!out.contains(&secret[secret.len() - 8..]), "{text}\n{out}");
        }
    }
}

#[test]
fn similar_commands_without_secrets_stay() {
    let redactor = Redactor::default();
    for text in [
        "curl -u \"$USER:$PASS\" https://x",
        "curl -u bob https://x",
        "curl -b cookies.txt https://x",
        "docker run -u 1000:1000 -p 8080:80 image",
        "rsync -u a.txt host:backup/2024",
        "sort -u names:2024.txt",
        "mysql -u root -p db1",
        "mysql -p\n",
        "mkdir -p build/x86_64-2024",
        "ssh -p 2222 host",
        "cp -a tree1 tree2",
        "ldapsearch -W -D cn=admin",
        "openssl x509 -in cert-2024.pem -noout",
        "openssl rsa -passin env:KEY_2 -in k",
        "tar -xzf a1b2c3.tgz",
        "sudo -S ls",
        "cat names1 | sudo -S tee x",
        "echo $PASSWORD | sudo -S ls",
        "the bug is identified by 'name2'",
        "Cookie: theme=dark; lang=en",
        "Set-Cookie: a=b; Expires=Wed, 21 Oct 2026 07:28:00 GMT",
        "\"auth\": \"required\"",
        "auth: true",
        "OAuth=enabled2",
        "client-certificate-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUM",
        "login as the user with password",
        "http -a user:password https://x",
        "SSH_ASKPASS=/usr/bin/ssh-askpass",
        "the --password option and the --password=<password>",
        "git log -p1 HEAD~20",
        "set password policy2 ; show password2",
        "redis-cli set db_password_policy Strong2",
        "redis-cli set page_count 12",
        "etcdctl put /app/password $PW2",
        "consul kv put app/password @file2",
        "ACL SETUSER bob on nopass",
        "createHmac('sha256', secretKey2)",
        "the type changed from 'Int32' to 'Int64'",
        "password changed from 'never' to 'always'",
        "password <- readline(\"Pass2: \")",
        "(setq password-cache nil2)",
        "printf \"%s2\\n\" \"$PW\" | sudo -S ls",
    ] {
        assert_eq!(redactor.redact(text), text);
    }
}
