//! `aish-helper redact`: what it knows without the daemon.

use crate::support::helper::Helper;

#[test]
fn what_the_config_holds_or_names_is_known_and_no_command_is_run() {
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
    let said = call
        .env("SERVER_WORD", "srvHn29cLd")
        .env("OTHER_WORD", "othFz38gMt")
        .run();
    assert_eq!(
        said.ok(),
        "[REDACTED:model-key] [REDACTED:model-header] [REDACTED:mcp-secret] [REDACTED:mcp-secret] \
         [REDACTED:mcp-secret] othFz38gMt\n"
    );
    assert!(!ran.exists());
    assert!(helper.listener().is_none(), "no daemon is started for it");
    helper.config_file("models = 1\n");
    let call = helper.call(["redact"]).stdin("envQj47xBw\n");
    assert!(call.run().fails(3).contains("models"));
}
