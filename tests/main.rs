//! The integration tests, one binary for all of them.

mod support;

// Tests that hang: the watchdog names each one and kills its processes.
mod hangs;
// The contracts, case by case, from the files in `vectors/`.
mod contracts;
// Help that failed calls get in addition to the contracts' wording, case by case.
mod help;
// The tool that lists a skill's files.
mod list_files_in_skill;
// Files that lists leave out.
mod omitted;
// The sandbox, through a guest that checks nothing.
mod sandbox;
// Calls that write in memory, in copy-on-write views.
mod view;
// Guests that attack the host, and the end of each attack.
mod hostile;
// Components that attack while they are loaded.
mod hostile_components;
// Strings that try to forge output for people.
mod forgery;
// Folders that attack: a million entries, a terabyte, changes during a read.
mod hostile_folders;
// Each limit: where it is set, and how it stops a call.
mod limits;
// Components that load, and components that are refused.
mod components;
// Components of versions of `skillhost:tool` that the host does not know.
mod versions;
// Components that were built with each published version of `skillhost:tool`. They must always
// run.
mod fixtures;
// Functions with WIT types as tools.
mod typed;
// Conformance runs of components, and the cases of their authors.
mod conformance;
// The example of a tool in Rust.
mod search_in_skill;
// Budgets of slots, waiting calls and memory.
mod quotas;
// Grants: the access that each allows, and the access that it does not.
mod grants;
// The requests and secrets that components ask for, as operators see them.
mod needs;
// The requests of guests, and the process that sends them.
mod network;
// Questions to people about the requests of guests.
mod consent;
// Packages from a registry, from the author to a call.
mod packages;
// Components that claim the same tool or grant.
mod admission;
// Trust: configurations, and files that others can change.
mod trust;
// The process sandbox, and the broker outside it.
mod process_sandbox;
// Files and folders that an operator names, of every kind.
mod named_files;
// The record of every call.
mod audit;
// Scripts of a skill, and the files that a call changes.
mod scripts;
// Observers of calls.
mod observer;
// Catalogs: several roots, names of skills, and reported problems.
mod catalog;
// Roots with symlinks, hidden folders or Kubernetes volumes, and the usual places by name.
mod layouts;
// The parts of a large catalog that a model reads.
mod budgets;
// Catalogs that change between requests, and unreadable descriptions.
mod bad_catalogs;
// Skills that lists for models leave out.
mod unlisted;
// Roots with `depth`, and skills with the same name.
mod deep_catalogs;
// Roots named by mistake, and the arguments of `check`.
mod wrong_roots;
// The home folder, for calls that name no skill.
mod home;
// Signals that a program inherits as blocked or ignored.
mod signals;
// The start of a host, and its cache.
mod start;
// A host rebuilt from another.
mod rebuild;
// The server over stdio, as raw lines.
mod mcp;
// The server over HTTP.
mod http;
// Folders that change while a call reads them.
mod races;
// Skills' files as resources, through the Rust API.
mod resources;
// Resources over MCP, and the skills extension.
mod skills_over_mcp;
// The Rust API.
mod api;
// Hosts that an embedder sets up from a configuration.
mod embedding;
// Models' tool calls, and the messages that answer them.
mod respond;
// The loops of docs/guides/agents.md, against a scripted model.
mod agents;
// The command line: verbs, options, exit codes.
mod command_line;
// New projects of tool authors.
mod authors;
// Mistakes of tool authors, and the message for each.
mod mistakes;
// The programs that a build runs, and their folders.
mod builds;
// The string checks of the guest SDK alone.
mod path_checks;
// Paths and skills' names, tried with the string check, the sandbox and each tool.
mod paths;
// The fuzz targets, each run briefly.
mod fuzzing;
// The packing of releases.
mod release;
// The commands of the README and the guides, and the links of all pages.
mod readme;
// docs/performance.md and its figures.
mod performance;
