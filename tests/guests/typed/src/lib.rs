//! A guest that exports ordinary functions with every WIT type, and no interface of this
//! project. The host makes a tool of each function.

use wasip2::filesystem::preopens;

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    reason = "generated; the WIT has the documentation"
)]
mod bindings {
    wit_bindgen::generate!({ world: "typed", path: "wit" });

    export!(Typed with_types_in self);
    use super::Typed;
}

use bindings::Failure;
use bindings::exports::skillhost_test::typed::echo::{self, Colour, Figure, Point, Rights};
use bindings::exports::skillhost_test::typed::other;
use bindings::exports::skillhost_test::typed::terms::{self, Entry};

struct Typed;

/// The comments of the WIT, in the section where the host looks for them. Linkers drop
/// the comments that wit-bindgen adds.
#[unsafe(link_section = "package-docs")]
#[used]
static DOCS: [u8; BYTES.len()] = *BYTES;
const BYTES: &[u8; include_bytes!(concat!(env!("OUT_DIR"), "/package-docs")).len()] =
    include_bytes!(concat!(env!("OUT_DIR"), "/package-docs"));

/// Defines functions that return their argument.
macro_rules! echoes {
    ($($name:ident: $type:ty,)*) => {
        $(fn $name(value: $type) -> $type {
            value
        })*
    };
}

impl echo::Guest for Typed {
    echoes! {
        echo_bool: bool,
        echo_s8: i8,
        echo_u8: u8,
        echo_s16: i16,
        echo_u16: u16,
        echo_s32: i32,
        echo_u32: u32,
        echo_s64: i64,
        echo_u64: u64,
        echo_f32: f32,
        echo_f64: f64,
        echo_char: char,
        echo_string: String,
        echo_bytes: Vec<u8>,
        echo_list: Vec<String>,
        echo_lists: Vec<Vec<i64>>,
        echo_tuple: (u8, String, Option<bool>),
        echo_record: Point,
        echo_variant: Figure,
        echo_enum: Colour,
        echo_flags: Rights,
        echo_option: Option<u32>,
        echo_options: Option<Option<u32>>,
        echo_list_of_options: Vec<Option<Point>>,
        echo_results: Vec<Result<u32, String>>,
        echo_bare_results: Vec<Result<(), ()>>,
    }

    fn echo_many(a: String, b: Option<Point>, c: Colour) -> (Colour, Option<Point>, String) {
        (c, b, a)
    }

    fn twice(value: u32) -> u32 {
        value.wrapping_mul(2)
    }
}

impl other::Guest for Typed {
    fn twice(value: other::Point) -> other::Point {
        other::Point {
            x: value.x.wrapping_mul(2),
            y: value.y.wrapping_mul(2),
            text_beside: value.text_beside,
        }
    }
}

impl terms::Guest for Typed {
    fn look_up(skill_name: String, term: String) -> Result<Entry, String> {
        let glossary = std::fs::read_to_string(format!("/skills/{skill_name}/glossary.md"));
        let glossary = glossary.map_err(|error| format!("there is no glossary: {error}"))?;
        let mut entries = glossary.lines().filter_map(|line| line.split_once(": "));
        let found = entries.find(|(name, _)| *name == term);
        let (_, meaning) = found.ok_or_else(|| format!("there is no term '{term}'"))?;
        Ok(Entry {
            meaning: meaning.to_owned(),
            see_also: Vec::new(),
        })
    }
}

impl bindings::Guest for Typed {
    fn answer(text: String, fail: bool) -> Result<String, String> {
        if fail { Err(text) } else { Ok(text) }
    }

    fn fail_with_a_case(text: String) -> Result<u32, Failure> {
        Err(match text.is_empty() {
            true => Failure::TooLate,
            false => Failure::NotThere(text),
        })
    }

    fn fail_silently() -> Result<(), ()> {
        Err(())
    }

    fn give_nothing() {}

    fn folder(skill_name: String) -> (Vec<String>, u32) {
        let entries = std::fs::read_dir(format!("/skills/{skill_name}"));
        let entries = entries.map_or(0, Iterator::count);
        (mounts(), u32::try_from(entries).unwrap_or(u32::MAX))
    }

    fn mounts() -> Vec<String> {
        mounts()
    }

    fn long_text(bytes: u32) -> String {
        "x".repeat(bytes as usize)
    }

    fn long_list(count: u32) -> Vec<u64> {
        vec![u64::MAX; count as usize]
    }

    fn break_off(why: String) {
        panic!("{why}")
    }

    fn compute_for_ever() -> u32 {
        let mut turns = 0_u32;
        loop {
            turns = std::hint::black_box(turns.wrapping_add(1));
        }
    }
}

fn mounts() -> Vec<String> {
    let preopens = preopens::get_directories().into_iter();
    preopens.map(|(_, mount)| mount).collect()
}
