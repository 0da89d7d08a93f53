//! The terminal client: small and synchronous, without a runtime, TLS or configuration.

mod answer_text;
pub mod approve;
pub mod argument_lines;
pub mod ask;
mod attachments;
pub mod call_frames;
pub mod capture;
pub mod command_suggestion;
pub mod config_question;
pub mod connect;
pub mod edit_line;
mod editor;
pub mod elicit;
mod frame_queue;
mod new_tools_view;
pub mod operation;
pub mod output;
pub mod prompt_input;
pub mod propose;
mod question_closed;
pub mod render;
pub mod request_loop;
pub mod signals;
pub mod styled_line;
pub mod terminal;
pub mod terminal_prompt;
pub mod text_format;
