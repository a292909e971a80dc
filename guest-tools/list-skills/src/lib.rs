//! `list_skills`: which skills there are, and what each is for.
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use skillhost_guest::{Access, Failure, Output, Tool, skills};

skillhost_guest::arguments! {
    struct Arguments {}
}

skillhost_guest::record! {
    struct Listing {
        skills: Vec<Entry>,
    }
}

skillhost_guest::record! {
    struct Entry {
        name: String,
        description: String,
    }
}

skillhost_guest::without_std!();

skillhost_guest::export_tools!(
    Tool::new(
        "list_skills",
        "List the available skills with the name and description of each. Call this to find out \
         which skill fits the user's request.",
        list_skills,
    )
    .title("List the skills")
    .model_reads_record()
    .output_schema(include_str!("output.schema.json"))
);

fn list_skills(_: Arguments, _: Access) -> Result<Output, Failure> {
    let skills = skills::list()
        .into_iter()
        .map(|skill| Entry {
            name: skill.name,
            description: skill.description,
        })
        .collect();
    Ok(Output::record(&Listing { skills }))
}
