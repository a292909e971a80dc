//! Helpers for tests: hosts, folders of skills, and runs of the program.

pub(crate) mod certificates;
pub(crate) mod filter;
pub(crate) mod folders;
pub(crate) mod git_server;
pub(crate) mod http;
pub(crate) mod keyless;
pub(crate) mod mcp;
pub(crate) mod memory;
pub(crate) mod model;
pub(crate) mod odd_json;
pub(crate) mod process;
pub(crate) mod program;
#[expect(dead_code, reason = "the tests of the crate `packages` use all of it")]
pub(crate) mod registry;
pub(crate) mod session;
pub(crate) mod terminal;
pub(crate) mod watchdog;
pub(crate) mod web_server;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use skillhost::{CallError, Host, HostBuilder, Limits, Output};

use watchdog::{patience, until};

/// Returns the repository's folder.
pub(crate) fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns the cache that all runs of the tests share.
pub(crate) fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache")
}

/// Returns a builder with the tests' cache.
pub(crate) fn builder() -> HostBuilder {
    watchdog::watch();
    Host::builder().cache(cache())
}

/// Returns a builder with the test guests, which may read every skill.
pub(crate) fn builder_with_guests() -> HostBuilder {
    let all = || skillhost::Grant::new().skills(["*"]).unwrap();
    builder()
        .tools(guests())
        .grant("count_lines.wasm", all())
        .grant("unchecked.wasm", all())
}

/// Returns the folder of the test guests.
pub(crate) fn guests() -> PathBuf {
    repository().join("tests/guests/dist")
}

/// Builds a host. Fails if the host reports problems.
pub(crate) fn build(builder: HostBuilder) -> Host {
    let host = block_on(builder.build()).unwrap();
    assert_eq!(host.problems(), [] as [String; 0]);
    host
}

/// Returns a host over the sample skills.
pub(crate) fn sample_host() -> &'static Host {
    static HOST: OnceLock<Host> = OnceLock::new();
    HOST.get_or_init(|| build(builder().skills(repository().join("skills"))))
}

/// Calls a tool.
pub(crate) fn call(host: &Host, tool: &str, arguments: Value) -> Result<Output, CallError> {
    block_on(host.call(tool, arguments))
}

/// Returns limits with this time for a call.
pub(crate) fn limits(time: Duration) -> Limits {
    let mut limits = Limits::default();
    limits.time = time;
    limits
}

/// A time limit that no test reaches, for calls that the test itself ends.
pub(crate) const UNREACHED: Duration = Duration::from_secs(3600);

/// Starts an endless call, and drops the call's future, which cancels it, once a condition holds.
pub(crate) async fn cancel_call_when(
    host: &Host,
    tool: &str,
    arguments: Value,
    condition: impl FnMut() -> bool,
) {
    tokio::select! {
        ended = host.call(tool, arguments) => panic!("{tool} has ended: {ended:?}"),
        () = until("the condition does not come true", condition) => {}
    }
}

/// Calls a tool, and returns the text for the model.
pub(crate) fn model_text(host: &Host, tool: &str, arguments: Value) -> String {
    skillhost::message::model_text(call(host, tool, arguments))
}

/// Runs a future to its end on a new runtime. Fails if it takes too long.
#[track_caller]
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    bounded(&runtime.unwrap(), future)
}

/// Runs a future on a runtime. Fails if it takes too long.
#[track_caller]
pub(crate) fn bounded<T>(runtime: &tokio::runtime::Runtime, future: impl Future<Output = T>) -> T {
    watchdog::watch();
    let ended = runtime.block_on(async { tokio::time::timeout(patience(), future).await });
    ended.unwrap_or_else(|_| panic!("the future did not end in {:?}", patience()))
}

/// The variable that [`run_in_own_process`] sets in the process that it starts.
const AGAIN: &str = "SKILLHOST_TEST_AGAIN";

/// Runs this test again in its own process, which gets `what` from [`own_process_argument`].
///
/// Tests need this if they check a whole process, such as its threads, descriptors or system calls.
pub(crate) fn run_in_own_process(test: &str, what: &str) {
    let output = process::output(&mut own_process_command(test, what));
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {stdout}{stderr}");
    // A run that matches no test would succeed, too.
    assert!(stdout.contains("1 passed"), "{what}: {stdout}");
}

/// Returns the command of [`run_in_own_process`].
pub(crate) fn own_process_command(test: &str, what: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(AGAIN, what);
    command
}

/// Returns the argument of [`run_in_own_process`] in the process that it started.
pub(crate) fn own_process_argument() -> Option<String> {
    std::env::var(AGAIN).ok()
}

/// Returns whether [`run_in_own_process`] started this process.
pub(crate) fn runs_in_own_process() -> bool {
    own_process_argument().is_some()
}

/// Runs a future on a runtime with two threads.
pub(crate) fn on_two_threads<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build();
    bounded(&runtime.unwrap(), future)
}
