//! Pages and searches of the web for the model.

pub mod fetch;
mod page_text;
pub mod searxng;
mod web_request;
