//! The Responses API of OpenAI: <https://platform.openai.com/docs/api-reference/responses>. Pure.

mod answer;
mod request;

pub use self::answer::ResponsesAnswer;
pub use self::request::encode;

#[cfg(test)]
mod tests;
