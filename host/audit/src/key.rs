//! The Ed25519 keys of checkpoints, in files that openssl reads and writes.
//!
//! A private key is PKCS#8 in PEM. A public key is SubjectPublicKeyInfo in PEM.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{
    DecodePrivateKey as _, DecodePublicKey as _, EncodePrivateKey as _, EncodePublicKey as _,
    KeypairBytes,
};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use skillhost::Trust;
use skillhost_skills::broker::Opener;
use skillhost_skills::named_file;
use skillhost_skills::text::digest::{DigestWriter, hex};

/// The maximum size of a key file, in bytes. Guards against: a large file that is not a key.
const MAX_FILE_BYTES: u64 = 16 << 10;

/// The number of bytes of a public key's digest that are in its id.
const ID_BYTES: usize = 8;

/// The prefix for deriving the digest key, the key of the HMAC digests of arguments and answers.
///
/// The digest key is the SHA-256 of this prefix and the private key. It reveals nothing about the
/// private key.
const DIGEST_KEY_PREFIX: &[u8] = b"skillhost audit digests\0";

/// A private key, which signs.
pub struct PrivateKey(SigningKey);

/// A public key, which verifies.
#[derive(Debug, Clone)]
pub struct PublicKey {
    key: VerifyingKey,
    id: String,
}

impl PrivateKey {
    /// Generates a random key.
    pub fn generate() -> anyhow::Result<Self> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).context("the system has no random numbers")?;
        Ok(Self(SigningKey::from_bytes(&secret)))
    }

    /// Reads a key from a file.
    ///
    /// The file must belong to the user of this process or to root, nobody else may read or
    /// write it, and only users in `trust` may change the path to it.
    pub fn read(path: &Path, trust: &Trust) -> anyhow::Result<Self> {
        Self::read_checked(path, trust)
            .with_context(|| format!("cannot use the key file `{}`", path.display()))
    }

    fn read_checked(path: &Path, trust: &Trust) -> anyhow::Result<Self> {
        let file = named_file::open_private(path, trust, &Opener::DIRECT)?;
        let text = named_file::read_all_text(file, MAX_FILE_BYTES)?;
        let key = SigningKey::from_pkcs8_pem(&text).ok();
        key.map(Self).context(
            "it is not an Ed25519 private key in PEM (PKCS#8); `skillhost audit new-key FILE` makes \
             one",
        )
    }

    /// Writes the key to a new file that only its owner can read.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        // Some older programs refuse a private key file that also contains the public key, so leave
        // the public key out.
        let bytes = KeypairBytes {
            secret_key: self.0.to_bytes(),
            public_key: None,
        };
        let text = bytes
            .to_pkcs8_pem(LineEnding::LF)
            .map_err(|error| anyhow::anyhow!("cannot encode the key: {error}"))?;
        let context = || format!("cannot create the key file `{}`", path.display());
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .with_context(context)?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            // Remove a file with only a part of the key, because the next attempt would not replace
            // it.
            .inspect_err(|_| drop(fs::remove_file(path)))
            .with_context(context)
    }

    /// Returns the public key.
    pub fn public(&self) -> PublicKey {
        PublicKey::new(self.0.verifying_key())
    }

    /// Returns the signature of a message.
    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }

    /// Returns the HMAC digest of arguments or of an answer, in hex, in the form that records have.
    pub fn digest(&self, mut text: impl Read) -> std::io::Result<String> {
        let mut block = [0; 64];
        block[..32].copy_from_slice(&self.digest_key());
        let mut digest = DigestWriter(Hmac::<Sha256>::new(&block.into()));
        std::io::copy(&mut text, &mut digest)?;
        Ok(hex(&digest.0.finalize().into_bytes()))
    }

    /// Returns the key for digests, which is derived from this key.
    pub(crate) fn digest_key(&self) -> [u8; 32] {
        let digest = Sha256::new().chain_update(DIGEST_KEY_PREFIX);
        digest.chain_update(self.0.as_bytes()).finalize().into()
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(…)")
    }
}

impl PublicKey {
    fn new(key: VerifyingKey) -> Self {
        let digest = Sha256::digest(key.as_bytes());
        Self {
            key,
            id: hex(&digest[..ID_BYTES]),
        }
    }

    /// Reads a key from a file. Only users in `trust` may change the path to it.
    pub fn read(path: &Path, trust: &Trust) -> anyhow::Result<Self> {
        Self::read_checked(path, trust)
            .with_context(|| format!("cannot use the key file `{}`", path.display()))
    }

