//! Runs a script in QuickJS: starts the engine, loads modules, and runs promises and timers.
//! The scripts in `js` implement Node's API.

use std::cell::{Cell, RefCell};
use std::thread;
use std::time::{Duration, Instant};

use rquickjs::context::EvalOptions;
use rquickjs::function::{Args, IntoArgs};
use rquickjs::loader::{Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::prelude::Func;
use rquickjs::{
    CatchResultExt as _, CaughtError, Context, Ctx, Exception, FromJs, Function, Module, Object,
    Persistent, Result, Runtime, Value,
};

use skillhost_guest::scripts::{self, Refusal};

use crate::{data, files, http, output, sources};

thread_local! {
    /// The functions that `js/boot.js` returns. The engine calls them.
    static HOOKS: RefCell<Option<Persistent<Object<'static>>>> = const { RefCell::new(None) };
    /// The exit code, if the script has called `exit`.
    static EXIT: Cell<Option<i32>> = const { Cell::new(None) };
    /// The notes about unsupported features that the script used.
    static NOTES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// The maximum number of notes about unsupported features. Guards against: a script that
/// uses thousands.
const MAX_NOTES: usize = 10;

/// A script and its input.
pub(crate) struct Script {
    pub(crate) folder: String,
    pub(crate) path: String,
    pub(crate) source: Vec<u8>,
    pub(crate) args: Vec<String>,
    pub(crate) stdin: String,
}

/// Runs a script and returns its exit code. A component calls this once.
pub(crate) fn run(script: Script) -> std::result::Result<i32, String> {
    let start_error = |error: rquickjs::Error| format!("cannot start the engine: {error}");
    let runtime = Runtime::new().map_err(start_error)?;
    let context = Context::full(&runtime).map_err(start_error)?;
    runtime.set_interrupt_handler(Some(Box::new(|| EXIT.get().is_some())));
    runtime.set_loader(Modules, Modules);
    runtime.set_host_promise_rejection_tracker(Some(Box::new(|ctx, promise, reason, handled| {
        let _ = hook::<()>(&ctx, "rejection", (promise, reason, handled));
    })));
    let code = context.with(|ctx| match start(&ctx, script).catch(&ctx) {
        Ok(()) => run_event_loop(&ctx),
        Err(error) => exit_code_after_abort(&error),
    });
    // The sandbox ends with the call, so freeing each object would only take time.
    std::mem::forget(context);
    std::mem::forget(runtime);
    Ok(code)
}

/// Returns the exit code after an abort: the script has called `exit`, or the engine failed,
/// for example because memory ran out.
fn exit_code_after_abort(error: &CaughtError<'_>) -> i32 {
    EXIT.get().unwrap_or_else(|| {
        output::add(output::STDERR, format!("{error}\n").as_bytes());
        1
    })
}

/// Returns the notes about unsupported features that the script used, and clears them.
pub(crate) fn take_notes() -> Vec<String> {
    NOTES.take()
}

fn start(ctx: &Ctx<'_>, script: Script) -> Result<()> {
    let native = Object::new(ctx.clone())?;
    files::provide(&native)?;
    data::provide(&native)?;
    http::provide(&native)?;
    provide(&native)?;
    let Script {
        folder,
        path,
        source,
        args,
        stdin,
    } = script;
    let skill_folder = folder.clone();
    native.set(
        "loadModule",
        Func::from(move |path: String| load_module(&skill_folder, &path)),
    )?;
    native.set("folder", folder)?;
    native.set("script", path)?;
    native.set(
        "scriptSource",
        String::from_utf8_lossy(&source).into_owned(),
    )?;
    native.set("args", args)?;
    native.set("stdin", stdin)?;
    let boot: Function<'_> = compile(
        ctx.clone(),
        internal_source("boot")?,
        "node:internal/boot".into(),
    )?;
    let hooks: Object<'_> = boot.call((native,))?;
    HOOKS.set(Some(Persistent::save(ctx, hooks)));
    hook(ctx, "main", ())
}

/// Loads a file of the skill from the disk. Returns `module` and its text, `folder`, `nothing`,
/// or `refused` and the reason.
fn load_module(folder: &str, path: &str) -> Vec<String> {
    let relative = path.strip_prefix(folder).unwrap_or("?");
    let loaded = match relative.strip_prefix('/') {
        Some(relative) => scripts::load_module(relative),
        None if relative.is_empty() => Err(Refusal::NotAFile),
        None => Err(Refusal::Outside),
    };
    match loaded {
        Ok(bytes) => vec![
            "module".to_owned(),
            String::from_utf8_lossy(&bytes).into_owned(),
        ],
        Err(Refusal::NotAFile) => vec!["folder".to_owned()],
        Err(Refusal::NotFound | Refusal::Outside) => vec!["nothing".to_owned()],
        Err(Refusal::NotGranted) => vec![
            "refused".to_owned(),
            "this call changed or removed it; only the skill's files on disk run as code"
                .to_owned(),
        ],
        Err(refusal) => vec!["refused".to_owned(), crate::reason(refusal).to_owned()],
    }
}

/// Runs pending promises and timers until the script ends. Returns its exit code.
fn run_event_loop(ctx: &Ctx<'_>) -> i32 {
    loop {
        while EXIT.get().is_none() && ctx.execute_pending_job() {}
        if let Some(code) = EXIT.get() {
            return code;
        }
        // Milliseconds until the next timer. Infinite if only a request is pending.
        let wait: f64 = match hook(ctx, "turn", ()).catch(ctx) {
            Ok(wait) => wait,
            Err(error) => return exit_code_after_abort(&error),
        };
        if wait > 0.0 {
            http::wait(wait);
        }
    }
}

/// Calls a function of `js/boot.js`.
fn hook<'js, T: FromJs<'js>>(
    ctx: &Ctx<'js>,
    name: &str,
    arguments: impl IntoArgs<'js>,
) -> Result<T> {
    let Some(hooks) = HOOKS.with_borrow(Clone::clone) else {
        return Err(Exception::throw_message(ctx, "`boot.js` has not run yet"));
    };
    let function: Function<'js> = hooks.restore(ctx)?.get(name)?;
    let mut args = Args::new(ctx.clone(), arguments.num_args());
    arguments.into_args(&mut args)?;
    args.apply(&function)
}

/// Returns the text of a module of the runner.
fn internal_source(name: &str) -> Result<String> {
    let source = sources::find(name).map(str::to_owned);
    source.ok_or_else(|| rquickjs::Error::new_loading(name))
}

/// Evaluates a script that is one function expression, and returns the function.
fn compile<'js>(ctx: Ctx<'js>, source: String, name: String) -> Result<Function<'js>> {
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some(name);
    ctx.eval_with_options(source, options)
}

