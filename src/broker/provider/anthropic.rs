//! The Messages API of Anthropic: <https://docs.claude.com/en/api/messages>. Pure.

mod answer;
mod request;

pub use self::answer::AnthropicAnswer;
pub use self::request::encode;

#[cfg(test)]
mod tests;
