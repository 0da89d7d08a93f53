use super::*;

fn header(context_length: Option<u64>) -> GgufHeader {
    GgufHeader {
        architecture: "llama".to_owned(),
        context_length,
        parts: 1,
        last_tensor: 0,
    }
}

#[test]
fn the_context_window_is_bounded() {
    let window = |length| context_window(&header(length));
    assert_eq!(window(None), DEFAULT_CONTEXT);
    assert_eq!(window(Some(2048)), 2048);
    assert_eq!(window(Some(40_960)), MAX_CONTEXT);
    assert_eq!(window(Some(u64::MAX)), MAX_CONTEXT);
}

#[test]
fn server_and_configuration_agree_for_any_path() {
    let models = Path::new("/home/o'neil \"x\"\\y\u{1}/ü");
    let model = describe(models, "a/b", &header(Some(4096))).expect("UTF-8");
    let table = toml::de::DeTable::parse(&model.table).expect("TOML");
    let table = table.get_ref();
    let command: Vec<&str> = table["serve"].get_ref()["command"]
        .as_ref()
        .as_array()
        .expect("a list")
        .iter()
        .map(|word| word.as_ref().as_str().expect("a string"))
        .collect();
    assert_eq!(command, model.command);
    let at = command.iter().position(|word| *word == "--context");
    assert_eq!(command[at.expect("the option") + 1], "4096");
    let window = table["context_window"].as_ref().as_integer();
    assert_eq!(window.map(|n| n.as_str()), Some("4096"));
}

#[test]
fn the_server_knows_every_option_of_the_command_line() {
    let model = describe(Path::new("/m"), "x", &header(None)).expect("UTF-8");
    for word in model.command.iter().filter(|word| word.starts_with("--")) {
        assert!(ENVIRONMENT.serve.contains(&format!("\"{word}\"")), "{word}");
    }
}
