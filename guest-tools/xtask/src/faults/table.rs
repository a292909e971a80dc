//! Checks the tables of promises in SPECIFICATION.md. Each row names the faults that break the
//! promise, and the files of their tests.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};

/// The header of each table.
const HEADER: &str = "| number | promise | by | tested in `tests/` | fault |";

/// Returns the problems: promises without a fault, faults without a promise, wrong numbers, and
/// rows that name no file of a fault's tests.
pub(super) fn problems(page: &str, faults: &BTreeMap<&str, &[String]>) -> Result<Vec<String>> {
    let tables: Vec<&str> = page.split(HEADER).skip(1).collect();
    ensure!(
        !tables.is_empty(),
        "SPECIFICATION.md has no table `{HEADER}`"
    );
    let rows = tables.into_iter().flat_map(|table| {
        let lines = table.lines().skip(2);
        lines.take_while(|line| line.starts_with('|'))
    });
    let mut last_number = 0;
    let mut problems = Vec::new();
    let mut used_faults = BTreeSet::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [number, promise, _, files, fault_cell] = cells[..] else {
            problems.push(format!(
                "SPECIFICATION.md: this row must have five cells: {row}"
            ));
            continue;
        };
        match number.parse::<u32>() {
            Ok(number) if number > last_number => last_number = number,
            _ => problems.push(format!(
                "SPECIFICATION.md: the row `{promise}` has the number `{number}`; it must have one \
                 above {last_number}"
            )),
        }
        let row_faults: Vec<&str> = fault_cell.split('`').skip(1).step_by(2).collect();
        if row_faults.is_empty() {
            problems.push(format!(
                "SPECIFICATION.md: the promise `{promise}` has no fault"
            ));
        }
        for fault in row_faults {
            let Some(tests) = faults.get(fault) else {
                problems.push(format!("SPECIFICATION.md: there is no fault `{fault}`"));
                continue;
            };
            let is_named = |test: &String| file_names(test).iter().any(|file| files.contains(file));
            if !tests.iter().any(is_named) {
                problems.push(format!(
                    "SPECIFICATION.md: the row of `{fault}` must name the file of at least one of \
                     its tests: {tests:?}"
                ));
            }
            used_faults.insert(fault);
        }
    }
    for fault in faults.keys().filter(|fault| !used_faults.contains(*fault)) {
        problems.push(format!(
            "SPECIFICATION.md: no row names the fault `{fault}`"
        ));
    }
    Ok(problems)
}

/// Returns the names that a row may use for the file of a test.
fn file_names(test: &str) -> Vec<String> {
    let (group, name) = test.split_once("::").unwrap_or((test, ""));
    let mut modules: Vec<&str> = name.split("::").filter(|part| *part != "tests").collect();
    modules.pop();
    let path = modules.join("/");
    if group == "escapes" {
        return vec!["`escapes/`".to_owned()];
    }
    if group == "suite" {
        let first = modules.first().copied().unwrap_or_default();
        return vec![
            format!("`{first}.rs`"),
            format!("`{first}/`"),
            format!("`{path}.rs`"),
        ];
    }
    let (module, _) = name.rsplit_once("::").unwrap_or_default();
    let module = format!("host/{group}/src/{}", module.replace("::", "/"));
    let path = format!("host/{group}/src/{path}");
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    vec![
        format!("`{path}.rs`"),
        format!("`{path}/tests.rs`"),
        // A submodule of the tests.
        format!("`{module}.rs`"),
        format!("`{folder}/`"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_problems_of_table() {
        let page = format!(
            "# S\n\n{HEADER}\n|---|---|---|---|---|\n| 1 | p | b | `a.rs` | `one`, `none` |\n\
             | 2 | q | b | `a.rs` | |\n\n| x |\n\n{HEADER}\n|---|---|---|---|---|\n\
             | 2 | r | b | `b.rs` | `three` |\n\n| x |\n"
        );
        let tests = ["suite::a::name".to_owned()];
        let faults = ["one", "two", "three"].map(|fault| (fault, &tests[..]));
        let problems = problems(&page, &BTreeMap::from(faults)).unwrap();
        assert_eq!(
            problems,
            [
                "SPECIFICATION.md: there is no fault `none`",
                "SPECIFICATION.md: the promise `q` has no fault",
                "SPECIFICATION.md: the row `r` has the number `2`; it must have one above 2",
                "SPECIFICATION.md: the row of `three` must name the file of at least one of its tests: \
                 [\"suite::a::name\"]",
                "SPECIFICATION.md: no row names the fault `two`",
            ]
        );
    }
}
