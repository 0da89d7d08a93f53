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
    (
        "COPY users (id, password) FROM STDIN\nWITH (FORMAT csv);\n1\tq7Rk2ZpL\nCOPY users (id, password) FROM STDIN WITH (FORMAT csv);\n1,q7Rk2ZpM\n",
        &["q7Rk2ZpL", "q7Rk2ZpM"],
    ),
    (
        "INSERT IGNORE INTO u (id, first_column, second_column, third_column, password, fourth_column, fifth_column, sixth_column, seventh_column, \
         eighth_column, ninth_column, tenth_column, eleventh_column) VALUES (1,2,3,4,'hunt3r22',6,7,8,9,10,11,12,13), \
         (1,2,3,4,'q7Rk2ZpL',6,7,8,9,10,11,12,13),(1),(1,2,3,4,'q7Rk2ZpM',6,7,8,9,10,11,12,13);\n",
        &["hunt3r22", "q7Rk2ZpL", "q7Rk2ZpM"],
    ),
    (
        "insert into users\n  (id, password)\nvalues\n  (1, 'hunt3r22');\nINSERT INTO u (\n  id,\n  password\n)\nOVERRIDING SYSTEM VALUE VALUES (\n  1,\n  'q7Rk2ZpL'\n);\n",
        &["hunt3r22", "q7Rk2ZpL"],
    ),
    (
        "f(password); mysql -e \"INSERT INTO u (id, password) VALUES (1, md5('hunt3r22'))\"\n{\"q\": \"REPLACE INTO u (id, password)\\nVALUES\\n (1, 'q7Rk2ZpL')\"}\n",
        &["hunt3r22", "q7Rk2ZpL"],
    ),
    (
        "name, password\nbob, q7Rk2ZpL\n\nuser,password,\nbob,q7Rk2ZpM,\n",
        &["q7Rk2ZpL", "q7Rk2ZpM"],
    ),
    (
        "id,note,password\n# made by hand\n1,x\n2,\"two\nlines, \"\"one\"\" cell\",hunter2x\nid,password\n3,q7Rk2ZpL\n",
        &["hunter2x", "q7Rk2ZpL"],
    ),
    (
        "| name | password |\n|---|---|\n| a\\|b | hunter2x |\n| c | q7Rk\\|2ZpL |\n",
        &["hunter2x", "q7Rk\\|2ZpL"],
    ),
    (
        "┏━━━━━━┳━━━━━━━━━━┓\n┃ name ┃ password ┃\n┡━━━━━━╇━━━━━━━━━━┩\n│ bob  │ hunter2x │\n└──────┴──────────┘\n\n║ name ║ password ║\n╠══════╬══════════╣\n║ bob  ║ q7Rk2ZpL ║\n",
        &["hunter2x", "q7Rk2ZpL"],
    ),
    (
        "db-1   | NAME,PASSWORD\nweb-1  | GET /\ndb-1   | bob,hunter2x\n\nu.csv:1:name,password\nu.csv:2:bob,q7Rk2ZpL\nx.csv:2:bob,q7Rk2ZpM\n",
        &["hunter2x", "q7Rk2ZpL"],
    ),
    (
        "db-1  |  id | password\ndb-1  | ----+----------\ndb-1  |   1 | hunter2x\n",
        &["hunter2x"],
    ),
    (
        "+name,password\n+bob,q7Rk2ZpL\n\n    1\tNAME   SECRET KEY\n    2\tbob    Zk38QhTq0vPz91LmXc7R\n",
        &["q7Rk2ZpL", "Zk38QhTq0vPz91LmXc7R"],
    ),
    (
        "bob   1\nid  password\n--  --------\n1   hunter2x\n",
        &["hunter2x"],
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
    "README.md        passwords         src\nbuild.sh         report-2024.pdf   target\n",
    "passwords   src\nnotes2.txt  sha256sum\n",
    "a.txt      k8s.json\nPasswords  Src\nNotes2.db  x9y8z7\n",
    "ada\tfirst draft\nbob\ttoken\neve\tPa55word!x\n",
    "new-items-8\tversion8.txt\t/*new-items-8*\npassword\tusr_41.txt\t/*password*\nk8s-items\tx9!Yz7kk\t/*x*\n",
    "SECRET ID                   NAME\nq2yvzx3k9d8f7h6j5m4n3b2v1   db\n",
    "Model,Tokens\nx,1_234_567_890\n",
    "fn find(\n    user, password,\n    name, Tr0ub4dor,\n)\n",
    "kind: user,password\nname: bob,Tr0ub4dor\n",
    "INSERT INTO u (id, password) SELECT id, x9y8z7w6 FROM v;\n",
    "Insert the card (with its token, please) and (1, 'x9y8z7w6') follows.\n",
    "id,password\n\n1,hunter2x9\n",
    "id,password\nthe\ntable\nhas\nended\n1,hunter2x9\n",
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
fn the_end_of_a_text_may_be_within_a_row() {
    let redactor = Redactor::default();
    for (table, secrets) in TABLES {
        let last = secrets[secrets.len() - 1];
        let end = table.rfind(last).map_or(0, |at| at + last.len());
        let found = redactor.find(&table[..end]);
        assert_eq!(found.len(), secrets.len(), "{}", &table[..end]);
    }
}

#[test]
fn long_rows_do_not_end_a_table() {
    let redactor = Redactor::default();
    for size in [3 << 10, 12 << 10, 40 << 10] {
        let long = "word ".repeat(size / 5);
        let sql = format!(
            "INSERT INTO u (password, bio) VALUES ('hunt3r22', '{long}'), ('q7Rk2ZpL', 'x');\n"
        );
        for (text, most) in [
            (
                format!("note,password\n{long},hunt3r22\nx,q7Rk2ZpL\n"),
                "q7Rk2ZpL",
            ),
            (sql, "hunt3r22"),
        ] {
            let redacted = redactor.redact(&text);
            assert!(!redacted.contains(most), "{size}");
            // Whole rows are read up to a certain length.
            let is_read = !redacted.contains("hunt3r22") && !redacted.contains("q7Rk2ZpL");
            assert!(is_read || size > 4 << 10, "{size}");
            let ends: Vec<usize> = (0..text.len()).step_by(1000).collect();
            let (out, _) = streamed(&redactor, text.as_bytes(), &ends);
            assert_eq!(String::from_utf8_lossy(&out), redacted);
        }
    }
    let wide = format!(
        "INSERT INTO u (password, {}id) VALUES ('hunt3r22', {}1);\n",
        "column, ".repeat(300),
        "1, ".repeat(300)
    );
    assert!(!redactor.redact(&wide).contains("hunt3r22"));
    check(&redactor, &wide, 50);
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
        ("x", "INSERT INTO u (a,password) VALUES (1,"),
        ("x", &format!("INSERT ({}", "password,".repeat(24))),
        ("id,note,password", "a,\"b\n\",x"),
        ("id,password", &"aB3xx9zz".repeat(2500)),
        ("1: 2: 3: id,password", "1: 2: 3: 4,aB3xx9zz"),
    ] {
        let inspected = |size: usize| {
            INSPECTED.set(0);
            let rows = format!("{row}\n").repeat(size / row.len());
            Redactor::default().redact(&format!("{heading}\n{rows}"));
            INSPECTED.get()
        };
        let (short, long) = (inspected(40_000), inspected(160_000));
        let name = &row[..row.len().min(9)];
        assert!(
            long < 6 * short && long < 600 * 160_000,
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
        "1: id",
        "a.md",
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
        "a\\|b",
        "x\ny",
        "1: id",
    ];
    let signs = [",", ", ", ";", "\t", " | ", "|", "  ", "   ", "│", "┃"];
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
        "\nshort\n",
        "\nid,password\n",
        "\n1: ",
        "\nINSERT IGNORE INTO u\n(\nid,\npassword\n)\\nVALUES\\n(1, f('hunt3r22')), (",
    ];
    let redactor = Redactor::default();
    let c = &mut TestRandom(67);
    for _ in 0..150 {
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
        let ends = (0..text.len()).step_by(4);
        for end in ends.filter(|end| text.is_char_boundary(*end)) {
            redactor.redact_unfinished(&text[..end]);
            redactor.redact_ends(&text[..end], &text[end..]);
        }
    }
}
