//! `aish-helper sandbox`: real programs, with and without namespaces.

mod escapes;
mod place;
mod work;
