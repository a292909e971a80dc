//! The table of promises in SECURITY.md: each row names the faults that break it.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};

/// The head of the table.
const HEAD: &str = "| promise | by | tested in `tests/` | fault |";

/// Returns what is wrong: a promise without a fault, a fault without a promise.
pub(super) fn problems(page: &str, faults: &BTreeSet<&str>) -> Result<Vec<String>> {
    let (_, table) = page
        .split_once(HEAD)
        .with_context(|| format!("SECURITY.md has no table `{HEAD}`"))?;
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let mut problems = Vec::new();
    let mut named = BTreeSet::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [promise, _, _, cell] = cells[..] else {
            problems.push(format!("SECURITY.md: this row has not four cells: {row}"));
            continue;
        };
        let of_row: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        if of_row.is_empty() {
            problems.push(format!("SECURITY.md: no fault proves `{promise}`"));
        }
        for fault in of_row {
            if !faults.contains(fault) {
                problems.push(format!("SECURITY.md: there is no fault `{fault}`"));
            }
            named.insert(fault);
        }
    }
    for fault in faults.difference(&named) {
        problems.push(format!("SECURITY.md: no row names the fault `{fault}`"));
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_promises_without_a_fault_and_faults_without_a_promise() {
        let page = format!(
            "# S\n\n{HEAD}\n|---|---|---|---|\n| p | b | t | `one`, `none` |\n| q | b | t | |\n\n| x |\n"
        );
        let problems = problems(&page, &BTreeSet::from(["one", "two"])).unwrap();
        assert_eq!(
            problems,
            [
                "SECURITY.md: there is no fault `none`",
                "SECURITY.md: no fault proves `q`",
                "SECURITY.md: no row names the fault `two`",
            ]
        );
    }
}