    fn read_checked(path: &Path, trust: &Trust) -> anyhow::Result<Self> {
        // Check the path before opening the file. But report errors of the file itself first,
        // because they are clearer.
        let checked = trust.check(path);
        let text = named_file::read_text(path, MAX_FILE_BYTES)?;
        ensure!(
            !text.contains("PRIVATE KEY"),
            "it is a private key, which only the host needs; `skillhost audit public-key FILE` \
             prints the public one"
        );
        checked?;
        let key = VerifyingKey::from_public_key_pem(&text).ok();
        let key = key.filter(|key| !key.is_weak());
        key.map(Self::new)
            .context("it is not an Ed25519 public key in PEM")
    }

    /// Returns the key as PEM.
    pub fn to_pem(&self) -> anyhow::Result<String> {
        let text = self.key.to_public_key_pem(LineEnding::LF);
        text.map_err(|error| anyhow::anyhow!("cannot encode the key: {error}"))
    }

    /// Returns the key's id, which each checkpoint contains: the first bytes of the SHA-256 of
    /// the key, in hex.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns whether `signature` is this key's signature of `message`.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        let signature = Signature::from_bytes(signature);
        self.key.verify_strict(message, &signature).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use skillhost::Principal;

    use super::*;

    #[test]
    fn reads_key_files_of_skillhost_and_openssl() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let key = PrivateKey::generate().unwrap();
        key.write(&path).unwrap();
        assert!(key.write(&path).is_err(), "an existing file is replaced");
        let read = PrivateKey::read(&path, &Trust::new()).unwrap();
        assert_eq!(read.public().id(), key.public().id());
        let public = folder.path().join("public");
        fs::write(&public, key.public().to_pem().unwrap()).unwrap();
        let public = PublicKey::read(&public, &Trust::new()).unwrap();
        assert!(public.verifies(b"text", &read.sign(b"text")));
        assert!(!public.verifies(b"texu", &read.sign(b"text")));
        // Made with `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout`.
        let private = "-----BEGIN PRIVATE KEY-----\n\
                       MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
                       -----END PRIVATE KEY-----\n";
        let openssl = folder.path().join("openssl");
        fs::write(&openssl, private).unwrap();
        fs::set_permissions(&openssl, fs::Permissions::from_mode(0o600)).unwrap();
        let openssl = PrivateKey::read(&openssl, &Trust::new()).unwrap();
        assert_eq!(
            openssl.public().to_pem().unwrap().lines().nth(1),
            Some("MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=")
        );
    }

    #[test]
    fn different_keys_give_different_digests() {
        let [one, other] = [(); 2].map(|()| PrivateKey::generate().unwrap());
        let digest = |key: &PrivateKey| key.digest(&b"text"[..]).unwrap();
        assert_eq!(digest(&one), digest(&one));
        assert_ne!(digest(&one), digest(&other));
    }

    #[test]
    fn refuses_public_keys_that_others_can_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("public");
        let key = PrivateKey::generate().unwrap().public();
        fs::write(&path, key.to_pem().unwrap()).unwrap();
        for (file, mode, is_used) in [
            (&*path, 0o644, true),
            (&path, 0o646, false),
            (folder.path(), 0o755, true),
            (folder.path(), 0o757, false),
        ] {
            fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
            let read = PublicKey::read(&path, &Trust::new());
            assert_eq!(read.is_ok(), is_used, "{mode:o}: {read:?}");
            let everyone = Trust::new().and(Principal::Everyone);
            assert!(PublicKey::read(&path, &everyone).is_ok());
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        }
    }

    #[test]
    fn refuses_a_key_file_of_another_user() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        PrivateKey::generate().unwrap().write(&path).unwrap();
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        let error = format!(
            "{:#}",
            PrivateKey::read(&path, &Trust::new()).err().unwrap()
        );
        assert!(error.contains("it belongs to another user"), "{error}");
    }

    #[test]
    fn refuses_group_readable_files_and_files_without_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        PrivateKey::generate().unwrap().write(&path).unwrap();
        let public = PublicKey::read(&path, &Trust::new()).unwrap_err();
        assert!(format!("{public:#}").contains("it is a private key"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let readable = PrivateKey::read(&path, &Trust::new()).unwrap_err();
        assert!(format!("{readable:#}").contains("0600"), "{readable:#}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "-----BEGIN PRIVATE KEY-----\n").unwrap();
        let other = PrivateKey::read(&path, &Trust::new()).unwrap_err();
        assert!(format!("{other:#}").contains("new-key"), "{other:#}");
        assert!(PublicKey::read(&folder.path().join("none"), &Trust::new()).is_err());
        assert!(PrivateKey::read(folder.path(), &Trust::new()).is_err());
    }

    #[test]
    fn derives_the_same_digests_in_every_version() {
        // HMAC-SHA-256 of the text. Its key is SHA-256 of the prefix and the 32 bytes of the
        // private key.
        let key = PrivateKey(SigningKey::from_bytes(&[7; 32]));
        assert_eq!(
            key.digest(&b"text"[..]).unwrap(),
            "e681e1c49ad67fa8da7417ce8b0696a27124eab5bc8da209531692c791e51528"
        );
    }
}
