//! The nearest of the names that there are, for messages about one that there
//! is not.

/// How many names a message offers.
const OFFERED: usize = 3;
/// How alike a name must be to be offered, from 0 to 1.
const ALIKE: f64 = 0.7;

/// The names most like `wanted`, best first. Names beyond a sensible length
/// are not compared: comparing is quadratic, and the name comes from outside.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    const LONGEST: usize = 128;
    if wanted.len() > LONGEST {
        return Vec::new();
    }
    let folded = wanted.to_lowercase();
    let mut alike: Vec<(f64, &str)> = names
        .filter(|name| name.len() <= LONGEST)
        .map(|name| (strsim::jaro_winkler(&folded, &name.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .collect();
    alike.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    alike.truncate(OFFERED);
    alike.into_iter().map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_the_name_meant_first() {
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
