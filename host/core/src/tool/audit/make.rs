//! Making the file of an audit log before it is opened: a process that confines itself
//! makes no file later.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use super::STDERR;
use crate::trust::Trust;

/// Makes the file of an audit log, for its owner alone, if there is none.
pub fn make_audit_log(path: &Path, trust: &Trust) -> anyhow::Result<()> {
    if path == Path::new(STDERR) || path.symlink_metadata().is_ok() {
        return Ok(());
    }
    trust.check_parent(path)?;
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_no_file_for_standard_error_and_none_in_the_place_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        make_audit_log(&path, &Trust::new()).unwrap();
        std::fs::write(&path, "kept").unwrap();
        make_audit_log(&path, &Trust::new()).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
        let stderr = Path::new(STDERR);
        make_audit_log(stderr, &Trust::new()).unwrap();
        assert!(!stderr.exists());
    }
}
