//! The tool `find_packages`: agents find packages in the operator's catalog, and ask for one. The
//! operator decides, with `skillhost requests` and `skillhost add --request`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Map, Value, json};
use skillhost::{Caller, Definition, Failure, FailureKind, Line, ProgramTool};
use skillhost_index::TextIndex;
use skillhost_packages::{MAX_REASON, OfferedPackage, RequestFile, read_catalog};
use skillhost_program::options::requests_folder;
use skillhost_sandbox::tool::audit::chain::format_time;
use skillhost_skills::trust::Trust;

use crate::settings::Settings;

/// The name of the tool.
const NAME: &str = "find_packages";

/// The maximum number of packages in an answer.
const MAX_SHOWN: usize = 20;

/// The maximum number of characters in a query.
const MAX_QUERY: usize = 1000;

/// The maximum number of characters in a request's reference.
const MAX_REFERENCE: usize = 1000;

/// The operator's catalog, and the file of requests for packages in it.
#[derive(Clone)]
pub(crate) struct PackageRequests {
    catalog: PathBuf,
    pub(crate) file: RequestFile,
    trust: Trust,
}

impl PackageRequests {
    /// Returns the catalog of a configuration and the file of requests, or `None` if there is no
    /// catalog. `trust` has the opener for both files.
    ///
    /// # Errors
    ///
    /// If the user has no data folder.
    pub(crate) fn from_settings(
        settings: &Settings,
        trust: &Trust,
    ) -> anyhow::Result<Option<Self>> {
        let Some(catalog) = &settings.packages.catalog else {
            return Ok(None);
        };
        let folder = requests_folder();
        let folder =
            folder.context("there is no folder for requests: set `XDG_DATA_HOME` to one")?;
        Ok(Some(Self {
            catalog: catalog.path.clone(),
            file: RequestFile::new(&folder, trust),
            trust: trust.clone(),
        }))
    }

    /// Reads the packages of the catalog.
    pub(crate) fn packages(&self) -> anyhow::Result<Vec<OfferedPackage>> {
        read_catalog(&self.catalog, &self.trust)
    }

    /// Returns the files that the tool reads.
    pub(crate) fn files(&self) -> [&Path; 2] {
        [&self.catalog, self.file.path()]
    }
}

/// The tool `find_packages`.
pub(crate) struct FindPackages {
    requests: PackageRequests,
    definition: Definition,
}

impl FindPackages {
    pub(crate) fn new(requests: PackageRequests) -> Self {
        Self {
            requests,
            definition: definition(),
        }
    }

    /// Returns the packages that fit a query, or the first ones without a query.
    fn find(&self, query: Option<&str>) -> anyhow::Result<String> {
        let packages = self.requests.packages()?;
        let names: Vec<String> = packages.iter().map(|it| it.reference.to_string()).collect();
        let found: Vec<usize> = match query {
            Some(query) => {
                let texts = names.iter().zip(&packages);
                let texts = texts.map(|(name, package)| (&**name, &*package.description));
                let hits = TextIndex::new(texts).search(query, MAX_SHOWN);
                let position = |name: &String| names.iter().position(|other| other == name);
                hits.iter().filter_map(|hit| position(&hit.name)).collect()
            }
            None => (0..packages.len().min(MAX_SHOWN)).collect(),
        };
        let mut text = match (found.len(), packages.len()) {
            (0, 0) => "The catalog has no packages.\n".to_owned(),
            (0, all) => format!("None of the {all} packages of the catalog fits.\n"),
            (shown, all) => format!("{shown} of the {all} packages of the catalog:\n"),
        };
        for index in found {
            // Others may have written the catalog: `Line` escapes line breaks.
            let description = Line::new(&packages[index].description);
            text += &format!("- {}: {description}\n", names[index]);
        }
        text +=
            "None of them is installed by this tool. With `request`, it asks the operator for one.";
        Ok(text)
    }

    /// Records a request for a package. The inner error is for the model.
    fn request(
        &self,
        caller: &Caller,
        reference: &str,
        why: &str,
    ) -> anyhow::Result<Result<String, Failure>> {
        let packages = self.requests.packages()?;
        let package = packages
            .iter()
            .find(|it| it.reference.to_string() == reference);
        let Some(package) = package else {
            let message = "the catalog has no such package; call without `request` to see its \
                           packages";
            return Ok(Err(Failure::new(FailureKind::NotFound, message)));
        };
        let time = format_time(std::time::SystemTime::now());
        let client = caller.name();
        let file = &self.requests.file;
        if !file.request(package, &time, client, why)? {
            let message = "you have asked for too many packages; go on without this one until the \
                           operator has decided about the others";
            return Ok(Err(Failure::new(FailureKind::Failed, message)));
        }
        Ok(Ok(format!(
            "The request for {reference} is noted. Nothing is installed: the operator decides, \
             perhaps much later. Go on without the package."
        )))
    }
}

impl ProgramTool for FindPackages {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn call(&self, caller: &Caller, arguments: &Map<String, Value>) -> Result<String, Failure> {
        let text = |name: &str| {
            let text = arguments.get(name).and_then(Value::as_str);
            text.filter(|text| !text.trim().is_empty())
        };
        let answered = match (text("request"), text("why")) {
            (None, _) => self.find(text("query")).map(Ok),
            (Some(_), None) => {
                let message = "`why` is missing: say what the package is needed for";
                Ok(Err(Failure::new(FailureKind::InvalidArguments, message)))
            }
            (Some(reference), Some(why)) => self.request(caller, reference, why),
        };
        answered.unwrap_or_else(|error| {
            tracing::error!("{NAME}: {}", Line::new(format_args!("{error:#}")));
            let message = "the catalog or the file of requests cannot be used now; the operator's \
                           log says why";
            Err(Failure::new(FailureKind::Failed, message))
        })
    }
}

fn definition() -> Definition {
    let schema = json!({
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "maxLength": MAX_QUERY,
                "description": "What the package is needed for, in plain words. Without it, the \
                                first packages are listed.",
            },
            "request": {
                "type": "string",
                "maxLength": MAX_REFERENCE,
                "description": "A package of the list, exactly as it is written there, to ask the \
                                operator for it.",
            },
            "why": {
                "type": "string",
                "maxLength": MAX_REASON,
                "description": "What the package is needed for. The operator reads it. Needed with \
                                `request`.",
            },
        },
        "additionalProperties": false,
    });
    let description = "Find packages with further tools that the operator may install, when no \
                       tool here can do what is needed. Returns references and descriptions. With \
                       `request` and `why`, it asks the operator for one package. It installs \
                       nothing, and nobody answers within this call.";
    let schema = schema.as_object().cloned().unwrap_or_default();
    Definition::new(NAME, "Find packages", description, schema)
}
