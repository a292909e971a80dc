//! `skillhost requests`: lists the packages that agents asked for.

use anyhow::Context as _;
use clap::Args;
use skillhost_packages::{OfferedPackage, PackageRequest, Reference, RequestFile, quote};
use skillhost_program::exit::Exit;
use skillhost_program::options::CommonOptions;
use skillhost_program::terminal::{self, format_line};
use skillhost_skills::text::count::count;

use crate::find_packages::PackageRequests;
use crate::settings::Settings;

/// List the packages that agents asked for, for `add --request`
#[derive(Args)]
pub(crate) struct RequestsCommand {
    /// Remove all requests
    #[arg(long)]
    clear: bool,
    #[command(flatten)]
    options: CommonOptions,
}

impl RequestsCommand {
    pub(crate) fn execute(mut self, global_options: CommonOptions) -> anyhow::Result<Exit> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        let settings: Settings = options.load()?;
        let requests = open(&options, &settings)?;
        if self.clear {
            requests.file.clear()?;
            return Ok(Exit::Ok);
        }
        let packages = requests.packages()?;
        let found = requests.file.read(&packages)?;
        let mut lines = Vec::new();
        for request in &found.pending {
            let PackageRequest {
                number,
                reference,
                time,
                client,
                why,
            } = request;
            lines.push(format_line!("{number}  {reference}"));
            lines.push(format_line!(
                "   asked by {} at {time}: {}",
                quote(client),
                quote(why)
            ));
            let is_requested = |package: &&OfferedPackage| package.reference == *reference;
            if let Some(package) = packages.iter().find(is_requested) {
                lines.push(format_line!("   {}", package.description));
            }
        }
        terminal::print(&lines)?;
        if found.ignored > 0 {
            terminal::complain(format_args!(
                "`{}` has {} without a valid request for a package of the catalog",
                requests.file.path().display(),
                count(found.ignored, "line")
            ));
        }
        Ok(Exit::Ok)
    }
}

/// Returns the file of requests, and the package of the request with this number.
pub(crate) fn find(
    options: &CommonOptions,
    settings: &Settings,
    number: usize,
) -> anyhow::Result<(RequestFile, Reference)> {
    let requests = open(options, settings)?;
    let mut pending = requests
        .file
        .read(&requests.packages()?)?
        .pending
        .into_iter();
    let found = pending.find(|request| request.number == number);
    let found = found.with_context(|| {
        format!("there is no request {number}; `skillhost requests` lists them")
    })?;
    Ok((requests.file, found.reference))
}

/// Opens the requests for the packages of a configuration's catalog.
pub(crate) fn open(
    options: &CommonOptions,
    settings: &Settings,
) -> anyhow::Result<PackageRequests> {
    let requests = PackageRequests::from_settings(settings, &options.trust_settings())?;
    requests.context("agents cannot ask for packages: set `catalog` in `[packages]`")
}
