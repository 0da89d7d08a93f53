//! Secrets in the columns of tables.

use super::settled::check;
use super::*;

/// Tables with the secrets in them.
const TABLES: &[(&str, &[&str])] = &[
    (
        "id,email,password\n1,a@b.c,hunter2x\n2,\"d, e\",\"k9,Tq2mZ\"\n3,f@g.h,\n4,i@j.k,Qw3rty!z\n",
        &["hunter2x", "k9,Tq2mZ", "Qw3rty!z"],
    ),
    (
        " id | login | api_token        | password \n----+-------+------------------+----------\n  1 | bob   | 9f8Kd02mQ7xZ11aa | s3cr3tX9 \n  2 | eve   |                  | Tr0ub4dor\n(2 rows)\n",
        &["9f8Kd02mQ7xZ11aa", "s3cr3tX9", "Tr0ub4dor"],
    ),
    (
        "+----+----------+\n| id | Passwd   |\n+----+----------+\n|  1 | pa55Word |\n+----+----------+\n",
        &["pa55Word"],
    ),
    (
        "┌──────┬──────────┐\n│ user │ password │\n├──────┼──────────┤\n│ bob  │ xK29dm!q │\n└──────┴──────────┘\n",
        &["xK29dm!q"],
    ),
    (
        "| Service | **Password** |\n|---|---|\n| db | `zR7!kq20` |\n| web | see above |\n",
        &["zR7!kq20"],
    ),
    (
        "NAME     SECRET KEY            AGE\nalpha    Zk38QhTq0vPz91LmXc7R  3d\nbeta                           1d\ngamma    81bTq0vPz91LmXc7Rwww  9d\n",
        &["Zk38QhTq0vPz91LmXc7R", "81bTq0vPz91LmXc7Rwww"],
    ),
    ("user\tpassword\nbob\tq7Rk2ZpL\n", &["q7Rk2ZpL"]),
    (
        "Login;Password;Role\r\nbob;q7Rk2ZpL;admin\r\n",
        &["q7Rk2ZpL"],
    ),
    (
        "INSERT INTO users (id, name, password) VALUES (1, 'bob', 'hunt3r22'), (2, 'it''s (me)', 'q7Rk2,ZpL');\n",
        &["hunt3r22", "q7Rk2,ZpL"],
    ),
    (
        "insert into `u` (`password`,`name`)\nVALUES\n  ('hunt3r22', lower('X')),\n  ('q7Rk2ZpL', 'x');\n",
        &["hunt3r22", "q7Rk2ZpL"],
    ),
    (
        "COPY public.users (id, password, at) FROM stdin;\n1\tq7Rk2ZpL\t2026-01-01\n2\t\\N\t2026-01-01\n\\.\n",
        &["q7Rk2ZpL"],
    ),
];

/// Texts that look like tables and have no secrets.
const HARMLESS: &[&str] = &[
    "user,password\nbob,\nalice,null\neve,********\n",
    "| Option | Password |\n|---|---|\n| a | required |\n| b | see section 4.2 |\n",
    "| Token | Meaning |\n|---|---|\n| INT_LIT | 0x1F |\n| SHA256 | a digest |\n| base64url | letters |\n",
    "name,token_count,password_hash_type\na,1234567890,bcrypt2a\n",
    "Ask for the username, password, and code\nthen send it, by mail, to x9y8z7w6\n",
    "cat file | grep password | wc -l\necho x | sha256sum | head -c16\n",
    "NAME      PASSWORD  AGE\nalpha     yes       3d\n\nsha256sum  x1y2z3w4  file\n",
    "def login(user, password):\n    return check(user, sha256x1)\n",
    "SELECT id, password\nFROM users1, backup2026x\n",
    "id,password\nthe table has ended\n1,hunter2x9\n",
];

#[test]
fn the_heading_of_a_table_names_the_secrets_below_it() {
    let redactor = Redactor::default();
    for (table, secrets) in TABLES {
        let text = format!("Here it is:\n\n{table}\nThat was all.\n");
        let found = redactor.find(&text);
        let found: Vec<_> = found.iter().map(|f| &text[f.range.clone()]).collect();
        assert_eq!(&found, secrets, "{text}");
        for size in [1, 3, 64] {
            check(&redactor, &text, size);
        }
    }
    for text in HARMLESS {
        assert_eq!(redactor.redact(text), *text);
    }
}

#[test]
fn a_long_table_is_read_to_its_end_however_it_arrives() {
    let redactor = Redactor::default();
    let c = &mut TestRandom(3);
    let rows = |c: &mut TestRandom| format!("{},x@y.z,{}9a\n", c.of(HEX, 40), c.of(ALNUM, 9));
    let body: String = (0..3000).map(|_| rows(c)).collect();
    let text = format!(
        "{}id,email,password\n{body}\nid,email\n{}",
        "x\n".repeat(9000),
        rows(c)
    );
    let whole = redactor.find(&text);
    assert_eq!(whole.len(), 3000);
    for size in [7, 1000, 50_000] {
        let ends: Vec<usize> = (0..text.len()).step_by(size).collect();
        let (out, found) = streamed(&redactor, text.as_bytes(), &ends);
        assert_eq!(found, whole);
        assert_eq!(String::from_utf8_lossy(&out), redactor.redact(&text));
    }
}

