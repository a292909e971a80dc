//! Digests, random bytes, text decoding and URL parsing for the scripts in `js`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use md5::Md5;
use rquickjs::{ArrayBuffer, Ctx, Exception, Object, Result, TypedArray, prelude::Func};
use sha1::Sha1;
use sha2::{Digest as _, Sha224, Sha256, Sha384, Sha512};
use url::{Url, quirks};

/// Evaluates an expression with the digest type of an algorithm. Returns `None` for an unknown
/// algorithm.
macro_rules! with_algorithm {
    ($name:expr, $Digest:ident => $result:expr) => {
        match $name {
            "md5" => {
                type $Digest = Md5;
                Some($result)
            }
            "sha1" => {
                type $Digest = Sha1;
                Some($result)
            }
            "sha224" => {
                type $Digest = Sha224;
                Some($result)
            }
            "sha256" => {
                type $Digest = Sha256;
                Some($result)
            }
            "sha384" => {
                type $Digest = Sha384;
                Some($result)
            }
            "sha512" => {
                type $Digest = Sha512;
                Some($result)
            }
            _ => None,
        }
    };
}

/// Decodes base64. Returns `None` if the text is not valid base64.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Returns a digest, or an HMAC if there is a key. Returns `None` for an unknown algorithm.
fn digest<'js>(
    ctx: Ctx<'js>,
    algorithm: String,
    bytes: TypedArray<'js, u8>,
    key: Option<TypedArray<'js, u8>>,
) -> Result<Option<ArrayBuffer<'js>>> {
    let bytes = bytes.as_bytes().unwrap_or_default();
    let digest: Option<Vec<u8>> = match &key {
        None => with_algorithm!(algorithm.as_str(), Hash => Hash::digest(bytes).to_vec()),
        Some(key) => with_algorithm!(algorithm.as_str(), Hash => {
            let key = key.as_bytes().unwrap_or_default();
            // Cannot fail: HMAC accepts a key of any length.
            Hmac::<Hash>::new_from_slice(key)
                .map(|hmac| hmac.chain_update(bytes).finalize().into_bytes().to_vec())
                .unwrap_or_default()
        }),
    };
    digest
        .map(|digest| ArrayBuffer::new(ctx, digest))
        .transpose()
}

fn random<'js>(ctx: Ctx<'js>, length: usize) -> Result<ArrayBuffer<'js>> {
    let mut bytes = vec![0; length];
    match getrandom::fill(&mut bytes) {
        Ok(()) => ArrayBuffer::new(ctx, bytes),
        Err(_) => Err(Exception::throw_message(
            &ctx,
            "cannot get random bytes from the sandbox",
        )),
    }
}

fn encode<'js>(ctx: Ctx<'js>, text: String) -> Result<ArrayBuffer<'js>> {
    ArrayBuffer::new(ctx, text.into_bytes())
}

/// Decodes UTF-8. Returns `None` for invalid bytes if `fatal` is set, and replaces them if not.
fn decode(bytes: TypedArray<'_, u8>, fatal: bool) -> Option<String> {
    let bytes = bytes.as_bytes().unwrap_or_default();
    if fatal {
        return std::str::from_utf8(bytes).ok().map(str::to_owned);
    }
    Some(String::from_utf8_lossy(bytes).into_owned())
}

/// Returns the parts of a URL, in the order of `PARTS` in `js/url.js`.
fn url_parts(url: &Url) -> Vec<String> {
    [
        quirks::href(url),
        quirks::protocol(url),
        quirks::username(url),
        quirks::password(url),
        quirks::host(url),
        quirks::hostname(url),
        quirks::port(url),
        quirks::pathname(url),
        quirks::search(url),
        quirks::hash(url),
    ]
    .into_iter()
    .map(str::to_owned)
    .chain([quirks::origin(url)])
    .collect()
}

fn parse_url(address: String, base: Option<String>) -> Option<Vec<String>> {
    let base = match base {
        Some(base) => Some(Url::parse(&base).ok()?),
        None => None,
    };
    let url = Url::options()
        .base_url(base.as_ref())
        .parse(&address)
        .ok()?;
    Some(url_parts(&url))
}

/// Changes a part of a URL. Ignores an invalid value, as browsers do.
fn change_url(address: String, part: String, value: String) -> Option<Vec<String>> {
    let mut url = Url::parse(&address).ok()?;
    let _ = match part.as_str() {
        "protocol" => quirks::set_protocol(&mut url, &value),
        "username" => quirks::set_username(&mut url, &value),
        "password" => quirks::set_password(&mut url, &value),
        "host" => quirks::set_host(&mut url, &value),
        "hostname" => quirks::set_hostname(&mut url, &value),
        "port" => quirks::set_port(&mut url, &value),
        "pathname" => {
            quirks::set_pathname(&mut url, &value);
            Ok(())
        }
        "search" => {
            quirks::set_search(&mut url, &value);
            Ok(())
        }
        "hash" => {
            quirks::set_hash(&mut url, &value);
            Ok(())
        }
        _ => Err(()),
    };
    Some(url_parts(&url))
}

/// Adds this module's functions to the object `native` of the scripts in `js`.
pub(crate) fn provide(native: &Object<'_>) -> Result<()> {
    native.set("digest", Func::from(digest))?;
    native.set("random", Func::from(random))?;
    native.set("encode", Func::from(encode))?;
    native.set("decode", Func::from(decode))?;
    native.set("parseUrl", Func::from(parse_url))?;
    native.set("changeUrl", Func::from(change_url))
}
