//! Suggests known names in place of an unknown one, for messages.

use std::fmt::Display;

/// The maximum number of suggested names.
const MAX_NAMES: usize = 3;
/// The minimum similarity of a suggested name, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.7;
/// The maximum size of a compared name, in bytes. Guards against: a long name from a caller,
/// because comparing takes quadratic time.
const MAX_BYTES: usize = 128;
/// The maximum number of names that a caller checks. Guards against: reading a thousand skills for
/// one suggestion.
const MAX_CHECKED: usize = 32;

/// Returns the names that are most similar to `wanted`, best first.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    nearest_checked(wanted, names, |_| true)
}

/// Returns the names that are most similar to `wanted` and pass a check, best first. A name that
/// fails the check is replaced by the next similar one.
pub fn nearest_checked<'a>(
    wanted: &str,
    names: impl Iterator<Item = &'a str>,
    check: impl Fn(&str) -> bool,
) -> Vec<String> {
    if wanted.len() > MAX_BYTES {
        return Vec::new();
    }
    let folded = wanted.to_lowercase();
    let mut similar: Vec<(f64, &str)> = names
        .filter(|name| name.len() <= MAX_BYTES)
        .map(|name| (strsim::jaro_winkler(&folded, &name.to_lowercase()), name))
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .collect();
    similar.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let names = similar.into_iter().map(|(_, name)| name);
    let names = names.take(MAX_CHECKED).filter(|name| check(name));
    names.take(MAX_NAMES).map(str::to_owned).collect()
}

/// Returns `; did you mean 'a' or 'b'?` with each name between two `quote` characters. Returns an
/// empty text if there are no names.
pub fn did_you_mean(names: impl IntoIterator<Item = impl Display>, quote: char) -> String {
    let names = names.into_iter();
    let quoted: Vec<String> = names.map(|name| format!("{quote}{name}{quote}")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        quoted => format!("; did you mean {}?", quoted.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_fail_the_check_displace_no_others() {
        let mut names: Vec<String> = (0..40).map(|number| format!("tea{number:02}")).collect();
        names.push("teapot".to_owned());
        // At most `MAX_CHECKED` names are checked: not `teapot`, if 40 others are more similar.
        for (others, expected) in [(5, &["teapot"][..]), (40, &[])] {
            let names = names.iter().map(String::as_str);
            let names =
                names.filter(|name| *name == "teapot" || *name < &*format!("tea{others:02}"));
            let found = nearest_checked("tea", names, |name| name == "teapot");
            assert_eq!(found, expected, "{others}");
        }
    }

    #[test]
    fn typo_finds_the_intended_name_first() {
        let names = [
            "calculator",
            "weather",
            "data_analysis",
            "test_data_factory",
        ];
        for (wanted, meant) in [
            ("calculater", "calculator"),
            ("Weather", "weather"),
            ("data-analysis", "data_analysis"),
        ] {
            assert_eq!(
                nearest(wanted, names.into_iter())
                    .first()
                    .map(String::as_str),
                Some(meant)
            );
        }
        assert!(nearest("zzz", names.into_iter()).is_empty());
        assert!(nearest(&"a".repeat(1 << 20), names.into_iter()).is_empty());
    }
}
