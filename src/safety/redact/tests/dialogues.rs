//! Secrets in commands, files and dialogues, by what stands around them.

use super::settled::check as check_settled;
use super::*;

/// A value that a machine made, and a password that a person chose.
const VALUE: &str = concat!("q7Rk2ZpL9v", "XwT4mN8sYb");
const CHOSEN: &str = "Sommer2024!";

#[test]
fn secrets_are_found_in_commands_files_and_dialogues() {
    let redactor = Redactor::default();
    let rows = "13:a6:e7:1a:5c:0e:dc:89:87:9d:de:83:eb:05:09:\n    f2:18:8d:9a:df:45";
    let hex = "9f3b2c5d7e8a1b4c6d0e3f5a7b9c1d2e4f6a8b0c9f3b2c5d7e8a1b4c6d0e3f5a";
    for (form, value) in [
        // Languages.
        ("Passwort: {}", CHOSEN),
        ("Kennwort: {}", CHOSEN),
        ("Mot de passe : {}", CHOSEN),
        ("Contraseña: {}", CHOSEN),
        ("senha: {}", CHOSEN),
        ("Wachtwoord: {}", CHOSEN),
        ("Hasło: {}", CHOSEN),
        ("Новый пароль: {}", CHOSEN),
        ("密码：{}", CHOSEN),
        ("パスワード: {}", CHOSEN),
        ("비밀번호: {}", CHOSEN),
        // Commands.
        ("cargo login {}", VALUE),
        ("redis-cli -h cache set db_password {}", CHOSEN),
        ("127.0.0.1:6379> SET db:password \"{}\"", CHOSEN),
        ("set password \"{}\"", CHOSEN),
        ("ACL SETUSER bob on >{} ~* +@all", CHOSEN),
        ("etcdctl put /app/password {}", CHOSEN),
        ("consul kv put app/password {}", CHOSEN),
        ("rclone config create x s3 secret_access_key {}", VALUE),
        ("sonar-scanner -Dsonar.login={}", VALUE),
        ("doctl auth init -t {}", VALUE),
        ("printf '{}\\n' | sudo -S ls", CHOSEN),
        ("createHmac(\"sha256\", \"{}\")", CHOSEN),
        ("password changed from '{}' to 'x'", CHOSEN),
        ("password changed from 'x' to '{}'", CHOSEN),
        ("password for bob was changed from \"{}\" to \"x\"", CHOSEN),
        ("Changed password for bob from \"x\" to \"{}\".", CHOSEN),
        ("Changed password for bob from \"{}\" to \"x\".", CHOSEN),
        (
            "Password for the [elastic] user successfully reset.\nNew value: {}",
            CHOSEN,
        ),
        (
            "Invalid login: password \"{}\" rejected for user bob",
            CHOSEN,
        ),
        ("Use user admin and password {} to log in.", CHOSEN),
        ("The password for the staging box is {}.", CHOSEN),
        ("{\"msg\": \"the db_password is {}\"}", CHOSEN),
        ("SET PASSWORD FOR 'bob'@'%' = '{}';", CHOSEN),
        (
            "[smtp]\nsmtp_password = {} ; changed in march\n",
            "Hazel1271!",
        ),
        (
            "#0 /a.php(3): PDO->__construct('mysql:host=db', 'root', '{}')",
            CHOSEN,
        ),
        (
            "{\"keyName\":\"key1\",\"permissions\":\"FULL\",\"value\":\"{}\"}",
            concat!("ZMsZyUIOolK4DGVlqEVtmbdZA", "/UAIgkyAGmzVcraBd/g=="),
        ),
        ("password <- \"{}\"", CHOSEN),
        ("(setq password \"{}\")", CHOSEN),
        (
            "System.setProperty(\"javax.net.ssl.keyStorePassword\", \"{}\")",
            CHOSEN,
        ),
        ("bw unlock {}", CHOSEN),
        ("net user anna {} /add", CHOSEN),
        ("mc alias set m https://m.example.org admin {}", VALUE),
        ("ssh-keygen -t ed25519 -N {} -f k", CHOSEN),
        ("twine upload -u __token__ -p {} dist/*", VALUE),
        (
            "xcrun altool --upload-app -u a@example.org -p {}",
            "spor-pvch-rryc-srca",
        ),
        ("gh secret set DEPLOY_KEY --body \"{}\"", VALUE),
        ("influx -username a -password {}", CHOSEN),
        ("security add-generic-password -a x -s y -w {}", CHOSEN),
        ("openssl enc -aes-256-cbc -K {} -iv 0102 -in a", hex),
        ("ssh-keygen -p -P '' -N '{}' -f k", CHOSEN),
        ("ssh-keygen -p -P old2Pass -N {} -f k", CHOSEN),
        ("ssh-keygen -t rsa -N '' && ssh-keygen -p -N \"{}\"", CHOSEN),
        ("ssh-keygen -t rsa \\\n  -N {} -f k", CHOSEN),
        ("gh secret set X --body='{}'", CHOSEN),
        ("gh secret set X -b{}", CHOSEN),
        ("twine upload -p{} dist/*", CHOSEN),
        ("security add-internet-password -a x -w{}", CHOSEN),
        ("cargo login --registry my-reg2 {}", VALUE),
        ("fly secrets set -a app CONN={}", CHOSEN),
        ("fly secrets set --stage CONN={}", CHOSEN),
        ("heroku config:set MODE=prod CONN={}", CHOSEN),
        (
            "oc create secret generic x \\\n  --from-literal=user=bob \\\n  --from-literal=conn={}",
            CHOSEN,
        ),
        ("snyk auth {}", "a567eb26-d0ea-4b30-a3e7-ce57ce655b2d"),
        ("codecov -t {}", "63aef432-4d3a-414b-ac8e-94e3b1eac856"),
        ("yarn config set npmAuthToken {}", VALUE),
        ("etcdctl --user=root:{} get x", CHOSEN),
        ("veracrypt -p {} x.hc", CHOSEN),
        ("fly secrets set SESSION={}", VALUE),
        ("heroku config:set CONN=\"{}\" -a app", VALUE),
        (
            "kubectl create secret generic db --from-literal=conn={}",
            VALUE,
        ),
        ("npm config set //r.example.com/:_authToken {}", VALUE),
        ("echo \"{}\" | wrangler secret put API_TOKEN", VALUE),
        (
            "echo '{}' | openconnect --passwd-on-stdin vpn.example.org",
            CHOSEN,
        ),
        ("echo {} | kinit anna", CHOSEN),
        ("kubeadm join --certificate-key {}", hex),
        ("export BW_SESSION=\"{}\"", VALUE),
        ("PRAGMA key = '{}';", VALUE),
        // Files.
        ("signingConfigs { release { keyPassword \"{}\" } }", CHOSEN),
        ("10.0.0.1 10.0.0.2 : PSK \"{}\"", CHOSEN),
        (
            "key \"ddns\" {\n  secret \"{}\";\n};",
            "TtP0Cx6CJIZ0ra5aAHvZAgA0tsdAnK8MuLYIlt1xPMI=",
        ),
        (
            "encrypt = \"{}\"",
            "TtP0Cx6CJIZ0ra5aAHvZAgA0tsdAnK8MuLYIlt1xPMI=",
        ),
        (
            "account default\nhost smtp.example.org\nuser anna\npassword {}\n",
            CHOSEN,
        ),
        ("host x\nuser anna\nport 587\n\npassword {}\n", CHOSEN),
        ("account x\n\tuser anna\n\tpassword {}\n", CHOSEN),
        ("\"anna\" * \"{}\" *", CHOSEN),
        ("eureka.client.password={cipher}{}", hex),
        (
            "<settingsSecurity><master>{{}}</master>",
            "eUQLhJ6ARzTMRsEAkVSxdfD3zKxBcrOO3Y7+dvkF0Pk=",
        ),
        (
            "<machineKey validationKey=\"{}\" decryptionKey=\"AutoGenerate\"",
            hex,
        ),
        ("$ANSIBLE_VAULT;1.1;AES256\n{}\n", hex),
        ("privateExponent:\n    {}\nprime1:\n", rows),
        ("priv:\n    {}\npub:\n    04:aa:bb\n", rows),
        ("COOKIE_SALT={}", VALUE),
        ("{\"value\": \"{}\", \"name\": \"DB_PASSWORD\"}", CHOSEN),
        (
            "{\n  \"value\": \"{}\",\n  \"name\": \"DB_PASSWORD\"\n}",
            CHOSEN,
        ),
        (
            "{\"Parameter\": {\"Name\": \"/prod/db/password\", \"Type\": \"SecureString\", \"Value\": \"{}\"}}",
            CHOSEN,
        ),
        (
            "\"id\": \"https://v.vault.azure.net/secrets/db/12ab\",\n  \"name\": \"db\",\n  \"value\": \"{}\"\n}",
            CHOSEN,
        ),
        (
            "\"type\": \"random_password\",\n\"instances\": [{\"attributes\": {\"length\": 24, \"result\": \"{}\"}}]",
            VALUE,
        ),
        ("<tr><th>Password</th><td>{}</td></tr>", CHOSEN),
        ("<td>Password</td>\n    <td class=\"x\">{}</td>", CHOSEN),
        ("<td><b>Password:</b></td><td><code>{}</code></td>", CHOSEN),
        (
            "Content-Disposition: form-data; name=\"password\"\r\n\r\n{}\r\n--b--",
            CHOSEN,
        ),
        ("{'user': ['ana'], 'password': ['{}']}", CHOSEN),
        (
            "{\"type\": \"CONCEALED\", \"label\": \"x\", \"value\": \"{}\"}",
            CHOSEN,
        ),
        (
            "url = https://{}:x-oauth-basic@github.com/a",
            concat!("ghp_PCLvBe0Xni0sLhT8Ey7", "i8cBSQKgR8J0Ad4Nw"),
        ),
        ("https://{}:x-oauth-basic@git.example.org/a", VALUE),
        (
            "https://conda.anaconda.org/t/{}/shop",
            "b92e9dad87b54c558e68a9fc7786785b7ca3c164",
        ),
        (
            "SECRET_KEY: {}",
            concat!(
                "django-insecure-=y@lnkmk*-f=j=s+a23+^(hb7k52",
                "-t5f-q%k-ute8&x*cnuv"
            ),
        ),
        (
            "<RSAKeyValue><D>{}</D>",
            concat!("ElAIdzBQLhwWf8O2+xj9WPS2", "CGc0nNOq4Dl8oIApqi8="),
        ),
        ("<dt>API key</dt><dd>{}</dd>", VALUE),
        // Dialogues.
        ("I changed the admin password to {} yesterday", CHOSEN),
        ("New API key created: {} (shown once)", VALUE),
        ("Your recovery key is {}", "UL98-N7BB-FHUA-WXTX-KDXW-6WEP"),
        (
            "USER anna\n331 Please specify the password.\nPASS {}\n230 Login successful.",
            CHOSEN,
        ),
        ("> USER anna\n< 331 Password\n> PASS {}\n", CHOSEN),
        ("---> USER anna\n331 Password\n---> PASS {}\n", CHOSEN),
        ("AUTH PLAIN {}", "AGFubmEAU29tbWVyMjAyNCE="),
        ("334 UGFzc3dvcmQ6\n{}\n235 OK", "U29tbWVyMjAyNCE="),
        ("AUTH default {}\nOK", CHOSEN),
        ("::add-mask::{}", VALUE),
        ("X-CSRF-Token: {}", VALUE),
        (
            "Your recovery phrase is:\n{}",
            "abandon grit lunar velvet orbit cabin sketch hazard velvet tilt rocket pony",
        ),
        (
            "seed phrase:\n1. {}\n",
            "abandon\n2. grit\n3. lunar\n4. velvet\n5. orbit\n6. cabin\n7. sketch\n8. hazard\n9. velvet\n10. tilt\n11. rocket\n12. pony",
        ),
        (
            "-----BEGIN OpenVPN Static key V1-----\n{}\n-----END OpenVPN Static key V1-----",
            "5769bd11fd08089549d36e058e417d6f\n85d35ef78a7b7cf11c1812fbe7df262c",
        ),
        (
            "-----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------",
            concat!(
                "SUAIBDPBAUTWCWBKIO6XHQNINK",
                "5FWJW4OHLXC3HQ2KFE4PEJUA44CNHT"
            ),
        ),
    ] {
        let text = form.replacen("{}", value, 1);
        let out = redactor.redact(&text).into_owned();
        for part in value.split('\n') {
            assert!(!out.contains(part), "{text}\n{out}");
        }
        assert_eq!(redactor.redact(&out), out, "twice");
        check_settled(&redactor, &format!("{text}\nand then it goes on.\n"), 1);
    }
}

#[test]
fn sentences_about_passwords_stay() {
    let redactor = Redactor::default();
    for text in [
        "The password for the staging box is stored in 1Password.",
        "The password is Base64-encoded, its salt is SHA256.",
        "Use user admin and password authentication to log in.",
        "user and password Argon2id hashing",
        "Invalid password \"policy1\" for rule set default",
        "password \"Passwort1\", token \"Ficha2\"",
        "password changed from 'active' to 'expired' state for 3 users",
        "The password policy was changed from 'Strict2' to 'Strict3!'",
        "Imported the password helper from \"Utils2/Password3\" and changed it",
        "Token changed from 'IDENT' to 'NUMBER2' at line 3",
        "Settings saved.\nNew value: Blue2Green",
        "password = settings2.password ; from the file",
        "secret_name = prod/db-main-2 # of the vault",
        "PDO->__construct('mysql:host=db1', 'root', Object(SensitiveParameterValue))",
        "{\"keyName\":\"key1\",\"permissions\":\"FULL\",\"value\":null}",
        "foo(\"password\", \"Passwort1\")",
    ] {
        assert_eq!(redactor.redact(text), text);
        check_settled(&redactor, &format!("{text}\n"), 1);
    }
}
