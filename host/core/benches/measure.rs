//! The cost of a call's limits, and the cost of a sandbox without a call. This needs hosts without
//! limits, and sandboxes without calls, which exist only with `--cfg skillhost_measure`: see
//! CONTRIBUTING.md.

#[cfg(skillhost_measure)]
#[path = "measure/instantiate.rs"]
mod instantiate;
#[cfg(skillhost_measure)]
#[path = "measure/limits.rs"]
mod limits;
#[cfg(skillhost_measure)]
mod support;

fn main() {
    #[cfg(skillhost_measure)]
    {
        limits::run();
        instantiate::run();
    }
    #[cfg(not(skillhost_measure))]
    eprintln!("not measured: this needs `--cfg skillhost_measure` (see CONTRIBUTING.md)");
}
