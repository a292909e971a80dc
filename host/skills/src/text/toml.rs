//! TOML keys in messages to the operator.

/// Returns a name as a TOML key, in quotes if TOML needs them.
pub fn toml_key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if name.bytes().all(is_bare) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.escape_debug())
    }
}
