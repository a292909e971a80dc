//! Makes the section `package-docs` from the comments in the WIT.

use std::path::Path;
use std::{env, fs};

use wit_parser::{PackageMetadata, Resolve};

fn main() {
    println!("cargo::rerun-if-changed=wit");
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path("wit").expect("the WIT is valid");
    let docs = PackageMetadata::extract(&resolve, package).encode();
    let docs = docs.expect("comments have a form in JSON");
    let file = Path::new(&env::var_os("OUT_DIR").expect("set by cargo")).join("package-docs");
    fs::write(file, docs).expect("the folder is cargo's");
}
