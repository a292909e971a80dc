//! Writes TOML keys for messages to the operator.

/// Returns a name as a TOML key, in quotes if TOML needs them.
pub fn toml_key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !name.is_empty() && name.bytes().all(is_bare) {
        return name.to_owned();
    }
    let mut key = String::from("\"");
    for c in name.chars() {
        match c {
            '"' | '\\' => key.extend(['\\', c]),
            _ if c.escape_debug().count() > 1 && c != '\'' => {
                key += &format!("\\U{:08x}", u32::from(c));
            }
            _ => key.push(c),
        }
    }
    key + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_names_as_toml_does() {
        for (name, key) in [
            ("a-b_1", "a-b_1"),
            ("", r#""""#),
            ("a.b", r#""a.b""#),
            ("it's", r#""it's""#),
            ("a\"\\", r#""a\"\\""#),
            ("a\u{1b}\n", r#""a\U0000001b\U0000000a""#),
            ("\u{202e}é", r#""\U0000202eé""#),
        ] {
            assert_eq!(toml_key(name), key);
        }
    }
}
