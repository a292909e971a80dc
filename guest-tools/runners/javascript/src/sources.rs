//! The JavaScript in the component: the runner's own modules in `js`, and the packages of
//! `packages/package-lock.json`.

macro_rules! sources {
    (internal: [$($internal:literal),*], packages: [$($name:literal = $path:literal),* $(,)?]) => {
        /// Returns the text of a module, or `None` if there is no such module.
        pub(crate) fn find(name: &str) -> Option<&'static str> {
            match name {
                $($internal => Some(include_str!(concat!("../js/", $internal, ".js"))),)*
                $($name => Some(include_str!(concat!("../packages/node_modules/", $path))),)*
                _ => None,
            }
        }
    };
}

sources! {
    internal: [
        "boot", "buffer", "console", "crypto", "fetch", "fs", "http", "loader", "os", "process", "readline", "streams",
        "timers", "unsupported", "url", "util", "web"
    ],
    packages: [
        "assert/assert" = "assert/build/assert.js",
        "assert/internal/errors" = "assert/build/internal/errors.js",
        "assert/internal/assert/assertion_error" = "assert/build/internal/assert/assertion_error.js",
        "assert/internal/util/comparisons" = "assert/build/internal/util/comparisons.js",
        "base64-js" = "base64-js/index.js",
        "buffer/index" = "buffer/index.js",
        "events/events" = "events/events.js",
        "ieee754" = "ieee754/index.js",
        "inspect/inspect" = "node-inspect-extracted/dist/inspect.js",
        "parseargs/index" = "@pkgjs/parseargs/index.js",
        "parseargs/utils" = "@pkgjs/parseargs/utils.js",
        "parseargs/internal/errors" = "@pkgjs/parseargs/internal/errors.js",
        "parseargs/internal/primordials" = "@pkgjs/parseargs/internal/primordials.js",
        "parseargs/internal/util" = "@pkgjs/parseargs/internal/util.js",
        "parseargs/internal/validators" = "@pkgjs/parseargs/internal/validators.js",
        "path/path" = "path-browserify/index.js",
    ]
}
