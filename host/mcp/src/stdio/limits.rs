//! The table `[stdio]`: the limits of a server on stdin and stdout.

use skillhost_sandbox::declare_limits;
use skillhost_sandbox::tool::limits::MAX_MEMORY;

declare_limits! {
    /// The limits of a server on stdin and stdout.
    StdioLimits in "stdio", "the server would not send its lists" {
        /// Bytes of a message to the client, with its line feed. A client sees an error in
        /// place of a larger answer.
        message: usize, Bytes "8MiB" in 256 << 10, MAX_MEMORY;
        against "an answer that ends the session of a client with a small buffer"
    }
}
