//! Digests, random bytes, text in bytes, and addresses for the scripts in `js`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use md5::Md5;
use rquickjs::{ArrayBuffer, Ctx, Exception, Object, Result, TypedArray, prelude::Func};
use sha1::Sha1;
use sha2::{Digest as _, Sha224, Sha256, Sha384, Sha512};
use url::{Url, quirks};

macro_rules! by_name {
    ($name:expr, $found:ident => $then:expr) => {
        match $name {
            "md5" => {
                type $found = Md5;
                Some($then)
            }
            "sha1" => {
                type $found = Sha1;
                Some($then)
            }
            "sha224" => {
                type $found = Sha224;
                Some($then)
            }
            "sha256" => {
                type $found = Sha256;
                Some($then)
            }
            "sha384" => {
                type $found = Sha384;
                Some($then)
            }
            "sha512" => {
                type $found = Sha512;
                Some($then)
            }
            _ => None,
        }
    };
}

/// Returns the bytes of a text in base64.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Returns a digest, with a key an HMAC; none for another algorithm.
fn digest<'js>(
    ctx: Ctx<'js>,
    algorithm: String,
    bytes: TypedArray<'js, u8>,
    key: Option<TypedArray<'js, u8>>,
) -> Result<Option<ArrayBuffer<'js>>> {
    let bytes = bytes.as_bytes().unwrap_or_default();
    let found: Option<Vec<u8>> = match &key {
        None => by_name!(algorithm.as_str(), Found => Found::digest(bytes).to_vec()),
        Some(key) => by_name!(algorithm.as_str(), Found => {
            let key = key.as_bytes().unwrap_or_default();
            // A key of any length will do.
            Hmac::<Found>::new_from_slice(key)
                .map(|hmac| hmac.chain_update(bytes).finalize().into_bytes().to_vec())
                .unwrap_or_default()
        }),
    };
    found.map(|found| ArrayBuffer::new(ctx, found)).transpose()
}

fn random<'js>(ctx: Ctx<'js>, length: usize) -> Result<ArrayBuffer<'js>> {
    let mut bytes = vec![0; length];
    match getrandom::fill(&mut bytes) {
        Ok(()) => ArrayBuffer::new(ctx, bytes),
        Err(_) => Err(Exception::throw_message(
            &ctx,
            "the sandbox gives no random bytes",
        )),
    }
}

fn encode<'js>(ctx: Ctx<'js>, text: String) -> Result<ArrayBuffer<'js>> {
    ArrayBuffer::new(ctx, text.into_bytes())
}

/// Returns text of bytes in UTF-8; none if they are not and `fatal` is set.
fn decode(bytes: TypedArray<'_, u8>, fatal: bool) -> Option<String> {
    let bytes = bytes.as_bytes().unwrap_or_default();
    if fatal {
        return std::str::from_utf8(bytes).ok().map(str::to_owned);
    }
    Some(String::from_utf8_lossy(bytes).into_owned())
}

fn parts(url: &Url) -> Vec<String> {
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

fn parse(address: String, base: Option<String>) -> Option<Vec<String>> {
    let base = match base {
        Some(base) => Some(Url::parse(&base).ok()?),
        None => None,
    };
    let url = Url::options()
        .base_url(base.as_ref())
        .parse(&address)
        .ok()?;
    Some(parts(&url))
}

/// Changes a part of an address. One that cannot be is left as it is, as browsers do.
fn change(address: String, part: String, value: String) -> Option<Vec<String>> {
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
    Some(parts(&url))
}

/// Adds the functions to the object that the scripts in `js` have.
pub(crate) fn provide(native: &Object<'_>) -> Result<()> {
    native.set("digest", Func::from(digest))?;
    native.set("random", Func::from(random))?;
    native.set("encode", Func::from(encode))?;
    native.set("decode", Func::from(decode))?;
    native.set("parseUrl", Func::from(parse))?;
    native.set("changeUrl", Func::from(change))
}
