//! A guest that attacks its host: a tool for each attack, and no checks. The
//! table in `tests/hostile.rs` has the expected ending of each attack, and
//! must name every tool.

mod answers;
mod computing;
mod floods;
mod handles;
mod outside;
mod paths;
mod writing;

use skillhost_guest::bindings::{self, tools};
use skillhost_guest::{Access, Failure, Output, Tool};
use wasip2::filesystem::preopens;
use wasip2::filesystem::types::{Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags};
use wasip2::random::random::get_random_u64;

skillhost_guest::arguments! {
    struct Arguments {
        /// Name of a skill
        #[serde(rename = "skill_name")]
        _skill_name: String,
        /// Any string
        path: Option<String>,
        /// Any number
        number: Option<u64>,
    }
}

/// The result of an attack that the host does not stop.
type Attack = Result<Output, Failure>;

impl Arguments {
    /// Returns the path to attack. By default, this is a file that exists.
    fn path(&self) -> &str {
        self.path.as_deref().unwrap_or("SKILL.md")
    }

    fn number(&self) -> u64 {
        self.number.unwrap_or_default()
    }

    fn size(&self) -> usize {
        usize::try_from(self.number()).unwrap_or(usize::MAX)
    }
}

macro_rules! attacks {
    ($($what:literal: $module:ident::$name:ident),+ $(,)?) => {
        fn all() -> Vec<Tool> {
            vec![$(Tool::new(
                concat!("hostile_", stringify!($name)),
                $what,
                |call: Arguments, _: Access| $module::$name(&call),
            )
            .in_skill("skill_name")),+]
        }
    };
}

attacks! {
    "Create a file.": writing::create,
    "Create a file that must be new.": writing::create_exclusively,
    "Open and truncate a file.": writing::truncate,
    "Open a file for writing.": writing::open_for_writing,
    "Open a folder for changing.": writing::open_for_changing,
    "Write through a handle for reading.": writing::write,
    "Write through a stream.": writing::write_through_stream,
    "Append through a stream.": writing::append_through_stream,
    "Change a file's size.": writing::set_size,
    "Change a file's times by handle.": writing::set_times,
    "Change a file's times by path.": writing::set_times_at,
    "Rename a file.": writing::rename,
    "Make a hard link.": writing::link,
    "Make a symlink that leads out.": writing::symlink,
    "Remove a file.": writing::unlink,
    "Make a folder.": writing::make_folder,
    "Remove a folder.": writing::remove_folder,
    "Make the host write back.": writing::sync,
    "Use the standard library to write.": writing::write_by_std,

    "Read a file by a guessed handle.": handles::guess_file,
    "List a folder by a guessed handle.": handles::guess_listing,
    "Read a stream by a guessed handle.": handles::guess_stream,
    "Drop a guessed handle.": handles::guess_drop,
    "Use a handle after it was dropped.": handles::use_after_drop,

    "Compute for ever.": computing::compute,
    "Wait for ever.": computing::sleep,
    "Poll many timers for ever.": computing::poll_for_ever,
    "Poll one timer as often as memory holds.": computing::poll_one_often,
    "Poll nothing.": computing::poll_nothing,
    "Wait for the end of time.": computing::wait_for_the_end_of_time,
    "Call the host for ever.": computing::call_host_for_ever,
    "Recur for ever.": computing::recur,
    "Recur for ever, in registers.": computing::recur_in_registers,
    "Take all memory, then break off.": computing::take_memory,
    "Take all memory, then answer.": computing::take_memory_and_answer,

    "Answer with many bytes.": answers::large,
    "Answer with many bytes of details.": answers::large_details,
    "Fail with many bytes.": answers::large_failure,
    "Answer with a text longer than memory.": answers::longer_than_memory,
    "Answer with the same memory twice.": answers::twice,
    "Answer with bytes that are no text.": answers::no_text,
    "Answer with details that are no text.": answers::no_text_details,
    "Answer with details that are no JSON.": answers::no_json,
    "Answer with details of many brackets.": answers::brackets,
    "Answer with details that repeat a key.": answers::repeated_key,
    "Answer with terminal escapes.": answers::escapes,

    "Open a file until refused.": floods::files,
    "Keep files open and wait for ever.": floods::hold_files,
    "Open a folder until refused.": floods::folders,
    "Open directory streams until refused.": floods::listings,
    "Read entries of a directory until refused.": floods::entries,
    "Open file streams until refused.": floods::streams,
    "Make timers until refused.": floods::timers,
    "Ask for the preopen until refused.": floods::preopens,
    "Print many bytes.": floods::print,
    "Print terminal escapes.": floods::print_escapes,
    "Print without asking how much.": floods::print_unasked,
    "Print zeroes without asking how much.": floods::print_zeroes,
    "Ask for random bytes.": floods::random,
    "Ask for cheap random bytes.": floods::insecure_random,
    "Ask for random bytes for ever.": floods::random_for_ever,
    "Read as much as numbers allow.": floods::read_all,
    "Read at the end of numbers.": floods::read_far,
    "Stream from the end of numbers.": floods::stream_far,
    "Skip to the end of numbers.": floods::skip_far,

    "Go down, folder by folder.": paths::descend,
    "Open a path of many bytes.": paths::long,
    "Look at a path of many steps.": paths::many_steps,
    "Open a path of many steps down and up.": paths::down_and_up,
    "Look at a path of many steps down and up.": paths::stat_down_and_up,
    "Read a link at many steps down and up.": paths::readlink_down_and_up,

    "Tell environment, arguments and folder.": outside::environment,
    "Read the standard input.": outside::standard_input,
    "Make a TCP socket.": outside::tcp,
    "Make a UDP socket.": outside::udp,
    "Look up a name.": outside::resolve,
    "Connect by the standard library.": outside::connect_by_std,
    "Start a process.": outside::start_process,
    "Start a thread.": outside::start_thread,
    "Tell every skill that is known.": outside::skills,
    "End with success instead of an answer.": outside::exit_with_success,
    "End with failure instead of an answer.": outside::exit_with_failure,
    "Break off.": outside::break_off,
    "Be something else each time.": outside::change,
}

