//! What limits and a sandbox cost by themselves. This needs hosts without limits
//! and sandboxes without calls, which the crate has under
//! `--cfg skillhost_measure` alone: see CONTRIBUTING.md.

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
