//! `aish-helper redact`: secrets that are known without the daemon.

use crate::support::helper::Helper;

#[test]
fn secrets_in_and_named_by_the_config_are_redacted_without_running_commands() {
    let helper = Helper::new([]);
    let ran = helper.path("ran");
    helper.config(&format!(
        "key_env = \"MODEL_WORD\"\nheaders = {{ X-Pass = \"hdrKw83mVq\" }}\n\
         [models.other]\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\nkey_cmd = \"touch '{ran}'\"\n\
         [mcp.servers.a]\nurl = \"http://127.0.0.1:9/mcp\"\nauth_token = \"tokRt52zNx\"\nheaders = {{ X-Own = \"ownPd61kYs\" }}\n\
         [mcp.servers.b]\nurl = \"http://127.0.0.1:9/mcp\"\nauth_env = \"SERVER_WORD\"\n",
        ran = ran.display()
    ));
    let words = "envQj47xBw hdrKw83mVq tokRt52zNx ownPd61kYs srvHn29cLd othFz38gMt\n";
    let call = helper.call(["redact"]).stdin(words);
    let call = call.env("MODEL_WORD", "envQj47xBw");
    let output = call
        .env("SERVER_WORD", "srvHn29cLd")
        .env("OTHER_WORD", "othFz38gMt")
        .run();
    assert_eq!(
        output.ok(),
        "[REDACTED:model-key] [REDACTED:model-header] [REDACTED:mcp-secret] [REDACTED:mcp-secret] \
         [REDACTED:mcp-secret] othFz38gMt\n"
    );
    assert!(!ran.exists());
    // Those of this server and of other ones, without a prefix by which they could be recognized.
    helper.config_file("[server]\npassword = \"wrdKt61mXb9qLs\"\n");
    let token = helper.call(["serve", "token", "show"]).run().ok();
    let servers = helper.path("data/servers");
    std::fs::create_dir_all(&servers).unwrap();
    let stored = r#"{"origin": "https://other.example", "token": "othrQm47vZc2"}"#;
    std::fs::write(servers.join("one.json"), stored).unwrap();
    let words = format!("x {} othrQm47vZc2 wrdKt61mXb9qLs\n", token.trim());
    assert_eq!(
        helper.call(["redact"]).stdin(words).run().ok(),
        "x [REDACTED:server-token] [REDACTED:server-token] [REDACTED:server-password]\n"
    );
    assert!(helper.listener().is_none(), "no daemon was started");
    helper.config_file("models = 1\n");
    let call = helper.call(["redact"]).stdin("envQj47xBw\n");
    assert!(call.run().fails(3).contains("models"));
}