/// Adds this module's functions to the object `native` of the scripts in `js`.
fn provide<'js>(native: &Object<'js>) -> Result<()> {
    let start = Instant::now();
    native.set("compile", Func::from(compile))?;
    native.set("source", Func::from(|name: String| sources::find(&name)))?;
    native.set(
        "output",
        Func::from(|stream: u32, text: String| output::add(stream, text.as_bytes())),
    )?;
    native.set(
        "outputBytes",
        Func::from(|stream: u32, bytes: rquickjs::TypedArray<'js, u8>| {
            output::add(stream, bytes.as_bytes().unwrap_or_default());
        }),
    )?;
    native.set(
        "clock",
        Func::from(move || start.elapsed().as_secs_f64() * 1000.0),
    )?;
    native.set(
        "sleep",
        Func::from(|milliseconds: f64| {
            thread::sleep(Duration::from_secs_f64(milliseconds.max(0.0) / 1000.0));
        }),
    )?;
    // Stops the script: the engine's interrupt handler checks `EXIT`.
    native.set("exit", Func::from(|code: i32| EXIT.set(Some(code & 0xff))))?;
    native.set(
        "note",
        Func::from(|line: String| {
            NOTES.with_borrow_mut(|notes| {
                if notes.len() < MAX_NOTES && !notes.contains(&line) {
                    notes.push(line);
                }
            })
        }),
    )?;
    native.set(
        "environment",
        std::env::vars().collect::<std::collections::HashMap<_, _>>(),
    )
}

/// Resolves and loads the modules of the skill and of Node through `js/loader.js`.
struct Modules;

impl Resolver for Modules {
    fn resolve<'js>(&mut self, ctx: &Ctx<'js>, base: &str, name: &str) -> Result<String> {
        hook(ctx, "resolve", (base, name))
    }
}

impl Loader for Modules {
    fn load<'js>(&mut self, ctx: &Ctx<'js>, name: &str) -> Result<Module<'js, Declared>> {
        let (mut source, meta): (String, Object<'js>) = {
            let loaded: Object<'js> = hook(ctx, "load", (name,))?;
            (loaded.get("source")?, loaded.get("meta")?)
        };
        let module = loop {
            match Module::declare(ctx.clone(), name, source.as_str()) {
                Err(rquickjs::Error::Exception) => {
                    let error = ctx.catch();
                    let changed: Option<String> =
                        hook(ctx, "withoutAttribute", (source, error.clone()))?;
                    source = changed.ok_or_else(|| ctx.throw(error))?;
                }
                declared => break declared?,
            }
        };
        let target = module.meta()?;
        for entry in meta.props::<String, Value<'js>>() {
            let (key, value) = entry?;
            target.set(key, value)?;
        }
        Ok(module)
    }
}
