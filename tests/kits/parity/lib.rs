//! The tool `parity`, which tests use to compare the kits of all languages.

use skillhost_guest::{Access, Failure, Output, Tool, http, log, variable};

/// The maximum size of a read, in bytes.
const BYTES: u64 = 64;
/// A limit that no file reaches, because it exceeds the memory of a call.
const UNLIMITED: u64 = 1 << 30;
/// The maximum number of names in a listing.
const NAMES: usize = 12;

skillhost_guest::arguments! {
    struct Parity {
        /// Name of the skill
        skill_name: String,
        /// What to do
        action: String,
        /// A path, or what the action is about
        path: Option<String>,
    }
}

#[derive(skillhost_guest::serde::Serialize)]
#[serde(crate = "skillhost_guest::serde")]
struct Record<'a> {
    path: &'a str,
}

#[derive(skillhost_guest::serde::Deserialize)]
#[serde(crate = "skillhost_guest::serde")]
struct Echo {
    echo: String,
}

fn parity(arguments: Parity, access: Access) -> Result<Output, Failure> {
    let Parity { action, path, .. } = &arguments;
    let path = path.as_deref().unwrap_or(".");
    let folder = access.folder()?;
    match action.as_str() {
        "list" => Ok(Output::text(folder.list(path, NAMES)?.join("\n"))),
        "files" => Ok(Output::text(folder.files(path, NAMES)?.join("\n"))),
        "bytes" => {
            let bytes = folder.read_bytes(path, BYTES)?;
            let bytes: Vec<String> = bytes.iter().map(u8::to_string).collect();
            Ok(Output::text(bytes.join(" ")))
        }
        "text" => Ok(Output::text(folder.read_text(path, BYTES)?)),
        "whole" => Ok(Output::text(folder.read_text(path, UNLIMITED)?)),
        "answer" => folder.answer_file(path, BYTES),
        "record" => Ok(Output::text("a text").with(&Record { path })),
        "log" => {
            log(path);
            Ok(Output::text("logged"))
        }
        "variable" => Ok(Output::text(variable(path).unwrap_or("not set".into()))),
        "get" | "secret" => {
            let mut request = http::get(path);
            if action == "secret" {
                let token = variable("TOKEN").unwrap_or_default();
                request = request.header("authorization", &format!("Bearer {token}"));
            }
            let response = request.send()?;
            let (status, kind) = (response.status(), response.header("x-kind").unwrap_or("-"));
            let start = format!("{status} {kind} ");
            Ok(Output::text(start + &response.text()?))
        }
        "post" => {
            let response = http::post(path).json(&Record { path: "a knot" }).send()?;
            let Echo { echo } = response.json()?;
            Ok(Output::text(echo))
        }
        "stream" => {
            let mut stream = http::request("PUT", path).body("a body").send()?.stream()?;
            let mut size = 0;
            while let Some(chunk) = stream.next()? {
                size += chunk.len();
            }
            Ok(Output::text(format!("{size} bytes")))
        }
        "kind" => {
            let text = http::get(path).send().and_then(|response| response.text());
            let kind = text.map_or_else(|error| error.kind().name(), |_| "no error");
            Ok(Output::text(kind))
        }
        "invalid-arguments" => Err(Failure::invalid_arguments(path)),
        "not-found" => Err(Failure::not_found(path)),
        "refused" => Err(Failure::refused(path)),
        "unreadable" => Err(Failure::unreadable(path)),
        _ => Err(Failure::failed(path)),
    }
}

skillhost_guest::export_tools!(
    Tool::new("parity", "Compare the kits.", parity).in_skill_at("skill_name", "path")
);