struct Hostile;

impl tools::Guest for Hostile {
    fn definitions() -> Vec<tools::Definition> {
        let mut definitions = skillhost_guest::definitions(&all());
        for definition in &mut definitions {
            if definition.name == "hostile_change" {
                let number = get_random_u64();
                definition.description = format!("This time it is {number}.");
            }
        }
        definitions
    }

    fn call(
        name: String,
        arguments: String,
        folder: tools::Folder,
    ) -> Result<tools::Output, tools::Failure> {
        let mut output = skillhost_guest::call(&all(), &name, &arguments, folder)?;
        output.details = answers::raw_details().or(output.details);
        Ok(output)
    }
}

bindings::export!(Hostile with_types_in bindings);

/// Returns the call's preopen.
fn root() -> Result<Descriptor, Failure> {
    let roots = preopens::get_directories();
    let root = roots.into_iter().next();
    root.map(|(root, _)| root)
        .ok_or_else(|| Failure::not_found("no preopen"))
}

/// Opens a path for reading.
fn open(path: &str) -> Result<Descriptor, Failure> {
    open_with(path, OpenFlags::empty(), DescriptorFlags::READ)
}

fn open_with(path: &str, open: OpenFlags, flags: DescriptorFlags) -> Result<Descriptor, Failure> {
    root()?
        .open_at(PathFlags::SYMLINK_FOLLOW, path, open, flags)
        .map_err(refused)
}

fn refused(code: ErrorCode) -> Failure {
    Failure::refused(code.name())
}

/// Returns the answer of an attack that succeeded.
fn done() -> Attack {
    Ok(Output::text("done"))
}
