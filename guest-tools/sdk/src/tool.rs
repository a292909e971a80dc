//! Tools: their definitions, and the functions that run them.

use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::string::String;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::bindings::tools::{self, Definition, FolderRule, Form};
use crate::{Access, Failure, Output, arguments};

/// The definition of a tool, and the function that runs it.
pub struct Tool {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    output_schema: Option<&'static str>,
    folder: Option<FolderRule>,
    text_property: Option<&'static str>,
    model_reads: Form,
    schema: fn() -> String,
    run: Box<Run>,
}

/// A function that answers a call with arguments as JSON.
type Run = dyn Fn(&str, Access) -> Result<Output, Failure>;

impl Tool {
    /// Creates a tool. `A` is the struct of its arguments.
    pub fn new<A: DeserializeOwned + JsonSchema + 'static>(
        name: &'static str,
        description: &'static str,
        function: fn(A, Access) -> Result<Output, Failure>,
    ) -> Self {
        Self {
            name,
            title: "",
            description,
            output_schema: None,
            folder: None,
            text_property: None,
            model_reads: Form::Text,
            schema: arguments::schema::<A>,
            run: Box::new(move |json, access| function(arguments::parse(json)?, access)),
        }
    }

    /// Sets the title for people.
    pub fn title(mut self, title: &'static str) -> Self {
        self.title = title;
        self
    }

    /// Lets a call read the folder of the skill that `property` names.
    pub fn in_skill(mut self, property: &str) -> Self {
        self.folder = Some(FolderRule {
            skill_property: property.to_owned(),
            enumerate: false,
            path_property: None,
            skill_optional: false,
        });
        self
    }

    /// Does what [`Tool::in_skill`] does, and lists the skills' names in the schema.
    pub fn in_listed_skill(self, property: &str) -> Self {
        self.with_rule(property, |rule| rule.enumerate = true)
    }

    /// Does what [`Tool::in_skill`] does, and declares that `path_property` holds a path
    /// in the skill.
    pub fn in_skill_at(self, property: &str, path_property: &str) -> Self {
        let path_property = path_property.to_owned();
        self.with_rule(property, |rule| rule.path_property = Some(path_property))
    }

    /// Does what [`Tool::in_skill_at`] does, and lets a call without a skill read the
    /// host's home folder, or the skill that contains its path.
    pub fn in_skill_or_home(self, property: &str, path_property: &str) -> Self {
        let path_property = path_property.to_owned();
        self.with_rule(property, |rule| {
            rule.path_property = Some(path_property);
            rule.skill_optional = true;
        })
    }

    /// Makes the host put the text into this property of the record for programs.
    pub fn text_property(mut self, property: &'static str) -> Self {
        self.text_property = Some(property);
        self
    }

    /// Gives models the whole record as JSON, not only the text.
    pub fn model_reads_record(mut self) -> Self {
        self.model_reads = Form::Details;
        self
    }

    /// Sets the JSON Schema of the record for programs.
    pub fn output_schema(mut self, schema: &'static str) -> Self {
        self.output_schema = Some(schema);
        self
    }

    fn with_rule(self, property: &str, change: impl FnOnce(&mut FolderRule)) -> Self {
        let mut tool = self.in_skill(property);
        if let Some(rule) = &mut tool.folder {
            change(rule);
        }
        tool
    }

    pub(crate) fn name(&self) -> &str {
        self.name
    }

    pub(crate) fn definition(&self) -> Definition {
        Definition {
            name: self.name.to_owned(),
            title: self.title.to_owned(),
            description: self.description.to_owned(),
            input_schema: (self.schema)(),
            output_schema: self.output_schema.map(str::to_owned),
            folder: self.folder.clone(),
            text_property: self.text_property.map(str::to_owned),
            model_reads: self.model_reads,
        }
    }

    pub(crate) fn run(&self, arguments: &str, folder: tools::Folder) -> Result<Output, Failure> {
        (self.run)(arguments, Access::new(folder))
    }
}