#[test]
fn a_table_goes_on_behind_what_was_left_out() {
    let redactor = Redactor::default();
    let rows = "bob,q7Rk2ZpL\n".repeat(3);
    let head = format!("user,password\n{rows}");
    let tail = format!("ve,wX93kkQz\n{rows}(end)\n");
    let (head, tail) = redactor.redact_ends(&head, &tail);
    let row = "bob,[REDACTED:password]\n".repeat(3);
    assert_eq!(head, format!("user,password\n{row}"));
    assert_eq!(tail, format!("[REDACTED:cut]\n{row}(end)\n"));
}

#[test]
fn lines_that_all_look_like_headings_are_read_once_for_each_delivery() {
    let text = "pw  pw  x\n".repeat(1200);
    let mut stream = Redactor::default().stream();
    stream.push(text.as_bytes(), &mut Vec::new());
    INSPECTED.set(0);
    stream.peek(&mut Vec::new());
    assert!(INSPECTED.get() < 1000 * text.len(), "{INSPECTED:?}");
}

#[test]
fn the_search_of_tables_takes_time_in_proportion_to_the_text() {
    let wide = ["pw  ".repeat(250), "a  ".repeat(1300)];
    for (heading, row) in [
        (&*wide[0], &*wide[1]),
        ("x", &wide[0]),
        ("x", &format!("{}end of it", "pw  pw  x\n".repeat(1000))),
        ("password,id", "aB3xx9zz,1"),
        ("x", &"password,".repeat(300)),
        ("INSERT INTO u (a,password) VALUES (", &"(".repeat(60)),
    ] {
        let inspected = |size: usize| {
            INSPECTED.set(0);
            let rows = format!("{row}\n").repeat(size / row.len());
            Redactor::default().redact(&format!("{heading}\n{rows}"));
            INSPECTED.get()
        };
        let (short, long) = (inspected(100_000), inspected(400_000));
        let name = &row[..row.len().min(9)];
        assert!(
            long < 6 * short && long < 600 * 400_000,
            "{name}: {short} {long}"
        );
    }
}

/// Tables of random cells, some of them broken, among other text: the chunks do not matter, and text shown early stays.
#[test]
fn a_table_is_read_alike_however_it_arrives() {
    let names = [
        "id",
        "user",
        "password",
        "api_token",
        "Secret Key",
        "größe",
        "passwd",
        "**pw**",
        "",
    ];
    let cells = [
        "1",
        "",
        "bob",
        "q7Rk2Zp!9v",
        "\"a, b\"",
        "\"open",
        "it''s",
        "'x9(y8'",
        "née",
        "`zR7!kq20`",
        "NULL",
        "9f8Kd02mQ7xZ11aa",
        "two words",
        "[REDACTED:x]",
        "\u{a0}",
        "(1)",
        "\\",
    ];
    let signs = [",", ";", "\t", " | ", "|", "  ", "   ", "│"];
    let between = [
        "\n",
        "\r\n",
        "\n\n",
        "\n---+---\n",
        "\n|---|---|\n",
        "\npassword: hunter2x\n",
        ") VALUES (",
        "),\n(",
        " FROM stdin;\n",
        "\nINSERT INTO u (id, password) VALUES (1, 'hunt3r22'), (",
        "\nCOPY u (password, id) FROM stdin;\n",
        "\n\\.\n",
    ];
    let redactor = Redactor::default();
    let c = &mut TestRandom(67);
    for _ in 0..400 {
        let sign = signs[c.below(signs.len())];
        let width = 1 + c.below(4);
        let mut text = String::new();
        for row in 0..2 + c.below(6) {
            for cell in 0..width + usize::from(c.below(12) == 0) {
                text.push_str(if cell > 0 { sign } else { "" });
                text.push_str(match row {
                    0 => names[c.below(names.len())],
                    _ => cells[c.below(cells.len())],
                });
            }
            text.push_str(between[c.below(between.len()).saturating_sub(5)]);
        }
        check(&redactor, &text, 1 + c.below(3));
        let bytewise: Vec<usize> = (0..text.len()).collect();
        let whole = streamed(&redactor, text.as_bytes(), &[]);
        assert_eq!(streamed(&redactor, text.as_bytes(), &bytewise), whole);
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            redactor.redact_unfinished(&text[..end]);
            redactor.redact_ends(&text[..end], &text[end..]);
        }
    }
}
