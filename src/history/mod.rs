//! The journal of prompts, answers, decisions and actions, and the index over it.

mod cut_off;
pub mod index;
pub mod journal;
pub mod partial_answer;
pub mod record;
mod redacted;
pub mod retention;
pub mod session_list;
mod writer;

/// Returns a record as JSON for people and other programs: without the secrets known now, without images and without what
/// only the model's provider can read.
pub fn shown_record(record: &record::Record) -> serde_json::Value {
    let mut value = serde_json::to_value(record).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("native");
        if let Some(images) = fields.get_mut("images").and_then(|i| i.as_array_mut()) {
            // The data may have megabytes.
            for image in images {
                *image = image[0].take();
            }
        }
    }
    redacted::value(&mut value);
    value
}

/// Returns some fields of [`shown_record`]; the others, which may be long, are not searched for secrets.
pub fn shown_fields(
    record: &record::Record,
    names: &[&str],
) -> serde_json::Map<String, serde_json::Value> {
    let mut value = serde_json::to_value(record).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, _| names.contains(&name.as_str()));
    }
    redacted::value(&mut value);
    value
        .as_object_mut()
        .map(std::mem::take)
        .unwrap_or_default()
}
