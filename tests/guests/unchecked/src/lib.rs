//! A guest with no checks: it passes each path to WASI unchanged. Only the
//! sandbox keeps it away from other files.

use skillhost_guest::bindings::answer;
use skillhost_guest::{Access, Failure, Output, Tool};
use wasip2::filesystem::preopens;
use wasip2::filesystem::types::{Descriptor, DescriptorFlags, OpenFlags, PathFlags};

skillhost_guest::arguments! {
    struct Arguments {
        /// Name of a skill
        #[serde(rename = "skill_name")]
        _skill_name: String,
        /// Any string
        path: String,
    }
}

skillhost_guest::export_tools!(
    Tool::new("raw_read", "Open and read a path as it is.", raw_read)
        .in_skill_at("skill_name", "path"),
    Tool::new("raw_answer", "Answer with a path as it is.", raw_answer)
        .in_skill_at("skill_name", "path"),
    Tool::new("raw_stat", "Look at a path as it is.", raw_stat).in_skill_at("skill_name", "path"),
    Tool::new("raw_list", "List a path as it is.", raw_list).in_skill_at("skill_name", "path"),
    Tool::new("raw_readlink", "Read a link as it is.", raw_readlink)
        .in_skill_at("skill_name", "path"),
    Tool::new("raw_create", "Create a file.", raw_create).in_skill_at("skill_name", "path"),
    Tool::new("raw_loop", "Compute for ever.", raw_loop).in_skill_at("skill_name", "path"),
    Tool::new("raw_sleep", "Wait for ever.", raw_sleep).in_skill_at("skill_name", "path"),
    Tool::new("raw_panic", "Break off.", raw_panic).in_skill_at("skill_name", "path"),
    Tool::new("raw_print", "Print to both streams.", raw_print).in_skill_at("skill_name", "path"),
    Tool::new("raw_mounts", "Name every preopen.", raw_mounts).in_skill_at("skill_name", "path"),
);

fn root() -> Result<Descriptor, Failure> {
    preopens::get_directories()
        .into_iter()
        .map(|(root, _)| root)
        .next()
        .ok_or_else(|| Failure::not_found("no preopen"))
}

fn refused(code: wasip2::filesystem::types::ErrorCode) -> Failure {
    Failure::refused(code.name())
}

fn open(path: &str) -> Result<Descriptor, Failure> {
    root()?
        .open_at(
            PathFlags::SYMLINK_FOLLOW,
            path,
            OpenFlags::empty(),
            DescriptorFlags::READ,
        )
        .map_err(refused)
}

fn raw_read(call: Arguments, _: Access) -> Result<Output, Failure> {
    let (bytes, _) = open(&call.path)?.read(1 << 20, 0).map_err(refused)?;
    Ok(Output::text(String::from_utf8_lossy(&bytes)))
}

fn raw_answer(call: Arguments, _: Access) -> Result<Output, Failure> {
    match answer::text_from_file(&call.path, 1 << 20) {
        Ok(_) => Ok(Output::text("")),
        Err(unusable) => Err(Failure::refused(unusable.name())),
    }
}

fn raw_stat(call: Arguments, _: Access) -> Result<Output, Failure> {
    let stat = root()?
        .stat_at(PathFlags::SYMLINK_FOLLOW, &call.path)
        .map_err(refused)?;
    Ok(Output::text(format!("{:?} {}", stat.type_, stat.size)))
}

fn raw_list(call: Arguments, _: Access) -> Result<Output, Failure> {
    let entries = open(&call.path)?.read_directory().map_err(refused)?;
    let mut names = Vec::new();
    while let Some(entry) = entries.read_directory_entry().map_err(refused)? {
        names.push(entry.name);
    }
    names.sort();
    Ok(Output::text(names.join("\n")))
}

fn raw_readlink(call: Arguments, _: Access) -> Result<Output, Failure> {
    Ok(Output::text(
        root()?.readlink_at(&call.path).map_err(refused)?,
    ))
}

fn raw_create(call: Arguments, _: Access) -> Result<Output, Failure> {
    root()?
        .open_at(
            PathFlags::SYMLINK_FOLLOW,
            &call.path,
            OpenFlags::CREATE,
            DescriptorFlags::READ | DescriptorFlags::WRITE,
        )
        .map_err(refused)?;
    Ok(Output::text("created"))
}

fn raw_mounts(_: Arguments, _: Access) -> Result<Output, Failure> {
    let mounts: Vec<String> = preopens::get_directories()
        .into_iter()
        .map(|(_, mount)| mount)
        .collect();
    Ok(Output::text(mounts.join("\n")))
}

fn raw_loop(_: Arguments, _: Access) -> Result<Output, Failure> {
    let mut turns = 0_u64;
    loop {
        turns = std::hint::black_box(turns.wrapping_add(1));
    }
}

fn raw_sleep(_: Arguments, _: Access) -> Result<Output, Failure> {
    loop {
        std::thread::sleep(std::time::Duration::from_secs(3600));
    }
}

fn raw_panic(call: Arguments, _: Access) -> Result<Output, Failure> {
    panic!("{}", call.path)
}

fn raw_print(call: Arguments, _: Access) -> Result<Output, Failure> {
    println!("{}", call.path);
    eprintln!("{}", call.path);
    Ok(Output::text("printed"))
}
