use super::*;

#[test]
fn no_file_is_a_valid_configuration() {
    let home = tempfile::tempdir().unwrap();
    let paths = Paths::under(home.path(), 1).unwrap();
    let config = load(&paths, &Overrides::default()).unwrap();
    assert_eq!(config, Config::default());
    assert_eq!(config.current().unwrap(), None);
    assert_eq!(problems(&paths), []);
}

#[test]
fn the_starter_is_valid() {
    let home = tempfile::tempdir().unwrap();
    let paths = Paths::under(home.path(), 1).unwrap();
    std::fs::create_dir(&paths.config).unwrap();
    std::fs::write(paths.config.join("config.toml"), starter()).unwrap();
    let config = load(&paths, &Overrides::default()).unwrap();
    assert_eq!(config.current().unwrap().unwrap().name, "local");
}
