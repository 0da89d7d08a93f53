//! The Gemini API of Google: <https://ai.google.dev/api/generate-content>. Pure.

mod answer;
mod request;

pub use self::answer::GeminiAnswer;
pub use self::request::encode;

#[cfg(test)]
mod tests;
