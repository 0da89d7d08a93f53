//! A turn: from a prompt to the end of its answer. [`plan`] collects the data that only the client has, [`task`] and [`rounds`] perform the
//! effects of the pure [`machine`], and [`gate`] decides about tool calls.

pub mod background_notice;
pub mod call_context;
mod code_blocks;
mod compaction;
mod cost;
mod elicitation;
mod fallback;
pub mod feed_guard;
pub mod gate;
mod git_state;
pub mod last_command;
mod left_out;
pub mod machine;
mod model_request;
mod nested_call;
pub mod outbound_redaction;
pub mod outcome;
mod own_files;
pub mod plan;
mod prepared_prompt;
pub mod preview;
pub mod prompt_context;
pub mod protected_files;
mod request_cost;
pub mod rounds;
pub mod rules_in_force;
mod sent_context;
mod surroundings;
pub mod task;
pub mod terminal_output;
pub mod tool_execution;
pub mod tool_exposure;
pub mod tool_view;
mod turn_settings;
pub mod work_scope;
