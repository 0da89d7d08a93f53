//! `aish-helper sandbox`: real programs, with and without namespaces.

mod escapes;
mod guarded;
mod place;
mod work;
