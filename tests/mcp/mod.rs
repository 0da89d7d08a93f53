//! The pool of MCP servers, against servers that behave and servers that do not.

mod oauth;
