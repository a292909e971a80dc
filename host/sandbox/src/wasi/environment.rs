//! `wasi:cli/environment`: the variables that the operator set for the tool. A guest does
//! not see the process's own variables and arguments. `SOURCE_DATE_EPOCH` also sets the
//! guest's clock. With a copy-on-write view, a guest starts in the call's folder.

use std::time::Duration;

use wasmtime_wasi::HostWallClock;
use wasmtime_wasi::p2::bindings::cli::environment;

use super::ImportState;

impl environment::Host for &mut ImportState {
    fn get_environment(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        Ok(self.environment.to_vec())
    }

    fn get_arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn initial_cwd(&mut self) -> wasmtime::Result<Option<String>> {
        let mount = self.preopen.as_ref().map(|(_, mount)| mount.clone());
        Ok(self.view.as_ref().and(mount))
    }
}

/// The variable that stops a guest's clock at a time, in seconds since 1970. Reproducible builds
/// use the same variable.
const FIXED_TIME: &str = "SOURCE_DATE_EPOCH";

/// A stopped clock.
pub(super) struct FixedClock(Duration);

impl FixedClock {
    /// Returns the clock that these variables set, if any.
    pub(super) fn from_variables(environment: &[(String, String)]) -> Option<Self> {
        let (_, value) = environment.iter().find(|(name, _)| name == FIXED_TIME)?;
        value.parse().ok().map(Duration::from_secs).map(Self)
    }
}

impl HostWallClock for FixedClock {
    fn resolution(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn now(&self) -> Duration {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::environment::Host as _;
    use super::*;
    use crate::tool::limits::Limits;

    #[test]
    fn guest_sees_only_granted_variables() {
        let granted = [("HEADER".to_owned(), "on".to_owned())];
        let mut imports = fixture::imports(None, &granted, &Limits::default());
        assert_eq!((&mut imports).get_environment().unwrap(), granted);
        assert_eq!((&mut imports).get_arguments().unwrap(), [""; 0]);
    }

    #[test]
    fn only_guest_with_view_has_working_folder() {
        let (folder, limits) = (tempfile::tempdir().unwrap(), Limits::default());
        let mut imports = fixture::imports(Some(folder.path()), &[], &limits);
        assert_eq!((&mut imports).initial_cwd().unwrap(), None);
        fixture::make_view(&mut imports, &limits);
        assert_eq!(
            (&mut imports).initial_cwd().unwrap().as_deref(),
            Some("/skill")
        );
    }

    #[test]
    fn variable_in_whole_seconds_stops_the_clock() {
        let clock =
            |value: &str| FixedClock::from_variables(&[(FIXED_TIME.to_owned(), value.to_owned())]);
        let now = clock("1700000000").map(|clock| clock.now());
        assert_eq!(now, Some(Duration::from_secs(1_700_000_000)));
        for other in ["", "-1", "1.5", "today"] {
            assert!(clock(other).is_none(), "{other}");
        }
        assert!(FixedClock::from_variables(&[]).is_none());
        let resolution = clock("1700000000").map(|clock| clock.resolution());
        assert_eq!(resolution, Some(Duration::from_secs(1)));
    }
}
