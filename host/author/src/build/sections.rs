//! Adds custom sections that compilers leave out: the comments in a project's WIT, which models
//! read, and its metadata and needs, which operators read.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use skillhost::{ComponentMetadata, Needs};
use skillhost_skills::named_file;
use wasm_encoder::{ComponentNameSection, ComponentSection, CustomSection};
use wasmparser::{Parser, Payload};
use wit_parser::PackageMetadata;

use super::BuildError;
use super::metadata;
use super::project::{MAX_BUILT_BYTES, Project};
use super::wit::ProjectWit;
use skillhost_program::terminal::{self, format_line};

/// Adds the sections of a project to a component. Returns the file of the new component.
pub(super) fn add(
    project: &Project,
    needs: &Needs,
    component: &Path,
) -> Result<PathBuf, BuildError> {
    let metadata = metadata::read(project)?;
    let mut bytes = named_file::read(component, MAX_BUILT_BYTES).map_err(|error| {
        BuildError::setup(format!("cannot read `{}`: {error:#}", component.display()))
    })?;
    // A project without WIT, such as one whose bindings come from a library, has no
    // comments to add.
    let wit = project.folder.join("wit");
    if wit.is_dir()
        && let Err(error) = add_docs(&wit, &mut bytes)
    {
        terminal::say(&format_line!(
            "cannot add the comments in `wit` to the component, so no model reads them: {error:#}"
        ));
    }
    add_metadata(&metadata, &mut bytes);
    add_needs(needs, &mut bytes);
    let file = project.build_folder("")?.join("component.wasm");
    fs::write(&file, bytes).map_err(|error| {
        BuildError::setup(format!("cannot write `{}`: {error}", file.display()))
    })?;
    Ok(file)
}

/// Adds the comments of a world whose functions are tools, unless the component already has
/// comments: readers of WIT accept only one such section.
fn add_docs(wit: &Path, component: &mut Vec<u8>) -> anyhow::Result<()> {
    let wit = ProjectWit::parse(wit)?;
    if wit.is_typed() && !has_docs(component) {
        append_section(PackageMetadata::SECTION_NAME, &wit.docs()?, component);
    }
    Ok(())
}

fn has_docs(component: &[u8]) -> bool {
    let mut payloads = Parser::new(0).parse_all(component).map_while(Result::ok);
    payloads.any(|payload| match payload {
        Payload::CustomSection(section) => section.name() == PackageMetadata::SECTION_NAME,
        _ => false,
    })
}

fn add_metadata(metadata: &ComponentMetadata, component: &mut Vec<u8>) {
    if let Some(name) = &metadata.name {
        let mut names = ComponentNameSection::new();
        names.component(name);
        names.append_to_component(component);
    }
    for (name, text) in metadata.sections() {
        if let Some(text) = text {
            append_section(name, text.as_bytes(), component);
        }
    }
}

fn add_needs(needs: &Needs, component: &mut Vec<u8>) {
    if !needs.is_empty() {
        let json = needs.to_json().to_string();
        append_section(Needs::SECTION, json.as_bytes(), component);
    }
}

/// Appends a custom section. Of several metadata or needs sections with the same name, skillhost
/// reads the last one.
fn append_section(name: &str, data: &[u8], component: &mut Vec<u8>) {
    let section = CustomSection {
        name: Cow::Borrowed(name),
        data: Cow::Borrowed(data),
    };
    section.append_to_component(component);
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// An empty component.
    const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

    /// Returns the names and contents of the sections of a component.
    fn sections(component: &[u8]) -> Vec<(String, Vec<u8>)> {
        let payloads = Parser::new(0).parse_all(component).map(Result::unwrap);
        let sections = payloads.filter_map(|payload| match payload {
            Payload::CustomSection(section) => {
                Some((section.name().to_owned(), section.data().to_vec()))
            }
            _ => None,
        });
        sections.collect()
    }

    fn wit_folder(world: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let wit = format!("package local:words;\n{world}");
        fs::write(folder.path().join("words.wit"), wit).unwrap();
        folder
    }

    #[test]
    fn adds_comments_of_typed_functions_once() {
        let typed =
            wit_folder("world words {\n/// Count the words.\nexport count: func() -> u32;\n}");
        let mut component = COMPONENT.to_vec();
        add_docs(typed.path(), &mut component).unwrap();
        let once = component.clone();
        let [(name, data)] = &*sections(&component) else {
            panic!("{:?}", sections(&component));
        };
        assert_eq!(name, "package-docs");
        let data = String::from_utf8_lossy(data);
        assert!(data.contains("\"docs\":\"Count the words.\""), "{data}");
        add_docs(typed.path(), &mut component).unwrap();
        assert_eq!(component, once);
    }

    #[test]
    fn adds_no_comments_without_typed_functions() {
        let tools = wit_folder("world w { export skillhost:tool/tools; }");
        let package = tools.path().join("deps/tool");
        fs::create_dir_all(&package).unwrap();
        let tool = "package skillhost:tool;\n/// Tools.\ninterface tools { call: func(); }";
        fs::write(package.join("tools.wit"), tool).unwrap();
        let mut component = COMPONENT.to_vec();
        add_docs(tools.path(), &mut component).unwrap();
        assert_eq!(component, COMPONENT);
        let broken = wit_folder("world w {");
        let error = add_docs(broken.path(), &mut component).unwrap_err();
        assert!(
            format!("{error:#}").contains("expected `import`"),
            "{error:#}"
        );
    }

    #[test]
    fn adds_only_given_metadata() {
        let mut component = COMPONENT.to_vec();
        add_metadata(&ComponentMetadata::default(), &mut component);
        assert_eq!(component, COMPONENT);
        let mut metadata = ComponentMetadata::default();
        metadata.name = Some("look-up".to_owned());
        metadata.version = Some("1.2.3".to_owned());
        add_metadata(&metadata, &mut component);
        let expected = [
            ("component-name".to_owned(), b"\0\x08\x07look-up".to_vec()),
            ("version".to_owned(), b"1.2.3".to_vec()),
        ];
        assert_eq!(sections(&component), expected);
    }
}
